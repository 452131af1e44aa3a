"""Power loss at thousands of moments: what was acknowledged is there, what is there is a prefix, the file is sound."""

import pytest
from power import Tape, cut_everywhere, make_rng, recording_log, write_some


def run(tmp_path, synchronous, cuts, groups=120, **options):
    rng, tape = make_rng(7), Tape()
    (tmp_path / "live").mkdir()
    (tmp_path / "after").mkdir()
    log = recording_log(tmp_path / "live", tape, synchronous, **options)
    rows = write_some(log, tape, rng, groups)
    results = list(cut_everywhere(tape, rows, tmp_path / "after", rng, cuts))
    log.close()
    return results, tape


def test_nothing_acknowledged_is_lost_in_3000_cuts(tmp_path):
    results, tape = run(tmp_path, "FULL", 3000)
    assert len(results) >= 3000
    assert sum(lost for lost, _, _ in results) == 0
    assert all(sound for _, sound, _ in results) and all(prefix for _, _, prefix in results)
    syncs = sum(op[0] == "sync" for op in tape.ops)
    assert syncs >= len(tape.acks), "every acknowledgement had a sync of its own"
    assert any(op[:2] == ("write", "log") for op in tape.ops[1000:]), "checkpoints were part of it"


@pytest.mark.parametrize("synchronous", ["NORMAL", "OFF"])
def test_the_check_catches_a_log_that_does_not_sync(tmp_path, synchronous):
    results, _ = run(tmp_path, synchronous, 400)
    assert sum(lost for lost, _, _ in results) > 0


def test_the_check_catches_a_directory_that_is_not_synced(tmp_path):
    """The rollback journal of the first moments could come back and undo the switch to the write-ahead log."""
    results, _ = run(tmp_path, "FULL", 400, sync_directory=False)
    assert sum(lost for lost, _, _ in results) > 0
