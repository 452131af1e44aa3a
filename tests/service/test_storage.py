"""A disk that is full or broken: 503, never a false acknowledgement, and back to work when the disk is."""

import asyncio
import sqlite3
import threading

import pytest
from service_running import until

from bot_orch.clock import SystemClock
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.log.stores.open import open_log
from bot_orch.log.stores.sqlite.log import SqliteLog
from bot_orch.log.verification import replay
from bot_orch.service.problems import StorageError
from bot_orch.service.storage.writer import Writer


class FailingLog(MemoryLog):
    """Fails where told; ``reported`` tells whether a failed commit took effect all the same."""

    def __init__(self):
        super().__init__()
        self.broken = None

    def append(self, rows):
        if self.broken == "append":
            raise sqlite3.OperationalError("database or disk is full")
        super().append(rows)

    def commit(self):
        if self.broken == "commit":
            raise sqlite3.OperationalError("disk I/O error")
        super().commit()
        if self.broken == "after":
            raise sqlite3.OperationalError("disk I/O error")

    def probe(self):
        if self.broken is not None:
            raise sqlite3.OperationalError("disk I/O error")


def wait_ready(service):
    until(lambda: service.get("/health/ready").status == 200)


@pytest.mark.parametrize("where", ["append", "commit", "after"])
def test_errors_are_503_and_the_state_is_what_the_log_says(start, where):
    log = FailingLog()
    service = start(log=log)
    kept = service.post("/v1/decisions").json()["id"]
    log.broken = where
    refused = service.post("/v1/decisions")
    assert refused.status == 503 and refused.headers["retry-after"] == "1"
    assert refused.json()["error"]["code"] == "storage_unavailable"
    assert service.post("/v1/feedback", {"decision_id": kept, "reward": 1.0}).status == 503
    assert service.get("/health/ready").status == 503 and service.get("/health/live").status == 200
    log.broken = None
    wait_ready(service)
    assert service.post("/v1/feedback", {"decision_id": kept, "reward": 1.0}).json()["effect"] == "learned"
    assert service.post("/v1/decisions").status == 200
    state = service.get("/v1/admin/state").json()
    assert replay(log).ok and replay(log).fingerprint == state["fingerprint"]


def test_a_full_database_is_503_and_loses_nothing(start, tmp_path):
    path = tmp_path / "full.sqlite"
    log = SqliteLog(path)
    pages = log._writer.execute("PRAGMA page_count").fetchone()[0]
    service = start(log=log)
    service.call(lambda: log._writer.execute(f"PRAGMA max_page_count = {pages + 12}"))
    acknowledged, refused = [], 0
    for number in range(400):
        answer = service.post("/v1/decisions", {"task": {"id": f"{number:x>200}"}})
        assert answer.status in (200, 503), answer
        if answer.status == 200:
            acknowledged.append(answer.json()["id"])
        else:
            refused += 1
        if refused > 3:
            break
    assert acknowledged and refused
    watching = open_log(path)
    assert set(acknowledged) <= {row.ref for row in watching.read()}
    service.call(lambda: log._writer.execute("PRAGMA max_page_count = 1000000"))
    wait_ready(service)
    assert service.post("/v1/decisions").status == 200
    state = service.get("/v1/admin/state").json()
    assert replay(watching).fingerprint == state["fingerprint"]
    watching.close()


def test_what_was_decided_but_cannot_be_written_is_undone(start, monkeypatch):
    service = start()
    service.post("/v1/decisions")
    before = service.get("/v1/admin/state").json()["fingerprint"]
    from bot_orch.service.routing import decision

    def broken(*_, **__):
        raise RuntimeError("a defect")

    with monkeypatch.context() as patched:
        patched.setattr(decision, "record_decision", broken)
        assert service.post("/v1/decisions").status == 500
    wait_ready(service)
    assert service.get("/v1/admin/state").json()["fingerprint"] == before
    assert service.post("/v1/decisions").status == 200


def test_one_log_has_one_service(start, tmp_path):
    from bot_orch.log.log import LogInUseError

    start()
    with pytest.raises(LogInUseError):
        SqliteLog(tmp_path / "log.sqlite")


def test_a_look_into_a_log_that_was_closed_is_refused():
    """A request may look for a decision while its router moves to another process."""
    staged, busy = Writer(MemoryLog(), SystemClock()), threading.Event()

    async def scene():
        first = asyncio.ensure_future(staged._in_reader(busy.wait))
        waiting = asyncio.ensure_future(staged._in_reader(lambda: 1))
        await asyncio.sleep(0)
        staged._readers.shutdown(wait=False, cancel_futures=True)
        for late in (waiting, staged._in_reader(lambda: 1)):
            with pytest.raises(StorageError, match="try again"):
                await late
        busy.set()
        assert await first

    asyncio.run(scene())
