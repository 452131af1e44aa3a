"""What is written down of a decision: numbers by name, the engine, features, the place in a round."""

import dataclasses
import json

import msgspec
import numpy as np
import pytest
from scribing import Scribe

from bot_orch import Answer, InvalidInputError, Orchestrator, Task
from bot_orch.core.engine import ENGINE
from bot_orch.core.events import FeedbackGiven, TaskRecord, as_recorded, record_decision, record_task, stored_column
from bot_orch.evaluation.export import decision_rows, event_rows, export
from bot_orch.log.events import decode_event, encode_event
from bot_orch.log.verification import replay
from bot_orch.transport import Labels
from bot_orch.types import COLUMNS

TASK = Task("t", "kind", None, (0.1, -2.5), Labels([0.3, 0.7]))


def prepared(task):
    return Orchestrator(["a", "b", "c"], "linucb", n_features=len(task.features), seed=4, ids="derived").prepare(
        task, decision_id="d"
    )


def same(one, two):
    """Whether two decisions are equal bit for bit."""
    exact = all(np.array_equal(column, two.columns()[name]) for name, column in one.columns().items())
    plain = ("id", "task_id", "agent", "agents", "policy", "lambda_", "state_seq", "key", "features")
    return exact and all(getattr(one, name) == getattr(two, name) for name in plain)


def written(task, **fields):
    made = prepared(task)
    event = record_decision(made, record_task(task), **fields)
    return made, event, decode_event(encode_event(event))


def test_a_decision_is_read_as_it_was_made():
    made, event, read = written(as_recorded(TASK), eligible=("a", "b"), excluded={"c": "open"}, session="s", by="pin")
    assert read == event and read.kind == "decision@1" and same(read.decision(), made)
    assert read.engine == ENGINE and tuple(read.columns()) == COLUMNS and read.column("cost").shape == (3,)
    assert (read.eligible, read.excluded, read.session, read.by) == (("a", "b"), {"c": "open"}, "s", "pin")
    given = read.given()
    assert (given.id, given.kind, given.features) == ("t", "kind", made.features)
    assert given.reference.to_dict() == TASK.reference.to_dict()
    assert (read.token, read.round, read.encoder, read.action, read.step) == ("", "", "", "ask", 0)


def test_features_are_four_bytes_each_where_that_loses_nothing():
    _, _, single = written(as_recorded(TASK))
    assert (single.feature_type, len(single.features)) == ("<f4", 8) and single.task.features == ()
    made, _, double = written(TASK)  # the library decides on what it is given
    assert (double.feature_type, len(double.features)) == ("<f8", 16) and double.seen() == made.features == (0.1, -2.5)
    _, _, none = written(Task("t"))
    assert none.features == b"" and none.seen() == ()


@pytest.mark.parametrize("value", [3.4e38, -1e-46, 1.0 / 3.0, 2.0**-149])
def test_rounding_twice_changes_nothing(value):
    once = as_recorded(Task("t", features=(value,)))
    assert as_recorded(once) == once and once.features[0] == float(np.float32(value))


@pytest.mark.parametrize("value", [3.5e38, -1e300])
def test_numbers_beyond_single_precision_are_refused(value):
    with pytest.raises(InvalidInputError, match="single precision") as caught:
        as_recorded(Task("t", features=(0.5, value)))
    assert caught.value.field == "task.features"


def test_a_step_of_a_round_is_read_as_it_was_made():
    router = Orchestrator(["a", "b", "c"], seed=4, ids="derived")
    answer = Answer("a", "d-1", signal=0.9, check=False, label="yes", elapsed_s=2.0)
    made = router.prepare(Task("t"), seen=[answer], attempts=3)
    event = record_decision(made, record_task(Task("t")))
    read = decode_event(encode_event(event))
    assert read == event and read.decision().to_dict() == made.to_dict()
    assert (read.round, read.step, read.answers[0].covariates["signal"]) == ("d-1", 1, 0.9)


