"""Take-over of a router with a long log by another process: the last snapshot and the tail, beside folding the log.

A stream in PostgreSQL is written by the ledger and the log themselves: decisions of the default policy, outcomes of
nine in ten (up to 50 rounds later), keys of every fourth decision and of every outcome, over the last 20 hours, so that
the tenth without an outcome is pending; snapshots are saved when the service would save them. Then processes that own
routers are started on it. ``stop``: the owner gets SIGTERM. ``kill``: the owner gets SIGKILL under load, when the tail
behind its last snapshot is about as long as it gets. Each time the other process is asked for decisions all the time.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from _harness import Bench

from bot_orch.core.events import Event, FeedbackGiven, as_recorded, record_decision, record_task
from bot_orch.log.events import encode_event
from bot_orch.log.ids import time_ordered_id
from bot_orch.log.ledger import Ledger, change_to, fold, snapshot_due
from bot_orch.log.log import Row
from bot_orch.log.stores.postgres.log import PostgresLog
from bot_orch.service.build import make_orchestrator
from bot_orch.service.config import Config, load_config
from bot_orch.types import Task
from postgres import fresh, postgres
from service import _wait

MILLION, AGENTS, BOUND_S = 1_000_000, 4, 5.0
GROUP, SPAN_S, LATEST = 1000, 20 * 3600.0, 50
PORT = 18_360
ANSWERED, KEYED = 0.9, 0.25
FOLDED = 50_000  # events of the log that are folded for the peer; the rest is extrapolated


@dataclass
class Built:
    """A log that was written, and its snapshots: (events since the one before, bytes, seconds of processor)."""

    seq: int = 0
    pending: int = 0
    took_s: float = 0.0
    snapshots: list[tuple[int, int, float]] = field(default_factory=list)
    full: int = 0


class Author:
    """Writes a stream.

    Parameters
    ----------
    log, config
        Where to, and the settings of the service.
    events
        About how many.
    """

    def __init__(self, log: PostgresLog, config: Config, events: int) -> None:
        self._log, self._config, self._events, self._ledger = log, config, events, Ledger()
        self._rng = np.random.default_rng(0)
        self._step_us = int(SPAN_S * 1e6 / events)
        self._time_us = time.time_ns() // 1000 - int(SPAN_S * 1e6)
        self._rows: list[Row] = []
        self._saved = 0
        self._pool, self._writing = ThreadPoolExecutor(1), Future[None]()
        self._writing.set_result(None)

    def write(self) -> Built:
        """Write all of it; what is committed is written in a thread meanwhile."""
        built, begun, waiting = Built(), time.perf_counter(), dict[int, list[str]]()
        change = change_to(None, make_orchestrator(self._config))
        if change is None:
            raise SystemExit("there are no settings to begin with")
        self._put(change, "")
        number = 0
        while self._ledger.seq < self._events:
            self._decide(number, waiting)
            for name in waiting.pop(number, ()):
                self._report(name)
            number += 1
            if len(self._rows) >= GROUP:
                self._flush(built)
        for name in [each for names in waiting.values() for each in names]:
            self._report(name)
        self._flush(built)
        self._writing.result()
        self._pool.shutdown()
        built.seq, built.pending = self._ledger.seq, len(self._ledger.pending)
        built.took_s = time.perf_counter() - begun
        newest = self._log.snapshot()
        if newest is not None:
            built.full = len(newest.body)
        return built

    def _decide(self, number: int, waiting: dict[int, list[str]]) -> None:
        rng, router, n = self._rng, self._ledger.router, self._config.router.n_features
        task = as_recorded(Task(f"t-{number}", features=tuple(rng.normal(size=n).tolist())))
        made = router.prepare(task, decision_id=time_ordered_id(self._time_us, rng.bytes(8)))
        event = record_decision(made, record_task(task))
        chance, key = rng.random(2), None
        if chance[0] < KEYED:
            key = f"order-{number}"
        self._put(event, event.id, made=made, key=key)
        if chance[1] < ANSWERED:
            waiting.setdefault(number + int(rng.integers(LATEST)), []).append(event.id)

    def _report(self, decision_id: str) -> None:
        name = f"report-{decision_id}"
        reward, took_s = float(self._rng.random() < 0.7), float(self._rng.exponential())
        event = FeedbackGiven(name, decision_id, "learned", reward=reward, elapsed_s=took_s)
        self._put(event, decision_id, key=name)

    def _put(self, event: Event, ref: str, *, made: Any = None, key: str | None = None) -> None:
        self._time_us += self._step_us
        ledger, digest = self._ledger, None if key is None else bytes(16)
        ledger.apply(ledger.seq + 1, self._time_us, event, made)
        self._rows.append(Row(ledger.seq, self._time_us, event.kind, ref, encode_event(event), key, digest))

    def _flush(self, built: Built) -> None:
        self._writing.result()
        rows, self._rows = self._rows, []
        self._writing = self._pool.submit(self._commit, rows)
        limits, tail_s = self._config.limits, self._config.limits.snapshot_tail_s
        every, cost_s = limits.snapshot_every, built.snapshots[-1][2] if built.snapshots else 0.0
        if snapshot_due(self._ledger, self._saved, every=every, tail_s=tail_s, cost_s=cost_s):
            self._writing.result()
            begun = time.thread_time()
            snapshot = self._ledger.snapshot()
            self._log.save(snapshot)
            cost_s = time.thread_time() - begun
            built.snapshots.append((snapshot.seq - self._saved, len(snapshot.body), cost_s))
            self._saved = snapshot.seq

    def _commit(self, rows: list[Row]) -> None:
        self._log.append(rows)
        self._log.commit()


class Owner:
    """A service in a process of its own; its log lines are kept.

    Parameters
    ----------
    folder, url, port
        Of its files, the database and where it listens.
    """

    def __init__(self, folder: Path, url: str, port: int, *, features: int) -> None:
        self.port, self._lines = port, folder / f"{port}-{time.monotonic_ns()}.log"
        config = settings(folder, url, port, features=features)
        begun = time.perf_counter()
        command = [sys.executable, "-m", "bot_orch", "serve", str(config)]
        with self._lines.open("w") as lines:
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=lines)  # noqa: S603
        _wait(port, seconds=600.0)
        self.started_s = time.perf_counter() - begun

    def said(self, message: str) -> dict[str, Any]:
        """The last of its log lines with this message; waits for the first."""
        end = time.monotonic() + 600
        while time.monotonic() < end:
            lines = [json.loads(line) for line in self._lines.read_text().splitlines() if line.endswith("}")]
            found = [line for line in lines if line["message"] == message]
            if found:
                return dict(found[-1])
            time.sleep(0.05)
        raise SystemExit(f"the process at port {self.port} never said {message!r}")

    def memory_mb(self, name: str = "VmRSS") -> float:
        """Resident memory, or its peak (``VmHWM``)."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return float(next(line.split()[1] for line in text.splitlines() if line.startswith(name))) / 1024

    def end(self, number: int = signal.SIGTERM) -> None:
        """Send a signal and wait for the end."""
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(120)


