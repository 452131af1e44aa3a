"""Quotas: windows that reset, requests kept for the tasks that need them, times told by outcomes."""

import json

import numpy as np
import pytest

from bot_orch import Orchestrator, Outcome, Quota, Router, Task
from bot_orch.arrays import allocate
from bot_orch.core.constraints import constraint_from_spec, constraint_to_spec
from bot_orch.core.constraints.windows import Windows
from bot_orch.core.events import record_task
from bot_orch.errors import InvalidInputError

HOURS = 5.0
MEANS = {True: (0.9, 0.3), False: (0.9, 0.82)}  # of the scarce agent and of the other one


def lived(seed, windows, *, requests=45, tasks=180, need=0.2):
    """Tasks in need, those of them that got the scarce agent, and its requests, by window."""
    rng, length = np.random.default_rng([seed, 3]), HOURS * 3600.0
    router = Orchestrator(["scarce", "other"], seed=seed, ids="derived", constraints=[Quota("scarce", requests, "5h")])
    found, time_s, first = np.zeros((3, windows)), 0.0, None
    while True:
        time_s += rng.exponential(length / tasks)
        first = time_s if first is None else first
        window = int((time_s - first) // length)
        if window >= windows:
            return found
        needy = bool(rng.random() < need)
        decision = router.decide(Task(features=(float(needy),), time_s=time_s))
        served = decision.agent == "scarce"
        found[:, window] += needy, needy and served, served
        router.observe(decision.id, Outcome.completed(float(rng.random() < MEANS[needy][0 if served else 1])))


def test_requests_are_kept_for_the_tasks_that_need_them():
    """First come, first served would meet a quarter of the tasks in need."""
    needed, met, used = np.sum([lived(seed, 8) for seed in range(3)], axis=0)
    assert met[2:].sum() > 0.9 * needed[2:].sum()
    assert used[2:].mean() > 0.9 * 3 * 45


def test_a_window_that_is_used_up_leaves_the_agent_out_until_the_reset():
    router = Orchestrator(["scarce", "other"], seed=1, constraints=[Quota("scarce", 5, every=100)])
    asked = []
    for t in range(400):
        decision = router.decide(Task(time_s=float(t)))
        asked.append(decision.agent == "scarce")
        router.observe(decision.id, Outcome.completed(1.0 if asked[-1] else 0.0))
    assert np.sum(np.reshape(asked, (4, 100)), axis=1).tolist() == [5, 5, 5, 5]


def test_an_outcome_tells_when_the_next_window_begins():
    router = Orchestrator(["scarce", "other"], seed=1, floor=0.0, constraints=[Quota("scarce", 1, "7d")])
    first = router.decide(Task(time_s=0.0), eligible=["scarce"])
    assert router.derive(Task(time_s=20.0)).agent == "other"
    router.observe(first.id, Outcome.completed(1.0, reset_s=10.0))
    assert router.derive(Task(time_s=9.0)).agent == "other"
    assert router.derive(Task(time_s=11.0), eligible=["scarce"]).agent == "scarce"
    assert "quota of scarce" in router.multipliers()


def test_windows_that_pass_without_a_task():
    windows = Windows(3.0, 10.0)
    state = allocate(windows.schema, (), 1)
    for time_s in (0.0, 1.0, 36.0):
        windows.pass_task(state, time_s, np.array(1.0))
    assert state["used"] == 1.0 and state["reset"] == 40.0


def test_a_task_without_a_time_is_refused_and_a_router_fills_it_in():
    limits = [Quota("scarce", 5, "1h")]
    with pytest.raises(InvalidInputError, match="time_s"):
        Orchestrator(["scarce", "other"], constraints=limits).decide(Task())
    router = Router(["scarce", "other"], constraints=limits)
    assert router.decide(Task()).agent in ("scarce", "other")


def test_the_state_of_a_window_is_saved_and_the_time_of_a_task_is_logged():
    router = Orchestrator(["scarce", "other"], seed=1, floor=0.0, constraints=[Quota("scarce", 1, "1h")])
    router.observe(router.decide(Task(time_s=5.0), eligible=["scarce"]).id, Outcome.completed(1.0))
    copy = Orchestrator.from_json(router.to_json())
    assert json.loads(copy.to_json()) == json.loads(router.to_json())
    assert copy.derive(Task(time_s=6.0)).agent == "other"
    assert record_task(Task(time_s=5.0)).task().time_s == 5.0


@pytest.mark.parametrize(("every", "seconds"), [("5h", 18000.0), ("7d", 604800.0), (60, 60.0), ("90s", 90.0)])
def test_the_length_of_a_window(every, seconds):
    quota = Quota("claude", 45, every)
    assert quota.seconds == seconds
    assert constraint_from_spec(constraint_to_spec(quota)) == quota


@pytest.mark.parametrize("every", ["", "5", "h", "5 weeks", 0, -1, None, "0h", "nanh"])
def test_a_window_of_no_length(every):
    with pytest.raises(InvalidInputError, match="quota.every"):
        Quota("claude", 45, every)
