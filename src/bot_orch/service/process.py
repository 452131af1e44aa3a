"""The server process: announces its address, reloads on SIGHUP, drains requests at a stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable
from typing import Any

import uvicorn

from bot_orch.errors import BotOrchError
from bot_orch.service.cluster.routers import Cluster
from bot_orch.service.cluster.workers import Worker
from bot_orch.service.runtime import Runtime

__all__ = ["ServiceProcess"]

_log = logging.getLogger("bot_orch.service")
_LAST_S = 5.0


class ServiceProcess(uvicorn.Server):
    """A uvicorn server around a runtime.

    After a signal no connection is accepted, and requests go on for ``limits.grace_s``. Then calls of agents are ended:
    streams get an ``error`` event, other requests 503; rounds in the background continue after the restart.

    Parameters
    ----------
    settings
        Configuration of uvicorn.
    runtime
        The service.
    worker
        What it shares with other workers behind the same port.
    cluster
        The other processes of the service.
    """

    def __init__(
        self,
        settings: uvicorn.Config,
        runtime: Runtime,
        worker: Worker | None = None,
        *,
        cluster: Cluster | None = None,
    ) -> None:
        self._grace_s = runtime.config.limits.grace_s
        settings.timeout_graceful_shutdown = max(1, round(self._grace_s + _LAST_S))
        super().__init__(settings)
        self._runtime, self._worker, self._cluster = runtime, worker, cluster
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
        for each in self._runtime.peers.values() or (self._runtime,):
            await each.end_calls()

    def _heed_reloads(self) -> None:
        if self._runtime.reload is not None and threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._start_reload)

    def _start_reload(self) -> None:
        self._reloading = asyncio.create_task(self._reload(), name="reload")

    async def _reload(self) -> None:
        if self._runtime.reload is None:
            return
        try:
            await self._runtime.reload()  # it logs what has changed
        except (BotOrchError, OSError) as error:
            _log.error("reload refused; the old configuration goes on", extra={"fields": {"detail": str(error)}})
