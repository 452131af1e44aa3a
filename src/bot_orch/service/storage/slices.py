"""Long work on the event loop in slices, so that requests are answered between them.

A thread would not do: it competes for the interpreter's lock, and every answer would wait for it several times.
"""

from __future__ import annotations

import asyncio

from bot_orch.eventlog.capture import CapturedLedger, Slices, compressed, digest
from bot_orch.eventlog.ledger import Ledger
from bot_orch.eventlog.log import Snapshot

__all__ = ["fingerprint", "in_slices", "take_snapshot"]


async def in_slices(slices: Slices, pause_s: float = 0.0) -> bytes:
    """Do the work; other tasks run between slices, for ``pause_s`` at least."""
    while True:
        try:
            next(slices)
        except StopIteration as done:
            return bytes(done.value)
        await asyncio.sleep(pause_s)


async def take_snapshot(ledger: Ledger, pause_s: float = 0.0) -> Snapshot:
    """The state as of now; the ledger may change while it is written down."""
    captured = ledger.capture()
    body = await in_slices(captured.slices(), pause_s)
    return Snapshot(captured.seq, await asyncio.to_thread(compressed, body))  # zlib releases the interpreter's lock


async def fingerprint(captured: CapturedLedger) -> tuple[int, str]:
    """Number of the last event, and the hash of the state after it."""
    return captured.seq, digest(await in_slices(captured.slices()))
