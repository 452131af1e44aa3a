"""Scenarios in examples/scenarios: traffic moves, for the reason that is said."""

import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from service_running import Running

from bot_orch.service.build import check
from bot_orch.service.config import load_config, parse_config

FOLDER = Path(__file__).parents[2] / "examples" / "scenarios"
sys.path.append(str(FOLDER))
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "play")


@pytest.fixture
def play(tmp_path, capsys):
    """Plays a scenario as fast as it goes; what happened in each phase, and the last line."""

    def run(name, rounds, scenario=None):
        player, scenario, file = import_module("play"), scenario or import_module(name).SCENARIO, tmp_path / "c.yaml"
        file.write_text(scenario.phases[0].document(tmp_path))
        running = Running(load_config(file), read=lambda: load_config(file))
        try:
            with closing(player.Service(f"http://127.0.0.1:{running.port}", file)) as service:
                played = player.play(scenario, service, rounds=rounds)
        finally:
            running.stop()
        return played, capsys.readouterr().out.splitlines()[-1]

    return run


def test_traffic_follows_prices(play):
    (before, after), line = play("prices", 100)
    assert before.share("north", last=0.5) >= 0.85
    assert after.share("north", last=0.5) <= 0.15
    assert "because its price rose" in line


def test_a_guarantee_lets_the_cheap_agent_serve_and_takes_the_traffic_back(play):
    (watched, served, worse), line = play("savings", 300)
    assert watched.share("large") == 1.0
    assert served.share("small", last=0.5) >= 0.5
    assert worse.share("small", last=0.3) <= 0.35
    assert served.usd_per_task < 0.6 * 0.02
    assert "used up the credit" in line


def test_prompts_go_to_the_agent_that_is_good_at_them(play):
    (phase,), line = play("prompts", 220)
    assert phase.share("coder", "code", last=0.4) >= 0.8
    assert phase.share("poet", "poem", last=0.4) >= 0.8
    assert "because the prompt is context" in line


def test_tests_gate_a_cheap_model(play):
    (single, gated), line = play("verify", 200)
    assert gated.reward > single.reward and gated.usd_per_task < single.usd_per_task
    assert "because tests run before delivery" in line


def test_an_outage_moves_traffic_and_fails_no_request(play):
    (before, during, after), line = play("outage", 100)
    assert before.share("first", last=0.5) >= 0.7
    assert during.share("first") == 0.0 and during.share("second") == 1.0
    assert before.failed == during.failed == after.failed == 0
    assert "0 requests failed" in line


def test_a_limit_rations_the_expensive_agent(play):
    (before, after), line = play("budget", 200)
    assert before.usd_per_task >= 0.013
    assert after.usd_per_task <= 0.008
    assert before.share("large", last=0.5) - after.share("large", last=0.5) >= 0.4
    assert after.share("large", last=0.5) > 0.0, "rationed, not switched off"
    assert "because usd_per_task is limited" in line


@pytest.mark.parametrize("name", NAMES)
def test_settings_of_every_scenario_are_valid(name, tmp_path):
    scenario = import_module(name).SCENARIO
    assert len(NAMES) == 8 and scenario.prompt(0)[1]
    for phase in scenario.phases:
        check(parse_config(phase.document(tmp_path)))


def test_a_good_canary_grows_and_a_bad_one_is_drained(play):
    (before, trial, after), line = play("canary", 150)
    assert before.share("old") == 1.0
    assert trial.share("worse") <= 0.2, "ten per cent at most, by chance a few more"
    assert after.share("better", last=0.5) > 0.6 > trial.share("better")
    assert after.share("worse") == 0.0
    assert "because it was drained" in line


def test_audits_take_the_traffic_from_a_cheat_that_the_judge_prefers(play):
    (judged, audited), line = play("gaming", 80)
    assert judged.share("flatterer", last=0.5) >= 0.85 > 0.1 >= judged.share("careful", last=0.5)
    assert audited.share("flatterer", last=0.5) <= 0.1 < 0.85 <= audited.share("careful", last=0.5)
    assert audited.share("hasty", last=0.5) <= 0.1, "the best honest agent, not just another one"
    assert "because audits of 5% of the answers show that the judge is biased for flatterer" in line


def test_without_audits_the_cheat_keeps_the_traffic(play):
    """The control: the same phases, agents and judge; audits alone are left out."""
    scenario = import_module("gaming").SCENARIO
    first, second = scenario.phases
    control = replace(scenario, phases=(first, replace(second, more=first.more)))
    (_, later), _ = play("gaming", 80, control)
    assert later.share("flatterer") >= 0.85


def test_a_scenario_is_a_script():
    script = [sys.executable, str(FOLDER / "prices.py"), "--rounds", "8", "--port", "0"]
    assert "prices: north " in subprocess.run(script, capture_output=True, text=True, check=True).stdout
