"""Without the locks by inode, and without limits on headers, the checks find what went wrong."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "service"))

from service_running import BASE, Running

from bot_orch.log.log import Row
from bot_orch.log.stores.sqlite import log as sqlite
from bot_orch.log.stores.sqlite.lock import _lock_beside
from bot_orch.log.stores.sqlite.log import SqliteLog
from bot_orch.service.config import parse_config
from bot_orch.service.web.connections import Connection

TESTS = Path(__file__).parents[2]


class ByName:
    """A lock beside the file alone, under the name that was given."""

    def __init__(self, path, *, writing):
        self.beside = _lock_beside(path) if writing else None

    def check(self):
        pass

    def release(self):
        if self.beside is not None:
            os.close(self.beside.descriptor)
            self.beside = None


SECOND = """
import sys
sys.path.insert(0, sys.argv[2])
from test_hardening_controls import ByName
from bot_orch.log.stores.sqlite import log as sqlite
from bot_orch.log.log import Row
sqlite.hold = ByName
log = sqlite.SqliteLog(sys.argv[1])
log.append([Row(2, 20, "k@1", "r", b"second")])
log.commit()
print("acknowledged", log.last(), flush=True)
"""


def test_by_name_alone_two_processes_acknowledge_the_same_number(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "hold", ByName)
    log = SqliteLog(tmp_path / "log.sqlite")
    log.append([Row(1, 10, "k@1", "r", b"")])
    log.commit()
    log.close()
    log = SqliteLog(tmp_path / "log.sqlite")
    (tmp_path / "link.sqlite").hardlink_to(tmp_path / "log.sqlite")
    log.append([Row(2, 20, "k@1", "r", b"first")])
    log.commit()
    command = [sys.executable, "-c", SECOND, str(tmp_path / "link.sqlite"), str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "acknowledged (2, 20)", "so one of the two is lost"
    assert log.row(2).body == b"first"
    log.close()


def checks():
    """The module of the checks of heads."""
    spec = importlib.util.spec_from_file_location("checks_of_heads", TESTS / "service" / "test_heads.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_without_limits_a_flood_of_headers_takes_memory(tmp_path, monkeypatch):
    import socket

    suite = checks()
    monkeypatch.setattr(Connection, "_is_too_much", lambda _: False)
    running = Running(parse_config(BASE.format(database=tmp_path / "x", port=0)))
    try:
        with (
            socket.create_connection(("127.0.0.1", running.port), 60) as s,
            pytest.raises(AssertionError, match="kB"),
            suite.little_memory(),
        ):
            assert suite.flood(s, *suite.FLOODS["many headers"]) > 32 * suite.MEGABYTE
    finally:
        running.stop()
