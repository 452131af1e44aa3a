"""All checks of a configuration file, in the order in which problems should be solved; what keeps it from starting."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from bot_orch.core.guarantee import Guarantee
from bot_orch.errors import BotOrchError, InvalidInputError, MissingExtraError
from bot_orch.log.stores.open import is_url
from bot_orch.log.stores.postgres.configs import PostgresConfigs
from bot_orch.log.stores.postgres.connect import driver
from bot_orch.service.build import check
from bot_orch.service.config import Config, load_config
from bot_orch.service.config.checks import SEE_SETTINGS
from bot_orch.service.config.documents import ConfigFile, differences, digest_of_document, named_all, revision_of
from bot_orch.service.config.reading import variables_in
from bot_orch.service.configuring import check_exposed, superseded_by
from bot_orch.service.doctor.endpoints import ProbeResult, ask_all, endpoint_findings, endpoints_in
from bot_orch.service.doctor.machine import CheckFinding, DatabaseSeen, check_port, failed, ok, see_database, warning
from bot_orch.service.objective import (
    dollar_weight,
    idle_prices,
    idle_weight,
    unpriced,
    wanted_guarantee,
    wanted_weights,
)
from bot_orch.service.operations.tracing import check_traces
from bot_orch.service.web.auth import Gate
from bot_orch.strict import parse_yaml, read_text

_UNKNOWN = "unknown-variable-of-the-environment"
_SKEW_S = 30.0


def examine(
    file: Path,
    environment: Mapping[str, str],
    *,
    timeout_s: float = 10.0,
    host: str | None = None,
    port: int | None = None,
) -> Iterator[CheckFinding]:
    """Check a file and everything it refers to; yields findings as they become known.

    ``host`` and ``port`` override those of the file, as with ``serve``. A missing variable does not end the
    examination: what needs it is left out.
    """
    if not file.exists():
        yield failed("configuration", f"{file} does not exist", "name another file, or run: bot-orch quickstart")
        return
    try:
        document = parse_yaml(read_text(file), str(file))
        variables = _variables(document)
        names = dict.fromkeys(name for found in variables.values() for name in found)
        known = {**environment, **{name: f"{_UNKNOWN}-{name}" for name in names if not environment.get(name)}}
        config = load_config(file, known, host=host, port=port)
        check(config)
        Gate(config.tokens, known, tenants=config.tenants)
    except InvalidInputError as error:
        field = error.field if error.field.startswith(str(file)) else f"{file}: {error.field}"
        yield failed("configuration", f"{field}: {error.problem}", error.remedy)
        return
    except (BotOrchError, OSError) as error:
        yield failed("configuration", f"{file}: {error}", SEE_SETTINGS)
        return
    count = sum(len(part.agents) for part in config.split().values())
    yield ok("configuration", f"{file}: {count} agent{'s' if count != 1 else ''}, policy {config.router.policy}")
    yield from _keys(variables, environment)
    yield from setting_findings(config)
    yield from objective_findings(config)
    wanted = [each for each in endpoints_in(config) if _UNKNOWN not in f"{each.base_url}{each.headers}"]
    said = asyncio.run(ask_all(wanted, timeout_s=timeout_s))
    yield from endpoint_findings(said, variables)
    seen = [see_database(part.database) for part in config.split().values() if _UNKNOWN not in part.database]
    yield _clock(said, seen)
    yield from dict.fromkeys(each for database in seen for each in database.findings)
    if seen and not any(each.state == "failed" for database in seen for each in database.findings):
        yield from version_findings(config, ConfigFile(file, environment))
    yield from port_findings(config, seen)


def _variables(document: Any) -> dict[str, list[str]]:
    """Environment variables by setting, including those of tokens."""
    found = {where: list(names) for where, names in variables_in(document, "config")}
    tokens = document.get("tokens") if isinstance(document, dict) else None
    for index, token in enumerate(tokens if isinstance(tokens, list) else ()):
        if isinstance(token, dict) and isinstance(token.get("env"), str):
            found[f"config.tokens[{index}].env"] = [token["env"]]
    return found


def _keys(variables: Mapping[str, Sequence[str]], environment: Mapping[str, str]) -> Iterator[CheckFinding]:
    missing = False
    for where, names in variables.items():
        for name in names:
            if not environment.get(name):
                missing = True
                yield failed("keys", f"{where} needs {name}, which is not set", f"set {name} before starting")
    if not missing:
        count = len({name for names in variables.values() for name in names})
        yield ok("keys", f"{count} variable{'s' if count != 1 else ''} of the environment needed, all set")


def _clock(said: Sequence[ProbeResult], seen: Sequence[DatabaseSeen]) -> CheckFinding:
    """A finding about the largest difference from other clocks."""
    others = [(each.ahead_s, f"the endpoint of {each.asked.name}") for each in said if each.ahead_s is not None]
    others += [(each.ahead_s, "the database") for each in seen if each.ahead_s is not None]
    if not others:
        return ok("clock", "nothing to compare with")
    worst_s, whose = max(others, key=lambda each: abs(each[0]))
    if abs(worst_s) <= _SKEW_S:
        return ok("clock", f"within {_SKEW_S:g} s of {len(others)} other{'s' if len(others) != 1 else ''}")
    word = "ahead of" if worst_s > 0 else "behind"
    return warning("clock", f"{abs(worst_s):.0f} s {word} {whose}", "synchronise it (timedatectl set-ntp true)")


def obstacles(config: Config, file: ConfigFile) -> Iterator[CheckFinding]:
    """Everything that would stop ``serve`` with a valid file; endpoints are not queried.

    That another configuration is in force is a warning. So are prices and weights that do not steer.
    """
    seen = [see_database(part.database) for part in config.split().values()]
    found = [*setting_findings(config), *(each for database in seen for each in database.findings)]
    found += port_findings(config, seen)
    stopping = list(dict.fromkeys(each for each in found if each.state == "failed"))
    yield from stopping
    if not stopping:
        yield from objective_findings(config)
        yield from version_findings(config, file)


def setting_findings(config: Config) -> Iterator[CheckFinding]:
    """Settings that a start refuses: an open port without tokens, files and extras that are missing."""
    try:
        check_exposed(config)
    except InvalidInputError as error:
        yield failed("listen", f"{error.field} {error.problem}", error.remedy)
    if config.traces is not None:
        try:
            check_traces(config.traces)
        except MissingExtraError as error:
            problem, _, remedy = str(error).partition("; ")
            yield failed("traces", problem, remedy or "remove config.traces")
    if config.access_log is not None and (problem := _unwritable(Path(config.access_log))):
        yield failed(
            "access log", f"config.access_log: {config.access_log} {problem}", "name a file in a folder that exists"
        )


def objective_findings(config: Config) -> Iterator[CheckFinding]:
    """Prices without an effect on routing, and dollar weights too small for the agents' prices."""
    for name, part in config.split().items():
        where = "config" if name == config.name else f"config.routers.{name}"
        if (idle := idle_prices(part)) is not None:
            yield warning("objective", f"{where}.{idle[0]}", idle[1])
        if free := unpriced(part):
            problem = f"{where}.agents: {', '.join(free)} have no price, and dollars are limited: they count as free"
            yield warning("prices", problem, "give them a price (0 if they are free), or list them in a prices file")
        if (promised := wanted_guarantee(part.router)) is not None:
            yield _needs(promised, where, part)
        if (found := idle_weight(part)) is None:
            continue
        moved, prices = found
        usd = wanted_weights(part.router).usd
        at = f"calls cost {min(prices):.4g} to {max(prices):.4g} dollars"
        problem = f"{where}.router.objective.usd: {usd:g} moves rewards by {moved:.2g} at most: {at}"
        weight = dollar_weight(prices)
        remedy = f"write {weight:g}, with which the dearest agent has to earn 0.1 more than the cheapest, or remove it"
        yield warning("objective", problem, remedy)


