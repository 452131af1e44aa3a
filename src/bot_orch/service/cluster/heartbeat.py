"""Heartbeats and the lease of a process, in a separate thread with a separate connection."""

from __future__ import annotations

import logging
import os
import queue
import select
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from bot_orch.clock import Clock
from bot_orch.log.stores.postgres.connect import LogUnavailableError
from bot_orch.log.stores.postgres.leases import Claimed, LeaseTable, LeaseView

_log = logging.getLogger("bot_orch.cluster")
T = TypeVar("T")


def elapsed_s() -> float:
    """A clock that also runs while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """Result of a heartbeat.

    ``began`` is the time before it was sent: the lease ``held`` that it has renewed is valid from then on.
    ``ahead_s`` is how far our clock is ahead of the server's.
    """

    view: LeaseView
    began: float
    held: Claimed | None
    ahead_s: float


class HeartbeatThread(threading.Thread):
    """Sends heartbeats, renews the lease, and runs other statements in between.

    Parameters
    ----------
    table
        The lease; used by this thread alone.
    every_s
        Seconds between two beats; news from other processes cause one at once.
    seen, failed
        Called in this thread with what a beat has shown, or with what went wrong.
    clock
        Stamps events; it is compared with the server's.
    """

    def __init__(
        self,
        table: LeaseTable,
        every_s: float,
        seen: Callable[[Beat], None],
        *,
        failed: Callable[[Exception], None],
        clock: Clock,
    ) -> None:
        super().__init__(name="leases", daemon=True)
        self._table, self._every_s, self._seen, self._failed, self._clock = table, every_s, seen, failed, clock
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._wake = os.pipe()
        os.set_blocking(self._wake[0], False)
        os.set_blocking(self._wake[1], False)
        self._ending = self._ended = False
        self._lock = threading.Lock()
        self._held: Claimed | None = None
        self.address = ""
        self.answered = elapsed_s()  # when the rest of the process has last taken a beat

    def claim(self) -> Future[Claimed | None]:
        """Claim ownership of the stream and renew it from then on."""
        return self._submit(self._claim)

    def release(self, claimed: Claimed, heir: int | None = None) -> Future[None]:
        """Own the stream no more."""
        return self._submit(lambda: self._release(claimed, heir))

    def end(self) -> None:
        """Leave the cluster and stop after the jobs submitted so far; later jobs fail."""
        self._ending = True
        if self.ident is None:  # it was never started
            self._refuse_the_rest()
        self._poke()

    def run(self) -> None:
        """Beat until the end."""
        try:
            self._beat_until_the_end()
            self._work()
            self._table.leave()
        finally:
            self._refuse_the_rest()

    def _beat_until_the_end(self) -> None:
        due = 0.0
        while not self._ending:
            if elapsed_s() >= due:
                due = elapsed_s() + self._every_s
                self._beat()
            self._work()
            if not self._ending and self._wait(max(0.0, due - elapsed_s())):
                due = 0.0

    def _beat(self) -> None:
        began = elapsed_s()
        if began - self.answered > self._table.lease_s:  # the event loop hangs or hung: let others take over
            self._failed(TimeoutError("the process did not answer its own heartbeat"))
            return
        with self._lock:
            held = self._held
        try:
            ours_us = self._clock.now_us()
            view = self._table.beat(self.address, held)
        except Exception as error:  # whatever the driver raises: the next beat tries again
            self._table.close()
            self._failed(error)
        else:
            self._seen(Beat(view=view, began=began, held=held, ahead_s=(ours_us - view.clock_us) / 1e6))

    def _wait(self, wait_s: float) -> bool:
        """Wait for a job or a notification; returns whether there are notifications of leases."""
        news = self._table.descriptor()
        if news is not None and self._take_news():  # what came while a statement ran
            return True
        found = select.select([self._wake[0], *([] if news is None else [news])], [], [], wait_s)[0]
        if self._wake[0] in found:
            with suppress(BlockingIOError):
                os.read(self._wake[0], 4096)
        return news is not None and news in found and self._take_news()

    def _take_news(self) -> bool:
        """Read notifications; returns whether leases may have changed."""
        try:
            return self._table.news()
        except Exception:  # the beat will say what is wrong
            self._table.close()
            return True

    def _work(self) -> None:
        while True:
            try:
                job, result = self._jobs.get_nowait()
            except queue.Empty:
                return
            try:
                result.set_result(job())
            except Exception as error:
                self._table.close()
                result.set_exception(error)

    def _claim(self) -> Claimed | None:
        claimed = self._table.claim()
        if claimed is not None:
            with self._lock:
                self._held = claimed
        return claimed

    def _release(self, claimed: Claimed, heir: int | None) -> None:
        with self._lock:
            if self._held == claimed:
                self._held = None
        self._table.release(claimed.epoch, heir)

    def _submit(self, job: Callable[[], T]) -> Future[T]:
        result: Future[T] = Future()
        with self._lock:
            if self._ended:
                result.set_exception(_left())
                return result
            self._jobs.put((job, result))
            self._poke()
        return result

    def _refuse_the_rest(self) -> None:
        """Refuse waiting and later jobs, and close the wake-up pipe."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
            for each in self._wake:
                os.close(each)
        while not self._jobs.empty():
            self._jobs.get_nowait()[1].set_exception(_left())

    def _poke(self) -> None:
        if self._ended:
            return
        with suppress(BlockingIOError, OSError):
            os.write(self._wake[1], b"x")


def _left() -> LogUnavailableError:
    return LogUnavailableError("log: this process has left the others")
