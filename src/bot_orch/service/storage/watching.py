"""Whether a log takes writes, as far as its last ones tell, and whether the clock of this process is right."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from bot_orch.clock import Clock, ServiceTime
from bot_orch.errors import BotOrchError
from bot_orch.eventlog.ledger import Ledger
from bot_orch.eventlog.log import Log
from bot_orch.eventlog.stores.postgres.log import PostgresLog
from bot_orch.service.storage.clocks import ClockSample, clock_error, sample
from bot_orch.service.storage.staging import StagedLog

__all__ = ["WatchedLog"]

_log = logging.getLogger("bot_orch.writer")
T = TypeVar("T")
_MUCH_AHEAD_US = 1_000_000
_FRESH_S = 4.0  # how long ago the last write of a service that is ready may be
_PROBE_WAIT_S, _ANEW_WAIT_S = 1.0, 2.0
_WATCH_S = 1.0


class WatchedLog(StagedLog):
    """A log, the state that its events fold to, and the time of the last write.

    Parameters
    ----------
    log, grouped
        As those of :class:`bot_orch.service.storage.staging.StagedLog`.
    ledger
        The fold of the log.
    clock
        Stamps events.
    """

    def __init__(self, log: Log, ledger: Ledger, clock: Clock, *, grouped: bool = True) -> None:
        super().__init__(log, grouped=grouped)
        self.ledger = ledger
        self._clock, self._stamp = clock, ServiceTime(clock, ledger.time_us)
        if self._stamp.ahead_us > _MUCH_AHEAD_US:
            ahead_s = round(self._stamp.ahead_us / 1e6)
            _log.warning("the log is ahead of the clock; time goes on from its end", extra={"fields": {"s": ahead_s}})
        self._wake = asyncio.Event()
        self._pool = ThreadPoolExecutor(1, "commit")
        self._written_at: float | None = None
        self._written = asyncio.Event()
        self._probing = False
        self._task: asyncio.Task[None] | None = None
        self._failed: Exception | None = None
        self._clock_error: Exception | None = None
        self.samples: deque[ClockSample] = deque(maxlen=2)

    async def _watch(self, server: PostgresLog) -> None:
        """Look after the connection while nobody writes: is it there, and is it quick?"""
        while True:
            await asyncio.sleep(_WATCH_S)
            with suppress(BotOrchError):  # whoever writes next finds out
                self._heed_clock(await self.read(lambda _: sample(server, self._clock)))
                await self.confirm()

    def _heed_clock(self, found: ClockSample) -> None:
        """Refuse to write while the clock is ahead of the server's; go on once it is right."""
        self.samples.append(found)
        bound_s = math.inf if self._server is None else self._server.timing.clock_s
        before, self._clock_error = self._clock_error, clock_error(found, bound_s)
        if self._clock_error is not None and before is None:
            _log.critical("stopped writing", extra={"fields": {"detail": str(self._clock_error)}})
        elif self._clock_error is None and before is not None:
            self._stamp = ServiceTime(self._clock, self.ledger.time_us)
            _log.warning("the clock is right again", extra={"fields": {"ahead_s": found.ahead_s}})
            self._wake.set()

    @property
    def failed(self) -> Exception | None:
        """Why nothing can be written at the moment."""
        return self._failed or self._clock_error

    @failed.setter
    def failed(self, error: Exception | None) -> None:
        self._failed = error

    @property
    def problem(self) -> Exception | None:
        """Why no requests are served at the moment."""
        return self.failed

    @property
    def rtt_s(self) -> float:
        """How long the log's server takes to answer, at best, lately; 0 if that is not known."""
        return min((each.took_s for each in self.samples), default=0.0)

    @property
    def fresh(self) -> bool:
        """Whether a write was committed within the last seconds, as far as one was tried."""
        waited = self._written_at is not None and asyncio.get_running_loop().time() - self._written_at > _FRESH_S
        return self.failed is None and not (waited and (self._server is not None or self._busy))

    @property
    def _busy(self) -> bool:
        """Whether something waits for a commit."""
        return self._probing or self._flying is not None or bool(self._line)

    async def confirm(self, *, anew: bool = False) -> bool:
        """Whether a write was committed within the last seconds; tries a harmless one if not, or if ``anew``."""
        if self.log.instant or self._task is None or self.failed is not None:
            return self.failed is None
        loop = asyncio.get_running_loop()
        if anew or self._written_at is None or loop.time() - self._written_at > _FRESH_S / 2:
            self._probing, written = True, self._written
            self._wake.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(_ANEW_WAIT_S if anew and self.fresh else _PROBE_WAIT_S):
                    await written.wait()
            if anew and not written.is_set():
                return False
        recently = self._written_at is not None and loop.time() - self._written_at <= _FRESH_S
        return self.failed is None and recently

    def now_us(self) -> int:
        """The current time of the service, never before that of the last event; see :class:`ServiceTime`."""
        return self._stamp.now_us()

    async def _probe(self) -> None:
        await self._in_thread(self.log.probe)
        self._wrote()

    def _wrote(self) -> None:
        """Note that a write was committed just now."""
        self._written_at, self._probing = asyncio.get_running_loop().time(), False
        self._written.set()
        self._written = asyncio.Event()

    async def _in_thread(self, job: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, job)
