"""A row that cannot be read is named by its number, with a remedy; replay says what it left unchecked."""

import random

import pytest

from bot_orch import Orchestrator
from bot_orch.cli import main
from bot_orch.core.engine import ENGINE
from bot_orch.core.events import FeedbackGiven
from bot_orch.errors import StateFormatError
from bot_orch.log import Configured, MemoryLog, Row, SqliteLog, encode_event, fold


def test_a_damaged_row_is_named_by_its_number():
    log = MemoryLog()
    configured = Configured(Orchestrator(["a", "b"]).to_json(), ENGINE)
    log.append([Row(1, 1, configured.kind, "", encode_event(configured)), Row(2, 2, "feedback@1", "x", b"\x93damaged")])
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
    return {name: getattr(event, name) for name in event.__slots__}


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


def write(path, rows):
    log = SqliteLog(path)
    log.append(rows)
    log.commit()
    log.close()
    return path


def test_replay_reports_every_damaged_row_in_one_line(tmp_path, capsys, scribe_log):
    victims = (5, 9, 14)
    rows = [row._replace(body=b"\x93damaged") if row.seq in victims else row for row in scribe_log]
    assert main(["replay", str(write(tmp_path / "log", rows)), "--quiet"]) == 1
    told = capsys.readouterr()
    lines = [line for line in told.out.splitlines() if "cannot be read" in line]
    assert [line.split(":")[0].strip() for line in lines] == [f"row {seq}" for seq in victims]
    assert "events: 4 " in told.out and "stopped there" in told.out and told.err == ""


@pytest.mark.parametrize("seed", range(4))
def test_flipped_bytes_never_give_a_traceback(tmp_path, capsys, scribe_log, seed):
    rng, caught = random.Random(seed), 0  # noqa: S311
    for number in range(25):
        rows = list(scribe_log)
        at = rng.randrange(1, len(rows))
        body = bytearray(rows[at].body)
        for _ in range(rng.randint(1, 3)):
            body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
        rows[at] = rows[at]._replace(body=bytes(body))
        path = write(tmp_path / str(number), rows)
        status = main(["replay", str(path), "--quiet"])  # raises what it does not expect
        said = capsys.readouterr()
        caught += status == 1
        assert status in (0, 1) and said.err == "", "0: a flipped bit in an id or a float may be harmless"
    assert caught > 5