class Asking(threading.Thread):
    """Asks a process for one decision after the other; keeps when it got answers.

    Parameters
    ----------
    port
        Of the process.
    """

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port, self._done = port, threading.Event()
        self.answered: list[float] = []

    def run(self) -> None:
        """Ask until the end."""
        while not self._done.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
            with suppress(OSError, http.client.HTTPException):
                while not self._done.is_set():
                    connection.request("POST", "/v1/decisions", b"{}", {"content-type": "application/json"})
                    answer = connection.getresponse()
                    answer.read()
                    if answer.status == 200:
                        self.answered.append(time.time())
                    time.sleep(0.005)
            connection.close()

    def first_after(self, moment: float) -> float:
        """When the first answer after a moment came; waits for it."""
        end = time.time() + 600
        while time.time() < end:
            found = next((each for each in self.answered if each > moment), None)
            if found is not None:
                return found
            time.sleep(0.01)
        raise SystemExit("the other process did not take over")

    def stop(self) -> None:
        """End."""
        self._done.set()
        self.join()

    def longest_gap(self) -> float:
        """Seconds between two answers, at most."""
        return max(b - a for a, b in pairwise(self.answered))


class Watch:
    """Looks at leases and lengths in the database."""

    def __init__(self, url: str) -> None:
        import psycopg

        self._connection = psycopg.connect(url, autocommit=True)

    def lease(self) -> tuple[int | None, float]:
        """Owner of the router, and the end of its lease."""
        ask = "SELECT owner, extract(epoch FROM until)::float8 FROM bot_orch.leases WHERE stream = 1"
        owner, until = self._connection.execute(ask).fetchone() or (None, 0.0)
        return owner, until

    def released(self, owner: int | None) -> float:
        """When another process, or none, was seen to own the router."""
        while self.lease()[0] == owner:
            time.sleep(0.002)
        return time.time()

    def tail(self) -> int:
        """Events behind the newest snapshot."""
        ask = (
            "SELECT (SELECT max(seq) FROM bot_orch.events WHERE stream = 1)"
            " - coalesce((SELECT max(seq) FROM bot_orch.snapshots WHERE stream = 1), 0)"
        )
        found = self._connection.execute(ask).fetchone()
        return int(found[0]) if found else 0

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


