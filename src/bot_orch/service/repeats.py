"""Stored answers for repeated requests: the same ``Idempotency-Key`` gets the same answer from a single call."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

from bot_orch.service.problems import Problem


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """A complete answer: body, content type and headers."""

    body: bytes
    media: bytes
    headers: dict[str, str]


@dataclass(slots=True)
class _Slot:
    digest: bytes
    until: float = 0.0
    answer: KeptAnswer | None = None
    _: KW_ONLY
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Repeats:
    """Complete answers by key, in memory; failures are not stored.

    Parameters
    ----------
    most, most_bytes
        The oldest answers are dropped beyond so many, or so many bytes; an answer over a quarter of them is not kept.
    keep_s
        How long an answer is kept.
    clock
        Monotonic clock.
    """

    def __init__(
        self,
        most: int = 1000,
        most_bytes: int = 32_000_000,
        *,
        keep_s: float = 3600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._most_bytes, self._keep_s, self._clock = most, most_bytes, keep_s, clock
        self._slots: dict[str, _Slot] = {}  # in progress or kept
        self._kept: OrderedDict[str, int] = OrderedDict()  # key to size, oldest first
        self.size = 0

    def __len__(self) -> int:
        return len(self._kept)

    async def claim(self, key: str, digest: bytes) -> KeptAnswer | None:
        """The stored answer of a key, waiting if it is in progress; ``None`` if the caller must produce it.

        That caller must call :meth:`keep` or :meth:`drop`. A key with another body is a :class:`Problem`.
        """
        while (slot := self._slots.get(key)) is not None:
            if slot.answer is not None and self._clock() >= slot.until:
                self.drop(key)
                break
            if slot.digest != digest:
                raise Problem(422, "idempotency_conflict", "this Idempotency-Key was used with another body")
            if slot.answer is not None:
                return slot.answer
            await slot.done.wait()
        self._slots[key] = _Slot(digest)
        return None

    def keep(self, key: str, answer: KeptAnswer) -> None:
        """Store the answer of a claimed key."""
        slot, size = self._slots[key], len(answer.body)
        if size > self._most_bytes // 4:
            self.drop(key)
            return
        slot.answer, slot.until = answer, self._clock() + self._keep_s
        slot.done.set()
        self._kept[key] = size
        self.size += size
        while len(self._kept) > self._most or self.size > self._most_bytes:
            self.drop(next(iter(self._kept)))

    def drop(self, key: str) -> None:
        """Release a key; requests waiting for its answer proceed one after the other."""
        slot = self._slots.pop(key, None)
        self.size -= self._kept.pop(key, 0)
        if slot is not None:
            slot.done.set()
