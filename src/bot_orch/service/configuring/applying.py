"""Propose a version of the configuration and wait until the processes have adopted or refused it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from bot_orch.errors import BotOrchError, InvalidInputError
from bot_orch.eventlog.stores.postgres.configs import PostgresConfigs
from bot_orch.eventlog.versions import ADOPTED, PATIENCE_S, PROPOSED, ConfigVersion, living, verdict
from bot_orch.service.build import check
from bot_orch.service.config.documents import ConfigFile, SettingDifference, differences, digest_of_document
from bot_orch.service.configuring.start import whoami
from bot_orch.service.reloading import FIXED
from bot_orch.service.web.auth import Gate

__all__ = ["Applied", "VersionRefusedError", "apply_document", "check_here", "earlier", "restarts_for"]

_LOOK_S = 0.1


class VersionRefusedError(BotOrchError):
    """A process could not prepare a version, so none has adopted it."""


class Applied(NamedTuple):
    """A version that was adopted, and how many of the living processes run it by now."""

    version: ConfigVersion
    running: int
    living: int


def check_here(file: ConfigFile, document: str) -> str | None:
    """Check a document as a process would; the variables that are not set here, if that is why it cannot be checked.

    The processes have an environment of their own.
    """
    try:
        config = file.around(document)
    except InvalidInputError as error:
        if error.problem.startswith("needs the environment variable "):
            return error.problem.removeprefix("needs the environment variable ")
        raise
    check(config)
    try:
        Gate(config.tokens, file.environment, tenants=config.tenants)
    except InvalidInputError as error:
        if "environment variable" in error.problem:
            return error.problem.rpartition(" ")[2]
        raise
    return None


def earlier(store: PostgresConfigs, number: int | None = None) -> ConfigVersion:
    """An adopted version to go back to: the one with this number, or the last that was in force before this one."""
    adopted = [each for each in store.history() if each.status == ADOPTED]
    if number is None:
        found = next((each for each in adopted[1:] if differences(each.document, adopted[0].document)), None)
    else:
        found = next((each for each in adopted if each.number == number), None)
    if found is None:
        numbers = ", ".join(str(each.number) for each in reversed(adopted)) or "none"
        what = "there is no earlier version" if number is None else f"version {number} was never in force"
        raise InvalidInputError("--rollback", what, f"adopted versions: {numbers}")
    return found


def restarts_for(found: list[SettingDifference]) -> list[str]:
    """Settings among these that take effect when a process is restarted."""
    return sorted({each.setting.partition(".")[0] for each in found} & set(FIXED))


def apply_document(
    store: PostgresConfigs, document: str, *, lease_s: float, say: Callable[[str], None], by: str | None = None
) -> Applied:
    """Propose a document as the next version; returns when it is adopted, raises if it is refused."""
    version = store.propose(document, digest_of_document(document), by or whoami())
    say(f"version {version.number} proposed to {_count(len(living(store.processes(), lease_s)), 'process')}")
    end_s = time.monotonic() + PATIENCE_S + lease_s
    while True:
        found = store.settle(lambda proposal, processes: verdict(proposal, processes, lease_s))
        if found is None or found.status != PROPOSED:
            break
        time.sleep(_LOOK_S)
    decided = next(each for each in store.history() if each.number == version.number)
    if decided.status != ADOPTED:
        current = store.current()
        goes_on = "" if current is None else f", version {current.number} goes on"
        raise VersionRefusedError(f"version {version.number} was refused{goes_on}: {decided.problem}")
    while True:
        here = living(store.processes(), lease_s)
        running = sum(each.said.config >= version.number for each in here)
        if running == len(here) or time.monotonic() > end_s:
            return Applied(decided, running, len(here))
        time.sleep(_LOOK_S)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 'es' if noun.endswith('s') else 's'}"
