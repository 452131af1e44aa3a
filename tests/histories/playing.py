"""Play one history: replicas behind proxies on a real PostgreSQL, clients, and the faults of its plan."""

import asyncio
import contextlib
import json
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
from recorded import Change, Fact, Fault, History, Stream, Version
from replicas import VARIANTS, Replica, ask, document
from tcp_proxy import LinkFault

from bot_orch.core.events import Censored, DecisionMade, EventMismatchError, FeedbackGiven, Noted
from bot_orch.log.ledger import Ledger
from bot_orch.log.rollout import CONFIG_VERSION
from bot_orch.log.stores.open import open_log
from bot_orch.log.stores.postgres.configs import PostgresConfigs
from bot_orch.log.stores.postgres.connect import split
from bot_orch.log.verification import replay

TIMING = "lease_s=1.5&query_s=1"
SPREAD_S = 30.0
ROUTERS = ("default", "support", "code", "law")


@dataclass(frozen=True)
class Setting:
    """What kind of history it is."""

    seed: int
    replicas: int
    seconds: float
    routers: tuple[str, ...] = ROUTERS
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
        self.url, self.states, self._server = "", {}, asyncio.Lock()

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
        for each in self.replicas:
            each.write(self._database, routers=self.setting.routers)
        self.replicas[0].start(first=True)
        await self.replicas[0].ready()
        if self.prepare is not None:
            await asyncio.to_thread(self.prepare, self.url)
        for each in self.replicas[1:]:
            each.start()
        for each in self.replicas:
            await each.ready()
        await self._spread()
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
        await self._agreed()
        await self._states()
        for each in self.replicas:
            each.signal(signal.SIGTERM)
        for each in self.replicas:
            if not await each.ends(signal.SIGTERM):
                history.problems.append(f"replica {each.number} ignores SIGTERM")

    async def _spread(self):
        """Until every replica owns a router."""
        async with asyncio.timeout(SPREAD_S):
            while len({owner for owner, _ in leases(self.url).values()} - {None}) < len(self.replicas):
                await asyncio.sleep(0.05)

    def _clients(self):
        """Two that go around, and one for each router that keeps to a replica, from which the router may be away."""
        ports, routers = [each.port for each in self.replicas], self.setting.routers
        for i in range(2):
            yield Client(f"c{i}", self.history, ports, routers=routers)
        for i in range(len(ports)):
            for router in routers:
                name, pace_s = f"p{i}-{router}", 0.08 * len(routers)
                yield Client(name, self.history, ports, routers=(router,), keeps_to=i, pace_s=pace_s)

    async def _faults(self):
        seed, seconds = self.setting.seed, self.setting.seconds
        async with asyncio.TaskGroup() as group:
            kinds = {kind: nemesis.KINDS[kind] for kind in self.setting.faults}
            options = {"replicas": self.setting.replicas, "kinds": kinds, "least_s": self.setting.least_s}
            for each in nemesis.plan(seed, seconds=seconds, **options):
                group.create_task(self._fault(each))
            for number, each in enumerate(nemesis.changes(seed, seconds=seconds, variants=list(VARIANTS))):
                group.create_task(self._change(number, each))
            await self._sleep_until(seconds)

    async def _change(self, number, planned):
        """Apply a configuration, or the one before; who applies may be killed, and is at the end."""
        await self._sleep_until(planned.begin)
        file, log = self.folder / f"apply-{number}.yaml", self.folder / f"apply-{number}.log"
        rolls_back = planned.what == "rollback"
        variant, database = "first" if rolls_back else planned.what, f"{self.url}&{TIMING}"
        file.write_text(document(database, 1, routers=self.setting.routers, variant=variant))
        change = Change(planned.what, time.monotonic(), 0.0)
        self.history.changes.append(change)
        command = ["apply", file, *(["--rollback"] if rolls_back else [])]
        pid = self.forker.start(command=command, clock=self.replicas[0].clock, log=log)
        until = planned.begin + planned.killed_s if planned.killed_s else self.setting.seconds
        while psutil.pid_exists(pid) and time.monotonic() < self.history.begun + until:
            await asyncio.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        change.ended, change.detail = time.monotonic(), log.read_text() if log.exists() else ""
        if ended := re.search(r"^ended: (\d+)$", change.detail, re.MULTILINE):
            change.status = int(ended[1])
        if said := re.search(r"^version (\d+) applied", change.detail, re.MULTILINE):
            change.version = int(said[1])

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

    async def _agreed(self):
        """Until every replica runs the version in force, or it is too late for that."""
        end = time.monotonic() + min(BACK_S, self.setting.settle_s)
        with contextlib.closing(PostgresConfigs(self.url)) as store:
            while True:
                running = {int(each.name.rpartition(":")[2]): each.config for each in store.members(3600.0)}
                found = {str(each.number): running.get(each.pid, 0) for each in self.replicas}
                if set(found.values()) == {store.current().number} or time.monotonic() > end:
                    break
                await asyncio.sleep(0.05)
            self.history.running = found
            self.history.versions = [version_of(each) for each in reversed(store.history())]

    async def _states(self):
        """The state of every router at every replica, once all have folded everything."""
        for router in self.setting.routers:
            path = "/v1/admin/state" if router == self.setting.routers[0] else f"/r/{router}/v1/admin/state"
            end = time.monotonic() + min(BACK_S, self.setting.settle_s)
            while time.monotonic() < end:
                found = {}
                for each in self.replicas:
                    with contextlib.suppress(OSError, TimeoutError):
                        status, state = await ask(each.port, "GET", path, timeout=5.0)
                        if status == 200:
                            found[str(each.number)] = (state["seq"], state["fingerprint"])
                self.states[router] = found
                if len(found) == len(self.replicas) and len({seq for seq, _ in found.values()}) == 1:
                    break
                await asyncio.sleep(0.05)
            else:
                self.history.problems.append(f"{router}: replicas did not reach the same event: {found}")

    def _read(self):
        self.history.last_us = time.time_ns() // 1000
        owned = leases(self.url)
        for router in self.setting.routers:
            url = self.url if router == self.setting.routers[0] else f"{self.url}&stream={router}"
            stream = Stream(router, [], states=self.states.get(router, {}))
            with contextlib.closing(open_log(url)) as log:
                stream.facts = [fact_of(row) for row in log.read()]
                found = replay(log)
                # what a client has given up may be written after the states were asked for
                seen = min((seq for seq, _ in stream.states.values()), default=len(stream.facts))
                stream.fingerprint = found.fingerprint if seen == len(stream.facts) else fingerprint_at(log, seen)
            stream.owners = owned.get(split(url).stream, (None, 0))[1]
            stream.derived = "; ".join(map(str, (*found.damaged[:2], *found.mismatches[:2])))
            self.history.streams.append(stream)


def leases(url):
    """(owner, epoch) of every stream that has had an owner."""
    with psycopg.connect(url, autocommit=True) as connection:
        query = "SELECT name, owner, epoch FROM bot_orch.leases JOIN bot_orch.streams ON id = stream"
        found = {name: (owner, epoch) for name, owner, epoch in connection.execute(query)}
    connection.close()
    return found


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
        case Noted() if event.topic == CONFIG_VERSION:
            fact.kind, fact.version = "version", int(event.data["version"])
    return fact


def version_of(stored):
    """A version of the configuration, with the agents of each router."""
    whole = json.loads(stored.document)
    parts = {ROUTERS[0]: whole, **whole["routers"]}
    agents = {name: [each["id"] for each in part["agents"]] for name, part in parts.items()}
    return Version(stored.number, agents)


def kill(pg):
    """A power cut."""
    pg.kill()


def stop(pg):
    """An orderly, quick stop of the server: sessions are ended, nothing is recovered afterwards."""
    process = psutil.Process(pg.server.get_pid())
    os.kill(process.pid, signal.SIGINT)
    process.wait(60)
