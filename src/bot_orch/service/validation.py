"""What keeps a valid configuration from serving or from routing well: settings, the log, and, online, the endpoints."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bot_orch.codec import parse_yaml
from bot_orch.core.guarantee import Guarantee
from bot_orch.errors import BotOrchError, InvalidInputError, MissingExtraError
from bot_orch.log.stores.open import is_url, open_log
from bot_orch.log.stores.postgres.connect import check_version, connect, hidden, reaching, split
from bot_orch.service.config import Config
from bot_orch.service.config.reading import ConfigFile, variables_in
from bot_orch.service.configuring import check_exposed
from bot_orch.service.endpoints import ProbeResult, ask_all, endpoints_in
from bot_orch.service.judges.registry import NO_SIGNAL, SIGNALS, lacks_signal
from bot_orch.service.objective import (
    dollar_weight,
    idle_prices,
    idle_weight,
    unpriced,
    wanted_guarantee,
    wanted_weights,
)
from bot_orch.service.operations.tracing import ENDPOINT, check_traces, traces_wanted


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """The result of one check; ``remedy`` is empty if it is ok."""

    check: str
    state: Literal["ok", "warning", "failed"]
    detail: str
    remedy: str = ""


def findings(config: Config, file: ConfigFile, *, online: bool = False, timeout_s: float = 10.0) -> list[CheckFinding]:
    """Everything to know before ``serve``, problems that stop it first; nothing is changed.

    Endpoints and a database in PostgreSQL are contacted only if ``online``.
    """
    found = [*_setting_findings(config), *_objective_findings(config)]
    if online or not is_url(config.database):
        found.append(_log_finding(config.database))
    if online:
        document = parse_yaml(file.text(), str(file.path))
        found += _endpoint_findings(
            asyncio.run(ask_all(list(endpoints_in(config)), timeout_s=timeout_s)),
            dict(variables_in(document, "config")),
        )
    return sorted(found, key=lambda each: each.state != "failed")


def _setting_findings(config: Config) -> Iterator[CheckFinding]:
    """Settings that a start refuses: an open port without tokens, files and extras that are missing."""
    try:
        check_exposed(config)
    except InvalidInputError as error:
        yield CheckFinding("listen", "failed", f"{error.field} {error.problem}", error.remedy)
    if traces_wanted():
        try:
            check_traces()
        except MissingExtraError as error:
            problem, _, remedy = str(error).partition("; ")
            yield CheckFinding("traces", "failed", problem, remedy or f"unset {ENDPOINT}")
    if config.access_log is not None and (problem := _unwritable(Path(config.access_log))):
        detail = f"config.access_log: {config.access_log} {problem}"
        yield CheckFinding("access log", "failed", detail, "name a file in a folder that exists")


def _unwritable(path: Path) -> str:
    """Why a file cannot be appended to or made; empty if it can."""
    if path.is_dir():
        return "is a folder"
    if path.exists():
        return "" if os.access(path, os.W_OK) else "cannot be written"
    if not path.parent.is_dir():
        return "is in a folder that does not exist"
    return "" if os.access(path.parent, os.W_OK) else "is in a folder that cannot be written"


def _objective_findings(config: Config) -> Iterator[CheckFinding]:
    """Prices without an effect on routing, and dollar weights too small for the agents' prices."""
    if lacks_signal(config):
        yield CheckFinding("quality", "warning", NO_SIGNAL, SIGNALS)
    if (idle := idle_prices(config)) is not None:
        yield CheckFinding("objective", "warning", f"config.{idle[0]}", idle[1])
    if free := unpriced(config):
        problem = f"config.agents: {', '.join(free)} have no price, and dollars are limited: they count as free"
        remedy = "give them a price (0 if they are free), or list them in a prices file"
        yield CheckFinding("prices", "warning", problem, remedy)
    if (promised := wanted_guarantee(config.router)) is not None:
        yield _needs(promised, config)
    if (found := idle_weight(config)) is None:
        return
    moved, prices = found
    usd = wanted_weights(config.router).usd
    at = f"calls cost {min(prices):.4g} to {max(prices):.4g} dollars"
    problem = f"config.router.objective.usd: {usd:g} moves rewards by {moved:.2g} at most: {at}"
    weight = dollar_weight(prices)
    remedy = f"write {weight:g}, with which the dearest agent has to earn 0.1 more than the cheapest, or remove it"
    yield CheckFinding("objective", "warning", problem, remedy)


