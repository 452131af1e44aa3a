"""Prices of models by host and name: a table that ships, and files that count before it."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bot_orch.agents.limits import Price
from bot_orch.agents.served import same_model
from bot_orch.codec import decode_json
from bot_orch.errors import InvalidInputError

COLUMNS = ("host", "model", "input", "cached_input", "cache_write", "output")
"""Columns of a file with prices: dollars per million tokens."""

_HOSTS: Mapping[str, str] = {
    "openai": "api.openai.com",
    "anthropic": "api.anthropic.com",
    "deepseek": "api.deepseek.com",
    "mistral": "api.mistral.ai",
    "groq": "api.groq.com",
    "xai": "api.x.ai",
    "openrouter": "openrouter.ai",
    "together_ai": "api.together.xyz",
    "fireworks_ai": "api.fireworks.ai",
    "cerebras": "api.cerebras.ai",
    "perplexity": "api.perplexity.ai",
    "gemini": "generativelanguage.googleapis.com",
}
"""Hosts of the providers that LiteLLM's price list names."""


@dataclass(frozen=True, slots=True)
class PriceRow:
    """The price of one model at one host."""

    host: str
    model: str
    price: Price


@cache
def shipped_prices() -> tuple[PriceRow, ...]:
    """The table of this release: list prices of providers, which may have changed since."""
    text = files("bot_orch.agents").joinpath("prices.csv").read_text()
    return tuple(_rows_of_csv(text, "prices.csv"))


def read_prices(path: str | Path) -> tuple[PriceRow, ...]:
    """Read a file with :data:`COLUMNS`, or LiteLLM's ``model_prices_and_context_window.json``."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError("prices", f"cannot be read ({error})", "name a CSV or JSON file") from None
    if not text.lstrip().startswith("{"):
        return tuple(_rows_of_csv(text, str(path)))
    try:
        document = decode_json(text)
    except ValueError as error:
        raise InvalidInputError("prices", f"{path} is no JSON ({error})", "download it again") from None
    return tuple(_rows_of_json(document))


def price_of(url: str, model: str, rows: Sequence[PriceRow]) -> Price | None:
    """The price of a model at a URL; None if the table has none.

    A version of a model costs what the model does, unless the table has it.

    Examples
    --------
    >>> price_of("https://api.openai.com/v1", "gpt-4o-mini-2024-07-18", shipped_prices()).output_usd_per_million
    0.6
    >>> price_of("http://127.0.0.1:8000/v1", "gpt-4o-mini", shipped_prices())
    """
    host = (urlsplit(url).hostname or "").lower()
    there = [row for row in rows if row.host == host]
    exact = next((row for row in there if row.model == model), None)
    found = exact or next((row for row in there if same_model(row.model, model)), None)
    return None if found is None else found.price


def _rows_of_csv(text: str, name: str) -> Iterator[PriceRow]:
    reader = csv.DictReader(io.StringIO(text))
    missing = [each for each in ("host", "model", "input", "output") if each not in (reader.fieldnames or ())]
    if missing:
        raise InvalidInputError("prices", f"{name} has no column {missing[0]}", f"write {','.join(COLUMNS)}")
    for line, row in enumerate(reader, 2):
        where = f"prices ({name}, line {line})"
        numbers = {each: _number(row.get(each) or "", f"{where}: {each}") for each in COLUMNS[2:]}
        yield PriceRow(row["host"].strip().lower(), row["model"].strip(), _price(numbers))


def _number(text: str, where: str) -> float | None:
    if not text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InvalidInputError(where, f"is {text!r}", "write dollars, zero or more, or nothing")
    return value


def _price(numbers: Mapping[str, float | None]) -> Price:
    return Price(
        input_usd_per_million=numbers["input"] or 0.0,
        output_usd_per_million=numbers["output"] or 0.0,
        cached_input_usd_per_million=numbers["cached_input"],
        cache_write_usd_per_million=numbers["cache_write"],
    )


def _rows_of_json(document: Mapping[str, Any]) -> Iterator[PriceRow]:
    """The models of known hosts that are priced by the token."""
    for name, entry in document.items():
        host = _HOSTS.get(entry.get("litellm_provider", "")) if isinstance(entry, dict) else None
        if host is None or not isinstance(entry.get("input_cost_per_token"), int | float):
            continue
        names = ("input_cost_per_token", "cache_read_input_token_cost", "cache_creation_input_token_cost")
        read, cached, stored = (_per_million(entry.get(each)) for each in names)
        numbers = {
            "input": read,
            "cached_input": cached,
            "cache_write": stored,
            "output": _per_million(entry.get("output_cost_per_token")),
        }
        yield PriceRow(host, name.removeprefix(f"{entry['litellm_provider']}/"), _price(numbers))


def _per_million(value: Any) -> float | None:
    return round(value * 1e6, 9) if isinstance(value, int | float) else None
