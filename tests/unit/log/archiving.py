"""Logs to archive in small files, and a hand that stops the work at a step."""

import os
import signal
from pathlib import Path

from scribing import Scribe

from bot_orch import Orchestrator
from bot_orch.log import archive, archiving
from bot_orch.log.stores.open import open_log
from bot_orch.log.stores.postgres.rewrite import PostgresRemoval
from bot_orch.log.stores.sqlite.log import SqliteLog

ROWS = 64
STEPS = (
    (archive.os, "fsync"),
    (Path, "replace"),
    (SqliteLog, "note_archive"),
    (PostgresRemoval, "note_archive"),
    (SqliteLog, "drop_archived"),
    (PostgresRemoval, "drop_archived"),
    (SqliteLog, "compact"),
    (PostgresRemoval, "compact"),
)


def small_files(put=setattr):
    """Files of few rows."""
    put(archiving, "_ROWS", ROWS)
    put(archiving, "_BATCH", 50)


def written(database, pairs=150):
    """Write a log whose reports have keys, with snapshots; returns its rows and the time of the 250th."""
    log = open_log(database, writing=True)
    scribe = Scribe(log, Orchestrator(["a", "b", "c"], "bot", floor=0.4, seed=3))
    for number in range(pairs):
        decision_id, made = scribe.decide()
        if number % 9:
            scribe.put_report(decision_id, float(made.agent == "a"), f"key-{number}")
        if number == 60:
            log.save(scribe.ledger.snapshot())
        log.commit()
        scribe.clock.advance(60.0)
    rows = list(log.read())
    log.close()
    return rows, rows[min(249, len(rows) - 1)].time_us


class Killed(BaseException):
    """The process is gone."""


class Stop:
    """Counts the steps of an archive, and ends the process before or after one of them."""

    def __init__(self, put, at=None, *, after=False, really=False):
        self.steps, self._at, self._after, self._really = 0, at, after, really
        for owner, name in STEPS:
            put(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, do):
        def step(*arguments, **named):
            number = self.steps
            self.steps += 1
            if number == self._at and not self._after:
                self._kill()
            done = do(*arguments, **named)
            if number == self._at:
                self._kill()
            return done

        return step

    def _kill(self):
        if self._really:
            os.kill(os.getpid(), signal.SIGKILL)
        raise Killed
