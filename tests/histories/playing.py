"""Play one history: replicas behind proxies on a real PostgreSQL, clients, and the faults of its plan."""

import asyncio
import contextlib
import os
import random
import re
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import nemesis
import psutil
from checking import BACK_S, successes
from clients import Client
from recorded import Fact, Fault, History, Stream
from replicas import Replica, ask

from bot_orch.eventlog.events import Censored, DecisionMade, FeedbackGiven
from bot_orch.eventlog.stores.open import open_log
from bot_orch.eventlog.verification import replay
from bot_orch.testing.tcp_proxy import LinkFault

TIMING = "hold_s=1&lease_s=1.5&query_s=1"
MODES = ("turns",)


@dataclass(frozen=True)
class Setting:
    """What kind of history it is."""

    seed: int
    mode: str
    replicas: int
    seconds: float
    routers: tuple[str, ...] = ("default",)
    settle_s: float = 12.0  # for replicas to come back at the end

    @classmethod
    def of(cls, seed, seconds=15.0):
        """Drawn from the seed."""
        rng = random.Random(f"setting-{seed}")  # noqa: S311
        replicas = 3 if seconds >= 10 else 2
        return cls(seed, rng.choice(MODES), replicas, seconds, ("default", "support", "code")[: rng.randint(1, 3)])


class Play:
    """One history on a server of PostgreSQL (see tests/postgres/pg_running.py) that it has for itself."""

    def __init__(self, setting, pg, forker, prepare=None):
        self.setting, self.pg, self.forker, self.prepare = setting, pg, forker, prepare
        self.history = History(setting.seed, setting.mode, setting.replicas)
        self.url, self.states, self._server = "", {}, asyncio.Lock()

    def run(self):
        return asyncio.run(self._run())

    async def _run(self):
        with tempfile.TemporaryDirectory() as folder:
            self.folder = Path(folder)
            self.url = await asyncio.to_thread(self.pg.database)
            socket = Path(re.search(r"host=([^&]+)", self.url)[1]) / ".s.PGSQL.5432"
            self.replicas = [
                Replica(number, self.folder, self.forker, str(socket)) for number in range(self.setting.replicas)
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
            each.write(self._database, routers=self.setting.routers[1:])
        self.replicas[0].start()
        await self.replicas[0].ready()
        if self.prepare is not None:
            await asyncio.to_thread(self.prepare, self.url)
        for each in self.replicas[1:]:
            each.start()
        for each in self.replicas:
            await each.ready()
        ports, routers = [each.port for each in self.replicas], self.setting.routers
        clients = [Client(f"p{i}", history, ports, routers=routers, keeps_to=i) for i in range(len(ports))]
        clients += [Client(f"c{i}", history, ports, routers=routers) for i in range(2)]
        async with asyncio.TaskGroup() as group:
            for client in clients:
                group.create_task(client.run(done))
            supervisors = [group.create_task(each.supervise()) for each in self.replicas]
            history.begun, history.first_us = time.monotonic(), time.time_ns() // 1000
            await self._faults()
            await self._settle()
            history.ended = time.monotonic()
            done.set()
            for each in supervisors:
                each.cancel()
        await self._states()
        for each in self.replicas:
            each.signal(signal.SIGTERM)
        for each in self.replicas:
            if not await each.ends(signal.SIGTERM):
                history.problems.append(f"replica {each.number} ignores SIGTERM")

    async def _faults(self):
        plan = nemesis.plan(self.setting.seed, replicas=self.setting.replicas, seconds=self.setting.seconds)
        async with asyncio.TaskGroup() as group:
            for each in plan:
                group.create_task(self._fault(each))
            await self._sleep_until(self.setting.seconds)

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
        for router in self.setting.routers:
            url = self.url if router == self.setting.routers[0] else f"{self.url}&stream={router}"
            stream = Stream(router, [], states=self.states.get(router, {}))
            with contextlib.closing(open_log(url)) as log:
                stream.facts = [fact_of(row) for row in log.read()]
                found = replay(log)
            stream.fingerprint = found.fingerprint
            stream.derived = "; ".join(map(str, (*found.damaged[:2], *found.mismatches[:2])))
            self.history.streams.append(stream)


def fact_of(row):
    """What the checks look at."""
    fact, event = Fact(row.seq, row.time_us, row.kind), row.event()
    match event:
        case DecisionMade():
            fact.kind, fact.id, fact.task, fact.agent = "decision", event.id, event.task.id, event.agent
            fact.propensity = float(event.column("propensity")[event.agents.index(event.agent)])
        case FeedbackGiven():
            fact.kind, fact.id, fact.about, fact.effect = "feedback", event.id, event.decision_id, event.effect
        case Censored():
            fact.kind, fact.about = "censored", event.decision_id
    return fact


def kill(pg):
    """A power cut."""
    pg.kill()


def stop(pg):
    """An orderly, quick stop of the server: sessions are ended, nothing is recovered afterwards."""
    process = psutil.Process(pg.server.get_pid())
    os.kill(process.pid, signal.SIGINT)
    process.wait(60)
