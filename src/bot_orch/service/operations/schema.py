"""JSON Schema of the configuration, for editors: types, defaults and allowed values, with texts from docstrings.

What depends on more than one setting (ids that are used twice, names of agents in rules, files that exist, what a kind
of agent needs) is left to ``bot-orch validate``.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from bot_orch.agents.limits import Price
from bot_orch.agents.registry import KINDS
from bot_orch.service.config import Config

SCHEMA_FILE = "bot-orch.schema.json"
"""File name that ``bot-orch quickstart`` writes next to the configuration."""

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TEMPLATE = "#/$defs/{name}"


def config_schema() -> dict[str, Any]:
    """The schema as a JSON-compatible object.

    Examples
    --------
    >>> config_schema()["$defs"]["Price"]["properties"]["per_call_usd"]["description"]
    'Of a call.'
    """
    (root, price), parts = msgspec.json.schema_components((Config, Price), ref_template=_TEMPLATE)
    for part in parts.values():
        _describe(part)
        part["additionalProperties"] = False
    agent = parts["AgentConfig"]
    agent["properties"]["price"] = price
    agent["properties"]["kind"]["enum"] = list(KINDS)
    whole = {"$schema": _DRAFT, "title": "BOT-Orch configuration", **root, "$defs": dict(sorted(parts.items()))}
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(whole))  # defaults as JSON has them
    return plain


def _describe(part: dict[str, Any]) -> None:
    """Copy the texts of a NumPy docstring to the fields, and its first paragraphs to the object."""
    whole, _, rest = str(part.get("description", "")).partition("Parameters\n")
    whole = whole.partition("Examples\n")[0]
    part["description"] = _plain(whole)
    section = rest.partition("Examples\n")[0]
    for entry in part["properties"].values():
        entry["description"] = _meaning(entry)
    for names, text in re.findall(r"^ {4}(\w[\w, ]*)\n((?: {8}.*\n?)+)", section + "\n", re.MULTILINE):
        for name in names.split(", "):
            if name in part["properties"]:
                part["properties"][name]["description"] = _plain(text)


def _meaning(entry: dict[str, Any]) -> str:
    """The description of a setting, taken from its type or, if it is nullable, from one of its types."""
    inner = (each["description"] for each in entry.get("anyOf", ()) if "description" in each)
    return str(entry.get("description") or next(inner, ""))


def _plain(text: str) -> str:
    """Without the marks of reStructuredText and the line breaks."""
    return " ".join(re.sub(r":\w+:`~?([^`]+)`", r"\1", text).replace("``", "").split())
