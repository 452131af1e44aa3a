"""A feature that is missing travels through decision, log and state as NaN, and as null in JSON."""

import json
import math

import numpy as np
import pytest

from bot_orch import InvalidInputError, Orchestrator, Outcome, Router, Task
from bot_orch.core.events import as_recorded
from bot_orch.evaluation.export import decision_rows, event_rows
from bot_orch.evaluation.rounds import collect
from bot_orch.log.evaluations import outcomes_in
from bot_orch.log.ledger import fold
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay

NAN = math.nan
POLICIES = ["auto", "linucb", "lints", "ucb1"]


def same(one, two):
    return np.array_equal(one, two, equal_nan=True)


def play(router, rounds=40, text=None):
    for number in range(rounds):
        x = (NAN if number % 3 == 0 else number / 7, NAN if number % 5 == 0 else -1.5)
        made = router.decide(Task(str(number), features=x, text=text))
        assert same(made.features[:2], x)
        if number % 4:
            router.observe(made.id, Outcome.completed(float(made.agent == "a")))
        elif number % 8:
            router.observe(made.id, Outcome.censored(elapsed_s=2.0, reason="timeout"))


@pytest.mark.parametrize("text", [None, "hello world"])
@pytest.mark.parametrize("policy", POLICIES)
def test_missing_numbers_are_logged_saved_and_replayed(policy, text, tmp_path):
    with Router(["a", "b"], policy, seed=2, path=tmp_path / "log.sqlite") as router:
        play(router, text=text)
        fingerprint = router.fingerprint()
    log = open_log(tmp_path / "log.sqlite")
    assert replay(log).ok and fold(log, use_snapshot=False).router.fingerprint() == fingerprint
    assert fold(log).router.fingerprint() == fingerprint
    rows = [json.loads(json.dumps(row, allow_nan=False)) for row in (*decision_rows(log), *event_rows(log))]
    assert sum(None in (row.get("features") or ()) for row in rows) > 30
    assert np.isfinite(collect(log).scored()[1].features).all()
    records = outcomes_in(log)
    log.close()
    assert np.isnan([each["features"][0] for each in records]).any()
    assert Orchestrator(["a", "b"], policy).learn_from(records) > 0


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_see_finite_numbers(policy):
    router = Orchestrator(["a", "b"], policy, seed=2)
    play(router)
    again = Orchestrator.from_json(router.to_json())
    assert again.fingerprint() == router.fingerprint() and "NaN" not in router.to_json()
    learned = {name: array for name, array in again._state.parts["policy"].items() if name != "context_rows"}
    assert all(np.isfinite(array).all() for array in learned.values()), "kept rows are as they came"
    assert same(again._state.pending[again.pending[0]].features, router._state.pending[router.pending[0]].features)


def test_numbers_of_a_missing_feature_are_those_of_zero_for_now():
    one, two = Orchestrator(["a", "b"], "linucb"), Orchestrator(["a", "b"], "linucb")
    assert same(one.decide(Task(features=(NAN, 1.0))).propensities, two.decide(Task(features=(0.0, 1.0))).propensities)


@pytest.mark.parametrize("wrong", [math.inf, -math.inf])
def test_infinities_are_refused(wrong):
    with pytest.raises(InvalidInputError, match=r"task\.features: holds a number that is not finite; pass nan"):
        Task(features=(NAN, wrong))
    with pytest.raises(InvalidInputError, match=r"task\.features: holds a number beyond single precision"):
        as_recorded(Task(features=(NAN, math.copysign(1e39, wrong))))
    assert same(as_recorded(Task(features=(NAN, 0.5))).features, (NAN, 0.5))
