"""The files of a log: their modes, what is left behind, and that reading a copy changes nothing."""

import hashlib
import os
import shutil
import stat

import pytest
from scribing import Scribe

from bot_orch import Orchestrator
from bot_orch.cli import main
from bot_orch.errors import BotOrchError, InvalidInputError
from bot_orch.log.log import Row
from bot_orch.log.stores.open import check_database
from bot_orch.log.stores.sqlite import lock as sqlite_lock
from bot_orch.log.stores.sqlite.log import SqliteLog


def written(path):
    scribe = Scribe(SqliteLog(path), Orchestrator(["a", "b"], "bot"))
    scribe.feedback(scribe.decide()[0], 0.5)
    scribe.log.commit()
    return scribe.log


def test_every_file_is_for_its_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        log = written(tmp_path / "log.sqlite")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        log.close()
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("log.sqlite", "log.sqlite-wal", "log.sqlite-shm", "log.sqlite.lock"), 0o600)


def test_replay_of_a_copy_leaves_the_copy_as_it_is(tmp_path, capsys):
    log = written(tmp_path / "log.sqlite")
    (copy := tmp_path / "copy").mkdir()
    for name in ("log.sqlite", "log.sqlite-wal"):
        shutil.copy(tmp_path / name, copy)
    log.close()

    def contents():
        return {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in copy.iterdir()
            if not path.name.endswith("-shm")
        }

    before = contents()
    assert set(before) == {"log.sqlite-wal", "log.sqlite"}
    assert main(["replay", str(copy / "log.sqlite"), "--quiet"]) == 0
    assert "events: 3" in capsys.readouterr().out, "the events are in the write-ahead log"
    assert contents() == before


@pytest.mark.parametrize("obstacle", ["text", "hard link", "folder"])
def test_a_refused_start_leaves_no_lock(tmp_path, obstacle):
    path = tmp_path / "log.sqlite"
    if obstacle == "folder":
        path.mkdir()
    else:
        path.write_text("not a database, and long enough to tell" * 10)
    if obstacle == "hard link":
        (tmp_path / "other").hardlink_to(path)
    before = sorted(each.name for each in tmp_path.iterdir())
    with pytest.raises((BotOrchError, OSError)):
        SqliteLog(path)
    assert sorted(each.name for each in tmp_path.iterdir()) == before


def test_a_lock_that_its_last_holder_removes_does_not_count(tmp_path, monkeypatch):
    """Between opening and locking the file beside, its holder removes it, and a third process makes a new one."""
    path, flock = tmp_path / "log.sqlite", sqlite_lock.fcntl.flock
    raced = []

    def removed_meanwhile(descriptor, how):
        if not raced:
            raced.append(descriptor)
            (tmp_path / "log.sqlite.lock").unlink()
        flock(descriptor, how)

    monkeypatch.setattr(sqlite_lock.fcntl, "flock", removed_meanwhile)
    beside = sqlite_lock._lock_beside(path)
    assert raced and beside.current
    beside.release()
    assert not list(tmp_path.iterdir())


def test_validate_refuses_a_database_with_two_names(tmp_path, capsys):
    SqliteLog(tmp_path / "log.sqlite").close()
    (tmp_path / "c.yaml").write_text("version: 1\ndatabase: log.sqlite\nagents: [{id: a, kind: simulated}]\n")
    assert main(["validate", str(tmp_path / "c.yaml")]) == 0
    (tmp_path / "second.sqlite").hardlink_to(tmp_path / "log.sqlite")
    assert main(["validate", str(tmp_path / "c.yaml")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("bot-orch: config.database: ") and "2 names (hard links); keep one" in line
    with pytest.raises(InvalidInputError, match=r"^log: .*\(hard links\)"):
        check_database(tmp_path / "second.sqlite")


def test_a_clean_stop_leaves_the_log_alone(tmp_path):
    log = SqliteLog(tmp_path / "log.sqlite")
    log.append([Row(1, 10, "k@1", "r", b"")])
    log.commit()
    log.close()
    assert [each.name for each in tmp_path.iterdir()] == ["log.sqlite"]
