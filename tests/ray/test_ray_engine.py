"""The Ray engine on a cluster of two nodes on this machine."""

import contextlib
import json
import logging
import os
import signal
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("ray")

from bot_orch.cli import main
from bot_orch.errors import BotOrchError
from bot_orch.lab.harness import engines_ray, runner
from bot_orch.lab.harness.experiment import Experiment, Scale, Unit
from bot_orch.lab.harness.tables import rows_from_seeds

pytestmark = pytest.mark.slow
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
UNITS = str(Path(__file__).parent / "units")
QUICK = ["reproduce", "--only", "triage-lambda", "--quick", "--quiet", "--jobs", "1"]


def jobs(function, count, **params):
    return [(f"ray_units:{function}", Unit(str(i), {"value": i, **params})) for i in range(count)]


@pytest.fixture(scope="module")
def machines():
    """A cluster of two nodes with one core each."""
    from ray.cluster_utils import Cluster

    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(UNITS)
        patch.setenv("PYTHONPATH", UNITS)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        made = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        try:
            made.add_node(**NODE)
            made.wait_for_nodes()
            yield made
        finally:
            ray.shutdown()
            made.shutdown()


@pytest.fixture
def cluster(machines):
    """Its address."""
    return machines.address


@pytest.fixture(scope="module")
def connected(machines):
    """Its address, while this process stays connected: later runs use the worker processes of earlier ones."""
    import ray

    ray.init(address=machines.address, log_to_driver=False, logging_level=logging.ERROR)
    yield machines.address
    ray.shutdown()


def test_units_run_on_every_node_each_once(cluster, tmp_path):
    import ray

    found = list(engines_ray.run_ray(jobs("where", 8, folder=str(tmp_path), nodes=2), 1, cluster))
    assert sorted(job[1].key for job, _ in found) == [str(i) for i in range(8)]
    assert {payload["value"] for _, payload in found} == {i**2 for i in range(8)}
    assert len({payload["node"] for _, payload in found}) == 2
    assert os.getpid() not in {payload["pid"] for _, payload in found}
    assert not ray.is_initialized(), "who connected disconnects"


def test_same_bytes_as_the_local_engine(cluster, tmp_path, capfd):
    assert main([*QUICK, "--out", str(tmp_path / "local")]) == 0
    assert main([*QUICK, "--out", str(tmp_path / "ray"), "--engine", "ray", "--address", cluster]) == 0
    assert (tmp_path / "ray/tables.csv").read_bytes() == (tmp_path / "local/tables.csv").read_bytes()
    lines = {name: (tmp_path / name / "results.jsonl").read_text().splitlines() for name in ("local", "ray")}
    assert sorted(lines["ray"]) == sorted(lines["local"])
    assert capfd.readouterr().err == "", "Ray keeps quiet"


def test_a_killed_worker_loses_nothing_and_counts_nothing_twice(connected, tmp_path, monkeypatch):
    notes = tmp_path / "notes"
    notes.mkdir()
    experiment = _experiment(monkeypatch, notes, count=12, sleep_s=0.05)
    (notes / "doomed-unit").write_text("4")
    killed = []
    killer = threading.Thread(daemon=True, target=_kill_first, args=(notes, killed))
    killer.start()
    plan = runner.Plan([experiment], tmp_path / "ray", Scale(), engine="ray", address=connected)
    runner.reproduce(plan, lambda *_: None)
    killer.join()
    assert killed == ["4"]
    units = [json.loads(line)["unit"] for line in (tmp_path / "ray/results.jsonl").read_text().splitlines()]
    assert sorted(units) == sorted(str(i) for i in range(12)), "each unit once"
    assert len(list(notes.glob("4.*"))) >= 2, "the unit of the dead worker ran again"
    runner.reproduce(runner.Plan([experiment], tmp_path / "local", Scale()), lambda *_: None)
    assert (tmp_path / "ray/tables.csv").read_bytes() == (tmp_path / "local/tables.csv").read_bytes()


