"""A row that cannot be read is named by its number, with a remedy; replay says what it left unchecked."""

import pytest

from bot_orch import Orchestrator
from bot_orch.cli import main
from bot_orch.errors import StateFormatError
from bot_orch.eventlog import Configured, MemoryLog, Row, SqliteLog, encode_event, fold, kind_of
from bot_orch.eventlog.events import FeedbackGiven


def test_a_damaged_row_is_named_by_its_number():
    log = MemoryLog()
    configured = Configured(Orchestrator(["a", "b"]).to_json())
    log.append(
        [Row(1, 1, kind_of(configured), "", encode_event(configured)), Row(2, 2, "feedback@1", "x", b"\x93damaged")]
    )
    log.commit()
    with pytest.raises(StateFormatError, match=r"^log: row 2: an event cannot be read .*; it is damaged \(restore"):
        fold(log)


def test_replay_says_how_much_it_left_unchecked(tmp_path, capsys, scribe_log):
    log, victim = SqliteLog(tmp_path / "changed.sqlite"), 8
    for row in scribe_log:
        event = row.event()
        if row.seq == victim:
            other = next(name for name in event.agents if name != event.agent)
            row = row._replace(body=encode_event(type(event)(**{**_fields(event), "agent": other})))
        log.append([row])
    log.commit()
    log.close()
    assert main(["replay", str(tmp_path / "changed.sqlite"), "--quiet"]) == 1
    said = capsys.readouterr().out
    assert f"stopped there: {len(scribe_log) - victim + 1} of {len(scribe_log)} events were not checked" in said


def _fields(event):
    return {name: getattr(event, name) for name in event.__struct_fields__}


@pytest.fixture
def scribe_log():
    from scribing import Scribe

    scribe = Scribe(MemoryLog(), Orchestrator(["a", "b", "c"], "bot", floor=0.3, seed=3))
    while not (scribe.ledger.seq >= 20):
        decision_id, _ = scribe.decide()
        scribe.feedback(decision_id, 0.5)
        scribe.put(FeedbackGiven(f"again-{decision_id}", decision_id, "revision", reward=0.4), decision_id)
    scribe.log.commit()
    rows = list(scribe.log.read())
    assert rows[7].kind.startswith("decision"), [row.kind for row in rows]
    return rows
