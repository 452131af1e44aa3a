"""SQLite's own backup of a log in use holds all that was acknowledged before, and replays."""

import json
import sqlite3
import threading
from contextlib import closing, suppress

import pytest
from service_running import BASE, Running, until

from bot_orch.errors import BotOrchError
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay
from bot_orch.service.config import parse_config


def running(path):
    return Running(parse_config(BASE.format(database=json.dumps(str(path)), port=0)))


def decide(service, number):
    return service.post("/v1/decisions", headers={"idempotency-key": f"k{number}"}).json()["id"]


def vacuum(path, copy):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))


def pages(path, copy):
    with closing(sqlite3.connect(path)) as connection, closing(sqlite3.connect(copy)) as made:
        connection.backup(made)


def of_a_log_in_use(folder, back_up):
    """The log, its backup, and the ids that were acknowledged before and in all."""
    path, copy, done, acked = folder / "log.sqlite", folder / "copy.sqlite", threading.Event(), []
    service = running(path)

    def load():
        while not done.is_set():
            acked.append(decide(service, len(acked)))

    client = threading.Thread(daemon=True, target=load)
    client.start()
    until(lambda: len(acked) >= 50)
    before = list(acked)
    back_up(path, copy)
    done.set()
    client.join()
    service.stop()
    return path, copy, before, acked


def missing(copy, before):
    """Acknowledged decisions that a backup lacks."""
    with closing(open_log(copy)) as log:
        return set(before) - {row.ref for row in log.read()}


@pytest.mark.parametrize("back_up", [vacuum, pages])
def test_a_backup_of_a_log_in_use_holds_all_that_was_acknowledged_before(back_up, tmp_path):
    path, copy, before, acked = of_a_log_in_use(tmp_path, back_up)
    assert missing(copy, before) == set()
    with closing(open_log(copy)) as log, closing(open_log(path)) as original:
        rows = list(log.read())
        assert replay(log).ok
        assert rows == list(original.read())[: len(rows)], "a prefix"
    again = running(copy)
    try:
        assert decide(again, 7) == acked[7], "keys are in the copy"
        assert again.post("/v1/decisions").status == 200
    finally:
        again.stop()


def test_control_a_copied_file_lacks_what_is_in_the_write_ahead_log(tmp_path):
    """The end of a log in use is beside its file, so that the check above can fail."""
    _, copy, before, _ = of_a_log_in_use(tmp_path, lambda path, copy: copy.write_bytes(path.read_bytes()))
    lost = True
    with suppress(BotOrchError):  # or the copy is no log at all
        lost = bool(missing(copy, before))
    assert lost
