"""Snapshots bound what a start has to fold, also if no life of the service is long."""

import copy

from service_running import BASE

from bot_orch.eventlog.ledger import fold
from bot_orch.eventlog.stores.memory import MemoryLog

EVERY, PER_LIFE, LIVES = 10, 4, 8


class Folds(MemoryLog):
    """Remembers how many rows it was asked for at once."""

    def __init__(self):
        super().__init__()
        self.folded = 0

    def read(self, after=0):
        self.folded = max(self.folded, self.last()[0] - after)
        return super().read(after)


def crashed(log):
    """What is left if the service ends here: nothing that it would write when it is stopped."""
    left = Folds()
    left.append(list(log.read()), copy.copy(log.snapshot()))
    left.commit()
    left.folded = 0
    return left


def test_a_crash_loop_does_not_starve_snapshots(start):
    log, folded = Folds(), []
    for _ in range(LIVES):
        service = start(BASE + f"limits: {{{{snapshot_every: {EVERY}}}}}\n", log=log)
        folded.append(log.folded)
        for _ in range(PER_LIFE):
            assert service.post("/v1/decisions").status == 200
        log = crashed(log)
        service.stop()
    assert log.last()[0] > 2 * EVERY, "else nothing had to be saved"
    assert max(folded) < EVERY + PER_LIFE + 1, folded
    assert fold(log).fingerprint() == fold(log, use_snapshot=False).fingerprint()


def test_a_long_tail_is_saved_at_the_start_and_a_short_one_is_not(start):
    first = start(BASE + "limits: {{snapshot_every: 1000}}\n", log=(log := Folds()))
    for _ in range(PER_LIFE):
        first.post("/v1/decisions")
    last, short, long = log.last()[0], crashed(log), crashed(log)
    start(BASE + f"limits: {{{{snapshot_every: {last + 1}}}}}\n", log=short)
    assert short.snapshot() is None
    start(BASE + f"limits: {{{{snapshot_every: {last}}}}}\n", log=long)
    assert long.snapshot().seq == last


def test_a_snapshot_that_cannot_be_written_does_not_keep_the_service_from_starting(start):
    class NoSnapshots(Folds):
        tried = 0

        def append(self, rows, snapshot=None):
            if snapshot is not None:
                self.tried += 1
                raise OSError("no space for a snapshot")
            super().append(rows)

    log = NoSnapshots()
    first = start(BASE + "limits: {{snapshot_every: 1000}}\n", log=log)
    for _ in range(PER_LIFE):
        first.post("/v1/decisions")
    left = NoSnapshots()
    left.append(list(log.read()))
    left.commit()
    service = start(BASE + "limits: {{snapshot_every: 3}}\n", log=left)
    assert left.tried == 1 and service.post("/v1/decisions").status == 200
