"""Tasks that react to past assignments, and the conformance checks of environments."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from bot_orch.errors import InvalidInputError
from bot_orch.lab.environments.contract import Environment, Trial
from bot_orch.lab.environments.reactive import ReactiveTasks
from bot_orch.lab.harness.reactive import ReactiveEnvironment
from bot_orch.lab.harness.simulate import simulate
from bot_orch.lab.sweep.environments import environments
from bot_orch.policies.registry import make_policy
from bot_orch.rng import derive_keys
from bot_orch.testing import check_environment


def play(policy, tasks, lambda_=0.0):
    keys = derive_keys(["test"], range(tasks.stream.seeds))
    return simulate(make_policy(policy), tasks.stream, keys, lambda_=lambda_, source=tasks)


def test_a_failed_task_comes_back_and_a_solved_one_does_not():
    tasks = ReactiveTasks(range(50), 60, returns=1.0)
    failed = play("random", tasks).pick(tasks.stream.reward)[:-1] == 0.0
    np.testing.assert_array_equal(tasks.returned[1:], failed)
    assert (tasks.kind[1:] == tasks.kind[:-1])[failed].all()
    assert 0.2 < (tasks.kind[1:] == tasks.kind[:-1])[~failed].mean() < 0.45


def test_the_tasks_depend_on_the_policy_unless_nothing_returns():
    for returns, same in ((0.8, False), (0.0, True)):
        kinds = []
        for lambda_ in (0.0, 5.0):
            tasks = ReactiveTasks(range(10), 80, returns=returns)
            play("bot", tasks, lambda_)
            kinds.append(tasks.kind)
        assert np.array_equal(*kinds) is same


def test_noise_hides_alignment_from_the_policy_and_not_from_the_score():
    tasks = ReactiveTasks(range(5), 40, noise=0.5)
    play("random", tasks)
    assert set(np.unique(tasks.stream.alignment)) == {0.0, 0.5, 1.0}
    assert not np.array_equal(tasks.at(3), tasks.stream.alignment[3])


@pytest.mark.parametrize("wrong", [{"returns": 1.5}, {"returns": -0.1}, {"rounds": 0}])
def test_wrong_settings_are_named(wrong):
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        ReactiveTasks([0], wrong.pop("rounds", 5), **wrong)


@pytest.mark.parametrize("name", ["reactive", "bernoulli", "gaming", "iid-g", "noniid-bb", "triage-noniid"])
def test_environments_conform(name):
    environment = environments()[name]
    assert len(check_environment(environment)) == (4 if environment.divisible else 3)


@dataclass
class Broken(Environment):
    fault: str
    options: dict = field(default_factory=dict)
    calls: int = 0

    def rounds(self, settings):
        return 0 if self.fault == "rounds" else 10

    def aligned(self, settings):
        return True

    def play(self, policy, settings, trial):
        self.calls += 1
        n = len(trial.seeds)
        return {
            "rounds": {"net": [0.0] * n},
            "few": {"net": [0.0]},
            "nan": {"net": [float("nan")] * n},
            "clock": {"net": [float(self.calls)] * n},
            "batch": {"net": [float(n)] * n},
            "nothing": {},
        }[self.fault]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("rounds", "rounds"),
        ("few", "1 values for 3 seeds"),
        ("nan", "not finite"),
        ("clock", "second time"),
        ("batch", "seeds beside it"),
        ("nothing", "no metric"),
    ],
)
def test_control_broken_environments_are_caught(fault, said):
    with pytest.raises(AssertionError, match=said):
        check_environment(Broken(fault))


def test_scores_are_per_round_means():
    trial = Trial(range(3), 25, lambda_=1.0, score_lambda=2.0)
    found = ReactiveEnvironment().play(make_policy("bot"), {}, trial)
    net = np.array(found["reward"]) - 2.0 * np.array(found["alignment_cost"])
    np.testing.assert_allclose(found["net_utility"], net)
    assert min(found["regret"]) >= 0.0
