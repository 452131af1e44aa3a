"""Play one history: replicas behind proxies on a real PostgreSQL, clients, and the faults of its plan."""

import asyncio
import contextlib
import os
import re
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import nemesis
import psutil
import psycopg
from checking import BACK_S, successes
from clients import Client
from recorded import Fact, Fault, History, Version
from replicas import POLICIES, VARIANTS, Replica, ask
from tcp_proxy import LinkFault

from bot_orch.core.events import Censored, DecisionMade, EventMismatchError, FeedbackGiven, Noted
from bot_orch.log.ledger import Ledger
from bot_orch.log.rollout import CONFIG_REVISION
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay

TIMING = "lease_s=1.5&query_s=1"
OWNED_S = 30.0


@dataclass(frozen=True)
class Setting:
    """What kind of history it is."""

    seed: int
    replicas: int
    seconds: float
    settle_s: float = 12.0  # for replicas to come back at the end
    without: tuple[str, ...] = ()  # promises to break: see forker.py
    faults: tuple[str, ...] = tuple(nemesis.KINDS)
    least_s: float = 0.4  # of a fault

    @classmethod
    def of(cls, seed, seconds=12.0):
        """One with this seed; a short one has two replicas."""
        return cls(seed, 3 if seconds >= 10 else 2, seconds)


class Play:
    """One history on a server of PostgreSQL (see tests/postgres/pg_running.py) that it has for itself."""

    def __init__(self, setting, pg, forker, prepare=None):
        self.setting, self.pg, self.forker, self.prepare = setting, pg, forker, prepare
        self.history = History(setting.seed, setting.replicas)
        self.url, self._server = "", asyncio.Lock()

    def run(self):
        return asyncio.run(self._run())

    async def _run(self):
        with tempfile.TemporaryDirectory() as folder:
            self.folder = Path(folder)
            self.url = await asyncio.to_thread(self.pg.database)
            socket = Path(re.search(r"host=([^&]+)", self.url)[1]) / ".s.PGSQL.5432"
            self.replicas = [
                Replica(number, self.folder, self.forker, str(socket), self.setting.without)
                for number in range(self.setting.replicas)
            ]
            async with contextlib.AsyncExitStack() as stack:
                for each in self.replicas:
                    await stack.enter_async_context(each.proxy)
                try:
                    await self._play()
                finally:
                    for each in self.replicas:
                        if each.alive:
                            each.signal(signal.SIGUSR1)
                            await asyncio.sleep(0.1)
                            await each.ends(signal.SIGKILL)
                    self.logs = "".join(f"== {each.log.name}\n{each.said()}" for each in self.replicas)
            self._read()
        return self.history

    def _database(self, port):
        name = re.search(r"/(\w+)\?", self.url)[1]
        return f"postgresql://postgres@127.0.0.1:{port}/{name}?{TIMING}"

    async def _play(self):
        history, done = self.history, asyncio.Event()
        self._write("first")
        self.replicas[0].start()
        await self.replicas[0].ready()
        if self.prepare is not None:
            await asyncio.to_thread(self.prepare, self.url)
        for each in self.replicas[1:]:
            each.start()
        for each in self.replicas:
            await each.ready()
        await self._owned()
        async with asyncio.TaskGroup() as group:
            for client in self._clients():
                group.create_task(client.run(done))
            supervisors = [group.create_task(each.supervise()) for each in self.replicas]
            history.begun, history.first_us = time.monotonic(), time.time_ns() // 1000
            await self._faults()
            await self._settle()
            history.ended = time.monotonic()
            done.set()
            for each in supervisors:
                each.cancel()
        await self._reloaded()
        await self._states()
        for each in self.replicas:
            each.signal(signal.SIGTERM)
        for each in self.replicas:
            if not await each.ends(signal.SIGTERM):
                history.problems.append(f"replica {each.number} ignores SIGTERM")

    def _write(self, variant):
        """Write the next revision of the configuration to the files of all replicas."""
        revision, policy = len(self.history.versions) + 1, POLICIES[self.setting.seed % 2]
        self.history.versions.append(Version(revision, list(VARIANTS[variant][0]), time.monotonic()))
        for each in self.replicas:
            each.write(self._database, policy=policy, variant=variant, revision=revision)

    async def _owned(self):
        """Until a replica owns the router."""
        async with asyncio.timeout(OWNED_S):
            while lease(self.url)[0] is None:
                await asyncio.sleep(0.05)

    def _clients(self):
        """Two that go around, and one for each replica that keeps to it, also while another one owns the router."""
        ports = [each.port for each in self.replicas]
        for i in range(2):
            yield Client(f"c{i}", self.history, ports)
        for i in range(len(ports)):
            yield Client(f"p{i}", self.history, ports, keeps_to=i, pace_s=0.08)

    async def _faults(self):
        seed, seconds = self.setting.seed, self.setting.seconds
        async with asyncio.TaskGroup() as group:
            kinds = {kind: nemesis.KINDS[kind] for kind in self.setting.faults}
            options = {"replicas": self.setting.replicas, "kinds": kinds, "least_s": self.setting.least_s}
            for each in nemesis.plan(seed, seconds=seconds, **options):
                group.create_task(self._fault(each))
            for each in nemesis.changes(seed, seconds=seconds, variants=list(VARIANTS)):
                group.create_task(self._change(each))
            await self._sleep_until(seconds)

    async def _change(self, planned):
        """Write new files and send SIGHUP; a replica that is starting at that moment ends, and is started again."""
        await self._sleep_until(planned.begin)
        self._write(planned.what)
        for each in self.replicas:
            if each.alive:
                each.signal(signal.SIGHUP)

    async def _sleep_until(self, second):
        await asyncio.sleep(max(0.0, self.history.begun + second - time.monotonic()))

    async def _fault(self, planned):
        await self._sleep_until(planned.begin)
        fault = Fault(planned.kind, planned.replica, time.monotonic(), time.monotonic() + 3600.0, planned.detail)
        fault.detail += f" {planned.number:g}" if planned.number else ""
        if planned.replica >= 0:
            self.history.faults.append(fault)
            await self._on_replica(self.replicas[planned.replica], planned, fault)
            return
        async with self._server:  # one at a time: a server that is starting cannot be stopped
            fault.begun = time.monotonic()
            self.history.faults.append(fault)
            await asyncio.to_thread(kill if planned.kind == "postgres-kill" else stop, self.pg)
            await asyncio.sleep(planned.end - planned.begin)
            await asyncio.to_thread(self.pg.revive)
            fault.ended = time.monotonic()

    async def _on_replica(self, replica, planned, fault):
        match planned.kind:
            case "kill":
                await replica.ends(signal.SIGKILL)
            case "stop":
                if not await replica.ends(signal.SIGTERM):
                    self.history.problems.append(f"replica {replica.number} ignores SIGTERM")
            case "freeze":
                replica.signal(signal.SIGSTOP)
            case "clock":
                replica.ahead(planned.number)
                if planned.detail == "restarted":
                    await replica.ends(signal.SIGKILL)
                    replica.start()
            case "swallow":
                sides = ("up", "down") if planned.detail == "both" else (planned.detail,)
                replica.proxy.set(LinkFault("swallow", directions=sides))
            case _:
                replica.proxy.set(LinkFault(planned.kind, delay_s=planned.number))
        await self._sleep_until(planned.end)
        fault.ended = time.monotonic()
        replica.proxy.set()
        replica.ahead(0.0)
        replica.signal(signal.SIGCONT)
        if not (replica.wanted and replica.alive):
            replica.start()

    async def _settle(self):
        """Until every replica has taken a write since its last fault, or it is too late for that."""
        healed = time.monotonic()
        while time.monotonic() - healed < self.setting.settle_s:
            written = successes(self.history)
            if all(written.get(each.number, [0.0])[-1] > healed for each in self.replicas):
                return
            await asyncio.sleep(0.05)

    async def _reloaded(self):
        """Until every replica has read its file again, or it is too late for that."""
        end, left = time.monotonic() + min(BACK_S, self.setting.settle_s), list(self.replicas)
        while left and time.monotonic() < end:
            with contextlib.suppress(OSError, TimeoutError):
                status, _ = await ask(left[0].port, "POST", "/v1/admin/reload", timeout=5.0)
                if status == 200:
                    left.pop(0)
                    continue
            await asyncio.sleep(0.05)

    async def _states(self):
        """The state at every replica, once all have folded everything."""
        end = time.monotonic() + min(BACK_S, self.setting.settle_s)
        found = {}
        while time.monotonic() < end:
            found = {}
            for each in self.replicas:
                with contextlib.suppress(OSError, TimeoutError):
                    status, state = await ask(each.port, "GET", "/v1/admin/state", timeout=5.0)
                    if status == 200:
                        found[str(each.number)] = (state["seq"], state["fingerprint"])
            self.history.stream.states = found
            if len(found) == len(self.replicas) and len({seq for seq, _ in found.values()}) == 1:
                return
            await asyncio.sleep(0.05)
        self.history.problems.append(f"replicas did not reach the same event: {found}")

    def _read(self):
        self.history.last_us = time.time_ns() // 1000
        stream = self.history.stream
        with contextlib.closing(open_log(self.url)) as log:
            stream.facts = [fact_of(row) for row in log.read()]
            found = replay(log)
            # what a client has given up may be written after the states were asked for
            seen = min((seq for seq, _ in stream.states.values()), default=len(stream.facts))
            stream.fingerprint = found.fingerprint if seen == len(stream.facts) else fingerprint_at(log, seen)
        stream.owners = lease(self.url)[1]
        stream.derived = "; ".join(map(str, (*found.damaged[:2], *found.mismatches[:2])))


