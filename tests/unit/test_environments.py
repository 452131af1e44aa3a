"""The conformance checks of environments."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from bot_orch.lab.sweep.environments import Environment, Metrics, Options, Trial, environments
from bot_orch.policies.registry import make_policy

_SEEDS, _ROUNDS = (0, 1, 2), 30


def check_environment(environment: Environment, settings: Options | None = None) -> list[str]:
    """Run every check; returns the names of the checks that ran.

    Parameters
    ----------
    settings
        Options without a usable default, e.g. the path of a matrix.
    """
    options = dict(settings or {})
    ran = [_declares(environment, options), _scores_every_seed(environment, options), _repeats(environment, options)]
    if environment.divisible:
        ran.append(_knows_no_batch(environment, options))
    return ran


def _declares(environment: Environment, settings: Options) -> str:
    assert isinstance(environment.options, Mapping), "options are not a mapping of names to defaults"
    rounds = environment.rounds(settings)
    assert isinstance(rounds, int), f"rounds() gives {rounds!r}, not a whole number"
    assert rounds > 0, f"rounds() gives {rounds!r}, not a whole number above 0"
    assert isinstance(environment.aligned(settings), bool), "aligned() does not give True or False"
    return "declares options, rounds and alignment"


def _scores_every_seed(environment: Environment, settings: Options) -> str:
    metrics = _play(environment, settings, _SEEDS)
    assert metrics, "play() gives no metric"
    for name, values in metrics.items():
        assert len(values) == len(_SEEDS), f"{name} has {len(values)} values for {len(_SEEDS)} seeds"
        assert np.all(np.isfinite(values)), f"{name} is not finite"
    return "scores every seed"


def _repeats(environment: Environment, settings: Options) -> str:
    first, second = (_play(environment, settings, _SEEDS) for _ in range(2))
    assert first == second, "the same trial gives other scores the second time"
    return "gives the same scores twice"


def _knows_no_batch(environment: Environment, settings: Options) -> str:
    together, alone = _play(environment, settings, _SEEDS), _play(environment, settings, _SEEDS[1:2])
    for name, values in together.items():
        same = np.isclose(alone[name][0], values[1], rtol=1e-9, atol=1e-12)  # sums may differ in their last bits
        assert same, f"{name} of a seed depends on the other seeds"
    return "scores a seed alike in any batch"


def _play(environment: Environment, settings: Options, seeds: tuple[int, ...]) -> Metrics:
    rounds = environment.rounds(settings) if environment.fixed else _ROUNDS
    trial = Trial(seeds, rounds, lambda_=1.0 if environment.aligned(settings) else 0.0, score_lambda=1.0)
    return environment.play(make_policy("bot"), settings, trial)


@pytest.mark.parametrize("name", ["bernoulli", "gaming", "iid-g", "noniid-bb", "triage-noniid"])
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
        ("batch", "depends on the other seeds"),
        ("nothing", "no metric"),
    ],
)
def test_control_broken_environments_are_caught(fault, said):
    with pytest.raises(AssertionError, match=said):
        check_environment(Broken(fault))
