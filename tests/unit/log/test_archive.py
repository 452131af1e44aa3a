"""Old events move to Parquet files; archive and log together are the log, whatever stops the work."""

import contextlib
import shutil
import sqlite3
import zlib
from pathlib import Path

import pytest
from archiving import ROWS, Killed, Stop, small_files, written
from pg_running import need

from bot_orch.cli import main
from bot_orch.core.events import Noted, TaskEnded, TaskRecord, TaskSubmitted
from bot_orch.errors import BotOrchError, InvalidInputError, MissingExtraError, StateFormatError
from bot_orch.evaluation import evaluate
from bot_orch.evaluation.export import decision_rows
from bot_orch.log import archive as files
from bot_orch.log.archive import first_since
from bot_orch.log.archiving import move_events as archive
from bot_orch.log.erasure import erase_texts
from bot_orch.log.events import encode_event
from bot_orch.log.ledger import fold
from bot_orch.log.log import ARCHIVED, Row, Wanted
from bot_orch.log.stores.open import open_log, open_whole
from bot_orch.log.verification import replay

CUT = 249


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path, monkeypatch):
    small_files(monkeypatch.setattr)
    return str(tmp_path / "log.sqlite") if request.param == "sqlite" else need().database()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "archive"


def looked(database, job, opener=open_whole, **more):
    with contextlib.closing(opener(database, **more)) as log:
        return job(log)


def everything(log):
    """What a log says: rows, state, decisions derived again, estimates, lines of an export."""
    found = replay(log)
    estimates = [evaluate(log, target, min_effective=10.0) for target in ("uniform", "ucb1")]
    return (
        list(log.read()),
        fold(log).fingerprint(),
        found.ok,
        found.derived,
        found.fingerprint,
        [[(each.method, each.value, each.low, each.high) for each in estimate.estimates] for estimate in estimates],
        list(decision_rows(log)),
    )


def test_archive_and_log_are_the_log(database, folder):
    rows, before_us = written(database)
    before = looked(database, everything)
    found = archive(database, folder, before_us)
    assert (found.events, found.removed, found.record.seq) == (CUT, CUT, CUT)
    assert looked(database, lambda log: next(log.read()).seq, open_log) == CUT + 1
    assert looked(database, everything) == before and len(before[0]) == len(rows)
    live = looked(database, replay, open_log)
    assert (live.ok, live.begin, live.events, live.fingerprint) == (True, CUT, len(rows) - CUT, before[4])
    assert looked(database, fold, open_log).fingerprint() == before[1]
    later = rows[-1].time_us + 1
    again = archive(database, folder, later)
    assert again.record.seq == len(rows) - 1 > CUT and again.removed == again.events
    assert looked(database, everything) == before
    assert archive(database, folder, later).events == 0


def test_names_stay_used_and_rows_are_found_by_time_and_ref(database, folder):
    rows, before_us = written(database)
    archive(database, folder, before_us)
    with contextlib.closing(open_log(database, writing=True)) as log:
        found = log.look_up(Wanted(("key-1", "never"), (rows[1].ref,)))
        assert found.keys["key-1"].kind == ARCHIVED and found.keys["key-1"].digest == b"key-1"
        assert list(found.keys) == ["key-1"] and found.refs[rows[1].ref] == []
        assert first_since(log, 0) == CUT + 1 and first_since(log, rows[249].time_us) == 250
        taken = Row(log.last()[0] + 1, log.last()[1] + 1, "note@1", "", b"", "key-1", b"")
        with pytest.raises(BotOrchError, match="taken"):
            _appended(log, taken)
        log.rollback()
    with contextlib.closing(open_whole(database)) as log:
        assert log.about(rows[1].ref) == [row for row in rows if row.ref == rows[1].ref]
        assert log.row(5) == rows[4] and log.row(CUT + 1) == rows[CUT]
        assert first_since(log, rows[9].time_us) == 10


def test_a_log_goes_on_after_its_archive(database, folder):
    rows, before_us = written(database)
    archive(database, folder, before_us)
    with contextlib.closing(open_log(database, writing=True)) as log:
        ledger = fold(log)
        log.append([Row(ledger.seq + 1, ledger.time_us + 1, "note@1", "", _note())])
        log.commit()
        log.save(ledger.snapshot())
    found = looked(database, replay)
    assert found.ok and found.events == len(rows) + 1 and looked(database, replay, open_log).ok


def _appended(log, row):
    log.append([row])
    log.commit()


