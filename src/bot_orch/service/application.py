"""Assembly: the runtime with its queue, and the ASGI application with all routes."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Container, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from bot_orch.errors import BotOrchError
from bot_orch.log.log import Log
from bot_orch.service.alarms import start_alarms
from bot_orch.service.api.queue import QUEUE_ROUTES
from bot_orch.service.api.routes import API_ROUTES, ROUTES
from bot_orch.service.api.tasks import resume
from bot_orch.service.cluster.members import Cluster
from bot_orch.service.cluster.sharing import UsageSharing
from bot_orch.service.config import Config
from bot_orch.service.configuring import LiveConfig, StoredConfig
from bot_orch.service.contracts import StartCancelledError
from bot_orch.service.dashboard.routes import dashboard_pages
from bot_orch.service.judging.judge_runner import open_bench
from bot_orch.service.people.pages import queue_pages
from bot_orch.service.problems import Reply, json_reply
from bot_orch.service.queue.service import open_queue
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.app import asgi_app, mount_router, mount_routers, served
from bot_orch.service.web.auth import Gate
from bot_orch.service.web.endpoint import Request, Site
from bot_orch.service.web.limits import BodyRoom
from bot_orch.service.web.openapi import document
from bot_orch.service.web.pages import common_routes
from bot_orch.service.web.router_selection import ROUTER_PATH
from bot_orch.service.web.routes import RouteSpec

__all__ = ["make_app", "make_runtime", "make_runtimes"]

_LOOK_S = 0.02
_CALLS_S, _TASKS_S = 1.0, 5.0  # for calls to end before another process takes their router; tasks end in the log


def make_runtime(config: Config, **options: Any) -> Runtime:
    """A runtime with a queue of people; ``options`` are those of :class:`Runtime`."""
    return Runtime(config, open_queue=open_queue, **options)


def make_runtimes(config: Config, *, here: Container[str] | None = None, **options: Any) -> Runtime:
    """The runtime of the default router, with those of the others as its ``peers``.

    ``here`` names the routers that this process serves, all by default; the rest is away. ``options`` are those of
    :class:`Runtime`; a ``log`` is for the default router alone.
    """
    shared = {name: value for name, value in options.items() if name != "log"}
    made = {
        name: make_runtime(part, **(options if name == config.name else shared))
        for name, part in config.split().items()
    }
    if len(made) > 1 or here is not None:
        for name, each in made.items():
            each.peers = made
            each.away = here is not None and name not in here
            each.usage = made[config.name].usage  # a token has one limit over all routers
    return made[config.name]


def make_app(
    runtime: Runtime,
    environment: Mapping[str, str] | None = None,
    *,
    read: Callable[[], Config] | None = None,
    cluster: Cluster | None = None,
    stored: StoredConfig | None = None,
) -> Starlette:
    """The application around a runtime and its peers; starting and stopping it starts and stops them.

    Tokens are read from ``environment``, by default that of the process. ``read`` reads the configuration again, for a
    reload; ``stored`` are the versions of a configuration on PostgreSQL. ``cluster`` are the other processes that serve
    routers of the service.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        here = [each for each in runtime.routers.values() if not each.away]
        try:
            runtime.open_reports()
            for each in here:
                await asyncio.to_thread(each.open)  # a server may take its time
            if cluster is not None:
                await cluster.start(doors)
        except (BotOrchError, OSError, sqlite3.Error) as error:
            app.state.failure = error
            for each in (*here, runtime):
                await each.stop()
            raise
        sharing = None if cluster is None else _share_usage(runtime, cluster)
        loading = [asyncio.create_task(_load(app, each), name="load") for each in here]  # 503 meanwhile
        try:
            yield
        finally:
            if cluster is not None:
                await cluster.leave()
                await cluster.drained()
            await doors.drained()
            await asyncio.gather(*(each.stop() for each in {*runtime.routers.values(), runtime}))
            if live is not None:
                await live.close()
            await asyncio.gather(*loading)
            if sharing is not None:
                await sharing.stop()
            if cluster is not None:
                await cluster.close()

    limits = runtime.config.limits
    gate = Gate(runtime.config.tokens, environment, limits, tenants=runtime.config.tenants)
    site = Site(runtime, gate, BodyRoom(limits))
    app = asgi_app(_routes(site), lifespan, runtime)
    doors = _Routers(app, site, cluster)
    doors.open()
    live = None
    if stored is not None or read is not None:
        options: Any = {"add": doors.add, "remove": doors.remove, "environment": environment}
        live = LiveConfig(runtime, site.gate, read=read, stored=stored, **options)
        if cluster is not None and stored is not None:
            cluster.configured = live.seen
    app.state.runtime, app.state.failure, app.state.stop = runtime, None, None
    return app


