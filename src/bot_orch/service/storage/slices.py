"""Long work on the event loop in slices, so that requests are answered between them.

A thread would not do: it competes for the interpreter's lock, and every answer would wait for it several times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import thread_time

from bot_orch.log.capture import CapturedLedger, Done, Slices, digest
from bot_orch.log.ledger import Ledger
from bot_orch.log.log import Log, Snapshot

__all__ = ["Stopwatch", "fingerprint", "in_slices", "take_snapshot"]


async def in_slices(slices: Slices[Done], pause_s: float = 0.0) -> Done:
    """Do the work; other tasks run between slices, for ``pause_s`` at least."""
    while True:
        try:
            next(slices)
        except StopIteration as done:
            result: Done = done.value
            return result
        await asyncio.sleep(pause_s)


async def take_snapshot(ledger: Ledger, log: Log, pause_s: float = 0.0) -> Snapshot:
    """The state as of now, which may change while it is written down, with the pieces that are still to be stored."""
    watch = Stopwatch()
    captured = watch.run(ledger.capture)
    draft = await in_slices(watch.timed(ledger.increments.cut(captured)), pause_s)
    # compression and queries release the interpreter's lock
    snapshot = await asyncio.to_thread(watch.run, partial(draft.stored, log))
    ledger.increments.cost_s = watch.spent_s
    return snapshot


class Stopwatch:
    """Processor time of work in slices and in threads."""

    def __init__(self) -> None:
        self.spent_s = 0.0

    def timed(self, slices: Slices[Done]) -> Slices[Done]:
        """The same slices, timed."""
        while True:
            begun = thread_time()
            try:
                next(slices)
            except StopIteration as done:
                result: Done = done.value
                return result
            finally:
                self.spent_s += thread_time() - begun
            yield

    def run(self, job: Callable[[], Done]) -> Done:
        """The result of a job, timed."""
        begun = thread_time()
        try:
            return job()
        finally:
            self.spent_s += thread_time() - begun


async def fingerprint(captured: CapturedLedger) -> tuple[int, str]:
    """Number of the last event, and the hash of the state after it."""
    return captured.seq, digest(await in_slices(captured.slices()))