def _note():
    return encode_event(Noted("x", "y", {}))


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_kill_at_any_step_loses_and_doubles_nothing(database, folder, after, monkeypatch):
    rows, before_us = written(database)
    state = looked(database, fold).fingerprint()
    at = 0
    while True:
        with monkeypatch.context() as patch:
            Stop(patch.setattr, at, after=after)
            if not _killed(lambda: archive(database, folder, before_us)):
                break
        assert looked(database, lambda log: list(log.read())) == rows, at
        assert looked(database, fold, open_log).fingerprint() == state, at
        at += 1  # the next run has less to do
    assert at >= 4
    assert looked(database, lambda log: list(log.read())) == rows
    assert looked(database, lambda log: next(log.read()).seq, open_log) == CUT + 1
    assert not list(folder.glob("*.tmp")) and archive(database, folder, before_us).removed == 0


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_every_step_may_be_the_last(tmp_path, after, monkeypatch):
    small_files(monkeypatch.setattr)
    original = tmp_path / "original.sqlite"
    rows, before_us = written(original)
    state, at, killed = looked(original, fold).fingerprint(), 0, True
    while killed:
        path, folder = tmp_path / f"{at}.sqlite", tmp_path / str(at)
        shutil.copy(original, path)
        with monkeypatch.context() as patch:
            Stop(patch.setattr, at, after=after)
            killed = _killed(lambda: archive(path, folder, before_us))  # noqa: B023
        for _ in range(2):
            assert looked(path, lambda log: list(log.read())) == rows, at
            assert looked(path, fold, open_log).fingerprint() == state, at
            archive(path, folder, before_us)
        assert looked(path, lambda log: next(log.read()).seq, open_log) == CUT + 1, at
        at += 1
    assert at > 20


def test_removing_before_the_file_is_complete_is_caught(tmp_path, monkeypatch):
    """The control: rows go first, the file comes after; a kill in between loses events, and the check sees it."""
    small_files(monkeypatch.setattr)
    path, folder = tmp_path / "log.sqlite", tmp_path / "archive"
    _, before_us = written(path)
    real = files.write_segment

    def too_soon(folder, rows, before):
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.executescript("DROP TRIGGER events_are_not_removed; DELETE FROM events WHERE seq <= 64")
        return real(folder, rows, before)

    monkeypatch.setattr(files, "write_segment", too_soon)
    Stop(monkeypatch.setattr, 1)  # 0 is the sync of opening
    assert _killed(lambda: archive(path, folder, before_us))
    with pytest.raises(BotOrchError, match="does not follow"):
        looked(path, lambda log: fold(log, use_snapshot=False))


def _killed(job):
    try:
        job()
    except Killed:
        return True
    return False


def test_rows_that_are_not_archived_cannot_be_removed(database, folder):
    _, before_us = written(database)
    archive(database, folder, before_us)
    if "://" not in database:
        with contextlib.closing(sqlite3.connect(database)) as connection, pytest.raises(sqlite3.Error, match="append"):
            connection.execute("DELETE FROM events WHERE seq > 0")
        return
    import psycopg

    with psycopg.connect(database) as connection, pytest.raises(psycopg.Error, match="append-only"):
        connection.execute("DELETE FROM bot_orch.events_1 WHERE seq > 0")
    with psycopg.connect(database) as connection, pytest.raises(psycopg.Error, match="append-only"):
        connection.execute("DELETE FROM bot_orch.events WHERE seq < 3")