class _Routers:
    """The routers of a running service, which a reload may add and remove, and which move between processes."""

    def __init__(self, app: Starlette, site: Site, cluster: Cluster | None) -> None:
        self._app, self._site, self._cluster = app, site, cluster
        self._draining: set[asyncio.Task[None]] = set()
        if cluster is not None:
            cluster.forwarder.serve = served(app)
            for each in site.runtime.routers.values():
                each.forwarder = cluster.forwarder

    @property
    def routers(self) -> Mapping[str, Runtime]:
        """All routers by name, those of other processes too."""
        return self._site.runtime.routers

    def open(self) -> None:
        """Answer the paths of all routers, if there are several, and of no others."""
        found = self._site.runtime.peers
        mount_routers(self._app, {name: _routes(self._door(name, peer)) for name, peer in found.items()})

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
        """Take no more requests for a router, and stop it once those that it has are answered, or the grace is over."""
        main = self._site.runtime
        old = main.routers[name]
        self._share({each: peer for each, peer in main.routers.items() if peer is not old})
        if not old.away:
            main.background.start(f"removed router {name}", _wound_up(old, old.config.limits.grace_s))

    async def take(self, name: str, log: Log, holds: Callable[[], bool]) -> Runtime:
        """Serve a router that another process has served so far; ``holds`` says whether it is still ours."""
        new = await self._started(self.routers[name].config, log=log, holds=holds)
        self._change(name, new)
        return new

    async def give(self, name: str) -> None:
        """Serve a router no more: its state is saved and its log closed, once what it has is answered.

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
        new = make_runtime(config, clock=main.clock, **options)
        new.peers, new.usage, new.reload, new.prepare = main.peers, main.usage, main.reload, main.prepare
        known = main.routers.get(config.name)
        new.version = 0 if known is None else known.version
        new.traces, new.access, new.forwarder = main.traces, main.access, main.forwarder
        return new

    async def _started(self, config: Config, *, holds: Callable[[], bool] | None = None, **options: Any) -> Runtime:
        new = self._made(config, **options)
        new.holds = holds
        new.peers = {**self.routers, config.name: new}  # nobody else sees it yet
        try:
            await asyncio.to_thread(new.open)
            await new.load()
        except BaseException:
            new.traces = new.access = None  # those of all routers
            await new.stop()
            raise
        await _begin(new)
        return new

    def _change(self, name: str, new: Runtime) -> None:
        """Answer for a router with another runtime from now on."""
        peers = self._site.runtime.peers
        new.peers = peers
        if isinstance(peers, dict):
            peers[name] = new
        is_main = name == self._site.runtime.config.name
        main = Site(new, self._site.gate, self._site.room) if is_main else None
        routes = _routes(self._door(name, new))
        mount_router(self._app, name, routes, main=None if main is None else _routes(main))

    def _share(self, routers: dict[str, Runtime]) -> None:
        for each in {*routers.values(), self._site.runtime}:
            each.peers = routers
        self.open()

    def _door(self, name: str, peer: Runtime) -> Site:
        return Site(peer, self._site.gate, self._site.room, prefix=f"{ROUTER_PATH}{name}")


def _share_usage(runtime: Runtime, cluster: Cluster) -> UsageSharing:
    """Count limits together with the other processes from now on."""
    runtime.usage.track(runtime.config.tokens, runtime.config.tenants)
    sharing = UsageSharing(runtime.usage, cluster, runtime.clock.now_us)
    sharing.start()
    return sharing


def _at_work(runtime: Runtime) -> bool:
    """Whether a router has requests or rounds that a stop would cut off."""
    return bool(runtime.in_flight.lost_by_a_stop or runtime.serving)


def _patience_s(runtime: Runtime, *, heirs: bool) -> float:
    """How long a router that is to move waits for what it has: not long, if another process can serve it."""
    grace_s = runtime.config.limits.grace_s
    if not heirs or not runtime.loaded:
        return grace_s
    foreground = any(task not in runtime.background for task in runtime.ledger.tasks)
    return min(grace_s, _TASKS_S if foreground else _CALLS_S)


async def _wound_up(runtime: Runtime, grace_s: float) -> None:
    """Stop a router that takes no more requests, once those that it has are answered, or the grace is over."""
    try:
        async with asyncio.timeout(max(0.0, grace_s)):
            while _at_work(runtime):
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        pass
    finally:
        runtime.traces = runtime.access = None  # those of all routers
        runtime.usage.forget(runtime.config.name, runtime.writer.log)
        await runtime.stop()


async def _load(app: Starlette, runtime: Runtime) -> None:
    """Fold the log and continue the rounds; a failure stops the server."""
    try:
        await runtime.load()
    except StartCancelledError:
        return
    except Exception as error:
        app.state.failure = error
        if app.state.stop is not None:
            app.state.stop()
        return
    await _begin(runtime)


async def _begin(runtime: Runtime) -> None:
    """Start what needs the folded log."""
    start_alarms(runtime)
    open_bench(runtime)
    await resume(runtime)


def _routes(site: Site) -> list[BaseRoute]:
    own = RouteSpec("GET", "/openapi.json", _openapi, scope=None, summary="This description")
    api = [spec.route(site) for spec in (*ROUTES, own, *QUEUE_ROUTES)]
    return [*api, *queue_pages(site), *dashboard_pages(site), *common_routes(site)]


async def _openapi(_: Request) -> Reply:
    return json_reply(document(API_ROUTES))
