"""What the manual says about backups: pg_dump of a log in use, pg_restore, replay, go on."""

import json
import subprocess
import threading
from pathlib import Path

import pytest
from service_running import BASE, Running, until

from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay
from bot_orch.service.config import parse_config


def tool(pg, name):
    """A program of the release that the server has."""
    import psutil

    path = Path(psutil.Process(pg.server.get_pid()).exe()).parent / name
    if not path.exists():
        pytest.skip(f"{name} is not there")
    return str(path)


def running(url):
    return Running(parse_config(BASE.format(database=json.dumps(url), port=0)))


def test_a_dump_of_a_running_log_is_a_sound_log(pg, tmp_path):
    url, copy, dump = pg.database(), pg.database(), str(tmp_path / "copy.dump")
    service, done = running(url), threading.Event()
    acked = []

    def load():
        while not done.is_set():
            acked.append(service.post("/v1/decisions", headers={"idempotency-key": f"k{len(acked)}"}).json()["id"])

    client = threading.Thread(daemon=True, target=load)
    client.start()
    until(lambda: len(acked) >= 50)
    before = list(acked)
    subprocess.run([tool(pg, "pg_dump"), "--format=custom", "--schema=bot_orch", f"--file={dump}", url], check=True)
    done.set()
    client.join()
    service.stop()
    subprocess.run([tool(pg, "pg_restore"), "--no-owner", f"--dbname={copy}", dump], check=True)
    log = open_log(copy)
    found, there = replay(log), {row.ref for row in log.read()}
    log.close()
    assert found.ok and set(before) <= there, "all that was acknowledged before the dump began"
    again = running(copy)
    assert again.post("/v1/decisions", headers={"idempotency-key": "k7"}).json()["id"] == acked[7]
    assert again.post("/v1/decisions").status == 200
    again.stop()
