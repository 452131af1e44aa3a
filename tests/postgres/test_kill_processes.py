"""kill -9 of processes and of PostgreSQL itself under load: nothing acknowledged is lost, nothing counts twice.

``BOT_ORCH_PROCESS_KILLS`` and ``BOT_ORCH_POSTGRES_KILLS`` set how often (4 and 2 unless set).
"""

import os
import random
import signal
import time

from replica_running import CONFIG, Replica, call, check, finish, more, under_load

PROCESS_KILLS = int(os.environ.get("BOT_ORCH_PROCESS_KILLS", "4"))
POSTGRES_KILLS = int(os.environ.get("BOT_ORCH_POSTGRES_KILLS", "2"))
LEASE = "&lease_s=1.5"
SLOW = "{{id: a, kind: simulated, params: {{median_s: 0.8, sigma: 0}}}}"


def test_a_killed_process_loses_nothing_acknowledged(tmp_path, database):
    rng = random.Random(3)  # noqa: S311
    with under_load(tmp_path, database + LEASE) as (replicas, acked):
        for kill in range(PROCESS_KILLS):
            more(acked)
            time.sleep(rng.uniform(0.0, 0.05))
            victim = replicas[kill % 2]
            victim.end(signal.SIGKILL)
            more(acked, 10)  # the other one goes on, with a router that was of this one
            victim.start()
        states = finish(replicas)
    check(database, acked, states)


def test_a_killed_postgresql_loses_nothing_acknowledged(tmp_path, pg, database):
    with under_load(tmp_path, database + LEASE) as (replicas, acked):
        for _ in range(POSTGRES_KILLS):
            more(acked, 40)
            pg.kill()
            status, refused = call(replicas[0].port, "POST", "/v1/decisions", {})
            assert status == 503, refused
            pg.revive()
            for replica in replicas:
                replica.wait_ready()
        more(acked, 40)
        states = finish(replicas)
    check(database, acked, states)


def test_background_rounds_survive_a_killed_postgresql(tmp_path, pg, database):
    """Storage fails under them; nothing but the log remembers them."""
    url, text = database + LEASE, CONFIG.replace("{{id: a, kind: simulated}}", SLOW)
    replica = Replica(tmp_path, "one", url, text=text)
    try:
        replica.start()
        body = {"task": {"text": "x"}, "eligible": ["a"], "background": True}
        tasks = [call(replica.port, "POST", "/v1/tasks", body)[1]["id"] for _ in range(4)]
        time.sleep(0.3)
        pg.kill()
        time.sleep(1.0)  # the agents answer, and nobody can write it down
        pg.revive()
        replica.wait_ready()
        end = time.monotonic() + 60
        while any(call(replica.port, "GET", f"/v1/tasks/{task}")[1]["status"] == "running" for task in tasks):
            assert time.monotonic() < end, "a round was forgotten"
            time.sleep(0.1)
    finally:
        replica.close()


def test_the_check_catches_a_process_that_acknowledges_too_soon(tmp_path, pg):
    from bot_orch.log.stores.open import open_log

    for attempt in range(4):
        (folder := tmp_path / str(attempt)).mkdir()
        database = pg.database()
        with under_load(folder, database + LEASE, "early") as (replicas, acked):
            for _ in range(3):
                more(acked)
                for replica in replicas:
                    replica.end(signal.SIGKILL)
                for replica in replicas:
                    replica.start()
        log = open_log(database)
        there = {row.ref for row in log.read()}
        log.close()
        if set(acked["decisions"]) - there:
            return
    raise AssertionError("a process that acknowledges before its commit was not caught")
