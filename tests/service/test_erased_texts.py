"""Stored texts are removed from a log; what was decided and learned stays, to the last bit."""

import sqlite3

import pytest
from service_running import BASE, until

from bot_orch.cli import main
from bot_orch.clock import ManualClock
from bot_orch.log.erasure import erase_texts
from bot_orch.log.stores.open import open_file
from bot_orch.log.verification import replay

PERSON = "  - {{id: person, kind: human, timeout_s: 600}}\n"
TEXT = (BASE + PERSON).replace("seed: 5,", "seed: 5, success_reward: 1.0,")
DAY_S = 86_400
OLD = ("OLD-INPUT", "TICKET-INPUT", "TICKET-ANSWER", "NEW-INPUT")


def task(service, text, name, agent="quick", **more):
    return service.post("/v1/tasks", {"task": {"id": name, "text": text}, "eligible": [agent], **more})


@pytest.fixture
def path(start, tmp_path):
    """A stopped log with an old and a new round, an answered ticket and a round that has not ended."""
    clock = ManualClock()
    service = start(TEXT, clock=clock)
    for number in range(20):
        chat = {"model": ("quick", "careful")[number % 2], "messages": [{"role": "user", "content": "x"}]}
        assert service.post("/v1/chat/completions", chat).status == 200
    assert task(service, "OLD-INPUT", "old", background=True).status == 202
    until(lambda: not service.runtime.ledger.tasks)
    assert task(service, "TICKET-INPUT", "asked", "person", background=True).status == 202
    claimed = until(lambda: (got := service.post("/v1/queue/claim")).status == 200 and got.json())
    ticket, answer = claimed["id"], {"text": "TICKET-ANSWER", "claim": claimed["claim"]}
    answered = service.post(f"/v1/queue/{ticket}/answer", answer)
    assert answered.status == 200, answered
    until(lambda: "asked" not in str(service.runtime.ledger.tasks))
    clock.advance(10 * DAY_S)
    assert task(service, "NEW-INPUT", "new", background=True).status == 202
    until(lambda: not service.runtime.ledger.tasks)
    assert task(service, "OPEN-INPUT", "open", "person", background=True).status == 202
    until(lambda: b"OPEN-INPUT" in service.get("/v1/queue").body)
    service.stop()
    return tmp_path / "log.sqlite"


def verified(path):
    log = open_file(path)
    try:
        found = replay(log)
        return found.ok, found.events, found.derived, found.fingerprint
    finally:
        log.close()


def holds(path, text):
    """Whether any file of the log holds the bytes, or any row says so."""
    files = [file.read_bytes() for file in path.parent.glob(path.name + "*")]
    log = open_file(path)
    rows = b"".join(row.body for row in log.read())
    log.close()
    return any(text.encode() in data for data in (*files, rows))


def test_old_texts_go_and_replay_is_the_same(path, capsys):
    before = verified(path)
    assert before[0] and all(holds(path, text) for text in OLD)
    assert main(["evaluate", str(path), "--policy", "uniform"]) in (0, 1)
    evaluated = capsys.readouterr().out
    assert main(["erase", str(path), "--texts-older-than", "1d"]) == 0  # the clock is old
    said = capsys.readouterr().out
    assert "texts removed from" in said
    for gone in OLD:
        assert not holds(path, gone), gone
    assert holds(path, "OPEN-INPUT"), "a round that has not ended needs its text"
    assert verified(path) == before
    assert main(["evaluate", str(path), "--policy", "uniform"]) in (0, 1)
    assert capsys.readouterr().out == evaluated
    assert main(["erase", str(path), "--texts-older-than", "1d"]) == 0
    assert capsys.readouterr().out == "texts removed from 0 events\n"


def test_only_rows_before_a_time(path):
    log = open_file(path)
    first = next(iter(log.read())).time_us
    log.close()
    assert erase_texts(path, first + 5 * DAY_S * 10**6) > 0
    assert not holds(path, "OLD-INPUT") and holds(path, "NEW-INPUT")


def test_the_service_goes_on_with_a_emptied_log(path, start):
    assert main(["erase", str(path), "--texts-older-than", "0s"]) == 0
    service = start(TEXT, database=path, clock=ManualClock())
    until(lambda: b"OPEN-INPUT" in service.get("/v1/queue").body)
    assert service.post("/v1/decisions").status == 200
    rows = [row for row in service.runtime.writer.log.read() if row.kind == "task-ended@1"]
    shown = service.get(f"/v1/tasks/{rows[0].ref}").json()
    assert shown["status"] == "completed" and shown["output"] == ""


def test_the_log_is_append_only_again(path):
    assert main(["erase", str(path), "--texts-older-than", "0s"]) == 0
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.DatabaseError, match="append-only"):
        connection.execute("UPDATE events SET body = x''")
    connection.close()


def test_refusals(path, tmp_path, capsys):
    holder = open_file(path, writing=True)
    assert main(["erase", str(path), "--texts-older-than", "1d"]) == 2
    assert "in use" in capsys.readouterr().err
    holder.close()
    for words, said in (
        ([str(path)], "--user or --before: is missing"),
        ([str(path), "--texts-older-than", "soon"], "--texts-older-than: 'soon' is no age"),
        (["mysql://x/y", "--texts-older-than", "1d"], "log: has the scheme 'mysql'"),
        ([str(tmp_path / "none.sqlite"), "--texts-older-than", "1d"], "does not exist"),
    ):
        assert main(["erase", *words]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "none.sqlite").exists()
