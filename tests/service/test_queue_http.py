"""The queue over HTTP: from a task to a person and back, with tokens, restarts and a terminal."""

import shutil
import sqlite3
import threading
from contextlib import closing

import pytest
from service_running import BASE, PATIENCE_S, Running, hang_up, until

from bot_orch.clock import ManualClock
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay
from bot_orch.service.api.queue import QUEUE_ROUTES
from bot_orch.service.config import parse_config
from bot_orch.service.queue.tickets import LEASE_S, REF, fold_queue

PEOPLE = BASE + "  - {{id: person, kind: human, timeout_s: 600}}\n"
IMPATIENT = PEOPLE.replace("timeout_s: 600", "timeout_s: 0.4")


def begin(start, text=PEOPLE, **options):
    return start(text, **options)


def submit(running, text="is it?", eligible=("person",)):
    body = {"task": {"id": "t", "kind": "review", "text": text}, "eligible": list(eligible), "background": True}
    answer = running.post("/v1/tasks", body)
    assert answer.status == 202, answer
    return answer.json()["id"]


def waiting(running, count=1):
    def found():
        tickets = running.get("/v1/queue").json()["tickets"]
        return tickets if len(tickets) == count else None

    return until(found)


def ended(running, task):
    return until(lambda: (v := running.get(f"/v1/tasks/{task}").json())["status"] != "running" and v)


def events(running):
    return [row.event() for row in running.runtime.writer.log.about(REF)]


def test_a_task_goes_to_a_person_and_the_answer_comes_back(start):
    running = begin(start)
    task = submit(running, "2 + 2?")
    ticket = waiting(running)[0]
    assert ticket["text"] == "2 + 2?" and ticket["status"] == "open" and ticket["kind"] == "review"
    assert ticket["why"]["propensity"] == 1.0 and ticket["why"]["agents"][0]["agent"] == "person"
    assert {each["excluded"] for each in ticket["why"]["agents"]} == {"", "not requested"}
    claimed = running.post("/v1/queue/claim").json()
    assert claimed["id"] == ticket["id"] and claimed["mine"] and claimed["lease_until_us"] > claimed["now_us"]
    given = running.post(f"/v1/queue/{ticket['id']}/answer", {"text": "4", "claim": claimed["claim"]})
    assert given.status == 200 and given.json()["given"]["text"] == "4"
    view = ended(running, task)
    assert (view["status"], view["agent"], view["output"]) == ("completed", "person", "4")
    assert [e.topic for e in events(running)] == [f"queue.{w}" for w in ("opened", "claimed", "answered")]
    measured = running.get("/metrics").body.decode()
    for event in ("claimed", "answered"):
        assert f'bot_orch_queue_seconds_count{{until="{event}"}} 1.0' in measured


