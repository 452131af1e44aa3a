"""Two processes of a service with one router: one of them owns it, both keep every promise."""

import json
import threading
import time
from collections import Counter

import pytest
from service_running import BASE, Running, until

from bot_orch.core.events import RESTARTED, Censored, FeedbackGiven, Noted
from bot_orch.log.verification import replay
from bot_orch.service.config import parse_config


@pytest.fixture
def processes(database):
    """Starts services on one database; they are stopped at the end of the test."""
    running = []

    def start(text=BASE, **options):
        config = parse_config(text.format(database=json.dumps(database), port=0))
        running.append(Running(config, **options))
        return running[-1]

    yield start
    for each in running:
        if each.thread.is_alive():
            each.stop()


@pytest.fixture
def log(database):
    from bot_orch.log.stores.postgres.log import PostgresLog

    opened = PostgresLog(database)
    yield opened
    opened.close()


def same_state(*services):
    """The state, which all processes tell alike."""

    def look():
        states = [service.get("/v1/admin/state").json() for service in services]
        return states[0] if len({(each["seq"], each["fingerprint"]) for each in states}) == 1 else None

    return until(look)


def test_a_process_explains_and_learns_what_another_decided(processes):
    first, second = processes(), processes()
    made = first.post("/v1/decisions").json()
    assert second.get(f"/v1/decisions/{made['id']}").json()["decision"] == made
    told = second.post("/v1/feedback", {"decision_id": made["id"], "reward": 1.0, "id": "r-1"}).json()
    assert told["effect"] == "learned"
    again = first.post("/v1/feedback", {"decision_id": made["id"], "reward": 1.0, "id": "r-1"}).json()
    assert again["duplicate"] and again["effect"] == "learned"
    assert first.post("/v1/feedback", {"decision_id": made["id"], "reward": 0.5, "id": "r-1"}).status == 409
    assert first.post("/v1/feedback", {"decision_id": made["id"], "reward": 0.5}).json()["effect"] == "revision"