LOAD = """
local ids, n = {}, 0
request = function()
  n = n + 1
  if #ids > 0 and n % 20 ~= 0 then
    local id = table.remove(ids)
    return wrk.format("POST", "/v1/feedback", nil, '{"decision_id": "' .. id .. '", "reward": 1, "elapsed_s": 1}')
  end
  return wrk.format("POST", "/v1/decisions", nil, "{}")
end
response = function(status, headers, body)
  local id = body:match('^{"id":"([^"]+)"')
  if status == 200 and id and body:find('"agent"') then ids[#ids + 1] = id end
end
"""


@contextmanager
def load(folder: Path, port: int, connections: int) -> Iterator[None]:
    """Decisions, and outcomes of nine in ten, as fast as they are answered."""
    (script := folder / "load.lua").write_text(LOAD)
    command = ["wrk", "-t1", f"-c{connections}", "-d600s", "-s", str(script), f"http://127.0.0.1:{port}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
    try:
        yield
    finally:
        process.kill()
        process.wait()


def settings(folder: Path, url: str, port: int, *, features: int) -> Path:
    """A configuration file: defaults, but for what a process needs."""
    document = {
        "version": 1,
        "database": url,
        "listen": {"port": port},
        "log_level": "info",
        "router": {"policy": "auto", "n_features": features, "floor": 0.02},
        "agents": [{"id": f"agent-{i}", "kind": "simulated"} for i in range(AGENTS)],
    }
    (file := folder / f"{port}.yaml").write_text(json.dumps(document))
    return file


class Run:
    """One run of everything."""

    def __init__(self, folder: Path, url: str, arguments: argparse.Namespace) -> None:
        self._folder, self._url, self._given, self._bench = folder, url, arguments, Bench("s")
        self._events = 0

    def build(self) -> None:
        """Write the log."""
        log = PostgresLog(fresh(self._url))
        config = load_config(str(settings(self._folder, self._url, PORT, features=self._given.features)))
        built = Author(log, config, self._given.events).write()
        log.close()
        self._events = built.seq
        print(f"log: {built.seq} events, {built.pending} decisions pending, written in {built.took_s:.0f} s")
        parts = built.snapshots[1:] or built.snapshots
        sizes, costs = ([each[i] for each in parts] for i in (1, 2))
        print(
            f"snapshots: {len(built.snapshots)}, one per {np.median([each[0] for each in parts]):.0f} events; "
            f"bytes written {np.median(sizes):.0f} (most {max(sizes)}), processor {np.median(costs):.3f} s "
            f"(most {max(costs):.3f}); a whole one has {built.full} bytes"
        )
        bench = Bench("kB")
        bench.row("one snapshot, beside a whole one", sizes[-1] / 1e3, built.full / 1e3, higher_is_better=False)

    def loads(self) -> float:
        """Seconds to load the state in this process, and to fold the whole log."""
        log = PostgresLog(self._url, read_only=True)
        self._events = log.last()[0]
        begun, cpu = time.perf_counter(), time.process_time()
        ledger = fold(log)
        took, spent = time.perf_counter() - begun, time.process_time() - cpu
        tail = ledger.seq - ledger.folded_from
        begun = time.perf_counter()
        folded = fold(log, upto=min(FOLDED, ledger.seq), use_snapshot=False)
        whole = (time.perf_counter() - begun) * ledger.seq / folded.seq
        log.close()
        print(f"loaded in this process: snapshot and {tail} events in {took:.2f} s, processor {spent:.2f} s")
        self._bench.row("load: snapshot and tail, beside the whole log", took, whole, higher_is_better=False)
        how = "" if folded.seq == ledger.seq else f", extrapolated from {folded.seq}"
        print(f"folding the whole log: {whole:.1f} s{how}", flush=True)
        return whole

    def moves(self, whole_s: float) -> None:
        """A stop, a kill, a fresh replica."""
        watch = Watch(self._url)
        living: list[Owner] = []
        try:
            living += [self._owner(PORT)]
            print(f"first owner: {_loaded(living[0])}, ready {living[0].started_s:.1f} s after its start")
            living += [self._owner(PORT + 1)]
            self._stop(living[0], living[1], watch)
            living += [self._owner(PORT)]
            self._kill(living[1], living[2], watch, whole_s)
            living[2].end()
        finally:
            for each in living:
                each.end()
            watch.close()

    def _owner(self, port: int) -> Owner:
        return Owner(self._folder, self._url, port, features=self._given.features)

    def _stop(self, owner: Owner, other: Owner, watch: Watch) -> None:
        asking, before, number = Asking(other.port), other.memory_mb(), watch.lease()[0]
        asking.start()
        time.sleep(2.0)
        told = time.time()
        owner.process.send_signal(signal.SIGTERM)
        released = watch.released(number)
        first = asking.first_after(released)
        time.sleep(1.0)
        asking.stop()
        owner.end()
        served = other.said("serves the router")["seconds"]
        print(
            f"stop: the lease was released {released - told:.2f} s after SIGTERM; {_loaded(other)}; serving {served} s "
            f"after the claim; longest gap between answers {asking.longest_gap():.2f} s; {_memory(other, before)}"
        )
        name = "stop: from the lease's end to the first decision, beside the bound"
        self._bench.row(name, first - released, BOUND_S, higher_is_better=False, need=1.0)

    def _kill(self, owner: Owner, other: Owner, watch: Watch, whole_s: float) -> None:
        before, tails, begun = other.memory_mb(), list[int](), time.time()
        with load(self._folder, owner.port, self._given.connections):
            while time.time() < begun + self._given.load_s:
                tails.append(watch.tail())
                if len(_peaks(tails)) >= 2 and tails[-1] >= 0.9 * max(_peaks(tails)):
                    break
                time.sleep(0.02)
            owner.end(signal.SIGKILL)
            killed = time.time()
        tail, (_, until) = watch.tail(), watch.lease()
        asking = Asking(other.port)
        asking.start()
        first = asking.first_after(killed)
        asking.stop()
        served = other.said("serves the router")["seconds"]
        print(
            f"kill: after {killed - begun:.0f} s of load, longest tails {_peaks(tails)}, at the kill {tail}; "
            f"{_loaded(other)}; serving {served} s after the claim; "
            f"first answer {first - killed:.2f} s after the kill; {_memory(other, before)}"
        )
        name = "kill: from the lease's end to the first decision, beside the bound"
        self._bench.row(name, first - until, BOUND_S, higher_is_better=False, need=1.0)
        self._bench.row(f"{name[:-16]}beside the whole log", first - until, whole_s, higher_is_better=False)

    def finish(self) -> None:
        """Print the bars."""
        self._bench.finish()
        busy = os.getloadavg()[1]
        print(f"{self._events} events, {AGENTS} agents, {self._given.features} features, cores {os.cpu_count()}")
        print(f"load of the machine over five minutes: {busy:.1f}")


def _peaks(tails: Sequence[int]) -> list[int]:
    """Lengths of the tail right before each snapshot."""
    return [a for a, b in pairwise(tails) if b < a]


def _loaded(owner: Owner) -> str:
    line = owner.said("loaded the log")
    took = f"{line['seconds']} s, processor {line['processor_s']} s"
    return f"snapshot of event {line['snapshot']} and {line['folded']} events loaded in {took}"


def _memory(owner: Owner, before: float) -> str:
    return f"memory {before:.0f} MB, then {owner.memory_mb():.0f} (peak {owner.memory_mb('VmHWM'):.0f})"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python benchmarks/takeover.py --events 20000 --load-s 5",
    )
    parser.add_argument("--events", type=int, default=MILLION, help="of the log (default: a million)")
    parser.add_argument("--features", type=int, default=0, help="of a task (default: none)")
    parser.add_argument("--load-s", type=float, default=120.0, help="longest load before the kill")
    parser.add_argument("--connections", type=int, default=32, help="of the load")
    parser.add_argument("--reuse", action="store_true", help="the log that an earlier run has left at --url")
    parser.add_argument("--url", help="a PostgreSQL to use; its schema bot_orch is dropped")
    arguments = parser.parse_args()
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is needed: apt-get install wrk")
    with postgres(arguments.url) as url, tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder), url, arguments)
        if not arguments.reuse:
            run.build()
        run.moves(run.loads())
        run.finish()


if __name__ == "__main__":
    main()