def test_a_lost_node_loses_nothing_and_counts_nothing_twice(machines, connected, tmp_path, monkeypatch):
    """A whole node goes while units run on it: its raylet and its workers at once, without a word."""
    notes = tmp_path / "notes"
    notes.mkdir()
    experiment = _experiment(monkeypatch, notes, count=16, sleep_s=0.05)
    lost = machines.add_node(**{**NODE, "num_cpus": 2})
    (notes / "doomed-node").write_text(lost.node_id)
    machines.wait_for_nodes()
    struck = []
    striker = threading.Thread(daemon=True, target=_remove, args=(machines, lost, notes, struck))
    striker.start()
    plan = runner.Plan([experiment], tmp_path / "ray", Scale(), engine="ray", address=connected)
    runner.reproduce(plan, lambda *_: None)
    striker.join()
    assert len(struck) >= 1, "units were running there"
    units = [json.loads(line)["unit"] for line in (tmp_path / "ray/results.jsonl").read_text().splitlines()]
    assert sorted(units) == sorted(str(i) for i in range(16)), "each unit once"
    for unit in struck:
        again = [note.read_text().split()[2] for note in notes.glob(f"{unit}.*")]
        assert len(again) >= 2 and again.count(lost.node_id) == 1, "it ran again, elsewhere"
    runner.reproduce(runner.Plan([experiment], tmp_path / "local", Scale()), lambda *_: None)
    assert (tmp_path / "ray/tables.csv").read_bytes() == (tmp_path / "local/tables.csv").read_bytes()
    assert (tmp_path / "ray/results.jsonl").stat().st_size == (tmp_path / "local/results.jsonl").stat().st_size


def test_an_interrupted_run_goes_on_with_the_other_engine(connected, tmp_path, monkeypatch):
    notes = tmp_path / "notes"
    notes.mkdir()
    experiment = _experiment(monkeypatch, notes, count=10, sleep_s=0.05)

    def cut(done, total, what):
        if done == 4:
            raise KeyboardInterrupt

    plan = runner.Plan([experiment], tmp_path / "out", Scale(), engine="ray", address=connected)
    with pytest.raises(KeyboardInterrupt):
        runner.reproduce(plan, cut)
    kept = (tmp_path / "out/results.jsonl").read_text().splitlines()
    assert len(kept) == 4
    before = set(notes.iterdir())
    runner.reproduce(runner.Plan([experiment], tmp_path / "out", Scale()), lambda *_: None)
    finished = {json.loads(line)["unit"] for line in kept}
    assert not {note.name.split(".")[0] for note in set(notes.iterdir()) - before} & finished
    runner.reproduce(runner.Plan([experiment], tmp_path / "whole", Scale()), lambda *_: None)
    assert (tmp_path / "out/tables.csv").read_bytes() == (tmp_path / "whole/tables.csv").read_bytes()


def test_a_unit_that_kills_every_worker_is_named(connected, monkeypatch):
    monkeypatch.setattr(engines_ray, "_RETRIES", 1)
    with pytest.raises(BotOrchError, match="0: its worker died 2 times"):
        list(engines_ray.run_ray(jobs("deadly", 1), 1, connected))


def _experiment(monkeypatch, notes, *, count, sleep_s):
    """Known to workers by the function it runs."""

    def rows(results):
        values = {"square": [payload["metrics"]["square"][0] for payload in results.values()]}
        return rows_from_seeds("kill", "none", "none", method="none", lambda_=0.0, metrics=values, compare=False)

    units = [unit for _, unit in jobs("announced", count, folder=str(notes), sleep_s=sleep_s)]
    made = Experiment(
        "ray_units:announced", "Kill", "A test.", units=lambda scale: units, run=lambda params: {}, rows=rows
    )
    monkeypatch.setattr(runner, "discover", lambda: {made.id: made}, raising=False)
    return made


def _kill_first(notes, killed):
    """Kill the process of the doomed unit, while it works."""
    deadline = time.monotonic() + 80
    while time.monotonic() < deadline:
        if (notes / "4.0").exists():
            unit, process, _ = (notes / "4.0").read_text().split()
            killed.append(unit)
            os.kill(int(process), signal.SIGKILL)
            return
        time.sleep(0.02)


def _remove(machines, node, notes, struck):
    """Take a node away while units work there; ``struck`` are the units that did."""
    import psutil

    deadline = time.monotonic() + 80
    while time.monotonic() < deadline:
        found = [note.read_text().split() for note in notes.glob("*.0")]
        there = {unit: int(process) for unit, process, where in found if where == node.node_id}
        if there:
            struck += there
            machines.remove_node(node, allow_graceful=False)
            for process in there.values():  # they would notice and leave; a lost machine does not give them the time
                with contextlib.suppress(psutil.NoSuchProcess):
                    psutil.Process(process).kill()
            return
        time.sleep(0.02)