def test_a_key_is_used_once_across_processes(processes, log):
    services = [processes(), processes()]
    answers, start = [], threading.Barrier(8)

    def ask(service, key):
        start.wait()
        body = {"task": {"id": key}}
        answers.append((key, service.post("/v1/decisions", body, headers={"idempotency-key": key})))

    for round_ in range(5):
        threads = [threading.Thread(daemon=True, target=ask, args=(services[i % 2], f"k{round_}")) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(answer.status == 200 for _, answer in answers), answers
    assert len({(key, answer.json()["id"]) for key, answer in answers}) == 5
    assert sum(row.kind == "decision@1" for row in log.read()) == 5
    other = services[1].post("/v1/decisions", {"task": {"id": "x"}}, headers={"idempotency-key": "k0"})
    assert other.status == 422


def test_a_report_counts_once_across_processes(processes, log):
    services = [processes(), processes()]
    ids = [services[i % 2].post("/v1/decisions").json()["id"] for i in range(10)]
    effects, start = Counter(), threading.Barrier(4)

    def tell(service, reward):
        for decision_id in ids:
            start.wait()
            effects[service.post("/v1/feedback", {"decision_id": decision_id, "reward": reward}).json()["effect"]] += 1

    threads = [threading.Thread(daemon=True, target=tell, args=(services[i % 2], i / 4)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert effects == {"learned": 10, "revision": 30}
    learned = Counter(
        event.decision_id
        for row in log.read()
        if isinstance(event := row.event(), FeedbackGiven) and event.effect == "learned"
    )
    assert set(learned.values()) == {1} and len(learned) == 10
    assert replay(log).fingerprint == same_state(*services)["fingerprint"]


def test_silence_is_censored_once(processes, log):
    text = BASE.replace("horizon_s: 3600", "horizon_s: 0.5")
    services = [processes(text), processes(text)]
    ids = {services[i % 2].post("/v1/decisions").json()["id"] for i in range(20)}
    until(lambda: same_state(*services)["pending"] == 0)
    time.sleep(0.3)
    silent = [event.decision_id for row in log.read() if isinstance(event := row.event(), Censored)]
    assert len(silent) == 20 and set(silent) == ids


def test_the_kill_switch_works_everywhere(processes):
    first, second = processes(), processes()
    assert first.post("/v1/admin/kill-switch", {"agent": "careful"}).status == 200
    assert {second.post("/v1/decisions").json()["agent"] for _ in range(20)} == {"careful"}


def test_background_rounds_of_an_owner_that_left_go_on_elsewhere(processes, log):
    text = BASE.replace("median_s: 0.0", "median_s: 1.5").replace("seed: 5", "seed: 5, success_reward: 1.0")
    first, second = processes(text), processes(text)
    running = [first.post("/v1/tasks", {"task": {"text": "x"}, "background": True}).json()["id"] for _ in range(3)]
    until(lambda: sum(row.kind == "decision@1" for row in log.read()) == 3)
    first.stop()
    for task_id in running:
        until(lambda task_id=task_id: second.get(f"/v1/tasks/{task_id}").json().get("status") == "completed")
    kinds = Counter(row.kind for row in log.read())
    assert kinds["task-ended@1"] == 3 and kinds["decision@1"] == 3, "the same decisions, gone on with"
    assert replay(log).ok


def test_starting_a_process_does_not_disturb_rounds_of_others(processes, log):
    text = BASE.replace("median_s: 0.0", "median_s: 3.0")
    first = processes(text)
    task_id = first.post("/v1/tasks", {"task": {"text": "x"}, "background": True}).json()["id"]
    processes(text)
    until(lambda: first.get(f"/v1/tasks/{task_id}").json()["status"] == "completed")
    kinds = Counter(row.kind for row in log.read())
    assert kinds["task-ended@1"] == 1 and kinds["attempt@1"] == 1 and kinds["note@1"] == 0


def test_processes_that_start_together_configure_once(processes, log):
    found = []
    threads = [threading.Thread(daemon=True, target=lambda: found.append(processes())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3 and same_state(*found)
    assert [row.kind for row in log.read()].count("configured@1") == 1


def test_an_owner_goes_back_to_a_log_that_lost_its_end(processes, log, database):
    """A standby that was not synchronous took over, or a backup was put in place under running processes."""
    from test_postgres_log import cut_back

    services = [processes(), processes()]
    for step in range(10):
        services[step % 2].post("/v1/decisions")
    same_state(*services)
    cut_back(database, 6)
    for service in services:
        until(lambda service=service: service.post("/v1/decisions").status == 200)
    state = same_state(*services)
    found = replay(log)
    assert found.ok and found.fingerprint == state["fingerprint"]
    assert [row.seq for row in log.read()] == list(range(1, state["seq"] + 1))


PEOPLE = BASE + "  - {{id: person, kind: human, timeout_s: 120}}\n"


def tickets(service, number=1):
    return until(lambda: (found := service.get("/v1/queue").json()["tickets"]) and len(found) == number and found)


def submit(service):
    body = {"task": {"text": "is it?"}, "eligible": ["person"], "background": True}
    return service.post("/v1/tasks", body).json()["id"]


def test_a_lease_holds_across_processes(processes, log, monkeypatch):
    monkeypatch.setattr("bot_orch.service.queue.tickets.LEASE_S", 4.0)
    first, second = processes(PEOPLE), processes(PEOPLE)
    for _ in range(4):
        submit(first)
    ids = [ticket["id"] for ticket in tickets(second, 4)]
    statuses, start = [], threading.Barrier(4)

    def claim(service):
        for ticket_id in ids:
            start.wait()
            statuses.append((ticket_id, service.post(f"/v1/queue/{ticket_id}/claim").status))

    threads = [
        threading.Thread(daemon=True, target=claim, args=(service,)) for service in (first, second, first, second)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(statuses) == {(each, status): n for each in ids for status, n in ((200, 1), (409, 3))}
    until(lambda: all(ticket["status"] == "open" for ticket in tickets(second, 4)))  # the leases run out, once
    kinds = Counter(e.topic for row in log.about("queue") if (e := row.event()))
    assert kinds == {"queue.opened": 4, "queue.claimed": 4, "queue.lapsed": 4}


def test_a_person_may_answer_at_another_process(processes):
    first, second = processes(PEOPLE), processes(PEOPLE)
    task_id = submit(first)
    ticket = tickets(second)[0]["id"]
    claim = second.post(f"/v1/queue/{ticket}/claim").json()["claim"]
    assert second.post(f"/v1/queue/{ticket}/answer", {"text": "it is", "claim": claim}).status == 200
    ended = until(lambda: (v := first.get(f"/v1/tasks/{task_id}").json())["status"] == "completed" and v)
    assert ended["output"] == "it is"
    same_state(first, second)


def test_a_ticket_goes_on_where_its_task_goes_on(processes, log):
    first, second = processes(PEOPLE), processes(PEOPLE)
    task_id = submit(first)
    before = tickets(second)[0]["id"]
    first.stop()
    assert [ticket["id"] for ticket in tickets(second)] == [before]
    claim = until(lambda: (made := second.post(f"/v1/queue/{before}/claim")).status == 200 and made.json()["claim"])
    assert second.post(f"/v1/queue/{before}/answer", {"text": "yes", "claim": claim}).status == 200
    until(lambda: second.get(f"/v1/tasks/{task_id}").json()["status"] == "completed")


GUARDED = BASE.replace(
    "policy: bot, floor: 0.05",
    "policy: ucb1, floor: 0.05, on_alarm: restart, alignment: {{geometry: {{name: labels, labels: 2}}}}",
)
GUARDED += "audit: {{rate: 0.5, by: caller}}\n"


def test_audits_and_restarts_across_processes(processes, log):
    """The judge at one process, the truth at the other; one alarm gives one note."""
    services, effects = (processes(GUARDED), processes(GUARDED)), Counter()
    for number in range(160):
        one, other = services if number % 2 else services[::-1]
        made = one.post("/v1/decisions", {"eligible": ["quick"]}).json()
        output = {"kind": "labels", "probabilities": [1.0, 0.0] if number < 130 else [0.0, 1.0]}
        reports = [{"shown": True, "output": output}, {"reward": 0.9}] + [{"reward": 0.1, "audit": True}] * made[
            "audit"
        ]
        for report, service in zip(reports, (one, other, one), strict=False):
            effects[service.post("/v1/feedback", {"decision_id": made["id"], **report}).json()["effect"]] += 1
    assert effects["shown"] == effects["learned"] == 160 and effects["audited"] > 20
    state, found = same_state(*services), replay(log)
    assert found.ok and found.fingerprint == state["fingerprint"]
    notes = [event for row in log.read() if isinstance(event := row.event(), Noted) and event.topic == RESTARTED]
    assert [note.data["agent"] for note in notes] == ["quick"]
