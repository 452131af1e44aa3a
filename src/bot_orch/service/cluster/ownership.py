"""A process that owns some routers of a service on PostgreSQL and serves them from memory.

Every process looks at the same table of leases and computes the same placement. It claims what is free and its own, and
leaves what another one should have: requests in progress are answered, a snapshot is saved, the lease is released for
the heir. A process stops serving by its own clock before its leases can be taken; if it does not notice that in time,
because it was stopped or suspended, the fence refuses what it writes.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Coroutine, Mapping, Sequence
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
from bot_orch.service.cluster.placement import RouterLoad, place
from bot_orch.service.cluster.routers import Cluster, Routers
from bot_orch.service.cluster.wire import Inherit
from bot_orch.service.config import Config
from bot_orch.service.problems import Problem
from bot_orch.service.runtime import Runtime

_log = logging.getLogger("bot_orch.cluster")
_LEASE, _SERVE, _BEAT, _SETTLE = 0.6, 0.5, 0.1, 0.5  # in lease_s: lease, own deadline, beats, least stay of a router
_LONGEST_BEAT_S = 1.0
_MOVES = 4  # at a time
_STEADY = 3  # beats after an interruption before leases that expired in the meantime are taken; beats before a move
_LEAVE_S = 10.0
_LOOK_S = 0.05


class OwnerCluster(Cluster):
    """See :class:`bot_orch.service.cluster.routers.Cluster`.

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
        Stamps events. While it is ahead of the server's, this process owns nothing.
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
        lease_s = split(config.database).timing.lease_s
        self._serve_s, self._settle_s = _SERVE * lease_s, _SETTLE * lease_s
        self._table = LeaseTable(config.database, _LEASE * lease_s)
        self._thread: HeartbeatThread | None = None
        self._every_s = min(_BEAT * lease_s, _LONGEST_BEAT_S)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._routers: Routers | None = None
        self._until, self._address = 0.0, ""
        self._held: dict[str, Claimed] = {}
        self._served: dict[str, float] = {}  # since when
        self._taken: dict[str, Runtime] = {}  # by the last move of each to this process
        self._goals: dict[str, tuple[int, float]] = {}  # where it should be, since when
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._heirs: dict[str, int] = {}  # of routers that are being left
        self._bequests: set[asyncio.Task[None]] = set()  # under way
        self._free: dict[str, int] = {}  # heartbeats without an owner
        self._refused: dict[str, float] = {}  # until when
        self._good, self._listening, self._leaving = 0, False, False
        self._view = LeaseView({}, {})
        self._meter = LoadMeter(tau_s=lease_s)

    @property
    def held(self) -> Mapping[str, Claimed]:
        """The routers that this process owns."""
        return self._held

    async def start(self, routers: Routers) -> None:
        """Join; see :class:`Cluster`."""
        self._routers, self._loop = routers, asyncio.get_running_loop()
        self.forwarder.directory.own = await asyncio.to_thread(self._join, process_name())
        self._rounds.routers = lambda: routers.routers
        self._server = await self._loop.create_server(self._rounds.protocol, self._bound, self._rounds_port)
        self.forwarder.problem = "this process has not joined the others yet"
        self._thread = HeartbeatThread(
            self._table, self._every_s, self._post, failed=self._post_failure, clock=self._clock
        )
        self._thread.on_message = self._post_message

    def _join(self, name: str) -> int:
        number = self._table.join(name, "")
        ours_us = self._clock.now_us()
        error = clock_error((ours_us - self._table.beat("", {}).clock_us) / 1e6, self._clock_s)
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
        """Hand all routers over to other processes; requests are forwarded to them."""
        if self._leaving or self._thread is None:
            return
        self._leaving = True
        self._thread.address = ""  # nothing is placed here from now on
        try:
            async with asyncio.timeout(self._grace_s + _LEAVE_S):
                while self._busy:
                    await asyncio.wait(self._busy.values())
                heirs = self._successors()
                for name in list(self._held):
                    self._begin(name, self._give(name, heirs.get(name)))
                while self._busy:
                    await asyncio.wait(self._busy.values())
        except TimeoutError:
            _log.warning("routers were not released in time", extra={"fields": {"routers": list(self._held)}})

    async def notify(self, messages: Sequence[bytes]) -> None:
        """See :class:`Cluster`."""
        if self._thread is not None:
            await asyncio.wrap_future(self._thread.notify([each.decode() for each in messages]))

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

    def _post_message(self, message: str) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._take_message, message)

    def _take_message(self, message: str) -> None:
        if self.on_message is not None:
            self.on_message(message.encode())

    def bequeath(self, router: str, event: Event) -> None:
        """See :class:`Cluster`."""
        task = asyncio.ensure_future(self._send_bequest(router, event))
        self._bequests.add(task)
        task.add_done_callback(self._bequests.discard)

    async def _send_bequest(self, router: str, event: Event) -> None:
        owners = self.forwarder.owners
        if owners is None:
            return
        try:
            (await owners.connection(router)).send(Inherit(0, router, encode_event(event)))
        except OwnedHereError:  # it came back
            self._rounds.inherit(router, event)
        except Problem as problem:
            _log.warning("an outcome found no owner", extra={"fields": {"router": router, "detail": problem.message}})

    def has_heirs(self) -> bool:
        """See :class:`Cluster`."""
        return bool(self._others())

    def _others(self) -> list[int]:
        return [each.id for each in self._view.processes.values() if each.address and each.id != self._table.id]

    def _successors(self) -> dict[str, int]:
        """The processes that should take over the routers of this one."""
        table = {}
        for name in {} if self._routers is None else self._routers.routers:
            lease = self._view.leases.get(self._stream(name))
            owner = lease.owner if lease is not None and lease.valid and lease.owner != self._table.id else None
            table[name] = RouterLoad(owner, 0.0 if lease is None else lease.load, None)
        return place(table, self._others())

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
        if self._thread is None or self._routers is None:
            return
        self._thread.answered = elapsed_s()
        self._until, self._view = beat.began + self._serve_s, beat.view
        self._good += 1
        self.forwarder.problem = None
        for name, claimed in list(self._held.items()):
            lease = beat.view.leases.get(self._stream(name))
            mine = lease is not None and (lease.owner, lease.epoch) == (self._table.id, claimed.epoch)
            if not mine and beat.held.get(claimed.stream) == claimed.epoch and name not in self._busy:
                self._begin(name, self._lose(name))
        if self.configured is not None and not self._leaving:
            self._thread.config, self._thread.problem = self.configured(beat.view.config)
        self._measure(self._thread)
        self._publish()
        self._heed_clock(beat.ahead_s)
        if not self._leaving and self._clock_error is None:
            self._place()

    def _heed_clock(self, ahead_s: float) -> None:
        """Give up all routers while the clock is ahead of the server's: their events would move the log's time ahead.

        Without an address nothing is placed here; requests are still passed on.
        """
        before, self._clock_error = self._clock_error, clock_error(ahead_s, self._clock_s)
        if self._thread is not None:
            self._thread.address = self._address if self._clock_error is None and not self._leaving else ""
        if self._clock_error is not None:
            if before is None:
                _log.critical("owns no routers", extra={"fields": {"detail": str(self._clock_error)}})
            for name in [each for each in self._held if each not in self._busy]:
                self._begin(name, self._give(name, None))
        elif before is not None:
            _log.warning("the clock is right again", extra={"fields": {"ahead_s": ahead_s}})

    def _place(self) -> None:
        """Claim and give up routers to reach the planned placement."""
        routers = self._routers.routers if self._routers is not None else {}
        leases, own = self._view.leases, self._table.id
        table = {}
        for name in routers:
            lease = leases.get(self._stream(name))
            owner = lease.owner if lease is not None and lease.valid else None
            owner_soon = self._heirs.get(name, owner)  # a move that was decided counts from then on
            table[name] = (
                RouterLoad(owner_soon, 0.0, None) if lease is None else RouterLoad(owner_soon, lease.load, lease.heir)
            )
            self._free[name] = self._free.get(name, 0) + 1 if owner is None else 0
        placed = place(table, [each.id for each in self._view.processes.values() if each.address or each.id == own])
        for name, held in table.items():
            goal = placed.get(name, own)
            if name in self._busy:
                continue
            if name in self._held:
                if self._should_give(name, goal) and len(self._busy) < _MOVES:
                    self._begin(name, self._give(name, goal))
            elif held.owner in (None, own) and self._may_claim(name, goal):
                self._begin(name, self._take(name))
        for name in [each for each in self._held if each not in routers and each not in self._busy]:
            self._begin(name, self._forget(name))

    def _should_give(self, name: str, goal: int) -> bool:
        """Whether to give up a router: it has been here for a while, and its goal has been elsewhere for some beats.

        Loads of other processes are a beat old, so that a burst looks uneven at first.
        """
        now, known = elapsed_s(), self._goals.get(name, (goal, elapsed_s()))
        self._goals[name] = known if known[0] == goal else (goal, now)
        if goal == self._table.id or now - self._served.get(name, now) < self._settle_s:
            return False
        return now - self._goals[name][1] >= _STEADY * self._every_s

    def _may_claim(self, name: str, goal: int) -> bool:
        """Whether to claim a router without an owner: one of ours, or one that its own process does not claim."""
        lease, own = self._view.leases.get(self._stream(name)), self._table.id
        ran_out = lease is not None and lease.owner not in (None, own)  # its owner may just be cut off, as we were
        if elapsed_s() < self._refused.get(name, 0.0) or (ran_out and self._good < _STEADY):
            return False
        return goal == own or self._free[name] > _STEADY

    async def _take(self, name: str) -> None:
        """Claim a router and serve it."""
        if self._thread is None or self._routers is None:
            return
        claimed = await asyncio.wrap_future(self._thread.claim(self._stream(name)))
        if claimed is None:
            return
        began = elapsed_s()
        self._held[name] = claimed
        try:
            url = self._routers.routers[name].config.database
            log = await asyncio.to_thread(partial(PostgresLog, url, epoch=claimed.epoch))
            self._taken[name] = await self._routers.take(name, log, partial(self._holds, name, claimed))
        except BaseException as error:
            self._held.pop(name, None)
            self._refused[name] = elapsed_s() + 2 * self._settle_s
            fields = {"router": name, "error": type(error).__name__, "detail": str(error)}
            _log.error("a router could not be taken", extra={"fields": fields})
            await asyncio.wrap_future(self._thread.release(self._stream(name), claimed))
            return
        self._served[name] = elapsed_s()
        self._publish()
        took_s = round(elapsed_s() - began, 3)
        _log.info("serves a router", extra={"fields": {"router": name, "epoch": claimed.epoch, "seconds": took_s}})

    async def _give(self, name: str, heir: int | None) -> None:
        """Hand a router over to another process."""
        if self._thread is None or self._routers is None:
            return
        self._served.pop(name, None)
        self._goals.pop(name, None)
        self._publish()
        if heir is not None:
            self._heirs[name] = heir
        try:
            await self._routers.give(name)
            claimed = self._held.pop(name, None)
            if claimed is not None:
                released = self._thread.release(self._stream(name), claimed, heir)
                while self._good and not released.done():  # a lease runs out by itself if the server is silent
                    await asyncio.sleep(_LOOK_S)
                if released.done():
                    released.result()
                _log.info("has left a router", extra={"fields": {"router": name, "heir": heir}})
        finally:
            self._heirs.pop(name, None)

    async def _lose(self, name: str) -> None:
        """Stop serving a router that another process now owns."""
        _log.warning("has lost a router", extra={"fields": {"router": name}})
        self._held.pop(name, None)
        self._served.pop(name, None)
        self._publish()
        if self._routers is not None:
            await self._routers.give(name)

    async def _forget(self, name: str) -> None:
        """Release the lease of a router that is no longer configured, once it is closed."""
        claimed = self._held.pop(name)
        self._served.pop(name, None)
        runtime, until = self._taken.pop(name, None), elapsed_s() + self._grace_s
        while runtime is not None and not runtime.closed and elapsed_s() < until:
            await asyncio.sleep(_LOOK_S)
        if self._thread is not None:
            await asyncio.wrap_future(self._thread.release(self._stream(name), claimed))

    def _holds(self, name: str, claimed: Claimed) -> bool:
        return elapsed_s() < self._until and self._held.get(name) is claimed

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._busy[name] = task
        task.add_done_callback(partial(self._ended, name))

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        self._busy.pop(name, None)
        if not task.cancelled() and task.exception() is not None:
            fields = {"router": name, "detail": str(task.exception())}
            _log.error("a router was not moved", extra={"fields": fields})

    def _publish(self) -> None:
        """Send the current owners to the forwarder."""
        routers = {} if self._routers is None else self._routers.routers
        owners = {}
        for name in routers:
            lease = self._view.leases.get(self._stream(name))
            if name in self._served:
                owners[name] = self._table.id
            elif lease is not None and lease.valid and lease.owner not in (None, self._table.id):
                owners[name] = lease.owner
        others = [_member(each.id, each.address, self._folder) for each in self._view.processes.values()]
        self.forwarder.directory.set(
            {name: owner for name, owner in owners.items() if owner is not None},
            [each for each in others if each.address],
        )

    def _measure(self, thread: HeartbeatThread) -> None:
        routers = {} if self._routers is None else self._routers.routers
        rows = {name: routers[name].ledger.seq for name in self._served if name in routers and routers[name].loaded}
        known = {name: lease.load for name in self._held if (lease := self._view.leases.get(self._stream(name)))}
        loads = known | self._meter.loads(rows, known)  # a router that is being taken or left weighs what it did
        thread.loads = {self._held[name].stream: load for name, load in loads.items() if name in self._held}

    def _stream(self, router: str) -> str:
        if self._routers is None or router not in self._routers.routers:
            return router
        return split(self._routers.routers[router].config.database).stream


