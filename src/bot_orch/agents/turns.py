"""Long work on the event loop with pauses, in which other work runs."""

from __future__ import annotations

import asyncio
import time

__all__ = ["Turns"]

_AT_ONCE_S = 0.001


class Turns:
    """Lets other work run when a millisecond has passed since it did so last."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = time.perf_counter()

    @property
    def due(self) -> bool:
        """Whether it is the turn of others."""
        return time.perf_counter() - self._since > _AT_ONCE_S

    async def pass_on(self) -> None:
        """Let others run."""
        await asyncio.sleep(0)
        self._since = time.perf_counter()
