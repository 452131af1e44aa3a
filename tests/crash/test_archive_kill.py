"""``kill -9`` in the middle of an archive: nothing is lost, nothing is there twice, and the next run completes it."""

import contextlib
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "log"))

from archiving import small_files, written

from bot_orch.log.archiving import move_events as archive
from bot_orch.log.ledger import fold
from bot_orch.log.stores.open import open_log, open_whole

KILLED = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
from archiving import Stop, small_files
from bot_orch.log.archiving import move_events as archive
small_files()
Stop(setattr, int(sys.argv[6]), after=sys.argv[7] == "after", really=True)
archive(sys.argv[3], Path(sys.argv[4]), int(sys.argv[5]))
"""
TESTS = Path(__file__).parents[1]
STEPS = ((1, "before"), (2, "after"), (9, "before"), (14, "after"), (16, "after"), (18, "after"))


@pytest.fixture
def original(tmp_path, monkeypatch):
    small_files(monkeypatch.setattr)
    path = tmp_path / "original.sqlite"
    return path, *written(path)


def looked(path, job, opener=open_whole):
    with contextlib.closing(opener(path)) as log:
        return job(log)


@pytest.mark.parametrize(("step", "when"), STEPS)
def test_a_killed_archive_is_completed(original, tmp_path, step, when):
    first, rows, before_us = original
    path, folder = tmp_path / "log.sqlite", tmp_path / "archive"
    shutil.copy(first, path)
    places = [TESTS / "unit" / "log", TESTS / "postgres", path, folder, before_us, step, when]
    ended = subprocess.run([sys.executable, "-c", KILLED, *map(str, places)], check=False)
    assert ended.returncode == -signal.SIGKILL
    state = looked(first, fold).fingerprint()
    for _ in range(2):
        assert looked(path, lambda log: list(log.read())) == rows
        assert looked(path, fold, open_log).fingerprint() == state
        archive(path, folder, before_us)
    assert looked(path, lambda log: next(log.read()).seq, open_log) == 250
    assert not list(folder.glob("*.tmp"))
