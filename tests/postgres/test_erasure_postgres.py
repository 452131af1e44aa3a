"""``bot-orch erase`` on PostgreSQL: texts go, decisions and outcomes stay to the last bit, the service goes on."""

import json
from contextlib import closing

import psycopg
import pytest
from service_running import BASE, Running, until

from bot_orch.cli import main
from bot_orch.log.archiving import move_events
from bot_orch.log.stores.open import open_log, open_whole
from bot_orch.log.verification import replay
from bot_orch.service.config import parse_config

TEXT = BASE + "  - {{id: person, kind: human, timeout_s: 600}}\n"


def running(url):
    return Running(parse_config(TEXT.format(database=json.dumps(url), port=0)))


def verified(url):
    log = open_log(url)
    try:
        found = replay(log)
        return found.ok, found.events, found.derived, found.fingerprint
    finally:
        log.close()


def stored(url):
    """All that the tables hold, as text."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT body FROM bot_orch.events UNION ALL SELECT body FROM bot_orch.snapshots"
        ).fetchall()
    return b"".join(bytes(body) for (body,) in rows)


def test_texts_go_and_replay_is_the_same(database, capsys):
    service = running(database)
    for number in range(8):
        made = service.post("/v1/decisions", headers={"idempotency-key": f"k{number}"}).json()
        service.post("/v1/feedback", {"decision_id": made["id"], "reward": number % 2})
    ended = {"task": {"id": "old", "text": "OLD-INPUT"}, "eligible": ["quick"], "background": True}
    assert service.post("/v1/tasks", ended).status == 202
    until(lambda: service.serves and not service.runtime.ledger.tasks)
    still_open = {"task": {"id": "open", "text": "OPEN-INPUT"}, "eligible": ["person"], "background": True}
    assert service.post("/v1/tasks", still_open).status == 202
    until(lambda: b"OPEN-INPUT" in service.get("/v1/queue").body)
    assert main(["erase", database, "--texts-older-than", "0s"]) == 2
    assert "is in use by" in capsys.readouterr().err and b"OLD-INPUT" in stored(database)
    service.stop()
    before = verified(database)
    assert before[0]
    assert main(["erase", database, "--texts-older-than", "0s"]) == 0
    assert "texts removed from 2 events" in capsys.readouterr().out
    assert b"OLD-INPUT" not in stored(database) and b"OPEN-INPUT" in stored(database)
    assert verified(database) == before
    with psycopg.connect(database) as connection, pytest.raises(psycopg.Error, match="append-only"):
        connection.execute("UPDATE bot_orch.events SET body = ''")
    pair = running(database), running(database)
    until(lambda: any(b"OPEN-INPUT" in each.get("/v1/queue").body for each in pair))
    first = pair[0].post("/v1/decisions", headers={"idempotency-key": "k3"}).json()
    assert pair[1].post("/v1/decisions", headers={"idempotency-key": "k3"}).json() == first
    for each in pair:
        assert each.post("/v1/decisions").status == 200
    for each in pair:
        each.stop()
    assert verified(database)[0]


def test_a_user_is_erased_and_the_rest_replays(database, capsys):
    service = running(database)
    for number in range(20):
        user = ("alice", "bob")[number % 2]
        body = {"task": {"id": f"{user}-{number}", "features": [number / 20]}, "session": user}
        made = service.post("/v1/decisions", body, headers={"idempotency-key": f"{user}-key"}).json()
        if "id" in made:
            service.post("/v1/feedback", {"decision_id": made["id"], "reward": number % 2, "id": f"{user}-{number}"})
    service.stop()
    assert b"alice" in stored(database)
    assert main(["erase", database, "--user", "alice"]) == 0
    assert b"alice" not in stored(database) and b"bob" in stored(database)
    with psycopg.connect(database) as connection:
        keys = [key for (key,) in connection.execute("SELECT key FROM bot_orch.keys").fetchall()]
        refs = [ref for (ref,) in connection.execute("SELECT ref FROM bot_orch.events").fetchall()]
    assert "alice" not in str(keys + refs) and "bob" in str(keys)
    after = verified(database)
    assert after[0]
    service = running(database)
    assert service.post("/v1/decisions", {"task": {"features": [0.5]}}).status == 200
    service.stop()
    assert verified(database)[0] and verified(database)[2] == after[2] + 1


def test_archived_events_are_erased_too(database, tmp_path):
    service = running(database)
    for number in range(20):
        user = ("alice", "bob")[number % 2]
        body = {"task": {"id": f"{user}-{number}", "features": [number / 20]}, "session": user}
        made = service.post("/v1/decisions", body).json()
        service.post("/v1/feedback", {"decision_id": made["id"], "reward": number % 2, "id": f"{user}-{number}"})
    service.stop()
    with closing(open_log(database)) as log:
        cut = next(row.time_us for row in log.read(20))
    assert move_events(database, tmp_path / "archive", cut).record.seq == 20
    assert main(["erase", database, "--user", "alice"]) == 0
    assert b"alice" not in stored(database)
    with closing(open_whole(database)) as log:
        found, rows = replay(log), list(log.read())
    assert found.ok and "alice" not in str(rows) and "bob" in str(rows)
    service = running(database)
    assert service.get("/v1/admin/state").json()["fingerprint"] == found.fingerprint
    service.stop()
