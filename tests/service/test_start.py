"""A service that cannot start says why in one line."""

import socket

import pytest
from forked import command

from bot_orch.log.stores.sqlite.log import SqliteLog

AGENTS = "agents: [{id: a, kind: simulated}]\n"


@pytest.fixture
def start(tmp_path):
    """Starts a service on a database and a port."""

    def run(database, port=0):
        text = f"version: 1\ndatabase: {database}\nlisten: {{port: {port}}}\n{AGENTS}"
        (tmp_path / "c.yaml").write_text(text + "log_level: warning\n")
        return command("serve", tmp_path / "c.yaml")

    return run


def refused(done, *parts):
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert all(part in line for part in ("bot-orch: ", *parts))
    assert "http://" not in done.stdout, "an address is printed once the log is held and the port is open"


def test_a_port_in_use(start, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused(start(tmp_path / "log", port), f"listen: 127.0.0.1:{port} cannot be used", "in use", "--port")
    assert not (tmp_path / "log.lock").exists()


def test_a_log_in_use(start, tmp_path):
    log = SqliteLog(tmp_path / "log")
    refused(start(tmp_path / "log"), "is in use by another process")
    log.close()


def test_a_folder_instead_of_a_log(start, tmp_path):
    (tmp_path / "folder").mkdir()
    refused(start(tmp_path / "folder"), f"database: {tmp_path / 'folder'} cannot be used")


def test_a_text_instead_of_a_log(start, tmp_path):
    (tmp_path / "notes").write_text("not a database, and long enough to tell" * 10)
    refused(start(tmp_path / "notes"), str(tmp_path / "notes"), "is not a log")


def test_a_place_that_cannot_be_written(start, tmp_path):
    (tmp_path / "file").write_text("")
    refused(start(tmp_path / "file" / "log"), str(tmp_path / "file"))


def test_no_postgresql(start):
    refused(start("postgresql://nobody@127.0.0.1:1/none"), "PostgreSQL cannot be reached")
