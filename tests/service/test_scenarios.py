"""Scenarios of the demonstration: traffic moves, for the reason that is said."""

from dataclasses import replace

import pytest

from bot_orch.errors import InvalidInputError
from bot_orch.service.build import check
from bot_orch.service.demo import play as playing
from bot_orch.service.demo.play import Play, phase_config, play_scenario
from bot_orch.service.demo.scenario import find_scenario, scenario_names


@pytest.fixture
def play():
    """Plays a scenario as fast as it goes; what happened in each phase, and the last line."""

    def run(name, rounds=None):
        said = []
        played = play_scenario(Play(name, rounds, 0.0, port=0), said.append)
        assert said[0].startswith("dashboard  http://127.0.0.1:") and said[-1].startswith(f"{name}: ")
        return played, said[-1]

    return run


def test_traffic_follows_prices(play):
    (before, after), line = play("prices", 100)
    assert before.share("north", last=0.5) >= 0.85
    assert after.share("north", last=0.5) <= 0.15
    assert "because its price rose" in line


def test_prompts_go_to_the_agent_that_is_good_at_them(play):
    (phase,), line = play("text", 220)
    assert phase.share("coder", "code", last=0.4) >= 0.8
    assert phase.share("poet", "poem", last=0.4) >= 0.8
    assert "because the prompt is context" in line


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


@pytest.mark.parametrize("name", scenario_names())
def test_settings_of_every_scenario_are_valid(name):
    scenario = find_scenario(name)
    assert scenario.summary and scenario.prompt(0)[1]
    for phase in scenario.phases:
        check(phase_config(phase, ":memory:", 0))


def test_an_unknown_scenario_is_refused():
    assert {"budget", "outage", "prices", "text"} <= set(scenario_names())
    with pytest.raises(InvalidInputError, match="choose from budget"):
        find_scenario("weather")


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


def test_without_audits_the_cheat_keeps_the_traffic(play, monkeypatch):
    """The control: the same phases, agents and judge; audits alone are left out."""
    scenario = find_scenario("gaming")
    first, second = scenario.phases
    control = replace(scenario, phases=(first, replace(second, more=first.more)))
    monkeypatch.setattr(playing, "find_scenario", lambda name: control)
    (_, later), _ = play("gaming", 80)
    assert later.share("flatterer") >= 0.85
