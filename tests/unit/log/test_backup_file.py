"""``bot-orch copy LOG FILE``: a backup of a log, also of one in use."""

import json
import sqlite3
import threading
from contextlib import closing

import pytest
from service_running import BASE, Running, until

from bot_orch.cli import main
from bot_orch.errors import StateFormatError
from bot_orch.log.stores import copy as log_copy
from bot_orch.log.stores.open import open_file, open_log
from bot_orch.log.verification import replay
from bot_orch.service.config import parse_config


def running(path):
    return Running(parse_config(BASE.format(database=json.dumps(str(path)), port=0)))


def decide(service, number):
    return service.post("/v1/decisions", headers={"idempotency-key": f"k{number}"}).json()["id"]


def test_a_backup_of_a_log_in_use_holds_all_that_was_acknowledged_before(tmp_path, capsys):
    path, copy, done, acked = tmp_path / "log.sqlite", tmp_path / "to" / "copy.sqlite", threading.Event(), []
    service = running(path)

    def load():
        while not done.is_set():
            acked.append(decide(service, len(acked)))

    client = threading.Thread(daemon=True, target=load)
    client.start()
    until(lambda: len(acked) >= 50)
    before = list(acked)
    assert main(["copy", str(path), str(copy)]) == 0
    done.set()
    client.join()
    service.stop()
    assert [each.name for each in copy.parent.iterdir()] == ["copy.sqlite"]
    assert copy.stat().st_mode & 0o777 == 0o600
    said = capsys.readouterr().out
    with closing(open_log(copy)) as log, closing(open_log(path)) as original:
        rows = list(log.read())
        assert replay(log).ok and f"events up to {len(rows)}" in said
        assert rows == list(original.read())[: len(rows)], "a prefix"
        assert set(before) <= {row.ref for row in rows}
    again = running(copy)
    try:
        assert decide(again, 7) == acked[7], "keys are in the copy"
        assert again.post("/v1/decisions").status == 200
    finally:
        again.stop()


def test_a_copy_that_differs_gets_no_name(tmp_path, monkeypatch):
    path = tmp_path / "log.sqlite"
    service = running(path)
    for number in range(5):
        decide(service, number)
    service.stop()
    real = log_copy._copy_pages

    def damaging(source, to):
        real(source, to)
        with closing(sqlite3.connect(to)) as connection:
            connection.execute("DELETE FROM keys WHERE seq = 3")
            connection.commit()

    monkeypatch.setattr(log_copy, "_copy_pages", damaging)
    with closing(open_file(path)) as source, pytest.raises(StateFormatError, match="differs from the original"):
        log_copy.back_up(source, tmp_path / "copy.sqlite")
    assert not [each.name for each in tmp_path.iterdir() if each.name.startswith("copy")]


def test_mistakes_are_told(tmp_path, capsys):
    path, copy = tmp_path / "log.sqlite", tmp_path / "copy.sqlite"
    running(path).stop()
    assert main(["copy", str(path), str(copy)]) == 0
    assert main(["copy", str(path), str(copy)]) == 2, "never overwritten"
    assert "TO: " in capsys.readouterr().err
    assert main(["copy", str(path), str(tmp_path / "b.sqlite"), "--close"]) == 2
    assert main(["copy", str(tmp_path / "none"), str(tmp_path / "b.sqlite")]) == 2
    said = capsys.readouterr().err
    assert "is for a copy to PostgreSQL" in said and "does not exist" in said
