"""Evaluations with answers: rounds of several steps decide well from the first one on."""

from __future__ import annotations

import numpy as np
import pytest

from bot_orch import Answer, InvalidInputError, Objective, Orchestrator, Outcome, Router, Task
from bot_orch.core.events import EvaluationsGiven, record_evaluations
from bot_orch.core.warm import Evaluations, label_number, row_lessons, with_answers
from bot_orch.errors import UnknownAgentError
from bot_orch.log.events import decode_event, encode_event
from bot_orch.log.ledger import fold
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay

NAMES = ("cheap", "dear")
OBJECTIVE = Objective(usd=10.0)  # dear costs 0.1 units of reward
NAN = float("nan")


def _table(rows: int = 300, seed: int = 0):
    """``cheap`` is right if and only if its signal exceeds .6, ``dear`` is always right; one of four labels is."""
    rng = np.random.default_rng(seed)
    signal, truth = rng.random((rows, 2)), rng.integers(0, 4, rows)
    right = np.stack([signal[:, 0] > 0.6, np.ones(rows, dtype=bool)], axis=1)
    label = np.where(right, truth[:, None], (truth[:, None] + 1) % 4)
    cost = np.tile([0.0001, 0.01], (rows, 1))
    return right.astype(float), {"signal": signal, "label": label, "cost_usd": cost}


def _asks_again(router: Orchestrator, signal: float) -> float:
    """Probability of asking ``dear`` after an answer of ``cheap`` with this signal."""
    made = router.prepare(Task(), seen=[Answer("cheap", "d", signal=signal, label=0)], attempts=2)
    return made.propensities[1]


def _warm(**given) -> Orchestrator:
    rewards, answers = _table()
    router = Orchestrator(NAMES, seed=1, objective=OBJECTIVE, **given)
    router.learn_from(rewards, answers=answers)
    return router


def test_a_warm_cascade_decides_well_in_its_first_round_and_a_cold_one_does_not():
    cold, warm = Orchestrator(NAMES, seed=1, objective=OBJECTIVE), _warm()
    assert _asks_again(warm, 0.2) > 0.9 and _asks_again(warm, 0.8) < 0.1
    assert abs(_asks_again(cold, 0.2) - _asks_again(cold, 0.8)) < 0.5
    rewards_only = Orchestrator(NAMES, seed=1, objective=OBJECTIVE)
    rewards_only.learn_from(_table()[0])  # says who is good, not when
    assert abs(_asks_again(rewards_only, 0.2) - _asks_again(rewards_only, 0.8)) < 0.5


def test_dollars_are_expected_and_weights_count():
    warm = _warm()
    assert warm.prepare(Task()).terms.cost == pytest.approx((0.001, 0.1), abs=0.001)
    rewards, answers = _table(20)
    given = with_answers(Evaluations(NAMES, rewards, weight=np.repeat([0.0, 2.0], 10)), answers)
    assert sorted(row_lessons(given, 1000.0)) == sorted([*range(10, 20)] * 2)
    assert len(row_lessons(given, 5.0)) == 5
    without, none = (Orchestrator(NAMES, seed=1, objective=OBJECTIVE) for _ in range(2))
    without.learn_from(rewards, weight=0.0, answers=answers)
    assert _asks_again(without, 0.2) == _asks_again(none, 0.2)


def test_lists_by_agent_texts_and_missing_cells_are_read():
    given = Evaluations(NAMES, np.array([[1.0, 0.0], [NAN, 1.0]]))
    found = with_answers(given, {"label": {"dear": ["yes", None]}, "key": np.array([[1, 2], [3, 4]], dtype=np.int8)})
    answers = found.answers_of(0, [1])
    assert answers[0].label == label_number("yes")
    assert found.answers["key"].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert np.isnan(found.answers["label"][1, 1]) and found.answers_of(1, [1])[0].label is None
    swapped = found.among(("dear", "new", "cheap"))
    assert np.array_equal(swapped.answers["key"], [[2.0, NAN, 1.0], [4.0, NAN, 3.0]], equal_nan=True)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"signal": [[0.5]]}, r"answers.signal: has the shape \(1, 1\); pass 2 rows of 2 agents"),
        ({"signal": [[0.5, 2.0]] * 2}, r"answers.signal: holds a number outside of \[0, 1\]"),
        ({"check": [[-1, 0]] * 2}, r"answers.check: holds a number outside of \[0, 1\]"),
        ({"cost_usd": [[0.5, -1.0]] * 2}, "answers.cost_usd: holds a number below 0"),
        ({"label": [[0.5, 1]] * 2}, "answers.label: holds 0.5; pass a whole number or a text"),
        ({"label": [1, 2]}, "answers.label: is no table"),
        ({"key": {"cheap": ["x"]}}, "answers.key: has 1 rows of cheap; pass 2, as many as evaluations"),
        ({"price": [[0.5, 0.5]] * 2}, "answers.price: is nothing that an answer tells; choose from signal, check"),
        ({}, "answers: is of type dict, or empty"),
        ([[0.5]], "answers: is of type list"),
    ],
)
def test_wrong_answers_name_the_field_and_change_nothing(answers, message):
    router = Orchestrator(NAMES)
    before = router.fingerprint()
    with pytest.raises(InvalidInputError, match=message):
        router.learn_from([[1.0, 0.0], [0.0, 1.0]], answers=answers)
    assert router.fingerprint() == before
    with pytest.raises(UnknownAgentError, match="answers.signal: 'z' is no agent"):
        router.learn_from([[1.0, 0.0]], answers={"signal": {"z": [1.0]}})


def test_the_log_replays_a_warm_start_with_answers(tmp_path):
    rewards, answers = _table(60)
    plain = Orchestrator(NAMES, seed=1, objective=OBJECTIVE)
    plain.learn_from(rewards, answers=answers)
    with Router(NAMES, seed=1, objective=OBJECTIVE, path=tmp_path / "log") as router:
        router.learn_from(rewards, answers=answers)
        for each in (router, plain):
            first = each.decide(Task(), attempts=2)
            last = each.decide(Task(), seen=[Answer(first.agent, first.id, signal=0.9, label=1)], attempts=1)
            each.observe(last.id, Outcome.completed(1.0))
        assert router.fingerprint() == plain.fingerprint()
    log = open_log(tmp_path / "log")
    assert replay(log).ok and fold(log, use_snapshot=False).router.fingerprint() == plain.fingerprint()
    log.close()


def test_a_table_without_answers_costs_no_byte_and_the_event_keeps_them():
    rewards, answers = _table(5)
    plain = Evaluations(NAMES, rewards)
    event = record_evaluations(plain, 10.0)
    rest = (event.agents, event.rewards, event.weight, event.features, event.width, event.most)
    assert encode_event(event) == encode_event(EvaluationsGiven(*rest)) and event.answers is None
    again = decode_event(encode_event(record_evaluations(with_answers(plain, answers), 10.0)))
    kept = again.evaluations().answers
    assert {name: cells.tolist() for name, cells in kept.items()} == {n: c.tolist() for n, c in answers.items()}
    assert len(encode_event(event)) < len(encode_event(again)) - 3 * 5 * 2 * 8
