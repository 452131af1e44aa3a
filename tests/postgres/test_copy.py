"""``bot-orch copy`` to and from PostgreSQL: the same log, proven by replay; the service goes on with it."""

import json
import sqlite3
from contextlib import closing

import pytest
from service_running import BASE, Running

from bot_orch.cli import main
from bot_orch.log.log import LogInUseError
from bot_orch.log.stores.open import open_log
from bot_orch.service.config import parse_config


def begin(database):
    return Running(parse_config(BASE.format(database=json.dumps(str(database)), port=0)))


@pytest.fixture
def old(tmp_path):
    """A SQLite log with decisions, reports, keys, a whole round and an early report."""
    path = tmp_path / "log.sqlite"
    service = begin(path)
    for number in range(30):
        made = service.post("/v1/decisions", {"task": {"id": str(number)}}, headers={"idempotency-key": f"k{number}"})
        if number % 3:
            body = {"decision_id": made.json()["id"], "reward": number / 30, "id": f"f\0{number}"}
            assert service.post("/v1/feedback", body).status == 200
    assert service.post("/v1/tasks", {"task": {"text": "hello"}}).status == 200
    early = "018bcfe5-6800-707b-8000-000000000000"
    assert service.post("/v1/feedback", {"decision_id": early, "reward": 1.0}).json()["effect"] == "early"
    state = service.get("/v1/admin/state").json()
    service.stop()
    return path, state


def test_the_copy_is_the_same_and_the_service_goes_on(old, database, capsys):
    path, state = old
    assert main(["copy", str(path), database, "--quiet"]) == 0
    said = capsys.readouterr().out
    assert said.count(state["fingerprint"]) == 2 and "different: 0" in said and "is identical" in said
    service = begin(database)
    try:
        assert service.get("/v1/admin/state").json()["fingerprint"] == state["fingerprint"]
        again = service.post("/v1/decisions", {"task": {"id": "4"}}, headers={"idempotency-key": "k4"})
        assert again.status == 200 and service.get("/v1/admin/state").json()["seq"] == state["seq"]
        assert service.post("/v1/decisions").status == 200
    finally:
        service.stop()
    assert main(["copy", str(path), database, "--quiet"]) == 2, "it has gone on: it is another log now"


def test_an_interrupted_copy_goes_on(old, database, capsys, monkeypatch):
    from bot_orch.log.stores import copy as log_copy

    path, state = old
    monkeypatch.setattr(log_copy, "_GROUP", 10)
    real, calls = log_copy.PostgresLog.append, []

    def failing(self, rows):
        calls.append(rows)
        if len(calls) == 3:
            raise KeyboardInterrupt
        real(self, rows)

    with monkeypatch.context() as patched:
        patched.setattr(log_copy.PostgresLog, "append", failing)
        assert main(["copy", str(path), database, "--quiet"]) == 130
    capsys.readouterr()
    assert main(["copy", str(path), database, "--quiet"]) == 0
    said = capsys.readouterr().out
    assert f"events copied: {state['seq'] - 20}, in the copy: {state['seq']}" in said


def test_a_log_in_use_is_backed_up_to_a_file(old, database, tmp_path, capsys):
    path, state = old
    back = tmp_path / "back.sqlite"
    assert main(["copy", str(path), database, "--quiet"]) == 0
    service = begin(database)
    assert service.post("/v1/decisions", headers={"idempotency-key": "later"}).status == 200
    assert main(["copy", database, str(back), "--quiet"]) == 0, "while it is served"
    assert main(["copy", database, database.replace("/postgres?", "/other?"), "--quiet"]) == 2, "a move needs it unused"
    assert "is in use by" in capsys.readouterr().err
    service.stop()
    with closing(open_log(back)) as log, closing(open_log(path)) as first:
        rows = list(log.read())
        assert rows[: state["seq"]] == list(first.read()) and len(rows) > state["seq"]
        assert log.find("f\0" + "4") == first.find("f\0" + "4")
    again = begin(back)
    seq = again.get("/v1/admin/state").json()["seq"]
    assert again.post("/v1/decisions", headers={"idempotency-key": "later"}).status == 200
    assert again.get("/v1/admin/state").json()["seq"] == seq, "the key is known"
    again.stop()


def test_what_cannot_be_copied_is_said(old, database, tmp_path, capsys):
    path, _ = old
    assert main(["copy", str(tmp_path / "none"), database]) == 2
    assert main(["copy", str(path), "postgresql://nobody@127.0.0.1:1/x"]) == 2
    said = capsys.readouterr().err
    assert "does not exist" in said and "cannot be reached" in said
    assert not (tmp_path / "none").exists()
    from bot_orch.log.stores.sqlite.log import SqliteLog

    log = SqliteLog(path)
    assert main(["copy", str(path), database]) == 2, "a running service writes to it"
    assert "in use" in capsys.readouterr().err
    with pytest.raises(LogInUseError):
        SqliteLog(path)
    log.close()


def test_a_copy_that_differs_is_found(old, pg, database, capsys):
    path, _ = old
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER events_are_not_changed")
    with closing(open_log(path)) as log:
        row = next(row for row in log.read(40) if row.kind == "decision@1")
    changed = row.body.replace(b"quick", b"QUICK").replace(b"careful", b"quick").replace(b"QUICK", b"careful")
    assert changed != row.body
    connection.execute("UPDATE events SET kind = ?, body = ? WHERE seq = ?", (row.kind, changed, row.seq))
    connection.commit()
    connection.close()
    assert main(["copy", str(path), database, "--quiet"]) in (1, 2)
    streams = capsys.readouterr()
    assert "DIFFERS" in streams.out or "log:" in streams.err


def test_help_has_an_example(capsys):
    with pytest.raises(SystemExit):
        main(["copy", "--help"])
    assert "bot-orch copy bot-orch.sqlite postgresql://" in capsys.readouterr().out
