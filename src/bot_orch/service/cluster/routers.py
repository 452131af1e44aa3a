"""The routers of one process, and its view of the other processes of the service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from bot_orch.core.events import Event
from bot_orch.log.log import Log
from bot_orch.service.api.tasks import resume
from bot_orch.service.cluster.forwarding import Forwarder
from bot_orch.service.config import Config
from bot_orch.service.judging.judge_runner import open_bench
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.app import mount_router, mount_routers, served
from bot_orch.service.web.endpoint import Site
from bot_orch.service.web.router_selection import ROUTER_PATH

_LOOK_S = 0.02
_CALLS_S, _TASKS_S = 1.0, 5.0  # for calls to end before another process takes their router; tasks end in the log


class Cluster:
    """The processes of a service, as the application sees them; what a cluster does not need does nothing.

    ``configured`` takes the number of the newest configuration; the one that this process runs, and why it is not that.
    ``on_message`` takes messages of the others.

    Parameters
    ----------
    forwarder
        Passes requests on.
    """

    def __init__(self, forwarder: Forwarder) -> None:
        self.forwarder = forwarder
        self.configured: Callable[[int], tuple[int, str]] | None = None
        self.on_message: Callable[[bytes], None] | None = None

    def serves(self, router: str) -> bool:
        """Whether a router that is new in the configuration starts in this process."""
        return False

    async def start(self, routers: Routers) -> None:
        """Join the cluster."""

    def listening(self, port: int) -> None:
        """Announce that other processes can reach this one at its port."""

    def has_heirs(self) -> bool:
        """Whether another process could take over the routers of this one."""
        return False

    def bequeath(self, router: str, event: Event) -> None:
        """Let a router's next owner log the result of a call that was in progress at the handover."""

    async def leave(self) -> None:
        """Hand the routers over to other processes; requests are still forwarded."""

    async def drained(self) -> None:
        """Wait for chats of routers that stay here and that fronts carry, but not beyond the grace after leaving."""

    async def close(self) -> None:
        """End."""

    async def notify(self, messages: Sequence[bytes]) -> None:
        """Send messages to all other processes; delivery is not guaranteed."""


class Routers:
    """The routers of a running service; a reload may add and remove them, and they may move between processes.

    Parameters
    ----------
    app, site, cluster
        The application, what its endpoints share, and the other processes.
    make, routes
        Make the runtime of a router from its settings, and the routes of a site.
    """

    def __init__(
        self,
        app: Starlette,
        site: Site,
        cluster: Cluster | None,
        *,
        make: Callable[..., Runtime],
        routes: Callable[[Site], list[BaseRoute]],
    ) -> None:
        self._app, self._site, self._cluster = app, site, cluster
        self._make, self._routes = make, routes
        self._draining: set[asyncio.Task[None]] = set()
        if cluster is not None:
            cluster.forwarder.serve = served(app)
            for each in site.runtime.routers.values():
                each.forwarder = cluster.forwarder

    @property
    def routers(self) -> Mapping[str, Runtime]:
        """All routers by name, including those of other processes."""
        return self._site.runtime.routers

    def open(self) -> None:
        """Install the routes of all routers if there are several."""
        found = self._site.runtime.peers
        mount_routers(self._app, {name: self._routes(self._site_of(name, peer)) for name, peer in found.items()})

    async def add(self, config: Config) -> None:
        """Start a router; requests can name it once its log is folded."""
        main = self._site.runtime
        if self._cluster is not None and not self._cluster.serves(config.name):
            new = self._made(config)
            new.away = True
        else:
            new = await self._started(config)
        self._share({**main.routers, config.name: new})

    async def remove(self, name: str) -> None:
        """Stop accepting requests for a router, and stop it when its requests are answered or the grace period ends."""
        main = self._site.runtime
        old = main.routers[name]
        self._share({each: peer for each, peer in main.routers.items() if peer is not old})
        if not old.away:
            main.background.start(f"removed router {name}", _wound_up(old, old.config.limits.grace_s))

    async def take(self, name: str, log: Log, holds: Callable[[], bool]) -> Runtime:
        """Take over a router from another process; ``holds`` returns whether this process still owns it."""
        new = await self._started(self.routers[name].config, log=log, holds=holds)
        self._change(name, new)
        return new

    async def give(self, name: str) -> None:
        """Give up a router: finish its requests, save its state and close its log.

        Another process that can serve it need not wait for that: calls that take longer go on here, and what they come
        to is sent there.
        """
        old = self.routers[name]
        if old.away:
            return
        new = self._made(old.config)
        new.away = True
        self._change(name, new)
        old.away = True  # a request that has it already goes on to the next process
        now, cluster = asyncio.get_running_loop().time, self._cluster
        begun = now()
        while _at_work(old) and now() - begun < _patience_s(old, heirs=cluster is not None and cluster.has_heirs()):
            await asyncio.sleep(_LOOK_S)
        left_s = old.config.limits.grace_s - (now() - begun)
        if cluster is None or not _at_work(old) or not cluster.has_heirs():
            await _wound_up(old, left_s)
            return
        await old.hand_over(partial(cluster.bequeath, name))
        old.usage.forget(name, old.writer.log)
        drain = asyncio.create_task(_wound_up(old, left_s), name=f"drain {name}")
        self._draining.add(drain)
        drain.add_done_callback(self._draining.discard)

    async def drained(self) -> None:
        """Wait for the calls of routers that were handed over; their grace bounds it."""
        while self._draining:
            await asyncio.wait(set(self._draining))

    def _made(self, config: Config, **options: Any) -> Runtime:
        main = self._site.runtime
        new = self._make(config, clock=main.clock, **options)
        new.peers, new.usage, new.reload, new.prepare = main.peers, main.usage, main.reload, main.prepare
        known = main.routers.get(config.name)
        new.version = 0 if known is None else known.version
        new.traces, new.access, new.forwarder = main.traces, main.access, main.forwarder
        return new

    async def _started(self, config: Config, *, holds: Callable[[], bool] | None = None, **options: Any) -> Runtime:
        new = self._made(config, **options)
        new.holds = holds
        new.peers = {**self.routers, config.name: new}  # not visible to others yet
        try:
            await asyncio.to_thread(new.open)
            await new.load()
        except BaseException:
            new.traces = new.access = None  # shared by all routers
            await new.stop()
            raise
        await begin(new)
        return new

    def _change(self, name: str, new: Runtime) -> None:
        """Serve a router with another runtime from now on."""
        peers = self._site.runtime.peers
        new.peers = peers
        if isinstance(peers, dict):
            peers[name] = new
        is_main = name == self._site.runtime.config.name
        main = Site(new, self._site.gate, self._site.room) if is_main else None
        routes = self._routes(self._site_of(name, new))
        mount_router(self._app, name, routes, main=None if main is None else self._routes(main))

    def _share(self, routers: dict[str, Runtime]) -> None:
        for each in {*routers.values(), self._site.runtime}:
            each.peers = routers
        self.open()

    def _site_of(self, name: str, peer: Runtime) -> Site:
        return Site(peer, self._site.gate, self._site.room, prefix=f"{ROUTER_PATH}{name}")


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
        runtime.traces = runtime.access = None  # shared by all routers
        runtime.usage.forget(runtime.config.name, runtime.writer.log)
        await runtime.stop()


async def begin(runtime: Runtime) -> None:
    """Start background work that needs the loaded log."""
    open_bench(runtime)
    await resume(runtime)
    runtime.resumed = True
