"""Reads a configuration from YAML."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from bot_orch.agents.prices import PriceRow, price_of, read_prices, shipped_prices
from bot_orch.errors import InvalidInputError
from bot_orch.service.config.checks import check_config, check_numbers, invalid, named
from bot_orch.service.config.keys import check_keys
from bot_orch.service.config.settings import AgentConfig, Config, JudgeConfig
from bot_orch.service.config.variables import expanded
from bot_orch.strict import parse_yaml, read_text

__all__ = ["load_config", "parse_config", "parsed", "placed", "typed"]


def load_config(
    path: str | Path,
    environment: Mapping[str, str] | None = None,
    *,
    host: str | None = None,
    port: int | None = None,
) -> Config:
    """Read a file; relative paths are resolved against its folder, ``host`` and ``port`` override it."""
    file = Path(path)
    return placed(parse_config(read_text(file), environment, name=str(file)), file, host=host, port=port)


def placed(config: Config, file: Path, *, host: str | None = None, port: int | None = None) -> Config:
    """A configuration with its paths resolved against the folder of ``file``."""
    listen = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    config = msgspec.structs.replace(config, listen=msgspec.structs.replace(config.listen, **listen))
    check_numbers(config)
    config = msgspec.structs.replace(config, database=_resolved(file, config.database))
    if config.access_log is not None:
        config = msgspec.structs.replace(config, access_log=str(file.resolve().parent / config.access_log))
    if config.retention.archive is not None:
        beside = str(file.resolve().parent / config.retention.archive)
        config = msgspec.structs.replace(config, retention=msgspec.structs.replace(config.retention, archive=beside))
    listed = () if config.prices is None else read_prices(file.resolve().parent / config.prices)
    prices = (*listed, *shipped_prices())
    routers = {
        name: msgspec.structs.replace(
            part,
            agents=tuple(_priced(_beside(file, agent), prices) for agent in part.agents),
            database=None if part.database is None else _resolved(file, part.database),
            judges=None if part.judges is None else tuple(_judge_beside(file, judge) for judge in part.judges),
        )
        for name, part in config.routers.items()
    }
    agents = tuple(_priced(_beside(file, agent), prices) for agent in config.agents)
    judges = tuple(_judge_beside(file, judge) for judge in config.judges)
    found = (str(file.resolve().parent / (each.folder or "")) for each in config.guardrails)
    guardrails = tuple(
        msgspec.structs.replace(each, folder=where) for each, where in zip(config.guardrails, found, strict=True)
    )
    return msgspec.structs.replace(config, agents=agents, routers=routers, judges=judges, guardrails=guardrails)


def _resolved(file: Path, database: str) -> str:
    return database if "://" in database or database == ":memory:" else str(file.resolve().parent / database)


def _beside(file: Path, agent: AgentConfig) -> AgentConfig:
    """Make the module of a ``python`` agent importable from the folder of the file."""
    if agent.kind != "python":
        return agent
    folder = str(file.resolve().parent / agent.settings.get("folder", ""))
    return msgspec.structs.replace(agent, settings={**agent.settings, "folder": folder})


def _priced(agent: AgentConfig, prices: Sequence[PriceRow]) -> AgentConfig:
    """Give a model without a price that of its host's price list, if that is known."""
    settings = agent.settings
    first: dict[str, Any] = next(iter(settings.get("deployments") or ({},)))
    url, model = settings.get("base_url") or first.get("base_url"), settings.get("model")
    if agent.price or not isinstance(url, str) or not isinstance(model, str):
        return agent
    found = price_of(url, model, prices)
    return agent if found is None else msgspec.structs.replace(agent, price=asdict(found))


def _judge_beside(file: Path, judge: JudgeConfig) -> JudgeConfig:
    """Resolve a judge's function or program relative to the folder of the file."""
    if judge.kind not in ("python", "program", "unit_test"):
        return judge
    folder = str(file.resolve().parent / judge.settings.get("folder", ""))
    return msgspec.structs.replace(judge, settings={**judge.settings, "folder": folder})


def parse_config(text: str, environment: Mapping[str, str] | None = None, *, name: str = "config") -> Config:
    r"""Parse YAML; ``name`` replaces the path in syntax errors.

    Examples
    --------
    >>> parse_config("version: 1\nagents: [{id: a, kind: simulated}]").router.floor
    0.02
    >>> parse_config("version: 1\nagents: []\nrooter: {}")
    Traceback (most recent call last):
    ...
    bot_orch.errors.InvalidInputError: config.rooter: is not a setting; did you mean 'router'?
    """
    config = typed(parsed(text, name), os.environ if environment is None else environment)
    check_config(config)
    return config


def parsed(text: str, name: str = "config") -> dict[str, Any]:
    """Parse a YAML text that holds a mapping."""
    document = parse_yaml(text, name)
    if not isinstance(document, dict):
        raise InvalidInputError("config", "is not a mapping", "start with 'version: 1'")
    return document


def typed(document: dict[str, Any], environment: Mapping[str, str]) -> Config:
    """Convert a mapping to settings, checking types only."""
    _refuse_turns(document)
    check_keys(document, Config, "config")
    document = _with_default(document)
    found = expanded(document, "config", environment)
    try:
        config = msgspec.convert(found, Config)
    except msgspec.ValidationError as error:
        raise invalid(error) from None
    return _with_daily_budgets(config)


def _refuse_turns(document: dict[str, Any]) -> None:
    """Name the remedy for a setting that older files have."""
    cluster = document.get("cluster")
    if isinstance(cluster, dict) and "serve" in cluster:
        problem = "is no longer a setting: on PostgreSQL every router has one owner at a time"
        raise InvalidInputError("config.cluster.serve", problem, "remove it; see docs/how-to/postgresql.md")


def _with_daily_budget(config: Config) -> Config:
    """Expand ``usd_per_day`` to a paced window of one day that keeps only the cheapest agent when it is exhausted."""
    usd, given = config.router.subject_to.usd_per_day, config.router.budget
    if usd is None:
        return config
    if given.window_usd is not None:
        where = "config.router.subject_to.usd_per_day"
        raise InvalidInputError(where, "is given beside budget.window_usd", "keep one of them")
    budget = msgspec.structs.replace(given, window_usd=usd, window_s=86_400.0, on_exhausted="cheapest", pace=True)
    return msgspec.structs.replace(config, router=msgspec.structs.replace(config.router, budget=budget))


def _with_daily_budgets(config: Config) -> Config:
    """The same for every router."""
    routers = {}
    for name, part in config.routers.items():
        with named(f"config.routers.{name}"):
            alone = msgspec.structs.replace(config, router=part.router, routers={})
            routers[name] = msgspec.structs.replace(part, router=_with_daily_budget(alone).router)
    return msgspec.structs.replace(_with_daily_budget(config), routers=routers)


def _with_default(document: dict[str, Any]) -> dict[str, Any]:
    """For a file with only ``routers``, use the settings of the first one as the top level."""
    routers = document.get("routers")
    if "agents" in document or not isinstance(routers, dict) or not routers:
        return document
    (name, first), *rest = routers.items()
    shared = {"judges": document.get("judges", []), "audit": document.get("audit")}
    others = {name: {**shared, **part} if isinstance(part, dict) else part for name, part in rest}
    return {**document, "name": name, **(first if isinstance(first, dict) else {}), "routers": others}
