"""Censor decisions that have no outcome at their horizon."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable
from contextlib import suppress
from typing import Protocol

from bot_orch.log.events import Censored
from bot_orch.service.config import Config
from bot_orch.service.metrics import Metrics
from bot_orch.service.problems import StorageError
from bot_orch.service.storage.writer import Writer
from bot_orch.service.work import DecisionsInFlight

__all__ = ["Swept", "sweep", "sweep_forever"]

_SWEEP_AT_ONCE = 500


class Swept(Protocol):
    """The part of a router's runtime that this module needs."""

    config: Config
    metrics: Metrics
    in_flight: DecisionsInFlight

    @property
    def writer(self) -> Writer:
        """The writer of the log."""
        ...

    @property
    def ready(self) -> bool:
        """Whether the log is writable."""
        ...

    def save_if_due(self) -> asyncio.Task[None] | None:
        """Save a snapshot if one is due."""
        ...


async def sweep_forever(runtime: Swept) -> None:
    """Censor decisions that pass the horizon, and save snapshots when due."""
    while True:
        await asyncio.sleep(min(1.0, runtime.config.router.horizon_s / 4))
        if not runtime.ready:
            continue
        with suppress(StorageError):
            while sweep(runtime) == _SWEEP_AT_ONCE:
                await asyncio.sleep(0)
        runtime.save_if_due()


def sweep(runtime: Swept) -> int:
    """Censor decisions without an outcome at the horizon; how many."""
    now_us = runtime.writer.now_us()
    silent = _silent(runtime, now_us)
    for decision_id, made_us in silent:
        event = Censored(decision_id, (now_us - made_us) / 1e6, "horizon")
        runtime.writer.stage(runtime.writer.stamp(), event, decision_id)
        runtime.metrics.count("bot_orch_feedback_total", effect="censored")
    return len(silent)


def _silent(runtime: Swept, now_us: int) -> list[tuple[str, int]]:
    """Decisions without an outcome at the horizon, with their times."""
    horizon_us = round(runtime.config.router.horizon_s * 1e6)
    return _older_than(runtime.writer.ledger.pending.items(), now_us - horizon_us, runtime.in_flight)


def _older_than(pending: Iterable[tuple[str, int]], limit_us: int, in_flight: Container[str]) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for decision_id, time_us in pending:  # oldest first
        if time_us > limit_us or len(found) == _SWEEP_AT_ONCE:
            break
        if decision_id not in in_flight:
            found.append((decision_id, time_us))
    return found
