"""Assembly: the runtime with its queue, and the ASGI application with all routes."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Container, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from bot_orch.errors import BotOrchError
from bot_orch.service.api.gateway.passthrough import passthrough_route
from bot_orch.service.api.queue import QUEUE_ROUTES
from bot_orch.service.api.routes import API_ROUTES, ROUTES
from bot_orch.service.cluster.routers import Cluster, Routers, begin
from bot_orch.service.cluster.sharing import UsageSharing
from bot_orch.service.config import Config
from bot_orch.service.configuring import LiveConfig, StoredConfig
from bot_orch.service.dashboard.routes import dashboard_pages
from bot_orch.service.problems import Reply, json_reply
from bot_orch.service.queue.pages import queue_pages
from bot_orch.service.queue.service import open_queue
from bot_orch.service.runtime import Runtime, StartCancelledError
from bot_orch.service.web.app import asgi_app
from bot_orch.service.web.auth import Gate
from bot_orch.service.web.endpoint import Request, RouteSpec, Site
from bot_orch.service.web.keys import KeyRing
from bot_orch.service.web.messages import BodyRoom
from bot_orch.service.web.openapi import document
from bot_orch.service.web.pages import common_routes


def make_runtime(config: Config, **options: Any) -> Runtime:
    """A runtime with a queue of people; ``options`` are passed to :class:`Runtime`."""
    return Runtime(config, open_queue=open_queue, **options)


def make_runtimes(config: Config, *, here: Container[str] | None = None, **options: Any) -> Runtime:
    """The runtime of the default router, with the other routers' runtimes as its ``peers``.

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
    """The ASGI application of a runtime and its peers; its lifespan starts and stops them.

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
                await cluster.start(routers)
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
            await routers.drained()
            await asyncio.gather(*(each.stop() for each in {*runtime.routers.values(), runtime}))
            if live is not None:
                await live.close()
            await asyncio.gather(*loading)
            if sharing is not None:
                await sharing.stop()
            if cluster is not None:
                await cluster.close()

    limits = runtime.config.limits
    keys = KeyRing(runtime)
    gate = Gate(runtime.config.tokens, environment, limits, keys=keys)
    site = Site(runtime, gate, BodyRoom(limits))
    app = asgi_app(_routes(site), lifespan, runtime)
    routers = Routers(app, site, cluster, make=make_runtime, routes=_routes)
    routers.open()
    live = None
    if stored is not None or read is not None:
        options: Any = {"add": routers.add, "remove": routers.remove, "environment": environment}
        live = LiveConfig(runtime, site.gate, read=read, stored=stored, **options)
        if cluster is not None and stored is not None:
            cluster.configured = live.seen
    app.state.runtime, app.state.failure, app.state.stop = runtime, None, None
    return app


def _share_usage(runtime: Runtime, cluster: Cluster) -> UsageSharing:
    """Count limits together with the other processes."""
    runtime.usage.track(runtime.config.tokens)
    sharing = UsageSharing(runtime.usage, cluster, runtime.clock.now_us)
    sharing.start()
    return sharing


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
    await begin(runtime)


def _routes(site: Site) -> list[BaseRoute]:
    own = RouteSpec("GET", "/openapi.json", _openapi, scope=None, summary="This description")
    api = [spec.route(site) for spec in (*ROUTES, own, *QUEUE_ROUTES)]
    pages = [*queue_pages(site), *dashboard_pages(site), *common_routes(site)]
    return [*api, *pages, passthrough_route(site)]


async def _openapi(_: Request) -> Reply:
    return json_reply(document(API_ROUTES))