class LoadMeter:
    """CPU use of each router, smoothed: the process's CPU use times the router's share of the rows.

    Examples
    --------
    >>> LoadMeter(tau_s=10.0).loads({"just taken": 1000}, {"just taken": 0.3})
    {'just taken': 0.3}
    """

    def __init__(self, tau_s: float) -> None:
        self._tau_s = tau_s
        self._at, self._used = elapsed_s(), time.process_time()
        self._rows: dict[str, int] = {}
        self._loads: dict[str, float] = {}

    def loads(self, rows: Mapping[str, int], known: Mapping[str, float]) -> dict[str, float]:
        """CPU use by router, from numbers of rows; a router that is new here starts from its ``known`` use."""
        now, used = elapsed_s(), time.process_time()
        passed_s = max(now - self._at, 1e-6)
        new = {name: max(0, count - self._rows.get(name, count)) for name, count in rows.items()}
        share = (used - self._used) / passed_s / max(1, sum(new.values()))
        keep = max(0.0, 1.0 - passed_s / self._tau_s)
        self._loads = {
            name: keep * self._loads[name] + (1.0 - keep) * count * share
            if name in self._loads
            else known.get(name, 0.0)
            for name, count in new.items()
        }
        self._at, self._used, self._rows = now, used, dict(rows)
        return self._loads


def _member(number: int, address: str, folder: str) -> Member:
    """The address of a process: its local socket if it is a worker of the same parent."""
    reach, port, secret, path = (*address.split(), "", "", "", "")[:4]
    rounds = f"{reach.rpartition(':')[0]}:{port} {secret}" if secret else ""
    near = bool(folder) and path.startswith(f"{folder}/")
    return Member(number, path if near else reach, near=near, rounds=rounds)


def _host(listen: str) -> str:
    """The host name under which other machines reach this one."""
    return socket.gethostname() if listen in ("", "0.0.0.0", "::") else f"[{listen}]" if ":" in listen else listen  # noqa: S104
