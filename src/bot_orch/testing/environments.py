"""Conformance of an environment, for the built-in ones and for yours: ``check_environment(MyEnvironment())``.

Each check raises ``AssertionError`` with a sentence that says what went wrong.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bot_orch.lab.sweep.environments import Environment, Metrics, Options, Trial
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
