"""A process that may own the router of a service on PostgreSQL, and then serves it from memory.

All processes look at the same lease. One claims it when it is free: the heir that its owner has left it to, else the
one with the lowest number, else any. An owner that leaves answers the requests in progress, saves a snapshot and
releases the lease. A process stops serving by its own clock before its lease can be taken; if it does not notice that
in time, because it was stopped or suspended, the fence refuses what it writes.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Coroutine
from functools import partial
from secrets import token_urlsafe
from typing import Any

from bot_orch.clock import Clock, SystemClock
from bot_orch.core.events import Event
from bot_orch.log.events import encode_event
from bot_orch.log.stores.postgres.connect import split
from bot_orch.log.stores.postgres.leases import Claimed, LeaseTable, LeaseView
from bot_orch.log.stores.postgres.log import PostgresLog, clock_error
from bot_orch.service.cluster.forwarding import Forwarder, Member, process_name
from bot_orch.service.cluster.front import OwnedHereError
from bot_orch.service.cluster.heartbeat import Beat, HeartbeatThread, elapsed_s
from bot_orch.service.cluster.owner import RoundServer
from bot_orch.service.cluster.serving import Cluster, ServedRouter
from bot_orch.service.cluster.wire import Inherit
from bot_orch.service.config import Config
from bot_orch.service.problems import Problem

_log = logging.getLogger("bot_orch.cluster")
_LEASE, _SERVE, _BEAT = 0.6, 0.5, 0.1  # in lease_s: lease, own deadline, beats
_LONGEST_BEAT_S = 1.0
_STEADY = 3  # beats after an interruption, or without an owner, before a process claims what is not left to it
_LEAVE_S = 10.0
_LOOK_S = 0.05


class OwnerCluster(Cluster):
    """See :class:`bot_orch.service.cluster.serving.Cluster`.

    Parameters
    ----------
    config
        The settings of this process.
    forwarder
        Passes requests on.
    folder, path
        Of the sockets of the workers of this machine, and the path of this one's; empty without workers.
    rounds_port
        Where it takes chats of fronts; 0 lets the system choose.
    clock
        Stamps events. While it is ahead of the server's, this process does not own the router.
    """

    def __init__(
        self,
        config: Config,
        forwarder: Forwarder,
        *,
        folder: str = "",
        path: str = "",
        rounds_port: int = 0,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(forwarder)
        self._url, self._folder, self._path = config.database, folder, path
        self._host, self._bound = config.cluster.address or _host(config.listen.host), config.listen.host
        self._rounds, self._rounds_port = RoundServer(token_urlsafe(24)), rounds_port
        self._server: asyncio.Server | None = None
        self._grace_s = config.limits.grace_s
        self._clock, self._clock_s = clock or SystemClock(), split(config.database).timing.clock_s
        self._clock_error: Exception | None = None
        self._lease_s = split(config.database).timing.lease_s
        self._table = LeaseTable(config.database, _LEASE * self._lease_s)
        self._thread: HeartbeatThread | None = None
        self._every_s = min(_BEAT * self._lease_s, _LONGEST_BEAT_S)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._router: ServedRouter | None = None
        self._until, self._address = 0.0, ""
        self._held: Claimed | None = None
        self._serves = False
        self._busy: asyncio.Task[None] | None = None
        self._bequests: set[asyncio.Task[None]] = set()  # under way
        self._free = 0  # heartbeats without an owner
        self._refused = 0.0  # until when
        self._good, self._listening, self._leaving = 0, False, False
        self._view = LeaseView(None, {})

    async def start(self, router: ServedRouter) -> None:
        """Join; see :class:`Cluster`."""
        self._router, self._loop = router, asyncio.get_running_loop()
        self.forwarder.directory.own = await asyncio.to_thread(self._join, process_name())
        self._rounds.current = lambda: router.runtime
        self._server = await self._loop.create_server(self._rounds.protocol, self._bound, self._rounds_port)
        self.forwarder.problem = "this process has not joined the others yet"
        self._thread = HeartbeatThread(
            self._table, self._every_s, self._post, failed=self._post_failure, clock=self._clock
        )

    def _join(self, name: str) -> int:
        number = self._table.join(name, "")
        ours_us = self._clock.now_us()
        error = clock_error((ours_us - self._table.beat("", None).clock_us) / 1e6, self._clock_s)
        if error is not None:
            self._table.leave()
            raise error
        return number

    def listening(self, port: int) -> None:
        """Join the cluster: other processes can reach this one at its port."""
        if self._thread is None or self._listening:
            return
        host = self._host if ":" in self._host.rpartition("]")[2] else f"{self._host}:{port}"
        rounds = 0 if self._server is None else self._server.sockets[0].getsockname()[1]
        self._address = self._thread.address = f"{host} {rounds} {self._rounds.secret} {self._path}".rstrip()
        self._listening = True
        self._thread.start()

    async def leave(self) -> None:
        """Hand the router over to another process; requests are forwarded to it."""
        if self._leaving or self._thread is None:
            return
        self._leaving = True
        self._thread.address = ""  # nobody leaves the router to this process from now on
        try:
            async with asyncio.timeout(self._grace_s + _LEAVE_S):
                if self._busy is not None:
                    await asyncio.wait([self._busy])
                if self._held is not None:
                    await self._begin(self._give(min(self._others(), default=None)))
        except TimeoutError:
            _log.warning("the router was not released in time")

    async def close(self) -> None:
        """End."""
        if self._bequests:
            await asyncio.wait(self._bequests, timeout=_LEAVE_S)
        if self._thread is not None:
            self._thread.end()
            if self._thread.is_alive():
                await asyncio.to_thread(self._thread.join, 2.0)
        if self._server is not None:
            self._server.close()
        self._rounds.close()
        await self.forwarder.close()

    def _post(self, beat: Beat) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._seen, beat)

    def _post_failure(self, error: Exception) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._failed, error)

    def bequeath(self, event: Event) -> None:
        """See :class:`Cluster`."""
        task = asyncio.ensure_future(self._send_bequest(event))
        self._bequests.add(task)
        task.add_done_callback(self._bequests.discard)

    async def _send_bequest(self, event: Event) -> None:
        owners = self.forwarder.owners
        if owners is None:
            return
        try:
            (await owners.connection()).send(Inherit(0, encode_event(event)))
        except OwnedHereError:  # it came back
            self._rounds.inherit(event)
        except Problem as problem:
            _log.warning("an outcome found no owner", extra={"fields": {"detail": problem.message}})

    def has_heirs(self) -> bool:
        """See :class:`Cluster`."""
        return bool(self._others())

    def _others(self) -> list[int]:
        return [each.id for each in self._view.processes.values() if each.address and each.id != self._table.id]

    def _failed(self, error: Exception) -> None:
        if self._good:
            _log.error("heartbeat failed", extra={"fields": {"detail": str(error)}})
        self._good = 0
        if self._thread is not None:
            self._thread.answered = elapsed_s()
        if elapsed_s() >= self._until:
            self.forwarder.problem = "the table of owners cannot be reached"

    def _seen(self, beat: Beat) -> None:
        """Process the result of a heartbeat."""
        if self._thread is None or self._router is None:
            return
        self._thread.answered = elapsed_s()
        self._until, self._view = beat.began + _SERVE * self._lease_s, beat.view
        self._good += 1
        self.forwarder.problem = None
        held, lease = self._held, beat.view.lease
        mine = held is not None and lease is not None and (lease.owner, lease.epoch) == (self._table.id, held.epoch)
        if held is not None and not mine and beat.held == held and self._busy is None:
            self._begin(self._lose())
        self._publish()
        self._heed_clock(beat.ahead_s)
        if not self._leaving and self._clock_error is None:
            self._claim_if_free()

    def _heed_clock(self, ahead_s: float) -> None:
        """Give the router up while the clock is ahead of the server's: its events would move the log's time ahead.

        Without an address it is not left to this process; requests are still passed on.
        """
        before, self._clock_error = self._clock_error, clock_error(ahead_s, self._clock_s)
        if self._thread is not None:
            self._thread.address = self._address if self._clock_error is None and not self._leaving else ""
        if self._clock_error is not None:
            if before is None:
                _log.critical("does not own the router", extra={"fields": {"detail": str(self._clock_error)}})
            if self._held is not None and self._busy is None:
                self._begin(self._give(None))
        elif before is not None:
            _log.warning("the clock is right again", extra={"fields": {"ahead_s": ahead_s}})

    def _claim_if_free(self) -> None:
        """Claim the router if no process owns it, and this one should."""
        lease, own = self._view.lease, self._table.id
        owner = lease.owner if lease is not None and lease.valid else None
        self._free = self._free + 1 if owner is None else 0
        if self._busy is None and self._held is None and owner in (None, own) and self._may_claim():
            self._begin(self._take())

    def _may_claim(self) -> bool:
        """Whether the free router is for this process, or for one that does not claim it."""
        lease, own = self._view.lease, self._table.id
        ran_out = lease is not None and lease.owner not in (None, own)  # its owner may just be cut off, as we were
        if elapsed_s() < self._refused or (ran_out and self._good < _STEADY):
            return False
        able = {*self._others(), own}
        heir = lease.heir if lease is not None and lease.owner is None else None
        return own == (heir if heir in able else min(able)) or self._free > _STEADY

    async def _take(self) -> None:
        """Claim the router and serve it."""
        if self._thread is None or self._router is None:
            return
        claimed = await asyncio.wrap_future(self._thread.claim())
        if claimed is None:
            return
        began = elapsed_s()
        self._held = claimed
        try:
            log = await asyncio.to_thread(partial(PostgresLog, self._url, epoch=claimed.epoch))
            await self._router.take(log, partial(self._holds, claimed))
        except BaseException as error:
            self._held = None
            self._refused = elapsed_s() + self._lease_s
            fields = {"error": type(error).__name__, "detail": str(error)}
            _log.error("the router could not be taken", extra={"fields": fields})
            await asyncio.wrap_future(self._thread.release(claimed))
            return
        self._serves = True
        self._publish()
        took_s = round(elapsed_s() - began, 3)
        _log.info("serves the router", extra={"fields": {"epoch": claimed.epoch, "seconds": took_s}})

    async def _give(self, heir: int | None) -> None:
        """Hand the router over to another process."""
        if self._thread is None or self._router is None:
            return
        self._serves = False
        self._publish()
        await self._router.give()
        claimed, self._held = self._held, None
        if claimed is not None:
            released = self._thread.release(claimed, heir)
            while self._good and not released.done():  # a lease runs out by itself if the server is silent
                await asyncio.sleep(_LOOK_S)
            if released.done():
                released.result()
            _log.info("has left the router", extra={"fields": {"heir": heir}})

    async def _lose(self) -> None:
        """Stop serving the router, which another process now owns."""
        _log.warning("has lost the router")
        self._held, self._serves = None, False
        self._publish()
        if self._router is not None:
            await self._router.give()

    def _holds(self, claimed: Claimed) -> bool:
        return elapsed_s() < self._until and self._held is claimed

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self._busy = task = asyncio.ensure_future(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._busy = None
        if not task.cancelled() and task.exception() is not None:
            _log.error("the router was not moved", extra={"fields": {"detail": str(task.exception())}})

    def _publish(self) -> None:
        """Tell the forwarder who owns the router, and who is there."""
        lease, owner = self._view.lease, None
        if self._serves:
            owner = self._table.id
        elif lease is not None and lease.valid and lease.owner not in (None, self._table.id):
            owner = lease.owner
        others = [_member(each.id, each.address, self._folder) for each in self._view.processes.values()]
        self.forwarder.directory.set(owner, [each for each in others if each.address])


def _member(number: int, address: str, folder: str) -> Member:
    """The address of a process: its local socket if it is a worker of the same parent."""
    reach, port, secret, path = (*address.split(), "", "", "", "")[:4]
    rounds = f"{reach.rpartition(':')[0]}:{port} {secret}" if secret else ""
    near = bool(folder) and path.startswith(f"{folder}/")
    return Member(number, path if near else reach, near=near, rounds=rounds)


def _host(listen: str) -> str:
    """The host name under which other machines reach this one."""
    return socket.gethostname() if listen in ("", "0.0.0.0", "::") else f"[{listen}]" if ":" in listen else listen  # noqa: S104
