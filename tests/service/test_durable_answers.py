"""A decision's id is on disk before a client hears of it, whichever way it asks."""

import threading

import pytest
from service_running import until
from test_storage import FailingLog

KEY = {"Idempotency-Key": "k"}
ID = "018f0000-0000-7000-8000-000000000001"


class HeldLog(FailingLog):
    """Its commits wait until they are let go."""

    instant = False

    def __init__(self):
        super().__init__()
        self.go_on = threading.Event()
        self.go_on.set()

    def commit(self):
        self.go_on.wait(60)
        super().commit()


@pytest.fixture
def held(start):
    log = HeldLog()
    service = start(log=log)
    log.go_on.clear()
    yield service, log
    log.go_on.set()


def asked(service, answers, headers=None):
    body = {"id": ID, "task": {"id": "t"}}
    thread = threading.Thread(
        daemon=True, target=lambda: answers.append(service.post("/v1/decisions", body, headers=headers))
    )
    thread.start()
    return thread


def test_neither_the_first_answer_nor_a_retry_nor_an_explanation_comes_before_the_commit(held):
    service, log = held
    answers = []
    first = asked(service, answers, KEY)
    until(lambda: ID in service.runtime.ledger.pending)
    retry = asked(service, answers, KEY)
    assert service.get(f"/v1/decisions/{ID}").status == 404
    first.join(0.2)
    assert answers == []
    log.go_on.set()
    first.join(60)
    retry.join(60)
    assert [each.json()["id"] for each in answers] == [ID, ID]
    assert service.get(f"/v1/decisions/{ID}").status == 200


def test_a_commit_that_fails_gives_no_id_away(held):
    service, log = held
    answers = []
    first = asked(service, answers, KEY)
    until(lambda: ID in service.runtime.ledger.pending)
    retry = asked(service, answers, KEY)
    log.broken = "commit"
    log.go_on.set()
    first.join(60)
    retry.join(60)
    assert [each.status for each in answers] == [503, 503]
    assert not any(ID.encode() in each.body for each in answers)
