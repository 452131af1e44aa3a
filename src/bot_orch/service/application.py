"""Assembly: the runtime with its queue, and the ASGI application with all routes."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from bot_orch.errors import BotOrchError
from bot_orch.service.api.gateway.passthrough import passthrough_route
from bot_orch.service.api.queue import QUEUE_ROUTES
from bot_orch.service.api.routes import API_ROUTES, ROUTES
from bot_orch.service.cluster.serving import Cluster, ServedRouter, begin
from bot_orch.service.config import Config
from bot_orch.service.configuring import LiveConfig
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


def make_app(
    runtime: Runtime,
    environment: Mapping[str, str] | None = None,
    *,
    read: Callable[[], Config] | None = None,
    cluster: Cluster | None = None,
) -> Starlette:
    """The ASGI application of a runtime; its lifespan starts and stops it.

    Tokens are read from ``environment``, by default that of the process. ``read`` reads the configuration again, for a
    reload. ``cluster`` are the other processes of the service.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            runtime.open_reports()
            if not runtime.away:
                await asyncio.to_thread(runtime.open)  # a server may take its time
            if cluster is not None:
                await cluster.start(router)
        except (BotOrchError, OSError, sqlite3.Error) as error:
            app.state.failure = error
            await runtime.stop()
            raise
        loading = None if runtime.away else asyncio.create_task(_load(app, runtime), name="load")  # 503 meanwhile
        try:
            yield
        finally:
            if cluster is not None:
                await cluster.leave()
                await cluster.drained()
            await router.drained()
            await asyncio.gather(*(each.stop() for each in {router.runtime, runtime}))
            if loading is not None:
                await loading
            if cluster is not None:
                await cluster.close()

    limits = runtime.config.limits
    gate = Gate(runtime.config.tokens, environment, limits, keys=KeyRing(lambda: site.runtime))
    site = Site(runtime, gate, BodyRoom(limits))
    app = asgi_app(_routes(site), lifespan, runtime)
    router = ServedRouter(site, cluster, serve=app.serve, make=make_runtime)
    if read is not None:
        runtime.reload = LiveConfig(router, gate, read, environment).reload
    app.state.router, app.state.failure, app.state.stop = router, None, None
    return app


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
