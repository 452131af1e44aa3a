"""The router of a process, while it owns the router and while it does not, and its view of the other processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from bot_orch.core.events import Event
from bot_orch.log.log import Log
from bot_orch.service.api.tasks import resume
from bot_orch.service.cluster.forwarding import Forwarder
from bot_orch.service.judging.judge_runner import open_bench
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.app import Serve
from bot_orch.service.web.endpoint import Site

_LOOK_S = 0.02
_CALLS_S, _TASKS_S = 1.0, 5.0  # for calls to end before another process takes the router; tasks end in the log


class Cluster:
    """The processes of a service, as the application sees them; what a cluster does not need does nothing.

    Parameters
    ----------
    forwarder
        Passes requests on.
    """

    def __init__(self, forwarder: Forwarder) -> None:
        self.forwarder = forwarder

    async def start(self, router: ServedRouter) -> None:
        """Join the cluster."""

    def listening(self, port: int) -> None:
        """Announce that other processes can reach this one at its port."""

    def has_heirs(self) -> bool:
        """Whether another process could take over the router."""
        return False

    def bequeath(self, event: Event) -> None:
        """Let the router's next owner log the result of a call that was in progress at the handover."""

    async def leave(self) -> None:
        """Hand the router over to another process; requests are still forwarded."""

    async def drained(self) -> None:
        """Wait for chats that fronts carry for the router here, but not beyond the grace after leaving."""

    async def close(self) -> None:
        """End."""


class ServedRouter:
    """The router of a process, which may move between processes.

    Parameters
    ----------
    site, cluster, serve
        What the endpoints share, the other processes, and the application without its access log.
    make
        Makes a runtime from settings.
    """

    def __init__(self, site: Site, cluster: Cluster | None, *, serve: Serve, make: Callable[..., Runtime]) -> None:
        self._site, self._cluster, self._make = site, cluster, make
        self._draining: set[asyncio.Task[None]] = set()
        self.changing = asyncio.Lock()  # one change of the settings or of the owner at a time
        if cluster is not None:
            cluster.forwarder.serve = serve
            site.runtime.forwarder = cluster.forwarder

    @property
    def runtime(self) -> Runtime:
        """The runtime that serves now; ``away`` while another process owns the router."""
        return self._site.runtime

    async def take(self, log: Log, holds: Callable[[], bool]) -> Runtime:
        """Take the router over from another process; ``holds`` returns whether this process still owns it."""
        async with self.changing:
            new = self._made(log=log)
            new.holds = holds
            try:
                await asyncio.to_thread(new.open)
                await new.load()
            except BaseException:
                new.traces = new.access = None  # they outlive the runtime
                await new.stop()
                raise
            await begin(new)
            self._site.runtime = new
        return new

    async def give(self) -> None:
        """Give the router up: finish its requests, save its state and close its log.

        Another process that can serve it need not wait for that: calls that take longer go on here, and what they come
        to is sent there.
        """
        old = self.runtime
        if old.away:
            return
        new = self._made()
        new.away = True
        self._site.runtime = new
        old.away = True  # a request that has it already goes on to the next process
        now, cluster = asyncio.get_running_loop().time, self._cluster
        begun = now()
        while _at_work(old) and now() - begun < _patience_s(old, heirs=cluster is not None and cluster.has_heirs()):
            await asyncio.sleep(_LOOK_S)
        left_s = old.config.limits.grace_s - (now() - begun)
        if cluster is None or not _at_work(old) or not cluster.has_heirs():
            await _wound_up(old, left_s)
            return
        await old.hand_over(cluster.bequeath)
        drain = asyncio.create_task(_wound_up(old, left_s), name="drain")
        self._draining.add(drain)
        drain.add_done_callback(self._draining.discard)

    async def drained(self) -> None:
        """Wait for the calls of a router that was handed over; their grace bounds it."""
        while self._draining:
            await asyncio.wait(set(self._draining))

    def _made(self, **options: Any) -> Runtime:
        known = self.runtime
        new = self._make(known.config, clock=known.clock, **options)
        new.reload, new.traces, new.access, new.forwarder = known.reload, known.traces, known.access, known.forwarder
        return new


def _at_work(runtime: Runtime) -> bool:
    """Whether a router has requests or rounds that a stop would interrupt."""
    return bool(runtime.in_flight.lost_by_a_stop or runtime.serving)


def _patience_s(runtime: Runtime, *, heirs: bool) -> float:
    """Seconds that a moving router waits for its requests; short if another process can serve them."""
    grace_s = runtime.config.limits.grace_s
    if not heirs or not runtime.loaded:
        return grace_s
    foreground = any(task not in runtime.background for task in runtime.ledger.tasks)
    return min(grace_s, _TASKS_S if foreground else _CALLS_S)


async def _wound_up(runtime: Runtime, grace_s: float) -> None:
    """Stop a router that accepts no more requests, when its requests are answered or the grace period ends."""
    try:
        async with asyncio.timeout(max(0.0, grace_s)):
            while _at_work(runtime):
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        pass
    finally:
        runtime.traces = runtime.access = None  # they outlive the runtime
        await runtime.stop()


async def begin(runtime: Runtime) -> None:
    """Start background work that needs the loaded log."""
    open_bench(runtime)
    await resume(runtime)
    runtime.resumed = True
