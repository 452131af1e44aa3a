"""The committee and the reactive experiment: rules by hand, verdicts that follow the numbers."""

from functools import cache

import numpy as np
import pytest

from bot_orch.lab.environments.synthetic.episodes import episodes, observed_alignment
from bot_orch.lab.environments.synthetic.settings import ENVIRONMENTS
from bot_orch.lab.harness.experiment import Scale, discover
from bot_orch.lab.paper.extensions.committee import RULES, run_committee, taken


@cache
def results(name):
    experiment = discover()[name]
    return {unit.key: experiment.run(unit.params) for unit in experiment.units(Scale(quick=True))}


def test_rules_by_hand():
    runs = episodes(ENVIRONMENTS["iid-g"], range(2), 20)
    seen = observed_alignment(runs)
    pair = (np.zeros((20, 2), dtype=np.int64), np.ones((20, 2), dtype=np.int64))
    who = {rule: taken(rule, pair, runs, seen=seen) for rule in RULES}
    r, t = runs.stream.reward, np.where(runs.event, runs.time_s, np.inf)
    np.testing.assert_array_equal(who["one agent"], 0)
    np.testing.assert_array_equal(who["better"] == 1, r[..., 1] > r[..., 0])
    np.testing.assert_array_equal(who["aligned"] == 1, seen[..., 1] < seen[..., 0])
    np.testing.assert_array_equal(who["first to complete"] == 1, t[..., 1] < t[..., 0])


def test_a_second_agent_raises_the_reward_and_costs_alignment():
    found = results("committee")
    for name, payload in found.items():
        one = {metric: np.mean(values) for metric, values in payload["one agent"].items()}
        for rule in ("first to complete", "better"):
            assert np.mean(payload[rule]["reward"]) > one["reward"] + 0.03, name
            assert np.mean(payload[rule]["net_of_both"]) < one["net_of_both"], name
        judged, first = (np.array(payload[rule]["reward"]) for rule in ("better", "first to complete"))
        assert (judged >= first - 1e-12).all()  # no rule earns more than a judge who is never wrong


def test_control_an_aligned_committee_gains_nothing():
    """BOT-Orch at lambda 13 has taken the best aligned agent already."""
    payload = run_committee({"environment": "iid-g", "seeds": 10})
    assert np.mean(payload["aligned"]["reward"]) == pytest.approx(np.mean(payload["one agent"]["reward"]), abs=0.01)


def test_committee_verdicts_follow_the_numbers():
    experiment, found = discover()["committee"], results("committee")
    notes = experiment.notes(found)
    assert "<b>better</b>: a second call raises the reward beyond two errors in 5 of 5" in notes[2]
    flat = {name: dict.fromkeys(payload, payload["one agent"]) for name, payload in found.items()}
    assert all("in 0 of 5" in note for note in experiment.notes(flat))


def test_reactive_verdicts_follow_the_numbers():
    experiment, found = discover()["reactive"], results("reactive")
    assert len(experiment.notes(found)) == 3
    place = found["Algorithm 2, f of the mean/with alignment"]["returns 0.8"]
    ahead = {
        **found,
        "Algorithm 2, f of the mean/with alignment": {
            **found["Algorithm 2, f of the mean/with alignment"],
            "returns 0.8": {**place, "net_utility": [0.9 + 0.01 * k for k in range(10)]},
        },
    }
    assert "(Algorithm 2, f of the mean) is ahead of the best" in experiment.notes(ahead)[1]
    rows = {(row.environment, row.method, row.metric): row.mean for row in experiment.rows(found)}
    assert rows["i.i.d., rewards only", "ucb1", "returned"] == 0.0
    assert rows["returns 0.8, rewards only", "random", "returned"] > 0.3
