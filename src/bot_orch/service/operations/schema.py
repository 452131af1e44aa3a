"""JSON Schema of the configuration, for editors: types, defaults and allowed values, with texts from docstrings.

It knows the settings of every kind of agent. What depends on more than one setting (ids that are used twice, names of
agents in rules, files that exist) is left to ``bot-orch validate``.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from bot_orch.agents.capabilities import Capabilities
from bot_orch.agents.limits import Limits, Price, Retry
from bot_orch.agents.registry import KINDS
from bot_orch.service.config import Config

SCHEMA_FILE = "bot-orch.schema.json"
"""File name that ``bot-orch quickstart`` writes next to the configuration."""

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TEMPLATE = "#/$defs/{name}"
_GUARD = {
    "limits": Limits,
    "retry": Retry,
    "price": Price,
    "capabilities": Capabilities,
}


def config_schema() -> dict[str, Any]:
    """The schema as a JSON-compatible object.

    Examples
    --------
    >>> config_schema()["$defs"]["Retry"]["properties"]["tries"]["description"]
    'Maximal number of attempts; 1 disables retries.'
    """
    types = (Config, *_GUARD.values(), *KINDS.values())
    (root, *_), parts = msgspec.json.schema_components(types, ref_template=_TEMPLATE)
    for part in parts.values():
        _describe(part)
        part["additionalProperties"] = False
    parts["Config"]["required"] = ["version"]
    parts["Config"]["anyOf"] = [{"required": ["agents"]}, {"required": ["routers"]}]
    agent = parts["AgentConfig"]
    for name, type_ in _GUARD.items():
        agent["properties"][name] = _ref(type_)
    agent["properties"]["kind"]["enum"] = list(KINDS)
    agent["allOf"] = [_of_kind(kind, type_) for kind, type_ in KINDS.items()]
    whole = {"$schema": _DRAFT, "title": "BOT-Orch configuration", **root, "$defs": dict(sorted(parts.items()))}
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(whole))  # defaults as JSON has them
    return plain


def _of_kind(kind: str, type_: type) -> dict[str, Any]:
    needed = {"required": ["settings"]} if _has_required(type_) else {}
    condition = {"properties": {"kind": {"const": kind}}, "required": ["kind"]}
    return {"if": condition, "then": {"properties": {"settings": _ref(type_)}, **needed}}


def _has_required(type_: type) -> bool:
    (_,), parts = msgspec.json.schema_components((type_,), ref_template=_TEMPLATE)
    return bool(parts[type_.__name__].get("required"))


def _ref(type_: type) -> dict[str, str]:
    return {"$ref": _TEMPLATE.format(name=type_.__name__)}


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
