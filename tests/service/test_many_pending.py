"""Decisions without a report are bounded: the oldest ends as silence, by an event that every fold has."""

import json
import threading

from service_running import BASE, until

from bot_orch.log.verification import replay

PERSON = "  - {{id: person, kind: human, timeout_s: 600}}\n"
MOST = 20


def pending(service):
    return service.get("/v1/admin/state").json()["pending"]


def outcomes(service, decision_id):
    return service.get(f"/v1/decisions/{decision_id}").json()["outcomes"]


def decided(service, number):
    return [service.post("/v1/decisions", {"task": {"id": f"t{i}"}}).json()["id"] for i in range(number)]


def test_the_oldest_decisions_end_as_silence(start):
    service = start(most_pending=MOST)
    ids = decided(service, MOST)
    assert pending(service) == MOST and not outcomes(service, ids[0])
    ids += decided(service, 15)
    until(lambda: pending(service) == MOST)
    ended = [each for each in ids if outcomes(service, each)]
    assert ended == ids[:15], "the oldest"
    (outcome,) = outcomes(service, ids[0])
    assert (outcome["effect"], outcome["reason"]) == ("censored", "too many wait")
    late = {"decision_id": ids[0], "reward": 1.0}
    assert service.post("/v1/feedback", late).json()["effect"] == "replaced", "a late reward is learned in its place"
    assert service.post("/v1/feedback", {**late, "decision_id": ids[-1]}).json()["effect"] == "learned"
    log, live = service.runtime.writer.log, service.get("/v1/admin/state").json()["fingerprint"]
    found = service.call(lambda: replay(log))
    assert found.ok and found.fingerprint == live


def test_agents_that_work_and_tickets_of_people_wait_on(start):
    """Also across a restart."""
    slow = "  - {{id: slow, kind: simulated, params: {{median_s: 4.0, sigma: 0.0, quality: 0.9}}}}\n"
    text = BASE + PERSON + slow
    service = start(text, most_pending=MOST)
    body = {"task": {"text": "2 + 2?"}, "eligible": ["person"], "background": True}
    task = service.post("/v1/tasks", body).json()["id"]
    until(lambda: service.get("/v1/queue").json()["tickets"])
    answers = []
    chat = {"model": "slow", "messages": [{"role": "user", "content": "?"}]}
    waiting = threading.Thread(target=lambda: answers.append(service.post("/v1/chat/completions", chat)))
    waiting.start()
    until(lambda: len(service.runtime.in_flight) == 2)
    ids = decided(service, 3 * MOST)
    until(lambda: pending(service) <= MOST + 2)
    assert not any(outcomes(service, each) for each in ids[-MOST:])
    waiting.join()
    asked = answers[0].headers["x-bot-orch-decision-id"]
    assert answers[0].status == 200
    assert until(lambda: outcomes(service, asked))[0]["effect"] == "learned"
    service.stop()
    service = start(text, most_pending=MOST)
    decided(service, MOST)
    until(lambda: pending(service) <= MOST + 1)
    claimed = service.post("/v1/queue/claim").json()
    service.post(f"/v1/queue/{claimed['id']}/answer", {"text": "4", "claim": claimed["claim"]})
    view = until(lambda: (found := service.get(f"/v1/tasks/{task}").json())["status"] != "running" and found)
    assert (view["status"], view["output"]) == ("completed", "4"), json.dumps(view)
