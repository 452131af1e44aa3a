"""A database that stays silent: queries and requests end, readiness says so, and a signal still ends the process."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time

import pytest
from pg_running import need
from proxied import proxied
from replica_running import CONFIG, Replica, call
from service_running import BASE, Running, free_port, until
from tcp_proxy import LinkFault

from bot_orch.clock import SteadyClock
from bot_orch.log.log import Row, Wanted
from bot_orch.log.stores.postgres.connect import LogUnavailableError
from bot_orch.service.config import parse_config

SWALLOW = LinkFault("swallow")
SILENT = "&query_s=0.5"


def in_thread(job):
    """Whatever a job raises, or what it returns; the thread, if it has not ended after some seconds."""
    found = []

    def run():
        try:
            found.append(job())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    return found[0] if found else thread


JOBS = {
    "read": lambda log: list(log.read()),
    "look up": lambda log: log.look_up(Wanted(("k",), ("r",))),
    "probe": lambda log: log.probe(),
    "append": lambda log: log.settle([Row(2, 20, "k@1", "r", b"")]),
    "clock": lambda log: log.seconds_ahead(SteadyClock()),
}


@pytest.mark.parametrize("name", JOBS)
def test_every_query_has_a_deadline(database, name):
    from bot_orch.log.stores.postgres.log import PostgresLog

    with proxied(database, SILENT) as proxy:
        log = PostgresLog(proxy.url)
        log.append([Row(1, 10, "k@1", "r", b"")])
        log.commit()
        proxy.set(SWALLOW)
        assert isinstance(in_thread(lambda: JOBS[name](log)), LogUnavailableError)
        log.close()


def test_a_commit_and_a_connection_have_one(database):
    from bot_orch.log.stores.postgres.log import PostgresLog

    with proxied(database, SILENT) as proxy:
        log = PostgresLog(proxy.url)
        log.append([Row(1, 10, "k@1", "r", b"")])
        proxy.set(SWALLOW)
        assert isinstance(in_thread(log.commit), LogUnavailableError)
        log.rollback()
        assert isinstance(in_thread(log.probe), LogUnavailableError), "nor does it wait for a new connection"
        log.close()


def test_a_silent_network_is_waited_for_once(database):
    """Who has lost one connection leaves the other, too, instead of waiting for its deadline."""
    from bot_orch.log.stores.postgres.log import PostgresLog

    with proxied(database, SILENT) as proxy:
        log = PostgresLog(proxy.url)
        log.append([Row(1, 10, "k@1", "r", b"")])
        log.commit()
        proxy.set(SWALLOW)
        assert isinstance(in_thread(log.last), LogUnavailableError)
        proxy.heal()
        assert log.last() == (1, 10)
        before = log._w
        log.probe()
        assert log._w is not before, "the connection that writes is as dead, and was replaced"
        log._w.close()
        before = log._r
        log.probe()
        assert log.last() == (1, 10) and log._r is not before, "and the other way round"
        log.close()


def test_control_the_driver_alone_waits(database):
    import psycopg

    with proxied(database) as proxy:
        connection = psycopg.connect(proxy.url)
        proxy.set(SWALLOW)

        def ask():
            with contextlib.suppress(psycopg.OperationalError):
                connection.execute("SELECT 1")

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(2)
        assert thread.is_alive(), "four times the deadline of the tests above"
        connection.close()
        thread.join(10)


def test_closing_ends_a_query_that_waits(database):
    from bot_orch.log.stores.postgres.log import PostgresLog

    with proxied(database, "&query_s=600") as proxy:
        log = PostgresLog(proxy.url)
        proxy.set(SWALLOW)
        waiting = threading.Timer(0.3, log.abort)
        waiting.start()
        assert "closed" in str(in_thread(log.last))
        log.close()


def test_closing_ends_a_connection_that_is_being_made(database):
    from bot_orch.log.stores.postgres.connect import connect

    with proxied(database, "&query_s=600") as proxy:
        proxy.set(SWALLOW)
        ended = threading.Event()
        threading.Timer(0.3, ended.set).start()
        assert isinstance(in_thread(lambda: connect(proxy.url, ended=ended)), LogUnavailableError)


def started(url, **options):
    return Running(parse_config(BASE.format(database=json.dumps(url), port=0)), **options)


def test_a_process_behind_a_silent_connection_says_so_and_heals(database):
    with proxied(database, SILENT + "&lease_s=2") as proxy:
        hung = started(proxy.url)
        until(lambda: hung.serves)
        other = started(f"{database}&lease_s=2")
        assert hung.post("/v1/decisions").status == 200 == hung.get("/health/ready").status
        proxy.set(SWALLOW)
        answer = hung.post("/v1/decisions")
        assert answer.status == 503 and answer.headers["retry-after"] == "1"
        assert hung.get("/health/live").status == 200, "the event loop does not wait"
        found = until(lambda: (each := hung.get("/health/ready")).status == 503 and each, 20)
        assert found.json()["error"]["code"] in ("not_ready", "moved")
        until(lambda: other.serves)
        assert other.post("/v1/decisions").status == 200, "the other has its router"
        proxy.heal()
        until(lambda: hung.get("/health/ready").status == 200, 20)
        assert hung.post("/v1/decisions").status == 200
        proxy.set(SWALLOW)
        begun = time.monotonic()
        hung.stop()
        assert time.monotonic() - begun < 30  # typically 3
        other.stop()


def test_a_signal_ends_a_process_whose_database_is_silent(database, tmp_path):
    with proxied(database, "&query_s=2") as proxy:
        replica = Replica(tmp_path, "one", proxy.url)
        try:
            replica.start()
            assert call(replica.port, "POST", "/v1/decisions", {})[0] == 200
            proxy.set(SWALLOW)
            waiting = threading.Thread(target=lambda: call(replica.port, "POST", "/v1/decisions", {}), daemon=True)
            waiting.start()
            time.sleep(0.1)
            begun = time.monotonic()
            replica.end(signal.SIGTERM)
            assert time.monotonic() - begun < 30
            waiting.join(30)
        finally:
            replica.close()


@pytest.mark.parametrize("frozen_s", [0.3, 4.0])
def test_a_signal_ends_the_command_while_the_server_hangs(database, tmp_path, frozen_s):
    """With the default deadlines and no request that waits: after a write just now, and once it has noticed."""
    port, config = free_port(), tmp_path / "c.yaml"
    config.write_text(CONFIG.format(database=json.dumps(database), port=port))
    command = [sys.executable, "-m", "bot_orch", "serve", str(config)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().startswith("bot-orch: http://")
        until(lambda: call(port, "GET", "/health/ready")[0] == 200)
        assert call(port, "POST", "/v1/decisions", {})[0] == 200
        with need().frozen():
            time.sleep(frozen_s)
            begun = time.monotonic()
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            took_s = time.monotonic() - begun
    finally:
        process.kill()
        process.wait(60)
        process.stdout.close()
    print(f"SIGTERM {frozen_s} s after the server froze: the process ended in {took_s:.1f} s")  # noqa: T201
    assert took_s < 8.0


def test_no_query_runs_on_the_event_loop(database, monkeypatch):
    import psycopg

    from bot_orch.log.stores.postgres.connect import limited

    seen, connection = set(), limited(psycopg)
    wait = connection.wait

    def watched(self, *arguments, **options):
        seen.add(threading.get_ident())
        return wait(self, *arguments, **options)

    monkeypatch.setattr(connection, "wait", watched)
    service = started(database)
    made = service.post("/v1/decisions", headers={"idempotency-key": "k"}).json()
    assert service.post("/v1/decisions", headers={"idempotency-key": "k"}).json() == made
    task = service.post("/v1/tasks", {"task": {"text": "2 + 2?"}}, headers={"idempotency-key": "t"}).json()
    assert service.post("/v1/tasks", {"task": {"text": "2 + 2?"}}, headers={"idempotency-key": "t"}).status == 200
    for body in ({"reward": 1.0, "id": "f"}, {"reward": 1.0, "id": "f"}, {"reward": 0.5}):
        assert service.post("/v1/feedback", {"decision_id": made["id"], **body}).status == 200
    for path in (f"/v1/decisions/{made['id']}", f"/v1/tasks/{task['id']}", "/v1/spend?by=agent", "/v1/agents"):
        assert service.get(path).status == 200, path
    for path in ("/", "/decisions", f"/decisions/{made['id']}", "/dashboard/live", "/metrics", "/health/ready"):
        assert service.get(path).status == 200, path
    assert service.thread.ident not in seen and len(seen) > 1
    service.call(lambda: service.runtime.writer.log.about(made["id"]))
    assert service.thread.ident in seen, "control: it would have been noticed"
    service.stop()