def _needs(promised: Guarantee, config: Config) -> CheckFinding:
    """The number of tasks a guarantee needs before it lets other agents serve, and where their rewards come from."""
    first, needed = promised.first_round(), promised.rounds_needed()
    text = (
        f"{promised.baseline} alone for {first} requests; about {needed} with rewards until others serve all the time"
    )
    judged = any(judge.rate == 1.0 and judge.kind != "thumbs" for judge in config.judges)
    judged |= all(agent.kind in ("python", "simulated") for agent in config.agents)
    if judged or (config.router.reward or {}).get("id") == "survival":
        return CheckFinding("guarantee", "ok", text)
    problem = f"config.router.guarantee: {text}; no judge sees every answer, and one without a reward counts as lost"
    remedy = "report a reward of every request to /v1/feedback, or add such a judge"
    return CheckFinding("guarantee", "warning", problem, remedy)


def _log_finding(database: str) -> CheckFinding:
    """Whether the log can be read and written, or made at the first start."""
    if database == ":memory:":
        return CheckFinding("log", "warning", "in memory", "name a file, or all is forgotten at the end")
    try:
        return CheckFinding("log", "ok", _seen_in_postgres(database) if is_url(database) else _seen_in_file(database))
    except (BotOrchError, OSError, sqlite3.Error) as error:
        problem, _, remedy = str(error).removeprefix("log: ").partition("; ")
        usual = "check host, user, password and rights" if is_url(database) else "correct config.database"
        return CheckFinding("log", "failed", f"{hidden(database)}: {problem}", remedy or usual)


def _seen_in_file(database: str) -> str:
    path = Path(database)
    place = next(each for each in path.parents if each.exists())
    remedy = "give this user the right to write it, or name another file"
    try:
        tempfile.TemporaryFile(dir=place).close()  # unlike the access bits, this knows of read-only and full disks
    except OSError as error:
        raise BotOrchError(f"{place} cannot be written ({error.strerror or error}); {remedy}") from None
    if not path.exists():
        return f"{path}: made at the first start"
    if path.is_file() and not os.access(path, os.W_OK):
        raise BotOrchError(f"{path} cannot be written; {remedy}")
    log = open_log(path)
    try:
        return f"{path}: {log.last()[0]:,} events"
    finally:
        log.close()


def _seen_in_postgres(url: str) -> str:
    with reaching(), connect(url, autocommit=True, read_only=True) as connection:
        asked = "SELECT to_regclass('version') IS NOT NULL, pg_is_in_recovery()"
        known, standby = connection.execute(asked).fetchone()
        if known:
            check_version(connection, split(url).schema)
    if standby:
        raise BotOrchError("is a standby, which takes no writes; name the primary server")
    return f"{hidden(url)}: {'log found' if known else 'made at the first start'}"


def _endpoint_findings(
    answers: Sequence[ProbeResult], variables: Mapping[str, Sequence[str]]
) -> Iterator[CheckFinding]:
    """One finding per endpoint; ``variables`` maps settings to the environment variables they name."""
    for each in answers:
        names = " and ".join(variables.get(each.asked.setting, ()))
        yield CheckFinding(f"agent {each.asked.name}", *_judged(each, names or "settings.api_key"))


def _judged(said: ProbeResult, key: str) -> tuple[Literal["ok", "warning", "failed"], str, str]:
    """State, detail and remedy of an endpoint."""
    url, status = said.asked.base_url, said.status
    at = f"{url}, {said.elapsed_s:.2f} s"
    if said.problem:
        return "failed", f"{url} cannot be reached ({said.problem})", "start it, or correct base_url"
    if status in (401, 403):
        what = "refuses the key" if said.asked.has_key else "needs a key"
        return "failed", f"{url} {what} (status {status})", f"check {key}"
    if status in (404, 405, 501):
        return "warning", f"{at}: lists no models (status {status}), so the key was not tried", "send it a chat"
    if status == 429:
        return "warning", f"{at}: limits the rate (status 429)", "wait, or raise the limit of the key"
    if not 200 <= status < 300:
        remedy = "look at the endpoint, or correct base_url"
        return "failed", f"{url} answers with status {status}", remedy
    if said.models is not None and said.asked.model not in said.models:
        known = ", ".join(said.models[:5]) or "none"
        return "warning", f"{at}: does not list {said.asked.model!r}", f"correct model; it lists {known}"
    knows = ", lists the model" if said.models else ""
    return "ok", f"{at}{', key accepted' if said.asked.has_key else ''}{knows}", ""
