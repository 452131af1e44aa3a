"""Engines: jobs in, each with its payload out, once."""

import json
import subprocess
import sys
import time

import pytest

from bot_orch.cli import main
from bot_orch.errors import BotOrchError, MissingExtraError
from bot_orch.lab.harness import engines, engines_ray
from bot_orch.lab.harness.experiment import Unit

SMALL = {"condition": "iid", "protocol": "paper", "seeds": 2, "method": "random"}
TRIAGE = "bot_orch.lab.paper.triage.play:run_triage"


def test_one_process_and_a_pool_give_the_same_payloads():
    jobs = [(TRIAGE, Unit(str(n), {**SMALL, "seeds": n})) for n in (1, 2, 3)]
    alone, pool = ({job[1].key: p for job, p in engines.run_local(jobs, n)} for n in (1, 2))
    assert list(alone) == ["1", "2", "3"] and pool == alone


def test_our_errors_come_out_of_a_pool_as_one_line():
    jobs = [(TRIAGE, Unit(name, {**SMALL, "method": name})) for name in ("a", "b")]
    with pytest.raises(BotOrchError, match="^policy: .* is not known"):
        list(engines.run_local(jobs, 2))


def test_a_worker_of_another_version_is_refused():
    question = json.dumps({**json.loads(engines.ask((TRIAGE, Unit("x")))), "version": "0.0.0"})
    with pytest.raises(BotOrchError, match="install the same on all nodes"):
        engines.read_answer(engines.answer(question))


def test_an_address_is_for_ray_only(tmp_path, capsys):
    words = ["reproduce", "--only", "triage-lambda", "--quick", "--quiet", "--out", str(tmp_path)]
    assert main([*words, "--address", "auto"]) == 2
    assert "an address only for ray" in capsys.readouterr().err
    with pytest.raises(BotOrchError, match="choose one of local, ray"):
        engines.make_engine("slurm", 1)


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"\[ray\]"):
        list(engines_ray.run_ray([(TRIAGE, Unit("x"))], 1))
    assert list(engines_ray.run_ray([], 1)) == [], "nothing to do needs no Ray"


def test_ray_is_imported_only_when_used():
    code = "import sys, bot_orch.lab.harness.engines_ray"
    code += "; from bot_orch.cli.main import build_parser; build_parser()"
    code += "; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_cluster_that_is_not_there_is_named_at_once(tmp_path, capsys):
    pytest.importorskip("ray")
    words = ["reproduce", "--only", "triage-lambda", "--quick", "--quiet", "--out", str(tmp_path), "--engine", "ray"]
    start = time.monotonic()
    assert main([*words, "--address", "127.0.0.1:1"]) == 2
    assert "--address: no Ray cluster at 127.0.0.1:1" in capsys.readouterr().err
    assert time.monotonic() - start < 30