def test_a_background_task_is_answered_as_it_is_shown(start):
    running = begin(start)
    body = {"task": {"id": "t", "kind": "review", "text": "?"}, "eligible": ["person"], "background": True}
    answers = [running.post("/v1/tasks", body, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    shown = running.get(f"/v1/tasks/{answers[0].json()['id']}").json()
    assert [(each.status, each.json()) for each in answers] == [(202, shown)] * 2
    assert (shown["task_id"], shown["kind"]) == ("t", "review") and shown["submitted_us"] > 0


def test_a_rejection_falls_back_to_another_agent(start):
    running = begin(start)
    task = submit(running, eligible=["person", "quick"])
    ticket = waiting(running)[0]["id"]  # with this seed the policy asks the person first
    running.post(f"/v1/queue/{ticket}/claim")
    assert running.post(f"/v1/queue/{ticket}/answer", {"action": "reject", "reason": "cannot tell"}).status == 200
    view = ended(running, task)
    assert (view["status"], view["agent"]) == ("completed", "quick")
    assert [a["ending"] for a in view["attempts"]] == ["rejected", "completed"]


def test_nobody_answering_in_time_is_censored_and_falls_back(start):
    running = begin(start, IMPATIENT + "  - {{id: spare, kind: simulated, params: {{median_s: 0}}}}\n")
    for _ in range(12):  # until the policy asks the person first
        task = submit(running, eligible=["person", "spare"])
        view = ended(running, task)
        if len(view["attempts"]) == 2:
            break
    assert [a["ending"] for a in view["attempts"]] == ["unanswered", "completed"]
    assert (view["status"], view["agent"]) == ("completed", "spare")
    first = running.get(f"/v1/decisions/{view['attempts'][0]['decision_id']}").json()["outcomes"][0]
    assert not first["completed"] and first["reason"] == "unanswered" and first["reward"] is None
    ticket = next(e.ref for e in events(running) if e.topic == "queue.expired")
    late = running.post(f"/v1/queue/{ticket}/claim")
    assert late.status == 409 and late.json()["error"]["code"] == "stale"


def test_alone_and_unanswered_the_task_fails(start):
    running = begin(start, IMPATIENT)
    view = ended(running, submit(running))
    assert (view["status"], view["error"]) == ("failed", "unanswered")


def test_the_lease_runs_out_by_itself_and_the_stale_answer_is_refused(start):
    clock = ManualClock()
    running = begin(start, clock=clock)
    submit(running)
    ticket = waiting(running)[0]["id"]
    claimed = running.post(f"/v1/queue/{ticket}/claim").json()
    claim = claimed["claim"]
    assert running.post(f"/v1/queue/{ticket}/claim").status == 409
    clock.advance(1)
    renewed = running.post(f"/v1/queue/{ticket}/claim", {"claim": claim}).json()
    assert renewed["claim"] == claim and renewed["lease_until_us"] > claimed["lease_until_us"]
    clock.advance(LEASE_S + 1)
    until(lambda: running.get(f"/v1/queue/{ticket}").json()["status"] == "open")
    answer = running.post(f"/v1/queue/{ticket}/answer", {"text": "x", "claim": claim})
    assert answer.status == 409 and answer.json()["error"]["code"] == "stale"
    assert "queue.lapsed" in [e.topic for e in events(running)]


def test_a_restart_keeps_ticket_and_claim(start, tmp_path):
    path = tmp_path / "kept.sqlite"
    running = begin(start, database=path)
    task = submit(running, "still there?")
    ticket = waiting(running)[0]["id"]
    claim = running.post(f"/v1/queue/{ticket}/claim").json()["claim"]
    running.stop()
    running = begin(start, database=path)
    view = until(lambda: (v := running.get(f"/v1/queue/{ticket}").json())["status"] == "claimed" and v)
    assert view["claim"] == claim
    given = until(
        lambda: (a := running.post(f"/v1/queue/{ticket}/answer", {"text": "yes!", "claim": claim})).status == 200 and a
    )
    assert given.json()["given"]["text"] == "yes!"
    assert ended(running, task)["output"] == "yes!"
    live = running.runtime.queue.state.tickets
    running.stop()
    log = open_log(path)
    assert fold_queue(log.about(REF)).tickets == live
    assert replay(log).ok
    log.close()


def test_a_restart_keeps_the_deadline(start, tmp_path):
    path, clock = tmp_path / "kept.sqlite", ManualClock(1_000_000_000_000)
    running = begin(start, database=path, clock=clock)
    late = submit(running, "late?")
    body = {"task": {"text": "soon?"}, "eligible": ["person"], "background": True, "deadline_s": 250.0}
    soon = running.post("/v1/tasks", body).json()["id"]
    opened = {each["id"]: each["deadline_us"] for each in waiting(running, 2)}
    assert sorted((each - clock.now_us()) // 1_000_000 for each in opened.values()) == [250, 600]
    clock.advance(100.0)
    running.stop()
    running = begin(start, database=path, clock=clock)
    assert {each["id"]: each["deadline_us"] for each in waiting(running, 2)} == opened
    running.stop()
    clock.advance(600.0)
    running = begin(start, database=path, clock=clock)
    assert [ended(running, each)["status"] for each in (late, soon)] == ["failed"] * 2
    for ticket, deadline_us in opened.items():
        found = running.get(f"/v1/queue/{ticket}").json()
        assert (found["status"], found["deadline_us"]) == ("expired", deadline_us)


def test_an_answer_that_was_acknowledged_counts_after_a_crash(start, tmp_path, monkeypatch):
    """The log ends with the answer, as if the process had been killed before the round went on."""
    path, copied = tmp_path / "kept.sqlite", tmp_path / "copy.sqlite"
    running = begin(start, database=path)
    task = submit(running, "in time?")
    ticket = waiting(running)[0]["id"]
    running.post(f"/v1/queue/{ticket}/claim")
    notify = running.runtime.queue._notify
    monkeypatch.setattr(running.runtime.queue, "_notify", lambda _: None)
    assert running.post(f"/v1/queue/{ticket}/answer", {"text": "yes"}).status == 200
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM INTO ?", (str(copied),))
    monkeypatch.undo()
    running.call(lambda: notify(ticket))
    again = begin(start, database=copied)
    assert ended(again, task)["output"] == "yes"
    assert [e.topic for e in events(again)].count("queue.opened") == 1


def test_after_a_crash_waiting_tasks_go_on_and_the_others_are_withdrawn(start, tmp_path, monkeypatch):
    monkeypatch.setattr("bot_orch.service.queue.service._RESTART_GRACE_S", 1.0)
    running = begin(start, database=tmp_path / "a.sqlite")
    task = submit(running, "goes on")
    kept = waiting(running)[0]["id"]
    running.post(f"/v1/queue/{kept}/claim")
    leaving = threading.Thread(
        target=lambda: running.post("/v1/tasks", {"task": {"text": "b"}, "eligible": ["person"]})
    )
    leaving.start()
    gone = next(t["id"] for t in waiting(running, 2) if t["id"] != kept)
    for file in ("a.sqlite", "a.sqlite-wal"):  # what a power cut would leave
        shutil.copy(tmp_path / file, tmp_path / file.replace("a.", "b."))
    copy = begin(start, database=tmp_path / "b.sqlite")
    until(lambda: copy.get(f"/v1/queue/{gone}").json()["status"] == "withdrawn")
    assert copy.get(f"/v1/queue/{gone}").json()["reason"] == "restart"
    until(lambda: copy.get(f"/v1/queue/{kept}").json()["status"] == "claimed")
    assert copy.post(f"/v1/queue/{kept}/answer", {"text": "done"}).status == 200
    assert ended(copy, task)["output"] == "done"
    for server, ticket in ((running, gone), (running, kept)):
        server.post(f"/v1/queue/{ticket}/claim")
        server.post(f"/v1/queue/{ticket}/answer", {"text": "x"})
    leaving.join(PATIENCE_S)


def test_storage_that_fails_takes_nothing_back_and_adds_nothing(start, monkeypatch):
    running = begin(start)
    submit(running)
    ticket = waiting(running)[0]["id"]
    log = running.runtime.writer.log
    commit = log.commit

    def broken():
        raise OSError("disk full")

    monkeypatch.setattr(log, "commit", broken)
    assert running.post(f"/v1/queue/{ticket}/claim").status == 503
    monkeypatch.setattr(log, "commit", commit)
    until(lambda: running.get("/health/ready").status == 200)
    assert running.get(f"/v1/queue/{ticket}").json()["status"] == "open"
    assert running.post(f"/v1/queue/{ticket}/claim").status == 200


def test_a_caller_that_leaves_takes_its_task_back(start):
    running = begin(start)
    with hang_up(running, "/v1/tasks", {"task": {"text": "quick!"}, "eligible": ["person"]}):
        waiting(running)
    until(lambda: not running.get("/v1/queue").json()["tickets"])
    assert events(running)[-1].topic == "queue.withdrawn"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/queue/nobody/claim", {}, 404),
        ("/v1/queue/nobody/answer", {"text": "x"}, 404),
        ("/v1/queue/claim", {}, 409),
        ("/v1/queue/nobody/answer", {"action": "burn"}, 422),
        ("/v1/queue/nobody/answer", {"claim": -1}, 422),
        ("/v1/queue/nobody/release", {"claim": "one"}, 422),
        ("/v1/queue/nobody/claim", {"x": 1}, 422),
    ],
)
def test_what_is_refused(service, path, body, status):
    answer = service.post(path, body)
    assert answer.status == status and answer.json()["error"]["message"]


TOKENS = {scope: f"secret-token-of-{scope}" for scope in ("decide", "feedback", "queue", "admin")}
SECURED = (
    PEOPLE + "tokens:\n" + "".join(f"  - {{{{name: {s}, scopes: [{s}], env: TOKEN_{s.upper()}}}}}\n" for s in TOKENS)
)
ENVIRONMENT = {f"TOKEN_{scope.upper()}": token for scope, token in TOKENS.items()}


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    path = tmp_path_factory.mktemp("secured") / "log.sqlite"
    running = Running(parse_config(SECURED.format(database=path, port=0), ENVIRONMENT), environment=ENVIRONMENT)
    yield running
    running.stop()


def bearer(scope):
    return {"Authorization": f"Bearer {TOKENS[scope]}"}


@pytest.mark.parametrize("route", QUEUE_ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_with_every_scope(secured, route):
    path = route.path.replace("{id}", "x")
    raw = b"{}" if route.body is not None else None
    assert secured.request(route.method, path, raw=raw).status == 401
    for scope in TOKENS:
        status = secured.request(route.method, path, raw=raw, headers=bearer(scope)).status
        assert (status not in (401, 403)) == (scope in ("queue", "admin")), scope
        assert status < 500


PAGES = {
    "/": "admin",
    "/dashboard/live": "admin",
    "/decisions/x": "admin",
    "/decisions": "admin",
    "/dashboard/cost.csv": "admin",
    "/queue": "queue",
    "/queue/live": "queue",
}


@pytest.mark.parametrize("path", PAGES)
def test_every_page_with_every_scope(secured, path):
    away = secured.get(path)
    assert away.status == 303 and away.headers["location"].startswith("/login?next=/")
    for scope in TOKENS:
        cookie = {"Cookie": f"other=1; bot_orch_token={TOKENS[scope]}"}
        for headers in (cookie, bearer(scope)):
            assert (secured.get(path, headers=headers).status != 403) == (scope in (PAGES[path], "admin"))
    assert secured.get(path, headers={"Cookie": "bot_orch_token=wrong"}).status == 303


def form(running, path, data, headers=None, origin=None):
    host = f"127.0.0.1:{running.port}"
    base = {"Content-Type": "application/x-www-form-urlencoded", "Host": host, "Origin": origin or f"http://{host}"}
    return running.request("POST", path, raw=data.encode(), headers={**base, **(headers or {})})


def test_signing_in_and_out(secured):
    assert form(secured, "/login", "token=wrong&next=/queue").status == 401
    answer = form(secured, "/login", f"token={TOKENS['queue']}&next=/queue")
    assert answer.status == 303 and answer.headers["location"] == "/queue"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert secured.get("/queue", headers={"Cookie": cookie.partition(";")[0]}).status == 200
    for bad in ("//evil.example", "https://evil.example", "/\\evil.example"):
        goal = form(secured, "/login", f"token={TOKENS['queue']}&next={bad}").headers["location"]
        assert goal == "/queue", bad
    assert "Max-Age=0" in form(secured, "/logout", "").headers["set-cookie"]


def test_a_form_of_another_site_is_refused(secured):
    cookie = {"Cookie": f"bot_orch_token={TOKENS['queue']}"}
    for origin in ("http://evil.example", "null"):
        assert form(secured, "/queue/next", "", cookie, origin).status == 403
    assert form(secured, "/queue/next", "", cookie).status == 303


def test_an_admin_can_release_what_somebody_holds(secured):
    body = {"task": {"text": "x"}, "eligible": ["person"], "background": True}
    assert secured.post("/v1/tasks", body, headers=bearer("decide")).status == 202
    ticket = until(lambda: secured.get("/v1/queue", headers=bearer("queue")).json()["tickets"])[0]["id"]
    assert secured.post(f"/v1/queue/{ticket}/claim", headers=bearer("queue")).json()["holder"] == "queue"
    assert secured.post(f"/v1/queue/{ticket}/release", headers=bearer("admin")).json()["status"] == "open"


def test_forms_do_what_the_api_does(start):
    running = begin(start)
    task = submit(running, "by form")
    ticket = waiting(running)[0]["id"]
    assert form(running, "/queue/next", "").headers["location"] == f"/queue/{ticket}"
    assert form(running, f"/queue/{ticket}/claim", "claim=1").status == 303
    wrong = form(running, f"/queue/{ticket}/answer", "action=answer&text=kept+text&claim=7")
    assert wrong.status == 409 and b"kept text" in wrong.body and b"claim it again" in wrong.body
    assert form(running, f"/queue/{ticket}/explode", "").status == 404
    assert form(running, f"/queue/{ticket}/answer", "action=answer&text=done%0D%0Awell&claim=1").status == 303
    assert ended(running, task)["output"] == "done\nwell"
    assert form(running, "/queue/next", "").headers["location"] == "/queue?empty=1"


def test_pages_carry_a_strict_policy(start):
    running = begin(start)
    for path in ("/", "/queue", "/login", "/static/app.css", "/decisions/unknown"):
        headers = running.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "same-origin"
    for path in ("/", "/queue", "/login"):
        body = running.get(path).body.decode()
        assert "<style" not in body and " style=" not in body and " onclick" not in body
        assert body.count("<script") == body.count('<script type="module" src="/static/')
    assert running.get("/static/../app.py").status == 404 and running.get("/static/pages.py").status == 404
    assert running.get("/queue", headers={"Host": "evil.example"}).status == 403