def lease(url):
    """(owner, epoch) of the log; (None, 0) before it has had an owner."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT owner, epoch FROM bot_orch.leases").fetchone()
    connection.close()
    return found or (None, 0)


def fingerprint_at(log, seq):
    """That of the state after an event; empty if rows do not follow each other."""
    ledger = Ledger()
    try:
        for row in log.read():
            if row.seq <= seq:
                ledger.take(row)
    except EventMismatchError:
        return ""
    return ledger.fingerprint()


def fact_of(row):
    """What the checks look at."""
    fact, event = Fact(row.seq, row.time_us, row.kind), row.event()
    match event:
        case DecisionMade():
            fact.kind, fact.id, fact.task, fact.agent = "decision", event.id, event.task.id, event.agent
            fact.propensity = float(event.column("propensity")[event.agents.index(event.agent)])
            fact.agents = list(event.agents)
        case FeedbackGiven():
            fact.kind, fact.id, fact.about, fact.effect = "feedback", event.id, event.decision_id, event.effect
        case Censored():
            fact.kind, fact.about = "censored", event.decision_id
        case Noted() if event.topic == CONFIG_REVISION:
            fact.kind, fact.revision = "revision", int(event.data["revision"])
    return fact


def kill(pg):
    """A power cut."""
    pg.kill()


def stop(pg):
    """An orderly, quick stop of the server: sessions are ended, nothing is recovered afterwards."""
    process = psutil.Process(pg.server.get_pid())
    os.kill(process.pid, signal.SIGINT)
    process.wait(60)
