"""The configuration that ``bot-orch quickstart`` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from bot_orch.agents.prices import price_of, shipped_prices
from bot_orch.service.objective import dollar_weight, typical_price
from bot_orch.service.quickstart.found import EndpointFound

LEARN_FROM: Mapping[str, str] = MappingProxyType(
    {
        "feedback": "what your application reports to /v1/feedback",
        "judge": "a model of yours grades a fifth of the answers; thumbs count more",
    }
)
"""What teaches the router, and what that means."""

_HEAD = """\
# yaml-language-server: $schema=bot-orch.schema.json
# Written by bot-orch quickstart. Check with: bot-orch validate {file} --online. Run with: bot-orch serve {file}.
version: 1
database: {database}      # the log, beside this file
listen: {{host: 127.0.0.1, port: {port}}}
# For other machines and containers (--host 0.0.0.0), with a secret in that variable:
# tokens: [{{name: app, scopes: [admin], env: BOT_ORCH_TOKEN}}]

router:
  policy: auto
  encoder: builtin       # the prompt tells tasks apart: the log keeps 70 numbers of it, never the text
  objective:             # quality (0 to 1) less what it costs
    usd: {usd:<4g}            # reward that a dollar is worth: {why}
    seconds: 0.01        # reward that a second is worth
  # subject_to: {{usd_per_day: 5}}   # a daily budget; needs prices
  floor: 0.02            # share of all traffic that explores, most of it where little is known of late
"""
_JUDGES = {
    "feedback": "  - {name: thumbs, kind: thumbs}          # POST /v1/feedback\n",
    "judge": "  - {name: thumbs, kind: thumbs}          # POST /v1/feedback\n"
    "  - {name: model, kind: llm, rate: 0.2, settings: {agent: %s}}\n",
}
_SIMULATED = """\
# These pretend, and judge themselves. With a key in the environment: bot-orch quickstart --force
agents:
  - {id: small-model, kind: simulated, price: {per_call_usd: 0.001}, params: {quality: 0.6, median_s: 0.1}}
  - {id: large-model, kind: simulated, price: {per_call_usd: 0.02}, params: {quality: 0.9, median_s: 0.3}}
"""
_SIMULATED_USD = (0.001, 0.02)
_PRICE = "    # price: {input_usd_per_million: 0.5, output_usd_per_million: 1.5}   # from its price list\n"
_BRIEF = "Answer in as few words as possible."


def configuration(found: Sequence[EndpointFound], *, learn_from: str = "feedback", file: str, port: int = 8080) -> str:
    """The text of a configuration with these endpoints, or with simulated agents if there are none."""
    stem = re.sub(r"\.[^.]*$", "", file) or "bot-orch"
    listed = [price_of(each.base_url, model, shipped_prices()) for each in found for model in each.models]
    usd = dollar_weight([typical_price(each) for each in listed if each] if found else _SIMULATED_USD)
    priced = not found or len([each for each in listed if each]) > 1
    why = "a tenth between these prices" if priced else "a tenth for half a cent; agents need a price"
    head = _HEAD.format(file=file, database=json.dumps(f"{stem}.sqlite"), port=port or 8080, usd=usd, why=why)
    if not found:
        return head + "\n" + _SIMULATED
    agents = _agents(found)
    first = json.dumps(next(iter(agents)))
    judges = "judges:    # without reports or a judge of answers nothing is learned about quality\n"
    judges += _JUDGES[learn_from] % first if learn_from == "judge" else _JUDGES[learn_from]
    return head + "\n" + judges + "\nagents:\n" + "\n".join(agents.values())


def _agents(found: Sequence[EndpointFound]) -> dict[str, str]:
    """Agent entries by id; a single model gets a second variant with short answers."""
    pairs = [(each, model) for each in found for model in each.models]
    entries: dict[str, str] = {}
    for each, model in pairs:
        name = each.name if each.named and len(each.models) == 1 else _id(model)
        name = name if name not in entries else f"{_id(each.name)}-{name}"
        while name in entries:
            name += "-2"
        entries[name] = _entry(name, each, model)
    if len(pairs) == 1:
        name = f"{next(iter(entries))}-brief"
        entries[name] = _entry(name, *pairs[0], system=_BRIEF)
    return entries


def _entry(name: str, endpoint: EndpointFound, model: str, *, system: str = "") -> str:
    lines = {"base_url": endpoint.base_url, "model": model}
    if endpoint.key:
        lines["api_key"] = f"${{{endpoint.key}}}"
    inner = "".join(f"    {key}: {json.dumps(value)}\n" for key, value in lines.items())
    variant = f"    params: {{system: {json.dumps(system)}}}\n" if system else ""
    return f"  - id: {json.dumps(name)}\n    kind: {endpoint.kind}\n{inner}{variant}{_price(endpoint, model)}"


def _price(endpoint: EndpointFound, model: str) -> str:
    """The line with a model's list price, or with what to fill in."""
    found = price_of(endpoint.base_url, model, shipped_prices())
    if found is None:
        return _PRICE
    names = ("input_usd_per_million", "cached_input_usd_per_million", "cache_write_usd_per_million")
    prices = {name: getattr(found, name) for name in (*names, "output_usd_per_million")}
    inner = ", ".join(f"{name}: {value:g}" for name, value in prices.items() if value is not None)
    return f"    price: {{{inner}}}   # list price; yours may differ\n"


def _id(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-.")[:48] or "model"
