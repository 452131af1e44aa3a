"""Keeps a process at the version of the configuration that is in force, and takes part in adopting the next one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar

from bot_orch.errors import BotOrchError
from bot_orch.eventlog.versions import (
    ADOPTED,
    PROPOSED,
    ConfigStore,
    ConfigVersion,
    ProcessSeen,
    ProcessSelf,
    ProposalVerdict,
    verdict,
)
from bot_orch.service.logs import LastingProblem
from bot_orch.service.neighbours import process_name

__all__ = ["ConfigKeeper", "VersionedProcess"]

_log = logging.getLogger("bot_orch.config")
T = TypeVar("T")
_BEAT_S = 0.5
_AGAIN_S = 5.0
_LEAVE_S = 1.0


class VersionedProcess(Protocol):
    """A process whose configuration can change while it runs."""

    @property
    def running(self) -> int:
        """The version that all its routers run."""
        ...

    async def prepare(self, version: ConfigVersion) -> None:
        """Make everything for a version, so that it can take effect at once; raises if that cannot be."""
        ...

    async def install(self, number: int) -> None:
        """Run a version that was adopted and prepared; some routers may follow later, see ``running``."""
        ...

    def drop(self, number: int) -> None:
        """Forget what was prepared for a version that was refused."""
        ...


class ConfigKeeper:
    """Heartbeats of a process, with the version that it runs and the one that it has prepared.

    :meth:`beat` tells the store and looks what is proposed; :meth:`work` does what follows from that, which may take
    long. :meth:`start` runs both in turn; queries run in a thread.

    Parameters
    ----------
    store, process
        Where versions are kept, and what runs them.
    current
        The version that the process was built with.
    lease_s
        A process is not waited for if it was silent for so long.
    name
        What others call it; by default its machine and number.
    """

    def __init__(
        self,
        store: ConfigStore,
        process: VersionedProcess,
        current: ConfigVersion,
        *,
        lease_s: float,
        name: str = "",
    ) -> None:
        self._store, self._process, self.current = store, process, current
        self.lease_s, self.name = lease_s, name
        self.id = 0
        self.prepared, self.problem = current.number, ""
        self._seen: Sequence[ConfigVersion] = ()
        self._tried_at = 0.0
        self._wake = asyncio.Event()
        self._pool = ThreadPoolExecutor(1, "config")
        self._unseen = LastingProblem(_log, "configuration versions cannot be seen")
        self._not_adopted = LastingProblem(_log, "configuration not adopted yet")
        self._running: asyncio.Task[None] | None = None
        self._working: asyncio.Task[None] | None = None

    async def join(self) -> ConfigVersion | None:
        """Become one of the processes; the version in force if it is another one, and then nothing was written."""
        self.name = self.name or process_name()
        self.id, found = await self._ask(partial(self._store.join, self.name, self.current.number))
        return None if self.id else found

    def start(self) -> None:
        """Beat from now on."""
        self._running = asyncio.create_task(self._run(), name="config")

    async def leave(self) -> None:
        """Stop; others wait no longer for this process."""
        tasks = [task for task in (self._running, self._working) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(Exception):
            async with asyncio.timeout(_LEAVE_S):
                await self._ask(partial(self._store.leave, self.id))
        self._store.abort()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def latest(self) -> int:
        """The newest version that was adopted."""
        found = await self._ask(self._store.current)
        return 0 if found is None else found.number

    async def beat(self) -> None:
        """Say what this process runs and has prepared; see what is proposed, and decide it if all have answered."""
        said = ProcessSelf(self._process.running, self.prepared, self.problem)
        beat = partial(self._store.beat, self.id, said, self.current.number, name=self.name)
        self._seen = await self._ask(beat)
        open_one = next((each for each in self._seen if each.status == PROPOSED), None)
        if open_one is not None and self.prepared == open_one.number:
            found = await self._ask(partial(self._store.settle, self._judge))
            if found is not None and found.status == ADOPTED:
                self._seen = await self._ask(beat)

    async def work(self) -> None:
        """Prepare what is proposed, run what is adopted, drop what was refused."""
        adopted = [each for each in self._seen if each.status == ADOPTED]
        if adopted or self._process.running != self.current.number:
            await self._adopt(adopted[-1] if adopted else self.current)
        proposal = next((each for each in self._seen if each.status == PROPOSED), None)
        if proposal is not None and self.prepared != proposal.number:
            self._forget_prepared()
            await self._prepare(proposal)
        elif proposal is None and self.prepared > self.current.number:
            self._forget_prepared()

    async def _adopt(self, version: ConfigVersion) -> None:
        if self.prepared != version.number or (self.problem and self._now_s() - self._tried_at >= _AGAIN_S):
            self._forget_prepared()
            await self._prepare(version)
        if version.number > self.current.number:
            self.current = version
        if not self.problem:
            await self._process.install(version.number)

    async def _prepare(self, version: ConfigVersion) -> None:
        problem = ""
        try:
            await self._process.prepare(version)
        except (BotOrchError, OSError) as error:
            problem = str(error)
        except Exception as error:  # an agent of kind python may raise anything
            problem = f"{type(error).__name__}: {error}"
        self.prepared, self.problem, self._tried_at = version.number, problem, self._now_s()
        fields = {"version": version.number, "status": version.status, **({"problem": problem} if problem else {})}
        if problem:
            _log.error("cannot prepare a configuration", extra={"fields": fields})
        else:
            _log.info("prepared a configuration", extra={"fields": fields})

    def _forget_prepared(self) -> None:
        if self.prepared > self.current.number:
            self._process.drop(self.prepared)
        self.prepared, self.problem = self._process.running, ""

    def _judge(self, proposal: ConfigVersion, processes: Sequence[ProcessSeen]) -> ProposalVerdict:
        return verdict(proposal, processes, self.lease_s)

    async def _run(self) -> None:
        beat_s = min(_BEAT_S, self.lease_s / 4)
        while True:
            self._wake.clear()
            try:
                await self.beat()
            except Exception as error:  # the database is away: the version in force stays
                self._unseen.tell(error)
            else:
                self._unseen.over()
                if self._working is None or self._working.done():
                    self._working = asyncio.create_task(self._work_once(), name="config work")
            with suppress(TimeoutError):
                async with asyncio.timeout(beat_s):  # wait_for would swallow a cancellation that comes with the event
                    await self._wake.wait()

    async def _work_once(self) -> None:
        before = (self._process.running, self.prepared, self.problem)
        try:
            await self.work()
        except (BotOrchError, OSError) as error:  # storage; the next beat tries again
            self._not_adopted.tell(error)
        else:
            self._not_adopted.over()
        if before != (self._process.running, self.prepared, self.problem):
            self._wake.set()  # others wait for it

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def _ask(self, job: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, job)
