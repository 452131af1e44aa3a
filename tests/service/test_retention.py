"""The setting ``retention``: a running service moves old events to the archive, and requests go on."""

import asyncio
import contextlib
import json
import re
import threading
import time

import pytest
from service_running import BASE, Running, until

from bot_orch.cli import main
from bot_orch.clock import ManualClock
from bot_orch.core.events import Noted
from bot_orch.errors import InvalidInputError, MissingExtraError
from bot_orch.log.archiving import move_events
from bot_orch.log.events import encode_event
from bot_orch.log.log import Row
from bot_orch.log.stores.open import open_log
from bot_orch.service.config import parse_config
from bot_orch.service.config.checks import find_spec

ROWS = 4200
RETENTION = "retention: {{events: 2h, archive: {archive}}}\n"


def grown(database, clock, rows=ROWS):
    """Notes behind what a service has written."""
    with contextlib.closing(open_log(database, writing=True)) as log:
        seq, time_us = log.last()
        body = encode_event(Noted("x", "y", {"much": "text" * 20}))
        kind = Noted.kind
        log.append([Row(seq + n, time_us + n, kind, "", body) for n in range(1, rows + 1)])
        log.commit()
    clock.advance(3 * 3600.0)


def started(database, folder, clock, **more):
    names = {"database": json.dumps(str(database)), "archive": json.dumps(str(folder))}
    return Running(parse_config((BASE + RETENTION).format(port=0, **names)), clock=clock, **more)


def archived_events(service):
    found = re.search(r"^bot_orch_archived_events_total(?:\{.*\})? (\d+)", service.get("/metrics").body.decode(), re.M)
    return 0 if found is None else int(found[1])


def play(database, folder, clock):
    """A service that archives while it serves; what it had learned before, and how it went on."""
    first = started(database, folder, clock)
    pending = first.post("/v1/decisions", headers={"idempotency-key": "k"}).json()["id"]
    first.stop()
    grown(database, clock)
    size = database.stat().st_size
    service = started(database, folder, clock)
    failed, done = [], threading.Event()

    def ask():
        while not done.is_set():
            answer = service.post("/v1/decisions")
            failed.extend([answer.status] if answer.status != 200 else [])
            time.sleep(0.02)

    asking = threading.Thread(daemon=True, target=ask)
    asking.start()
    try:
        until(lambda: archived_events(service) > 4000, 60)
    finally:
        done.set()
        asking.join()
    assert failed == []
    assert service.post("/v1/decisions", headers={"idempotency-key": "k"}).status == 410
    until(lambda: service.call(lambda: service.runtime.ledger.router.is_silent(pending)))  # its horizon has passed
    assert service.post("/v1/feedback", {"decision_id": pending, "reward": 1.0}).json()["effect"] == "replaced"
    state = service.runtime.ledger.fingerprint()
    service.stop()
    return state, size


def check(database, folder, state, capsys):
    with contextlib.closing(open_log(database)) as log:
        assert next(log.read()).seq == log.archived().seq + 1 > 4000
    assert len(list((folder).glob("*.parquet"))) == 1
    assert main(["replay", str(database), "--quiet"]) == 0
    assert f"fingerprint: {state}" in capsys.readouterr().out
    assert main(["replay", str(database), "--quiet", "--live"]) == 0
    assert f"fingerprint: {state}" in capsys.readouterr().out


def test_a_service_moves_old_events_while_it_serves(tmp_path, capsys):
    path, clock = tmp_path / "log.sqlite", ManualClock()
    state, size = play(path, tmp_path / "archive", clock)
    check(path, tmp_path / "archive", state, capsys)
    assert path.stat().st_size < 0.7 * size


def test_retention_continues_an_archive_that_was_begun_by_hand(tmp_path):
    path, clock, folder = tmp_path / "log.sqlite", ManualClock(), tmp_path / "archive"
    started(path, folder, clock).stop()
    grown(path, clock)
    move_events(path, folder, clock.now_us() - 3_600_000_000)  # not where retention would begin
    grown(path, clock)
    service = started(path, folder, clock)
    assert "bot_orch_archive_failures_total 0" in service.get("/metrics").body.decode()
    until(lambda: archived_events(service) > 4000, 60)
    service.stop()
    assert len(list(folder.glob("*.parquet"))) == 2 and not (folder / "default").exists()
    with contextlib.closing(open_log(path)) as log:
        assert log.archived().seq > 2 * 4000 and log.archived().folder == str(folder)


def test_a_failure_is_counted_and_the_events_stay(tmp_path):
    path, clock, folder = tmp_path / "log.sqlite", ManualClock(), tmp_path / "archive"
    started(path, folder, clock).stop()
    grown(path, clock)
    folder.write_text("a file is in the way")
    service = started(path, folder, clock)
    until(lambda: "bot_orch_archive_failures_total 1" in service.get("/metrics").body.decode(), 60)
    assert service.post("/v1/decisions").status == 200
    service.stop()
    with contextlib.closing(open_log(path)) as log:
        assert log.archived() is None and next(log.read()).seq == 1


def test_jobs_on_the_log_do_not_disturb_groups(start):
    service = start()
    writer, loop = service.runtime.writer, service.loop
    found = [asyncio.run_coroutine_threadsafe(writer.on_log(lambda n=n: n), loop) for n in range(20)]
    made = [service.post("/v1/decisions").status for _ in range(5)]
    assert [each.result(10) for each in found] == list(range(20)) and made == [200] * 5
    broken = asyncio.run_coroutine_threadsafe(writer.on_log(lambda: 1 // 0), loop)
    with pytest.raises(ZeroDivisionError):
        broken.result(10)
    assert service.post("/v1/decisions").status == 200


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{events: 90d}}", "config.retention.archive: is missing; name a folder"),
        ("{{archive: /srv/archive}}", "config.retention.events: is missing"),
        ("{{events: soon, archive: a}}", "config.retention.events: 'soon' is no age"),
        ("{{events: 5m, archive: a}}", "config.retention.events: is 5m; keep events for an hour or longer"),
    ],
)
def test_bad_settings_are_named(text, said, tmp_path):
    with pytest.raises(InvalidInputError, match=said):
        parse_config((BASE + f"retention: {text}\n").format(database=tmp_path / "log", port=0))


@pytest.mark.parametrize("events", ["23h", "24h"])
def test_dollars_that_still_count_are_not_archived(events, tmp_path):
    limited = "tokens: [{{name: app, scopes: [decide], env: APP, limits: {{usd_per_day: 5}}}}]"
    text = BASE + f"retention: {{{{events: {events}, archive: a}}}}\n" + limited + "\n"
    refused = pytest.raises(
        InvalidInputError, match=r"is 23h, and config.tokens\[0\].limits counts the dollars of a day"
    )
    with refused if events == "23h" else contextlib.nullcontext():
        parse_config(text.format(database=tmp_path / "log", port=0))


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    absent = {"pyarrow"}
    monkeypatch.setattr(
        "bot_orch.service.config.checks.find_spec", lambda name: None if name in absent else find_spec(name)
    )
    with pytest.raises(MissingExtraError, match=r"\[parquet\]"):
        parse_config((BASE + "retention: {{events: 90d, archive: a}}\n").format(database=tmp_path / "log", port=0))
