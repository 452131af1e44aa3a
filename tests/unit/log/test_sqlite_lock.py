"""One writer per file, whatever the file is called; and SQLite's own locks are left alone."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bot_orch.errors import InvalidInputError
from bot_orch.log.log import LogInUseError, Row
from bot_orch.log.stores.open import open_log
from bot_orch.log.stores.sqlite import lock as sqlite_lock
from bot_orch.log.stores.sqlite.log import SqliteLog

HOLD = """
import sys
from bot_orch.errors import BotOrchError
from bot_orch.log.stores.sqlite.log import SqliteLog
try:
    log = SqliteLog(sys.argv[1])
except BotOrchError as error:
    print(type(error).__name__, error, flush=True)
else:
    print("open", flush=True)
    sys.stdin.read()
    log.close()
    print("closed", flush=True)
"""
TO_DELETE_MODE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0)
try:
    print(connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0])
except sqlite3.OperationalError as error:
    print(error)
"""


class Other:
    """Another process that tries to write to a log."""

    def __init__(self, path, folder=None):
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        self.said = self.process.stdout.readline().strip()

    def end(self, *, kill=False):
        if kill:
            self.process.kill()
        self.process.communicate("", timeout=60)


@pytest.fixture
def other():
    """Starts other processes; they are ended after the test."""
    begun = []

    def start(path, folder=None):
        begun.append(Other(path, folder))
        return begun[-1]

    yield start
    for each in begun:
        if not each.process.stdout.closed:
            each.end(kill=True)


@pytest.fixture
def path(tmp_path):
    """A log that holds a row, and that nobody uses."""
    (tmp_path / "data").mkdir()
    log = SqliteLog(tmp_path / "data" / "log.sqlite")
    log.append([Row(1, 10, "k@1", "r", b"")])
    log.commit()
    log.close()
    return log.path


def symbolic_link(path):
    (path.parent / "link.sqlite").symlink_to(path)
    return path.parent / "link.sqlite"


def linked_folder(path):
    (path.parents[1] / "folder").symlink_to(path.parent)
    return path.parents[1] / "folder" / path.name


def renamed(path):
    return path.rename(path.with_name("renamed.sqlite"))


def moved(path):
    (path.parents[1] / "elsewhere").mkdir()
    return path.rename(path.parents[1] / "elsewhere" / "moved.sqlite")


def relinked(path):
    (path.parent / "second.sqlite").hardlink_to(path)
    path.unlink()
    return path.parent / "second.sqlite"


NAMES = [lambda path: path, symbolic_link, linked_folder, renamed, moved, relinked]


@pytest.mark.parametrize("name", NAMES)
def test_another_process_is_kept_out_by_every_name(path, other, name):
    log = SqliteLog(path)
    known = name(path)
    refused = other(known)
    assert refused.said == f"LogInUseError log: {known} is in use by another process; stop it first"
    assert other(os.path.relpath(known, path.parent), path.parent).said.startswith("LogInUseError")
    log.close()
    assert other(known).said == "open"


@pytest.mark.parametrize("name", NAMES)
def test_this_process_is_kept_out_too(path, name):
    log = SqliteLog(path)
    known = name(path)
    with pytest.raises(LogInUseError, match="in use"):
        SqliteLog(known)
    log.close()
    SqliteLog(known).close()


@pytest.mark.parametrize("folder", ["data", "elsewhere"])
@pytest.mark.parametrize("used", [False, True])
def test_hard_links_are_refused_in_one_line(path, other, folder, used):
    log = SqliteLog(path) if used else None
    (path.parents[1] / folder).mkdir(exist_ok=True)
    link = path.parents[1] / folder / "hard.sqlite"
    link.hardlink_to(path)
    said = other(link).said
    assert said.startswith(f"InvalidInputError log: {link} has 2 names (hard links); keep one") and "\n" not in said
    with pytest.raises(InvalidInputError, match="hard links"):
        open_log(link)  # it would not see what is in the write-ahead log of the other name
    if log is not None:
        log.append([Row(2, 20, "k@1", "r", b"")])
        log.commit()
        log.close()
    link.unlink()
    again = SqliteLog(path)
    assert again.last() == ((2, 20) if used else (1, 10))
    again.close()


@pytest.mark.parametrize("kill", [False, True])
def test_the_locks_go_with_their_process(path, other, kill):
    first = other(path)
    assert first.said == "open"
    with pytest.raises(LogInUseError):
        SqliteLog(path)
    watching = open_log(path)  # reading is allowed
    first.end(kill=kill)
    log = SqliteLog(path)
    assert other(path).said.startswith("LogInUseError")
    watching.close()
    assert other(path).said.startswith("LogInUseError")
    log.close()
    assert other(path).said == "open"


def test_a_writer_that_leaves_readers_behind_lets_others_in(path, other):
    log, watching = SqliteLog(path), open_log(path)
    log.close()
    assert other(path).said == "open"
    assert watching.last() == (1, 10)
    watching.close()


def journal_mode_as_others_see_it(path):
    done = subprocess.run([sys.executable, "-c", TO_DELETE_MODE, str(path)], capture_output=True, text=True, timeout=60)
    return done.stdout.strip()


@pytest.mark.parametrize("name", [lambda path: path, renamed])
def test_a_refused_writer_does_not_drop_the_locks_of_sqlite(path, name):
    """A process that closes a descriptor of a file loses its locks there; another one could then take the file over."""
    log = SqliteLog(path)
    assert log.last() == (1, 10) and journal_mode_as_others_see_it(path) == "database is locked"
    known = name(path)
    with pytest.raises(LogInUseError):
        SqliteLog(known)
    assert journal_mode_as_others_see_it(known) == "database is locked"
    log.close()
    assert journal_mode_as_others_see_it(known) == "delete", "the control: nobody is left"


def test_a_reader_keeps_its_locks_when_another_process_keeps_it_from_writing(path, other):
    first, watching = other(path), open_log(path)
    assert first.said == "open" and watching.last() == (1, 10)
    with pytest.raises(LogInUseError):
        SqliteLog(renamed(path))
    first.end()
    assert journal_mode_as_others_see_it(path.with_name("renamed.sqlite")) == "database is locked"
    watching.close()


def test_nothing_is_left_open(path):
    before, inodes = len(list(Path("/proc/self/fd").iterdir())), dict(sqlite_lock._inodes)
    for _ in range(3):
        log, watching = SqliteLog(path), open_log(path)
        log.close()
        log.close()
        watching.close()
    path.with_name("hard.sqlite").hardlink_to(path)
    with pytest.raises(InvalidInputError):
        SqliteLog(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before and sqlite_lock._inodes == inodes


def test_a_file_that_is_replaced_while_it_is_opened_is_noticed(path):
    from bot_orch.log.stores.sqlite.log import connect

    def slow(name):
        Path(name).rename(name + ".old")
        shutil.copy(name + ".old", name)
        return connect(name)

    with pytest.raises(LogInUseError, match="was replaced"):
        SqliteLog(path, opener=slow)


def test_a_dangling_link_makes_the_file_it_names(tmp_path, other):
    (tmp_path / "link").symlink_to(tmp_path / "real.sqlite")
    log = SqliteLog(tmp_path / "link")
    assert (tmp_path / "real.sqlite").is_file() and other(tmp_path / "real.sqlite").said.startswith("LogInUseError")
    log.close()
