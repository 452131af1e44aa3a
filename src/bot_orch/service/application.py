"""Assembly: the runtime with its queue, and the ASGI application with all routes."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from bot_orch.errors import BotOrchError
from bot_orch.service.alarms import start_alarms
from bot_orch.service.api.queue import QUEUE_ROUTES
from bot_orch.service.api.routes import API_ROUTES, ROUTES
from bot_orch.service.api.tasks import resume
from bot_orch.service.config import Config
from bot_orch.service.dashboard.routes import dashboard_pages
from bot_orch.service.judging.bench import open_bench
from bot_orch.service.people.pages import queue_pages
from bot_orch.service.problems import Reply, json_reply
from bot_orch.service.queue.desk import open_queue
from bot_orch.service.reloading import Reloader
from bot_orch.service.runtime import Runtime, StartCancelledError
from bot_orch.service.web.app import asgi_app, open_doors
from bot_orch.service.web.auth import Gate
from bot_orch.service.web.doors import DOOR
from bot_orch.service.web.endpoint import Request, Site
from bot_orch.service.web.limits import BodyRoom
from bot_orch.service.web.openapi import document
from bot_orch.service.web.pages import common_routes
from bot_orch.service.web.routes import RouteSpec

__all__ = ["make_app", "make_runtime", "make_runtimes"]

_LOOK_S = 0.02


def make_runtime(config: Config, **options: Any) -> Runtime:
    """A runtime with a queue of people; ``options`` are those of :class:`Runtime`."""
    return Runtime(config, open_queue=open_queue, **options)


def make_runtimes(config: Config, **options: Any) -> Runtime:
    """The runtime of the default router, with those of the others as its ``peers``.

    ``options`` are those of :class:`Runtime`; a ``log`` is for the default router alone.
    """
    shared = {name: value for name, value in options.items() if name != "log"}
    made = {
        name: make_runtime(part, **(options if name == config.name else shared))
        for name, part in config.split().items()
    }
    if len(made) > 1:
        for each in made.values():
            each.peers = made
            each.usage = made[config.name].usage  # a token has one limit over all routers
    return made[config.name]


def make_app(
    runtime: Runtime, environment: Mapping[str, str] | None = None, *, read: Callable[[], Config] | None = None
) -> Starlette:
    """The application around a runtime and its peers; starting and stopping it starts and stops them.

    Tokens are read from ``environment``, by default that of the process. ``read`` reads the configuration again, for a
    reload.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            for each in runtime.routers.values():
                each.open()
        except (BotOrchError, OSError, sqlite3.Error) as error:
            app.state.failure = error
            for each in runtime.routers.values():
                await each.stop()
            raise
        loading = [
            asyncio.create_task(_load(app, each), name="load") for each in runtime.routers.values()
        ]  # 503 meanwhile
        try:
            yield
        finally:
            for each in tuple(runtime.routers.values()):
                await each.stop()
            await asyncio.gather(*loading)

    limits = runtime.config.limits
    gate = Gate(runtime.config.tokens, environment, limits, tenants=runtime.config.tenants)
    site = Site(runtime, gate, BodyRoom(limits.bodies_bytes))
    app = asgi_app(_routes(site), lifespan, runtime)
    doors = _Doors(app, site)
    doors.open()
    if read is not None:
        reload = Reloader(runtime, site.gate, read, routers=doors, environment=environment)
        for each in runtime.routers.values():
            each.reload = reload
    app.state.runtime, app.state.failure, app.state.stop = runtime, None, None
    return app


class _Doors:
    """The routers of a running service, which a reload may add and remove."""

    def __init__(self, app: Starlette, site: Site) -> None:
        self._app, self._site = app, site

    def open(self) -> None:
        """Answer the paths of all routers, if there are several, and of no others."""
        found = self._site.runtime.peers
        open_doors(self._app, {name: _routes(self._door(name, peer)) for name, peer in found.items()})

    async def add(self, config: Config) -> None:
        """Start a router; requests can name it once its log is folded."""
        main = self._site.runtime
        new = make_runtime(config, clock=main.clock)
        new.peers = {**main.routers, config.name: new}  # nobody else sees it yet
        new.usage, new.reload = main.usage, main.reload
        try:
            new.open()
            await new.load()
        except BaseException:
            new.traces = None  # that of all routers
            await new.stop()
            raise
        _begin(new)
        self._share(new.peers)

    async def remove(self, name: str) -> None:
        """Take no more requests for a router, and stop it once those that it has are answered, or the grace is over."""
        main = self._site.runtime
        old = main.routers[name]
        self._share({each: peer for each, peer in main.routers.items() if peer is not old})
        main.background.start(f"removed router {name}", _wound_up(old))

    def _share(self, routers: dict[str, Runtime]) -> None:
        for each in routers.values():
            each.peers = routers
        self.open()

    def _door(self, name: str, peer: Runtime) -> Site:
        return Site(peer, self._site.gate, self._site.room, prefix=f"{DOOR}{name}")


async def _wound_up(runtime: Runtime) -> None:
    """Stop a router that takes no more requests."""
    try:
        async with asyncio.timeout(runtime.config.limits.grace_s):
            while runtime.in_flight:
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        pass
    finally:
        runtime.traces = None  # that of all routers
        runtime.usage.forget(runtime.writer.log)
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
    _begin(runtime)


def _begin(runtime: Runtime) -> None:
    """Start what needs the folded log."""
    start_alarms(runtime)
    open_bench(runtime)
    if runtime.replica is None:
        resume(runtime)
    else:
        runtime.replica.take_over(partial(resume, runtime))


def _routes(site: Site) -> list[BaseRoute]:
    own = RouteSpec("GET", "/openapi.json", _openapi, scope=None, summary="This description")
    api = [spec.route(site) for spec in (*ROUTES, own, *QUEUE_ROUTES)]
    return [*api, *queue_pages(site), *dashboard_pages(site), *common_routes(site)]


async def _openapi(_: Request) -> Reply:
    return json_reply(document(API_ROUTES))
