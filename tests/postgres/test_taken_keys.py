"""Two requests with one ``Idempotency-Key``, a few milliseconds apart: one decision, and nobody else notices."""

import random
import threading
import time
from collections import Counter

import pytest
from service_running import BASE, Running

from bot_orch.log.ledger import fold
from bot_orch.service.config import parse_config

PAIRS, AT_ONCE = 200, 4


@pytest.fixture(params=["sqlite", "postgresql"])
def service(request, tmp_path):
    where = request.getfixturevalue("database") if request.param == "postgresql" else tmp_path / "log.sqlite"
    running = Running(parse_config(BASE.format(database=where, port=0)))
    yield running
    running.stop()


def asked(service, key, task="x"):
    return service.post("/v1/decisions", {"task": {"id": task}}, headers={"idempotency-key": key})


def pairs(service, numbers, found):
    """Both requests of each pair, up to ten milliseconds apart."""
    rng = random.Random(numbers[0])  # noqa: S311

    def second(key, after_s):
        time.sleep(after_s)
        found.append((key, asked(service, key)))

    for number in numbers:
        other = threading.Thread(target=second, args=(f"k{number}", rng.uniform(0.0, 0.01)))
        other.start()
        found.append((f"k{number}", asked(service, f"k{number}")))
        other.join()


def test_a_key_used_twice_at_once_is_one_decision_and_bystanders_get_theirs(service):
    found, bystanders, over = [], [], threading.Event()

    def bystander():
        while not over.is_set():
            bystanders.append(service.post("/v1/decisions").status)

    others = [threading.Thread(target=bystander) for _ in range(2)]
    askers = [threading.Thread(target=pairs, args=(service, range(i, PAIRS, AT_ONCE), found)) for i in range(AT_ONCE)]
    for each in (*others, *askers):
        each.start()
    for each in askers:
        each.join()
    over.set()
    for each in others:
        each.join()
    assert Counter(answer.status for _, answer in found) == {200: 2 * PAIRS}
    assert len({(key, answer.json()["id"]) for key, answer in found}) == PAIRS, "one decision for each key"
    assert set(bystanders) == {200} and len(bystanders) > 50
    assert service.get("/v1/admin/state").json()["pending"] == PAIRS + len(bystanders)


def test_a_key_that_the_log_has_already_refuses_no_other_request(service):
    """Whatever the reason that the lookup has missed it: its request gets the decision of the key, others go on."""
    first, log = asked(service, "k").json(), service.runtime.writer.log
    looks, blind = log.look_up, iter([True])

    def missing(wanted):
        found = looks(wanted)
        return found._replace(keys={}) if found.keys and next(blind, False) else found

    log.look_up = missing
    answers = []
    others = [threading.Thread(target=lambda: answers.append(service.post("/v1/decisions").status)) for _ in range(20)]
    for each in others:
        each.start()
    again = asked(service, "k")
    for each in others:
        each.join()
    assert next(blind, None) is None, "the lookup has missed it"
    assert (again.status, again.json()["id"]) == (200, first["id"])
    assert answers == [200] * 20 and service.get("/health/ready").status == 200
    assert asked(service, "k", task="another").status == 422
    live = service.get("/v1/admin/state").json()["fingerprint"]
    assert service.call(lambda: fold(log, use_snapshot=False).fingerprint()) == live
