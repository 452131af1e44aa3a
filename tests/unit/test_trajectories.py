"""Off-policy evaluation of stopping rules by the propensities of whole rounds."""

from __future__ import annotations

import numpy as np
import pytest

from bot_orch import Answer, InvalidInputError, Orchestrator, Outcome, Task
from bot_orch.evaluation.trajectories import trajectory_value

NAMES = ("small", "large")
RIGHT = {"small": 0.6, "large": 0.85}
PRICE = 0.05


def _logged(rounds: int):
    rng, router, found = np.random.default_rng(4), Orchestrator(NAMES, floor=0.5, seed=2), []
    for _ in range(rounds):
        good = {name: float(rng.random() < RIGHT[name]) for name in NAMES}
        steps, seen = [router.decide(Task(), attempts=2)], []
        while steps[-1].action == "ask":
            name = steps[-1].agent
            seen.append(Answer(name, steps[-1].id, check=good[name]))
            steps.append(router.decide(Task(), seen=seen, attempts=2))
        router.observe(steps[-1].id, Outcome.completed(good[steps[-1].agent]))
        found.append((tuple(steps), good[steps[-1].agent] - PRICE * len(seen)))
    return found


LOGGED = _logged(1500)


def _cascade(step):
    """Begin with small; ask large where the check failed, and deliver what passed, or the answer of large."""
    seen = {answer.agent: answer for answer in step.answers}
    if not seen:
        return np.array([1.0, 0.0])
    if len(seen) == 1 and "small" in seen:
        return np.array([1.0, 0.0]) if seen["small"].check else np.array([0.0, 1.0])
    passed = [name for name in NAMES if name in seen and seen[name].check]
    logged = step.agent  # where both passed or failed, either is as good
    best = logged if not passed or logged in passed else passed[0]
    return np.array([float(name == best) for name in NAMES])


def test_the_interval_covers_the_truth_of_another_rule():
    truth = RIGHT["small"] + (1 - RIGHT["small"]) * RIGHT["large"] - PRICE * (1 + 1 - RIGHT["small"])
    found = trajectory_value(LOGGED, _cascade)
    assert abs(found.value - truth) < 1.5 * found.margin < 0.15


def test_propensities_of_one_step_alone_do_not_cover_it():
    """The control: weighing rounds by their last step only is biased."""
    last = [((steps[-1],), earned) for steps, earned in LOGGED]
    truth = RIGHT["small"] + (1 - RIGHT["small"]) * RIGHT["large"] - PRICE * (1 + 1 - RIGHT["small"])
    biased = trajectory_value(last, lambda step: np.array([1.0, 0.0]))
    assert abs(biased.value - truth) > biased.margin


def test_a_small_effective_sample_is_refused():
    with pytest.raises(InvalidInputError, match="effective rounds"):
        trajectory_value(LOGGED[:40], _cascade)
