"""Answers with outputs: similarity by W, and W to the reference."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot_orch import Answer, InvalidInputError, Labels, Orchestrator, Outcome, Task
from bot_orch.core import outputs, teams
from bot_orch.core.events import record_decision, record_task
from bot_orch.log.events import decode_event, encode_event
from bot_orch.transport import Samples

NAMES = ("a", "b")
SPLIT = (Labels([0.5, 0.49, 0.01]), Labels([0.01, 0.49, 0.5]))


def _similar(w: float, label: int | None = None) -> float:
    state = {"apart": np.array([4.0, 2.0])}  # mean W 1/2
    two = [Answer("a", label=label), Answer("b", label=label, apart=(w,))]
    return float(teams.see_all(two, [0, 1], state).similar[0, 1])


def _decided(router: Orchestrator, measures=SPLIT):
    seen: list[Answer] = []
    for measure in measures:
        eligible = [name for name in NAMES if name not in {each.agent for each in seen}][:1]
        asked = router.decide(Task(), [*eligible, *(each.agent for each in seen)], seen=seen, attempts=3)
        name = asked.agent if asked.action == "ask" else eligible[0]
        seen.append(Answer(name, asked.id, output=measure))
    return router.prepare(Task(), [each.agent for each in seen], seen=seen, attempts=2)


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from([None, 1]))
def test_similarity_falls_with_distance(w, v, label):
    near, far = sorted((w, v))
    assert _similar(near, label) >= _similar(far, label)
    assert _similar(0.0, label) == 1.0
    assert _similar(0.5) == pytest.approx(math.exp(-1.0))
    assert _similar(0.4, 1) == pytest.approx(0.6)


def test_distances_are_those_of_the_geometry():
    labels = [Answer("a", output=Labels([0.8, 0.2])), Answer("b", output=Labels([0.4, 0.6])), Answer("c", label=1)]
    rows = outputs.implied(labels, None, None)
    assert [row[1] for row in rows] == [(), pytest.approx((0.4,)), pytest.approx((0.8, 0.4))]
    values = [Answer("a", output=Samples([0.0])), Answer("b"), Answer("c", output=Samples([2.0]))]
    _, missing, last = outputs.implied(values, None, None)
    assert math.isnan(missing[1][0])
    assert last[1][0] == pytest.approx(2.0)


def test_answers_apart_imply_nothing_and_those_at_no_distance_the_same():
    one, two, three = Answer("a"), Answer("b", apart=(0.0,)), Answer("c", apart=(0.3, 0.3))
    seen = teams.see_all([one, two, three], [0, 1, 2])
    known = teams._verdicts(seen, 0, 1.0)
    assert known[:2].tolist() == [1.0, 1.0]
    assert np.isnan(known[2])
    assert seen.comparable


def test_equal_labels_share_a_verdict_though_their_distributions_differ():
    seen = teams.see_all([Answer("a", label=0), Answer("b", label=0, apart=(0.4,))], [0, 1])
    assert seen.similar[0, 1] == pytest.approx(0.6)
    assert teams._verdicts(seen, 0, 0.0).tolist() == [0.0, 0.0]


def test_a_step_with_outputs_is_replayed_from_the_log():
    router = Orchestrator(NAMES, seed=1)
    made = _decided(router)
    event = record_decision(made, record_task(Task()))
    read = decode_event(encode_event(event, made.id), made.id).decision()
    assert read.to_dict() == made.to_dict()
    again = router.prepare(Task(), NAMES, seen=read.answers, attempts=2)
    assert again.propensities.tolist() == made.propensities.tolist()
    other = Orchestrator.from_json(router.to_json())
    router.commit(made, Task())
    other.commit(read, Task())
    for each in (router, other):
        each.observe(made.id, Outcome.completed(1.0))
    assert router.fingerprint() == other.fingerprint()
    assert Orchestrator.from_json(router.to_json()).fingerprint() == router.fingerprint()


def _worth(reference: Labels | None) -> list[float]:
    """Worth of an answer near the reference and of one far from it, after rounds in which only near ones are right."""
    router, rng, task = Orchestrator(NAMES, seed=1), np.random.default_rng(0), Task(reference=reference)
    for _ in range(80):
        first, p = router.decide(task, ["a"], attempts=2), float(rng.random())
        answer = Answer("a", first.id, output=Labels([p, 1.0 - p]), label="x", signal=0.5)
        last = router.decide(task, ["a"], seen=[answer], attempts=2)
        router.observe(last.id, Outcome.completed(float(p > 0.5)))
    made = [
        router.prepare(
            task,
            ["a"],
            seen=[Answer("a", "d", output=Labels([p, 1.0 - p]), label="x", signal=0.5)],
            attempts=2,
        )
        for p in (0.95, 0.05)
    ]
    return [float(each.terms.estimate[0]) for each in made]


def test_distance_to_the_reference_is_learned():
    near, far = _worth(Labels([1.0, 0.0]))
    assert near > 0.7 > 0.3 > far
    same = _worth(None)
    assert same[0] == same[1]


def test_outputs_of_different_sizes_are_refused():
    seen = [Answer("a", "d", output=Labels([0.5, 0.5])), Answer("b", "e", output=Labels([0.5, 0.2, 0.3]))]
    with pytest.raises(InvalidInputError, match="labels"):
        Orchestrator(NAMES).decide(Task(), seen=seen, attempts=2)