def test_damaged_missing_and_foreign_segments_are_named(database, folder, tmp_path):
    _, before_us = written(database)
    archive(database, folder, before_us)
    files = sorted(folder.glob("*.parquet"))
    assert len(files) == -(-CUT // ROWS)
    kept = files[1].read_bytes()
    files[1].unlink()
    with pytest.raises(InvalidInputError, match=r"events 65 to 128 are missing; bring"):
        open_whole(database)
    files[1].write_bytes(kept[:-200])
    with pytest.raises(StateFormatError, match=rf"{files[1].name} is damaged .*; restore the file"):
        open_whole(database)
    flipped = bytearray(kept)
    flipped[300] ^= 1
    files[1].write_bytes(flipped)
    with pytest.raises(StateFormatError, match=rf"{files[1].name} is damaged"):
        looked(database, lambda log: list(log.read()))
    files[1].write_bytes(files[0].read_bytes())
    with pytest.raises(StateFormatError, match="other events than its name says"):
        open_whole(database)
    files[1].write_bytes(kept)
    moved = tmp_path / "elsewhere"
    folder.rename(moved)
    with pytest.raises(InvalidInputError, match=r"which is not there; bring .*--archive"):
        open_whole(database)
    assert looked(database, replay, archive=moved).ok


def test_a_folder_of_another_log_is_refused(database, folder, tmp_path):
    _, before_us = written(database)
    archive(database, folder, before_us)
    other = str(tmp_path / "other.sqlite")
    written(other, pairs=140)
    with pytest.raises(InvalidInputError, match=r"FOLDER: .*holds other events than this log"):
        archive(other, folder, before_us)
    with pytest.raises(InvalidInputError, match="which is not there"):
        archive(database, tmp_path / "new", before_us + 10**12)


def test_open_rounds_hold_the_archive_back(database, folder):
    rows, _ = written(database, pairs=20)
    with contextlib.closing(open_log(database, writing=True)) as log:
        opened = TaskSubmitted("open-task", TaskRecord(), "{}", True, None, "")
        log.append([Row(len(rows) + 1, rows[-1].time_us + 1, "task@1", "open-task", encode_event(opened))])
        for seq in range(len(rows) + 2, 120):
            log.append([Row(seq, rows[-1].time_us + seq, "note@1", "", _note())])
        log.commit()
    found = archive(database, folder, rows[-1].time_us + 10**9)
    assert (found.record.seq, found.held_by) == (len(rows), "task open-task, which has not ended")
    again = archive(database, folder, rows[-1].time_us + 10**9)
    assert (again.events, again.record.seq, again.held_by) == (0, len(rows), "task open-task, which has not ended")


def test_texts_are_erased_beside_an_archive(database, folder):
    rows, _ = written(database, pairs=20)
    with contextlib.closing(open_log(database, writing=True)) as log:
        begun = TaskSubmitted("t", TaskRecord(), "SECRET", False, None, "")
        for event, ref in ((begun, "t"), *(((Noted("x", "y", {}), ""),) * 60), (TaskEnded("t", "failed"), "t")):
            seq, time_us = log.last()
            row = Row(seq + 1, time_us + 1, event.kind, ref, encode_event(event))
            log.append([row])
            log.commit()
    before, state = looked(database, replay), looked(database, fold).fingerprint()
    assert archive(database, folder, row.time_us - 20).record.seq == row.seq - 21  # in the middle of the round
    assert b"SECRET" in zlib.decompress(looked(database, lambda log: log.base(), open_log).body)
    assert erase_texts(database, row.time_us + 1) == 0
    assert b"SECRET" not in zlib.decompress(looked(database, lambda log: log.base(), open_log).body)
    assert "://" in database or b"SECRET" not in Path(database).read_bytes()
    assert looked(database, fold).fingerprint() == state and looked(database, replay, open_log).fingerprint == state
    assert looked(database, replay) == before and len(rows) < row.seq - 21


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch, folder):
    small_files(monkeypatch.setattr)
    database = str(tmp_path / "log.sqlite")
    _, before_us = written(database)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=r"\[parquet\]"):
        archive(database, folder, before_us)


def test_the_file_shrinks_and_a_running_service_is_not_disturbed(tmp_path, monkeypatch, folder, capsys):
    small_files(monkeypatch.setattr)
    path = tmp_path / "log.sqlite"
    written(path, pairs=600)
    size = path.stat().st_size
    with contextlib.closing(open_log(path, writing=True)):  # as a service does
        assert main(["export", str(path), str(folder), "--before", "0s", "--delete", "--quiet"]) == 2
        assert "in use" in capsys.readouterr().err
        assert main(["export", str(path), str(folder), "--before", "2099-01-01"]) == 0
    assert looked(path, lambda log: log.archived(), open_log) is None
    assert main(["export", str(path), str(folder), "--before", "0s", "--delete"]) == 0
    assert "removed from the log: 1133" in capsys.readouterr().out and path.stat().st_size < 0.6 * size
    assert main(["replay", str(path)]) == 0 and "events: 1134" in capsys.readouterr().out
    assert main(["replay", str(path), "--live"]) == 0
    assert "after event 1133, the end of the archive" in capsys.readouterr().out
    assert main(["evaluate", str(path), "--policy", "uniform", "--archive", str(folder)]) == 0
    assert main(["export", str(path), str(tmp_path / "out.csv")]) == 0
    assert "600 lines" in capsys.readouterr().out
    assert main(["export", str(path), str(folder), "--before", "soon"]) == 2
    assert "is no age" in capsys.readouterr().err
    assert main(["export", str(path), str(tmp_path / "other.csv"), "--delete"]) == 2
    assert "--delete: is given without --before" in capsys.readouterr().err
