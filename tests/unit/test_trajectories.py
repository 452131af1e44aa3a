"""Off-policy evaluation of stopping rules by the propensities of whole rounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bot_orch import Answer, Orchestrator, Outcome, Router, Task
from bot_orch.cli.main import main
from bot_orch.evaluation.offpolicy import ThinSupportError
from bot_orch.evaluation.trajectories import stopping_rule, trajectory_value

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
    assert abs(found.value - truth) < 1.5 * (found.high - found.value) < 0.15


def test_propensities_of_one_step_alone_do_not_cover_it():
    """The control: weighing rounds by their last step only is biased."""
    last = [((steps[-1],), earned) for steps, earned in LOGGED]
    truth = RIGHT["small"] + (1 - RIGHT["small"]) * RIGHT["large"] - PRICE * (1 + 1 - RIGHT["small"])
    biased = trajectory_value(last, lambda step: np.array([1.0, 0.0]))
    assert abs(biased.value - truth) > biased.high - biased.value


def test_a_small_effective_sample_is_refused():
    with pytest.raises(ThinSupportError, match="effective rounds"):
        trajectory_value(LOGGED[:40], _cascade)


def test_rounds_that_are_hardly_ever_drawn_and_not_in_the_log_are_missed():
    """Failed answers are delivered so rarely that none is here: the rest would say that all answers are right."""
    first = next(steps[0] for steps, _ in LOGGED if steps[0].agent == "small")
    answered = replace(first, answers=(Answer("small", first.id),), propensities=np.array([0.01, 0.99]))
    ask, accept = (
        replace(answered, agent="large", action="ask"),
        replace(answered, action="accept", propensities=np.array([0.99, 0.01])),
    )
    found = [((first, accept), 1.0)] * 150 + [((first, ask), 1.0)] * 50
    with pytest.raises(ThinSupportError, match="in 8 effective rounds"):
        trajectory_value(found, stopping_rule("first", NAMES))
    assert trajectory_value(found[:150], stopping_rule("first", NAMES)).effective_n == pytest.approx(148.5)


def test_the_command_evaluates_logs_of_several_attempts(tmp_path, capsys):
    rng, path = np.random.default_rng(3), str(tmp_path / "log.sqlite")
    good = dict.fromkeys(NAMES, 0.0)
    functions = {name: (lambda task, name=name: name) for name in NAMES}
    router = Router(NAMES, functions=functions, judge=lambda task, answer: good[answer], path=path, floor=0.5, seed=3)
    for _ in range(300):
        good.update((name, float(rng.random() < RIGHT[name])) for name in NAMES)
        router.call(Task(), attempts=2, check=lambda task, answer: good[answer])
    router.close()
    assert main(["evaluate", path, "--policy", "agent:small"]) == 1
    assert "effective rounds, 50 are needed" in capsys.readouterr().out
    assert main(["evaluate", path, "--policy", "agent:small", "first", "--min-effective", "15"]) == 0
    small, first = capsys.readouterr().out.split("first (")
    low, high = (float(each) for each in small.split("[")[1].split("]")[0].split(","))
    assert low < RIGHT["small"] < high
    assert high - low < 0.5
    assert "300 decisions, 0 without reward" in first
    assert main(["evaluate", path, "--policy", "uniform"]) == 2
    assert "agent:NAME" in capsys.readouterr().err
    assert main(["evaluate", path, "--policy", "auto", "--lambdas", "0", "1"]) == 2
    assert "rounds of several attempts" in capsys.readouterr().err


def test_the_means_of_rounds_and_those_in_which_an_agent_could_not_be_chosen(tmp_path, capsys):
    """A round counts for the agent whose answer was delivered, however many were asked."""
    path, delivered = str(tmp_path / "log.sqlite"), []
    functions = {name: (lambda task, name=name: name) for name in NAMES}
    router = Router(NAMES, functions=functions, judge=lambda task, answer: RIGHT[answer], path=path, floor=0.5, seed=2)
    for number in range(90):
        call = router.call(
            Task(), eligible=None if number % 3 else ["small"], attempts=2, check=lambda task, answer: answer == "large"
        )
        delivered.append(call.decision.agent)
    router.close()
    assert main(["evaluate", path, "--policy", "logged", "agent:large", "agent:small", "--min-effective", "2"]) == 0
    logged, _, others = capsys.readouterr().out.partition("agent:large (")
    assert "logged (90 decisions, 0 without reward)" in logged
    for name in NAMES:
        assert f"{RIGHT[name]:.4f}" in logged
        assert f"{delivered.count(name)} decisions" in logged
    assert others.count("could not be chosen") == 1
    assert "in 30 decisions large could not be chosen: these rounds are left out" in others
