"""Problems that would keep a service with a valid file from starting."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from bot_orch.core.guarantee import Guarantee
from bot_orch.errors import BotOrchError, InvalidInputError, MissingExtraError
from bot_orch.log.stores.open import is_url
from bot_orch.log.stores.postgres.configs import PostgresConfigs
from bot_orch.log.stores.postgres.connect import driver
from bot_orch.service.config import Config
from bot_orch.service.config.documents import ConfigFile, differences, digest_of_document, named_all, revision_of
from bot_orch.service.configuring import check_exposed, superseded_by
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

__all__ = ["objective_findings", "obstacles", "port_findings", "setting_findings", "version_findings"]


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
    """The number of tasks a guarantee needs before it lets other agents serve."""
    first, needed = promised.first_round(), promised.rounds_needed()
    judged = any(judge.rate == 1.0 and judge.kind not in ("thumbs", "pairwise") for judge in part.judges)
    if not judged and not any(agent.kind in ("python", "simulated") for agent in part.agents):
        problem = f"{where}.router.guarantee: no judge sees every answer, and one without a reward counts as lost"
        return warning("guarantee", problem, "report a reward of every request to /v1/feedback, or add such a judge")
    text = (
        f"{promised.baseline} alone for {first} requests; about {needed} with rewards until others serve all the time"
    )
    return ok("guarantee", text)


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
