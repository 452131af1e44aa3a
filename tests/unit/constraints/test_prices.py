"""Dollars: predicted from features, corrected for retransformation, and delivered by the log."""

import numpy as np
import pytest

from bot_orch import Agent, Orchestrator, Task
from bot_orch.arrays import allocate
from bot_orch.core.constraints import Budget, Capacity
from bot_orch.core.constraints.prices import Prices
from bot_orch.core.constraints.times import Seconds, lateness
from bot_orch.core.events import AttemptEnded, Configured, FeedbackGiven, TaskRecord, record_decision
from bot_orch.log.ledger import Ledger


def taught(rounds=400, sigma=0.5):
    """One agent whose log dollars rise with the first feature, another whose dollars do not depend on it."""
    rng, prices = np.random.default_rng(3), Prices(wanted=True, n_features=3)
    state = allocate(prices.schema, (), 2)
    for t in range(rounds):
        x = rng.normal(size=3)
        usd = 0.01 * np.exp(x[0] * (t % 2 == 0) + sigma * rng.normal())
        prices.see(state, np.array(t % 2), np.array(usd), context=x)
    return prices, state, sigma


def test_dollars_follow_the_features():
    prices, state, sigma = taught()
    level = 0.01 * np.exp(0.5 * sigma**2)
    for x0 in (-1.0, 0.0, 1.0):
        found = prices.dollars(state, np.array([x0, 0.0, 0.0]))
        assert found == pytest.approx([level * np.exp(x0), level], rel=0.3)


def test_predictions_are_right_on_average():
    """Without the correction they would be 12 % too low: the mean of a log-normal is above its median."""
    prices, state, sigma = taught(800)
    rng = np.random.default_rng(4)
    x = rng.normal(size=(4000, 3))
    copies = {name: np.broadcast_to(value, (4000, *value.shape)) for name, value in state.items()}
    mean = prices.dollars(copies, x).mean(axis=0)
    true = 0.01 * np.exp(0.5 * sigma**2) * np.array([np.exp(0.5), 1.0])
    assert mean == pytest.approx(true, rel=0.08)


def test_a_price_counts_until_there_are_outcomes():
    prices = Prices(wanted=True)
    state = allocate(prices.schema, (), 3)
    price = np.array([0.02, np.nan, 0.5])
    assert prices.means(state, price).tolist() == [0.02, 0.0, 0.5]
    prices.see(state, np.array(0), np.array(0.04), price=price)
    assert prices.means(state, price)[0] == pytest.approx((0.04 + 0.25 * 0.02) / 1.25)
    prices.see(state, np.array(1), np.array(np.nan), price=price)
    assert prices.means(state, price)[1] == 0.0  # an outcome without dollars says nothing


def test_old_prices_are_forgotten():
    prices = Prices(wanted=True)
    state = allocate(prices.schema, (), 1)
    for usd in (0.01, 0.03):
        for _ in range(1500):
            prices.see(state, np.array(0), np.array(usd))
    assert prices.means(state)[0] == pytest.approx(0.03, rel=0.05)
    assert state["outcomes"][0] <= 501.0


def test_rows_without_dollars_leave_the_regression_alone():
    prices = Prices(wanted=True, n_features=2)
    state = allocate(prices.schema, (2,), 2)
    prices.see(state, np.array([0, 1]), np.array([0.1, np.nan]), context=np.ones((2, 2)))
    assert not state["theta"][1].any() and np.array_equal(state["inverse"][1, 1], np.eye(3))
    assert state["base"][0, 0] == pytest.approx(np.log(0.1))


def test_free_calls_are_no_problem():
    prices = Prices(wanted=True, n_features=1)
    state = allocate(prices.schema, (), 1)
    for t in range(50):
        prices.see(state, np.array(0), np.array(0.0), context=np.array([float(t % 3)]))
    assert prices.dollars(state, np.array([1.0]))[0] == pytest.approx(0.0, abs=1e-9)


def test_seconds_and_lateness():
    seconds = Seconds()
    state = allocate(seconds.schema, (2,), 2)
    seconds.see(state, np.array([0, 1]), np.array([4.0, np.nan]))
    assert seconds.means(state).tolist() == [[4.0, 4.0], [0.0, 0.0]]
    late = lateness(np.array([1.0, 9.0, 8.0, 3.0, np.nan]), np.array([True, True, False, False, True]), 8.0)
    assert np.array_equal(late, [0.0, 1.0, 1.0, np.nan, np.nan], equal_nan=True)


def logged(rounds=60):
    """A log as the service writes it: attempts with dollars, then feedback; some dollars only in the feedback."""
    router = Orchestrator(
        [Agent("a", price=0.001), "b"],
        "ucb1",
        n_features=1,
        constraints=[Budget(0.002), Capacity("b", 0.4)],
        seed=2,
    )
    ledger, seq = Ledger(), 0

    def put(event, made=None):
        nonlocal seq
        seq += 1
        ledger.apply(seq, seq * 10, event, made)
        events.append(event)

    events = []
    put(Configured(router.to_json(), engine="3"))
    for number in range(rounds):
        eligible = ("a",) if number % 7 == 3 else None
        task = Task(f"t{number}", features=(float(number % 3),))
        decision = ledger.router.prepare(task, eligible, decision_id=f"d{number}")
        record = TaskRecord(f"t{number}", features=task.features)
        put(record_decision(decision, record, eligible=eligible, excluded={}), decision)
        usd = 0.001 if decision.agent == "a" else 0.004
        if number % 2:
            put(AttemptEnded(f"d{number}", f"t{number}", decision.agent, 1, "completed", 0.1, cost_usd=usd))
            usd = 0.0
        if number % 5:
            put(FeedbackGiven(f"f{number}", f"d{number}", "learned", reward=0.5, elapsed_s=0.1, cost_usd=usd))
    return ledger, events


def folded(events):
    ledger = Ledger()
    for number, event in enumerate(events, 1):
        ledger.apply(number, number * 10, event)
    return ledger


def test_dollars_of_attempts_and_feedback_reach_the_engine():
    ledger, _ = logged()
    prices = ledger.router._state.parts["prices"]
    seen = prices["usd"] / prices["outcomes"]
    assert seen == pytest.approx([0.001, 0.004])
    assert set(ledger.router._state.attempts) <= set(ledger.pending)  # nothing is kept of settled decisions


def test_constraints_are_a_fold_over_the_log():
    ledger, events = logged()
    again = folded(events)
    assert again.fingerprint() == ledger.fingerprint()
    middle = folded(events[:100])
    restored = Ledger.load(middle.snapshot())
    for number, event in enumerate(events[100:], 101):
        restored.apply(number, number * 10, event)
    assert restored.fingerprint() == ledger.fingerprint()
    assert again.router.derive(Task(features=(1.0,))).multipliers