def test_zeros_take_no_bytes_and_other_bits_do():
    made, event, read = written(Task("t"))
    assert len(event.numbers) == 6 and event.numbers[3] == b"" and event.numbers[0]
    negative = made.terms.distance * -1.0  # -0.0 is another number
    assert stored_column(negative) != b"" and same(read.decision(), made)


def test_a_field_of_a_later_release_is_passed_over():
    made, event, _ = written(as_recorded(TASK))
    event = dataclasses.replace(event, names=("x",))  # the last field, so that none is left out
    body = msgspec.msgpack.encode([*msgspec.msgpack.decode(encode_event(event)), True])
    assert decode_event(body) == event and event.agent == made.agent
    values = msgspec.msgpack.decode(encode_event(event))
    values[2] = [*event.task, "of a later release"]
    assert decode_event(msgspec.msgpack.encode(values)) == event


def test_defaults_at_the_end_take_no_bytes():
    report = FeedbackGiven("f", "d", "learned", 0.5)
    assert msgspec.msgpack.decode(encode_event(report, "d")) == [3, "f", "", "learned", 0.5]
    assert decode_event(encode_event(report, "d"), "d") == report
    whole = dataclasses.replace(report, default=True, reset_s=1.5)
    assert len(msgspec.msgpack.decode(encode_event(whole))) == 1 + len(dataclasses.fields(FeedbackGiven))
    assert decode_event(encode_event(whole)) == whole


def test_the_id_is_in_the_row_or_in_the_body(log):
    _, event, _ = written(TASK)
    short, whole = encode_event(event, "d"), encode_event(event, "another")
    assert len(short) < len(whole) and decode_event(short, "d") == decode_event(whole, "another") == event
    assert decode_event(short).id == "", "only the row knows"


def test_events_are_exported_with_names(scribe, tmp_path):
    for number in range(6):
        decision_id, _ = scribe.decide(Task(f"t{number}", features=(0.5, number / 3)))
        scribe.feedback(decision_id, 1.0)
    scribe.log.commit()
    line = next(line for line in event_rows(scribe.log) if "numbers" in line)
    assert line["kind"] == "decision@1" and line["engine"] == ENGINE and line["task"]["id"] == "t0"
    assert tuple(line["numbers"]) == COLUMNS and np.shape(list(line["numbers"].values())) == (6, 3)
    assert line["features"] == [0.5, 0.0]
    assert export(scribe.log, tmp_path / "old.jsonl") == 6 == len(list(decision_rows(scribe.log)))
    first = json.loads((tmp_path / "old.jsonl").read_text().splitlines()[1])
    assert first["features"] == [0.5, 1 / 3] and set(first["propensities"]) == {"a", "b", "c"}


def test_a_replay_of_rounded_features_is_exact(log):
    scribe = Scribe(log, Orchestrator(["a", "b", "c"], "linucb", n_features=2, seed=3))
    rng = np.random.default_rng(5)
    for number in range(60):
        decision_id, _ = scribe.decide(as_recorded(Task(f"t{number}", features=tuple(rng.normal(size=2)))))
        scribe.feedback(decision_id, float(rng.random()))
    log.commit()
    found = replay(log)
    assert found.ok and found.derived == 60 and found.fingerprint == scribe.ledger.fingerprint()


def test_deciding_before_rounding_is_found(log):
    """The control: the numbers decided on are not those written down."""
    scribe = Scribe(log, Orchestrator(["a", "b", "c"], "linucb", n_features=2, seed=3))
    rng = np.random.default_rng(5)
    for number in range(20):
        task = Task(f"t{number}", features=tuple(rng.normal(size=2)))
        made = scribe.ledger.router.prepare(task)
        event = record_decision(made, TaskRecord(task.id))
        single = np.asarray(task.features, dtype="<f4").tobytes()
        scribe.put(dataclasses.replace(event, features=single, feature_type="<f4"), event.id, made)
        scribe.feedback(event.id, float(rng.random()))
    log.commit()
    assert not replay(log).ok