def _needs(promised: Guarantee, where: str, part: Config) -> CheckFinding:
    """The number of tasks a guarantee needs before it lets other agents serve, and where their rewards come from."""
    first, needed = promised.first_round(), promised.rounds_needed()
    text = (
        f"{promised.baseline} alone for {first} requests; about {needed} with rewards until others serve all the time"
    )
    reported = ("thumbs", "implicit", "pairwise")  # or a default
    judged = any(judge.rate == 1.0 and not judge.only and judge.kind not in reported for judge in part.judges)
    judged |= all(agent.kind in ("python", "simulated") for agent in part.agents)
    if judged or (part.router.reward or {}).get("id") == "survival":
        return ok("guarantee", text)
    problem = f"{where}.router.guarantee: {text}; no judge sees every answer, and one without a reward counts as lost"
    return warning("guarantee", problem, "report a reward of every request to /v1/feedback, or add such a judge")


def port_findings(config: Config, seen: Sequence[DatabaseSeen]) -> Iterator[CheckFinding]:
    """Whether the port is free; if nothing listens there, which process holds the log."""
    found = check_port(config.listen)
    yield found
    if any(each.held for each in seen) and not found.detail.endswith("answers"):
        remedy = "end that process before starting another, or look at its --port"
        yield warning("database", "a process holds the log, and none of ours answers at the port", remedy)


def version_findings(config: Config, file: ConfigFile) -> Iterator[CheckFinding]:
    """Whether the file is the configuration in force, if processes share one."""
    if not is_url(config.database):
        return
    try:
        with closing(PostgresConfigs(config.database)) as store:
            version, text = store.current(), file.text()
            newer = store.superseded(digest_of_document(text), revision_of(text))
    except (BotOrchError, driver().Error):
        return  # no log yet
    if newer is not None:
        problem, _, remedy = superseded_by(file, newer).partition("; ")
        yield warning("configuration", problem, remedy)
    elif version is not None and (changed := differences(version.document, text)):
        problem = f"{file.path} is not version {version.number}, which is in force: {named_all(changed)}"
        yield warning("configuration", problem, "a start with it, or 'bot-orch apply', makes it the next version")


def _unwritable(path: Path) -> str:
    """Why a file cannot be appended to or made; empty if it can."""
    if path.is_dir():
        return "is a folder"
    if path.exists():
        return "" if os.access(path, os.W_OK) else "cannot be written"
    if not path.parent.is_dir():
        return "is in a folder that does not exist"
    return "" if os.access(path.parent, os.W_OK) else "is in a folder that cannot be written"
