"""Runs the application under uvicorn; announces its address, reloads on SIGHUP, drains requests at a stop."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import logging
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from bot_orch.clock import SystemClock
from bot_orch.errors import BotOrchError, InvalidInputError, MissingExtraError

try:
    import uvicorn
    from uvicorn.protocols.http.auto import AutoHTTPProtocol
except ImportError as _error:  # pragma: no cover
    raise MissingExtraError("the service", "service") from _error

from bot_orch.log.stores.open import is_url
from bot_orch.log.stores.postgres.connect import hidden
from bot_orch.service.application import make_app, make_runtime
from bot_orch.service.build import check
from bot_orch.service.cluster.forwarding import Directory, Forwarder
from bot_orch.service.cluster.front import Owners
from bot_orch.service.cluster.ownership import OwnerCluster
from bot_orch.service.cluster.serving import Cluster, ServedRouter
from bot_orch.service.cluster.workers import Worker, WorkerCluster, serve_workers
from bot_orch.service.config import Config
from bot_orch.service.configuring import check_exposed, kept
from bot_orch.service.logs import configure_logs
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.connections import HEAD_BYTES, Connections

_NEVER_S = 86_400
_WAIT_S = 5.0  # for a router that starts or moves
_LAST_S = 5.0  # for what is left, after the grace
_AFTER_GRACE_S, _LONGEST_WAIT_S = 2.0, 30.0  # for the next owner, if the last one used its whole grace
_log = logging.getLogger("bot_orch.service")


def make_server(
    config: Config,
    *,
    environment: Mapping[str, str] | None = None,
    read: Callable[[], Config] | None = None,
    worker: Worker | None = None,
    **options: Any,
) -> Any:
    """A uvicorn server; ``options`` are passed to :class:`bot_orch.service.runtime.Runtime`.

    Tokens are read from ``environment``, by default that of the process. ``read`` reads the configuration again, for a
    reload. A ``worker`` shares its port with others.
    """
    check_exposed(config)
    runtime, cluster = _make_runtime(config, worker, **options)
    app = make_app(runtime, environment, read=read, cluster=cluster)
    settings = uvicorn.Config(
        app,
        host=config.listen.host,
        port=config.listen.port,
        access_log=False,
        log_config=None,
        lifespan="on",
        server_header=False,
        proxy_headers=False,  # nothing depends on the client's address
        date_header=False,
        loop="uvloop" if importlib.util.find_spec("uvloop") else "asyncio",
        http=Connections(config.limits, AutoHTTPProtocol),  # type: ignore[arg-type]  # called like a class
        ws="none",  # no route takes a WebSocket, and its protocol has none of these limits
        timeout_keep_alive=_NEVER_S,  # connections know their time themselves
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    server = ServiceProcess(settings, app.state.router, worker, cluster=cluster)
    app.state.stop = partial(setattr, server, "should_exit", True)
    return server


def _make_runtime(config: Config, worker: Worker | None, **options: Any) -> tuple[Runtime, Cluster | None]:
    """The router, and the cluster of processes if there are several."""
    runtime = make_runtime(config, **options)
    if is_url(config.database):
        near: dict[str, Any] = (
            {"folder": str(worker.folder), "path": worker.sockets[worker.number]} if worker is not None else {}
        )
        first, clock = config.cluster.port, options.get("clock") or SystemClock()
        port = first + (0 if worker is None else 2 * worker.number + 1) if first else 0
        wait_s = max(_WAIT_S, min(config.limits.grace_s + _AFTER_GRACE_S, _LONGEST_WAIT_S))
        forwarder = _forwarder(0, wait_s)
        cluster = OwnerCluster(config, forwarder, rounds_port=port, clock=clock, **near)
        runtime.away = True
        return runtime, cluster
    if worker is None:
        return runtime, None
    runtime.away = not worker.owns
    return runtime, WorkerCluster(worker, _forwarder(worker.number, _WAIT_S), grace_s=config.limits.grace_s)


def _forwarder(own: int, wait_s: float) -> Forwarder:
    directory = Directory(own)
    forwarder = Forwarder(directory, wait_s=wait_s)
    forwarder.owners = Owners(directory, wait_s=wait_s)
    return forwarder


def serve(
    config: Config,
    read: Callable[[], Config],
    say: Callable[[str], None],
    *,
    workers: int = 1,
) -> int:
    """Serve until a signal; returns the exit status. ``say`` gets the address once the service is listening."""
    if workers != 1:
        configure_logs(config.log_level)  # the parent says what becomes of its workers
        announce = lambda port: say(f"http://{config.listen.host}:{port} ({hidden(config.database)})")  # noqa: E731
        run = partial(_run, config, read)
        return serve_workers(workers, config, run=run, announce=announce)
    return _run(config, read, None, say=say)


def _run(
    config: Config,
    read: Callable[[], Config],
    worker: Worker | None,
    *,
    say: Callable[[str], None] | None = None,
) -> int:
    if worker is not None:
        config = _newest(config, read)
    configure_logs(config.log_level)
    # Thousands of pending decisions stay in memory; a full garbage collection over them would stall answers.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    server = make_server(config, read=read, worker=worker)
    if say is not None:
        server.announce = lambda port: say(f"http://{config.listen.host}:{port} ({hidden(config.database)})")
    elif worker is not None:
        server.announce = lambda _: worker.started()
    with one_reason(server, config):
        server.run(None if worker is None else [worker.shared])
    return 0 if server.started else 3


def _newest(config: Config, read: Callable[[], Config]) -> Config:
    """The settings for a worker: the file may have changed since its parent was started."""
    try:
        found = kept(config, read())
        check(found)
    except (BotOrchError, OSError) as error:
        _log.error("a worker starts with the old configuration", extra={"fields": {"detail": str(error)}})
        return config
    return found


@contextmanager
def one_reason(server: Any, config: Config) -> Iterator[None]:
    """Raise the reason if the server does not start because of the configuration.

    By itself uvicorn logs a traceback and exits.
    """
    state, logger = server.config.app.state, logging.getLogger("uvicorn.error")

    def keep(record: logging.LogRecord) -> bool:
        if not server.started and isinstance(record.msg, OSError):  # the address cannot be bound
            state.failure = record.msg
        return server.started or state.failure is None

    logger.addFilter(keep)
    try:
        yield
    except SystemExit:
        if state.failure is None:
            raise
    finally:
        logger.removeFilter(keep)
    if state.failure is not None:
        raise _reason(state.failure, config) from state.failure


def _reason(failure: Exception, config: Config) -> Exception:
    if isinstance(failure, BotOrchError) or not isinstance(failure, OSError | sqlite3.Error):
        return failure
    problem = str(getattr(failure, "strerror", None) or failure).rpartition(": ")[2]
    if isinstance(failure, OSError) and failure.filename is None:
        where = f"{config.listen.host}:{config.listen.port}"
        return InvalidInputError("listen", f"{where} cannot be used ({problem})", "choose another port with --port")
    what = f"{hidden(config.database)} cannot be used ({problem})"
    return InvalidInputError("database", what, "name a log of this service, or a file that it can make")


class ServiceProcess(uvicorn.Server):
    """A uvicorn server around a runtime.

    After a signal no connection is accepted, and requests go on for ``limits.grace_s``. Then calls of agents are ended:
    streams get an ``error`` event, other requests 503; rounds in the background continue after the restart.

    Parameters
    ----------
    settings
        Configuration of uvicorn.
    router
        The router of the service.
    worker
        What it shares with other workers behind the same port.
    cluster
        The other processes of the service.
    """

    def __init__(
        self,
        settings: uvicorn.Config,
        router: ServedRouter,
        worker: Worker | None = None,
        *,
        cluster: Cluster | None = None,
    ) -> None:
        self._grace_s = router.runtime.config.limits.grace_s
        settings.timeout_graceful_shutdown = max(1, round(self._grace_s + _LAST_S))
        super().__init__(settings)
        self._router, self._worker, self._cluster = router, worker, cluster
        self._reloading: asyncio.Task[None] | None = None
        self.announce: Callable[[int], None] | None = None

    async def startup(self, sockets: Any = None) -> None:
        """Open the log, listen, and announce the port."""
        self._heed_reloads()
        await super().startup(sockets)
        if self._worker is not None and self.started:
            await self._take_post(self._worker)
        if self._cluster is not None and self.started:
            reach = self._worker.reach if self._worker is not None else None
            self._cluster.listening((reach or self.servers[0].sockets[0]).getsockname()[1])
        if self.started and self.announce is not None:
            self.announce(self.servers[0].sockets[0].getsockname()[1])

    async def shutdown(self, sockets: Any = None) -> None:
        """Drain, then stop."""
        if self._cluster is not None:
            await self._cluster.leave()  # first: others answer what still comes in
        ending = asyncio.create_task(self._end_calls(), name="drain")
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()

    async def _take_post(self, worker: Worker) -> None:
        """Answer the other workers, and stop when the parent exits."""
        loop = asyncio.get_running_loop()
        self.servers.append(await loop.create_unix_server(self._protocol, sock=worker.listening))
        if worker.reach is not None:
            self.servers.append(await loop.create_server(self._protocol, sock=worker.reach))
        loop.add_reader(worker.parent, self._stop_alone)

    def _stop_alone(self) -> None:
        self.should_exit = True

    def _protocol(self) -> Any:
        settings, state = self.config, self.lifespan.state
        return settings.http_protocol_class(  # type: ignore[call-arg]
            config=settings, server_state=self.server_state, app_state=state
        )

    async def _end_calls(self) -> None:
        await asyncio.sleep(self._grace_s)
        await self._router.runtime.end_calls()

    def _heed_reloads(self) -> None:
        if self._router.runtime.reload is not None and threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._start_reload)

    def _start_reload(self) -> None:
        self._reloading = asyncio.create_task(self._reload(), name="reload")

    async def _reload(self) -> None:
        reload = self._router.runtime.reload
        if reload is None:
            return
        try:
            await reload()  # it logs what has changed
        except (BotOrchError, OSError) as error:
            _log.error("reload refused; the old configuration goes on", extra={"fields": {"detail": str(error)}})
