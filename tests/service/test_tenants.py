"""Tenants: ids, visibility, feedback, caches and quotas of one application are its own.

Every route that takes an id is asked with an id of another tenant and with one of nobody: the answers must be the same.
"""

import json
import re

import pytest
from service_running import BASE, PATIENCE_S, until
from starlette.routing import Route

from bot_orch.cli import main
from bot_orch.clock import ManualClock
from bot_orch.errors import InvalidInputError
from bot_orch.log.ids import tenant_of, time_ordered_id
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay
from bot_orch.service.config import parse_config

SECRETS = {name: name.lower() * 20 for name in ("ACME", "DESK", "BETA", "OPS", "OLD")}
TENANTS = (
    BASE.replace("horizon_s: 3600", "horizon_s: 3600, sticky_s: 600")
    + """  - {{id: person, kind: human, settings: {{answer_within_s: 300}}}}
judges: [{{name: user, kind: thumbs}}]
tenants:
  acme: {{limits: {{requests_per_minute: 60}}, tags: [acme]}}
  beta: {{}}
tokens:
  - {{name: app, scopes: [decide, feedback, queue, admin], env: ACME, tenant: acme}}
  - {{name: desk, scopes: [decide, feedback], env: DESK, tenant: acme}}
  - {{name: app, scopes: [decide, feedback, queue, admin], env: BETA, tenant: beta}}
  - {{name: ops, scopes: [admin], env: OPS}}
  - {{name: app, scopes: [decide, feedback, queue], env: OLD}}
"""
)
CHAT = {"model": "quick", "messages": [{"role": "user", "content": "x"}]}
_VOLATILE = ("date", "x-request-id", "x-bot-orch-overhead-ms")


class As:
    """A caller of a service."""

    def __init__(self, service, name):
        self.service, self.headers = service, {"Authorization": f"Bearer {SECRETS[name]}"}

    def ask(self, method, path, body=None, **headers):
        page = {"Origin": f"http://127.0.0.1:{self.service.port}"} if method == "POST" else {}
        given = {**self.headers, **page, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return self.service.request(method, path, body, headers=given)

    def get(self, path, **headers):
        return self.ask("GET", path, **headers)

    def post(self, path, body=None, **headers):
        return self.ask("POST", path, {} if body is None else body, **headers)

    def good(self, *asked, **headers):
        answer = self.post(*asked, **headers) if len(asked) > 1 else self.get(*asked, **headers)
        assert answer.status in (200, 202), answer
        return answer.json()


@pytest.fixture
def service(start):
    return start(TENANTS, environment=SECRETS)


@pytest.fixture
def acme(service):
    return As(service, "ACME")


@pytest.fixture
def beta(service):
    return As(service, "BETA")


@pytest.fixture
def ops(service):
    return As(service, "OPS")


def new_id():
    return time_ordered_id(1_800_000_000_000_000)


def ticket_of(caller):
    task = caller.good("/v1/tasks", {"task": {"text": "is it?"}, "eligible": ["person"], "background": True})["id"]
    (ticket,) = until(lambda: caller.good("/v1/queue")["tickets"])
    return task, ticket["id"]


def things_of(caller):
    """Ids of everything that a caller can have, by what a path calls it."""
    decided = caller.good("/v1/decisions", {"task": {"id": "secret-task"}, "session": "s-1"})["id"]
    done = caller.good("/v1/tasks", {"task": {"text": "x"}, "eligible": ["quick"]})["id"]
    chat = caller.post("/v1/chat/completions", CHAT).headers["x-bot-orch-decision-id"]
    _, ticket = ticket_of(caller)
    report = {"decision_id": decided, "id": "fb-1", "reward": 1.0}
    return {"decisions": decided, "tasks": done, "queue": ticket, "chat": chat, "report": report}


def seen(answer, known_as):
    """A whole answer without what differs from one request to the next, and without the id that was asked for."""
    headers = {name: value for name, value in answer.headers.items() if name.lower() not in _VOLATILE}
    headers.pop("content-length", None)
    return answer.status, headers, re.sub(rb'"now_us":\d+', b"", answer.body).replace(known_as.encode(), b"ID")


WITHOUT_IDS_OF_TENANTS = {
    "/v1/models/{id:path}",  # agents
    "/v1/admin/agents/{id}/reset",
    "/v1/admin/agents/{id}/drain",
    "/v1/admin/agents/{id}/resume",
    "/v1/admin/keys/{id}/rotate",
    "/v1/admin/keys/{id}/revoke",
    "/dashboard/{chart}.csv",
    "/static/{name}",
}
BODIES = {
    "/v1/queue/{id}/answer": {"text": "4"},
    "/v1/queue/{id}/drafts": {"agent": "quick", "text": "5"},
}


def questions(service):
    """Every request that takes an id: (method, path with {id}, body with {id})."""
    routes = [each for each in service.server.config.app.routes if isinstance(each, Route) and "{" in each.path]
    assert {each.path for each in routes} >= WITHOUT_IDS_OF_TENANTS
    for route in routes:
        if route.path in WITHOUT_IDS_OF_TENANTS:
            continue
        kind = route.path.removeprefix("/v1").split("/")[1]
        for action in ("claim", "release", "answer") if "{action}" in route.path else ("",):
            for method in route.methods - {"HEAD"}:
                path = route.path.replace("{action}", action)
                yield kind, method, path, BODIES.get(path, {} if method == "POST" else None)
    yield "queue", "GET", "/queue/live?ticket={id}", None
    yield "decisions", "POST", "/v1/feedback", {"decision_id": "{id}", "reward": 0.0}
    yield "decisions", "POST", "/v1/feedback", {"decision_id": "{id}", "reward": 0.0, "audit": True}
    yield "decisions", "POST", "/v1/feedback", {"completion_id": "chatcmpl-{id}", "reward": 0.0}
    yield "decisions", "POST", "/v1/decisions", {"id": "{id}"}
    yield "chat", "POST", "/v1/responses", {"model": "auto", "input": "x", "previous_response_id": "resp_{id}"}


def asked(caller, question, known_as):
    _, method, path, body = question
    written = None if body is None else json.loads(json.dumps(body).replace("{id}", known_as))
    answer = caller.ask(method, path.replace("{id}", known_as), written)
    status, headers, text = seen(answer, known_as)
    if path == "/v1/decisions":  # the draw differs, the rest must not
        return status, sorted(answer.json())
    return status, headers, re.sub(rb"auto-[0-9a-f]+", b"auto", text)


def leaks(service, theirs):
    """Questions that beta gets another answer to with an id of acme than with one of nobody."""
    beta, nobodys = As(service, "BETA"), {name: new_id() for name in theirs}
    return [
        (method, path, str(body))
        for kind, method, path, body in questions(service)
        if asked(beta, (kind, method, path, body), theirs[kind])
        != asked(beta, (kind, method, path, body), nobodys[kind])
    ]


def test_an_id_of_another_tenant_is_like_one_of_nobody(service, acme):
    theirs = things_of(acme)
    before = acme.good(f"/v1/decisions/{theirs['decisions']}")
    assert len(list(questions(service))) >= 20
    assert leaks(service, theirs) == []
    assert acme.good(f"/v1/decisions/{theirs['decisions']}") == before, "and nothing has happened to it"
    assert before["pending"] is True and before["outcomes"] == []
    assert acme.good(f"/v1/queue/{theirs['queue']}")["status"] == "open"
    for kind, method, path, _ in questions(service):  # the owner gets what there is
        if method == "GET":
            assert acme.get(path.replace("{id}", theirs[kind])).status == 200, path


def test_the_comparison_finds_a_service_that_does_not_tell_tenants_apart(service, acme, monkeypatch):
    theirs = things_of(acme)
    everybody = lambda tenant, text: f"acme:{text}" if tenant else text  # noqa: E731
    for where in ("web.endpoint", "queue.rules", "judging.completions"):
        monkeypatch.setattr(f"bot_orch.service.{where}.inside", everybody)
    for where in ("decisions", "tasks"):
        monkeypatch.setattr(f"bot_orch.service.api.{where}.may_see", lambda *_: True)
    found = {path for _, path, _ in leaks(service, theirs)}
    every = {path for _, _, path, _ in questions(service)}
    assert every - found == {"/v1/responses"}, "that one is asked by its key in the log"


def test_ids_and_keys_are_free_for_every_tenant(service, acme, beta):
    own, keyed = new_id(), {"Idempotency_Key": "k-1"}
    first, second = acme.good("/v1/decisions", {"id": own}), beta.good("/v1/decisions", {"id": own})
    assert first["id"] == second["id"] == own and first["state_seq"] is None
    assert acme.post("/v1/decisions", {"id": own}).status == 409, "but once for each"
    old = As(service, "OLD")
    assert old.good("/v1/decisions", {"id": own})["id"] == own, "and for a token of no tenant, of the same name"
    made = [each.good("/v1/decisions", {}, **keyed)["id"] for each in (acme, beta, old)]
    assert len(set(made)) == 3
    assert [each.good("/v1/decisions", {}, **keyed)["id"] for each in (acme, beta, old)] == made
    assert acme.post("/v1/decisions", {"task": {"kind": "k"}}, **keyed).status == 422
    for caller, reward in ((acme, 1.0), (beta, 0.0), (old, 0.5)):
        report = {"decision_id": own, "id": "fb-1", "reward": reward}
        learned = {"id": "fb-1", "decision_id": own, "effect": "learned", "duplicate": False}
        assert caller.good("/v1/feedback", report) == learned
        assert caller.good("/v1/feedback", report)["duplicate"] is True
        assert [each["reward"] for each in caller.good(f"/v1/decisions/{own}")["outcomes"]] == [reward]
    answers = [each.post("/v1/tasks", {"task": {"text": "x"}, "eligible": ["quick"]}, **keyed) for each in (acme, beta)]
    assert len({each.json()["id"] for each in answers}) == 2
    chats = [each.post("/v1/chat/completions", CHAT, **keyed) for each in (acme, beta, acme, beta)]
    assert ["idempotent-replayed" in each.headers for each in chats] == [False, False, True, True]
    assert chats[0].json()["id"] == chats[2].json()["id"] != chats[1].json()["id"]


def test_a_report_of_another_tenant_is_not_learned_now_or_later(service, acme, beta):
    decided, later = acme.good("/v1/decisions", {})["id"], new_id()
    for known_as in (decided, later):
        said = beta.good("/v1/feedback", {"decision_id": known_as, "reward": 0.0})
        assert said["effect"] == "early", "as if it were its own, and came before its decision"
    assert acme.good("/v1/decisions", {"id": later})["id"] == later
    ledger = service.runtime.ledger
    assert {f"acme:{decided}", f"acme:{later}"} <= set(ledger.pending) and not ledger.router.silent
    assert acme.good(f"/v1/decisions/{later}")["outcomes"] == []
    assert beta.good("/v1/decisions", {"id": later})["id"] == later
    assert f"beta:{later}" not in ledger.pending, "its own decision is settled by it"
    assert acme.good("/v1/feedback", {"decision_id": later, "reward": 1.0})["effect"] == "learned"


def test_sessions_are_apart(service, acme, beta):
    for _ in range(3):
        acme.good("/v1/decisions", {"session": "s", "eligible": ["quick"]})
    assert acme.good("/v1/decisions", {"session": "s"})["agent"] == "quick", "sticky"
    assert acme.good("/v1/decisions", {"session": "s"})["by"] == "sticky"
    assert beta.good("/v1/decisions", {"session": "s"})["by"] != "sticky"
    nobody = beta.post("/v1/feedback", {"session": "other", "reward": 1.0})
    assert (nobody.status, len(beta.good("/v1/feedback", {"session": "s", "reward": 1.0})["credited"])) == (404, 1)
    credited = acme.good("/v1/feedback", {"session": "s", "reward": 1.0})
    assert credited["session"] == "s" and [each["effect"] for each in credited["credited"]] == ["learned"] * 5
    assert acme.good(f"/v1/decisions/{credited['credited'][0]['decision_id']}")["session"] == "s"
    old = As(service, "OLD")
    for path, body in (("/v1/decisions", {}), ("/v1/feedback", {"reward": 1.0})):
        assert old.post(path, {**body, "session": "acme:s"}).status == 422


def test_tool_calls_go_back_to_the_agent_of_the_same_tenant(service, acme, beta):
    loops = service.runtime.loops
    service.call(lambda: loops.remember("acme\0app", ["call_1"], "careful"))
    messages = [{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "call_1", "content": "4"}]
    body = {"model": "auto", "messages": messages}
    shown = [acme.post("/v1/chat/completions", {**body, "seed": number}) for number in range(4)]
    assert {each.headers["x-bot-orch-propensity"] for each in shown} == {"1.0"}
    assert beta.post("/v1/chat/completions", body).headers["x-bot-orch-propensity"] != "1.0"


def test_a_person_of_a_tenant_sees_its_tickets_alone(service, acme, beta, ops):
    task, ticket = ticket_of(acme)
    assert beta.good("/v1/queue")["tickets"] == [] and beta.post("/v1/queue/claim").json()["error"]["code"] == (
        "queue_empty"
    )
    assert "is it?" not in beta.get("/queue").body.decode() and "is it?" in acme.get("/queue").body.decode()
    (shown,) = ops.good("/v1/queue")["tickets"]
    assert shown["id"] == f"acme:{ticket}" and shown["decision_id"].startswith("acme:")
    held = acme.good("/v1/queue/claim", {})
    assert held["id"] == ticket and tenant_of(held["decision_id"]) == ""
    assert ops.good(f"/v1/queue/acme:{ticket}/release", {})["status"] == "open"
    service.runtime.queue.settings = type(service.runtime.queue.settings)(lease_s=120.0, undo_s=0.01)
    acme.good(f"/v1/queue/{ticket}/claim", {})
    acme.good(f"/v1/queue/{ticket}/answer", {"text": "4"})
    ended = until(lambda: (view := acme.good(f"/v1/tasks/{task}"))["status"] == "completed" and view)
    assert ended["output"] == "4" and ended["id"] == task and tenant_of(ended["decision_id"]) == ""
    assert ended["decisions"] == [ended["decision_id"]] == [each["decision_id"] for each in ended["attempts"]]


def test_tokens_of_a_tenant_share_its_quota_and_an_admin_its_view(start, tmp_path):
    clock = ManualClock(1_800_000_000_000_000)
    text = TENANTS.replace("requests_per_minute: 60", "requests_per_minute: 3, usd: 0.25").replace(
        "env: DESK,", "env: DESK, limits: {{requests_per_minute: 2}},"
    )

    def begin():
        return start(text, environment=SECRETS, clock=clock, database=tmp_path / "quota.sqlite")

    service = begin()
    app, desk, other = (As(service, name) for name in ("ACME", "DESK", "BETA"))
    by_desk = desk.post("/v1/decisions")
    assert by_desk.headers["x-ratelimit-remaining-requests"] == "1", "of its own two, which are fewer"
    assert app.post("/v1/decisions").headers["x-ratelimit-remaining-requests"] == "1", "of the tenant's three"
    assert desk.post("/v1/decisions").headers["x-ratelimit-remaining-requests"] == "0"
    refused = app.post("/v1/decisions")
    assert refused.status == 429 and "the tenant 'acme' has used its 3 requests per minute" in refused.body.decode()
    assert other.post("/v1/decisions").status == 200
    told = As(service, "OPS").get("/metrics").body.decode()
    assert 'bot_orch_limited_requests_total{limit="requests",token="tenant acme"} 1' in told
    known_as = by_desk.json()["id"]
    assert app.get(f"/v1/decisions/{known_as}").status == 200, "an admin of the tenant sees all of it"
    assert desk.get(f"/v1/decisions/{known_as}").status == 200
    service.stop()
    service = begin()
    app, desk, other = (As(service, name) for name in ("ACME", "DESK", "BETA"))
    assert app.post("/v1/decisions").status == 429, "it is added up again from the log"
    clock.advance(62)
    assert app.post("/v1/feedback", {"decision_id": known_as, "reward": 1.0, "cost_usd": 0.3}).status == 200
    spent = desk.post("/v1/decisions")
    assert spent.status == 429 and "0.25 dollars" in spent.json()["error"]["message"]
    assert other.post("/v1/decisions").status == 200


def test_service_wide_routes_and_counts_are_not_for_tenants(service, acme, beta, ops):
    for _ in range(3):
        beta.good("/v1/decisions", {})
    for method, path in (
        ("POST", "/v1/admin/kill-switch"),
        ("POST", "/v1/admin/reload"),
        ("POST", "/v1/admin/agents/quick/drain"),
        ("POST", "/v1/admin/agents/quick/resume"),
        ("POST", "/v1/admin/agents/quick/reset"),
        ("GET", "/v1/admin/state"),
        ("GET", "/metrics"),
        ("GET", "/v1/judges"),
    ):
        answer = acme.ask(method, path, {"agent": "quick"} if "kill" in path else None)
        assert (answer.status, answer.json()["error"]["code"]) == (403, "service_wide"), path
    assert {each["in_flight"] for each in acme.good("/v1/agents")} == {None}
    assert {each["waiting"] for each in ops.good("/v1/agents")} == {0}
    assert (acme.good("/v1/routers")[0]["decisions"], ops.good("/v1/routers")[0]["decisions"]) == (None, 3)
    assert acme.good("/v1/objective")["spent_last_day_usd"] is None


def test_dashboards_spending_and_exports_show_what_is_the_tenants(service, acme, beta, ops, tmp_path, capsys):
    for caller, times in ((acme, 2), (beta, 5)):
        for _ in range(times):
            made = caller.good("/v1/decisions", {"task": {"id": f"task-{times}"}, "session": f"session-{times}"})
            caller.good("/v1/feedback", {"decision_id": made["id"], "reward": 1.0, "cost_usd": 0.5})
    for path in ("/", "/dashboard", "/dashboard/live", "/decisions", *(f"/dashboard/{n}.csv" for n in ("agents",))):
        own, whole = acme.get(path), ops.get(path)
        assert own.status == whole.status == 200, (path, own)
        text = own.body.decode()
        for word in ("task-5", "session-5", "beta", "acme:"):
            assert word not in text, (path, word)
        if path != "/dashboard/agents.csv":
            assert "task-2" in text and "task-5" in whole.body.decode(), path
    tiles = json.loads(acme.get("/dashboard/live").body)["parts"]["tiles"]
    assert "<dd>2<small>2 in this range" in tiles and "$1.00" in tiles and "event " not in tiles
    every = json.loads(ops.get("/dashboard/live").body)["parts"]["tiles"]
    assert "<dd>7<small>7 in this range" in every and "$3.50" in every
    assert "acme:" in ops.get("/decisions").body.decode()
    assert acme.good("/v1/spend")["cost_usd"] == 1.0
    lines = {each["key"]: each["cost_usd"] for each in ops.good("/v1/spend?by=tenant")["lines"]}
    assert lines == {"acme": 1.0, "beta": 2.5}
    assert [each["key"] for each in acme.good("/v1/spend?by=tenant")["lines"]] == ["acme"]
    assert [each["key"] for each in acme.good("/v1/spend?by=tag")["lines"]] == ["acme"], "its tag is on its decisions"
    out = tmp_path / "acme.csv"
    assert main(["export", str(service.config.database), str(out), "--tenant", "acme"]) == 0
    told = out.read_text()
    assert len(told.splitlines()) == 3 and "session-2" in told and "acme:" not in told and "task-5" not in told
    assert main(["spend", str(service.config.database), "--by", "day", "--tenant", "beta", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["cost_usd"] == 2.5


def test_pages_of_decisions_are_numbered_without_telling_what_others_do(service, acme, beta, monkeypatch):
    monkeypatch.setattr("bot_orch.service.dashboard.routes._PER_PAGE", 2)
    made = []
    for number in range(5):
        made.append(acme.good("/v1/decisions", {"task": {"id": f"t-{number}"}})["id"])
        beta.good("/v1/decisions", {"task": {"id": "other"}})
    found, path = [], "/decisions"
    while path is not None:
        text = acme.get(path).body.decode()
        found += re.findall(r'/decisions/([0-9a-f-]{36})"', text)
        older = re.search(r'rel="next" href="([^"]+)"', text)
        path = None if older is None else older[1].replace("&amp;", "&")
        assert path is None or int(path.rpartition("=")[2]) > 1_000_000_000_000_000, "a time, no number in the log"
    assert found == made[::-1]


def test_tenants_are_in_the_log_and_a_restart_keeps_them(start, tmp_path):
    database = tmp_path / "kept.sqlite"
    service = start(TENANTS, environment=SECRETS, database=database)
    acme = As(service, "ACME")
    task, ticket = ticket_of(acme)
    decided = acme.good("/v1/decisions", {"session": "s"})["id"]
    As(service, "BETA").good("/v1/feedback", {"decision_id": decided, "id": "fb", "reward": 0.0})
    service.stop()
    service = start(TENANTS, environment=SECRETS, database=database)
    acme, beta = As(service, "ACME"), As(service, "BETA")
    assert acme.good(f"/v1/decisions/{decided}")["pending"] is True and beta.get(f"/v1/tasks/{task}").status == 404
    assert beta.post("/v1/feedback", {"decision_id": decided, "id": "fb", "reward": 0.5}).status == 409, "it used it"
    assert acme.good("/v1/feedback", {"decision_id": decided, "id": "fb", "reward": 1.0})["effect"] == "learned"
    (shown,) = until(lambda: acme.good("/v1/queue")["tickets"], PATIENCE_S)
    assert shown["id"] == ticket and acme.good(f"/v1/tasks/{task}")["status"] == "running", "it goes on as acme's"
    assert beta.good("/v1/queue")["tickets"] == []
    service.stop()
    log = open_log(str(database))
    found = replay(log)
    log.close()
    assert found.ok and found.decisions, found


ROUTERS = """
version: 1
database: ":memory:"
listen: {{port: 0}}
agents: [{{id: general, kind: simulated, settings: {{median_s: 0.0, sigma: 0.0}}}}]
routers:
  own: {{agents: [{{id: helper, kind: simulated, settings: {{median_s: 0.0, sigma: 0.0}}}}]}}
  free: {{agents: [{{id: coder, kind: simulated, settings: {{median_s: 0.0, sigma: 0.0}}}}]}}
tenants: {{acme: {{router: own}}, beta: {{}}}}
tokens:
  - {{name: a, scopes: [decide, feedback, admin], env: ACME, tenant: acme}}
  - {{name: b, scopes: [decide, feedback, admin], env: BETA, tenant: beta}}
  - {{name: ops, scopes: [admin], env: OPS}}
"""


def test_a_router_of_a_tenant_is_not_there_for_others(start):
    service = start(ROUTERS, environment=SECRETS)
    until(lambda: all(each.loaded for each in service.runtime.peers.values()))
    acme, beta, ops = (As(service, name) for name in ("ACME", "BETA", "OPS"))
    body = {"model": "auto", "messages": [{"role": "user", "content": "x"}]}
    agents = lambda caller, **more: caller.post("/v1/chat/completions", {**body, **more}).headers["x-bot-orch-agent"]  # noqa: E731
    assert (agents(acme), agents(beta), agents(beta, model="auto:free")) == ("helper", "general", "coder")
    for path in ("/r/{name}/v1/agents", "/r/{name}/v1/decisions/x", "/r/{name}/", "/v1/models/auto:{name}"):
        own, none = (beta.get(path.format(name=name)) for name in ("own", "none"))
        if path == "/r/{name}/":  # a page says it in HTML
            assert (own.status, none.status) == (404, 404)
        else:
            assert (own.status, own.body) == (none.status, none.body), path
    own, none = (beta.post("/v1/chat/completions", {**body, "model": f"auto:{n}"}) for n in ("own", "none"))
    assert (own.status, own.body) == (none.status, none.body)
    assert beta.post("/r/own/v1/chat/completions", body).status == 404
    own, none = (acme.post("/v1/chat/completions", {**body, "model": f"auto:{n}"}) for n in ("free", "none"))
    assert (own.status, own.body) == (none.status, none.body)
    assert [each["name"] for each in beta.good("/v1/routers")] == ["default", "free"]
    assert [each["name"] for each in acme.good("/v1/routers")] == ["own"]
    assert [each["id"] for each in beta.good("/v1/models")["data"]] == ["auto", "auto:default", "auto:free", "general"]
    assert "own" not in re.sub("owned_by", "", beta.get("/v1/models").body.decode())
    assert "/r/own/" not in beta.get("/").body.decode() and "/r/own/" in ops.get("/").body.decode()
    made = acme.good("/v1/decisions", {})["id"]
    elsewhere = beta.good("/r/free/v1/decisions", {})["id"]
    assert beta.good(f"/v1/decisions/{elsewhere}")["decision"]["agent"] == "coder", "found at its router"
    assert beta.get(f"/v1/decisions/{made}").status == 404 and ops.get(f"/v1/decisions/acme:{made}").status == 200


BAD = [
    ("tenants: {acme: {}}", "tenant: acm", "tokens[0].tenant: 'acm' is not a tenant; did you mean 'acme'?"),
    ("", "tenant: acme", "tokens[0].tenant: 'acme' is not a tenant; add it under tenants: {acme: {}}"),
    ("tenants: {Acme: {}}", "tenant: Acme", "tenants.Acme: is not a name"),
    ("tenants: {session: {}}", "tenant: session", "tenants.session: is not a name"),
    ("tenants: {audit-a: {}}", "tenant: audit-a", "tenants.audit-a: is not a name"),
    ("tenants: {acme: {router: none}}", "tenant: acme", "tenants.acme.router: 'none' is not a router"),
    ("tenants: {acme: {router: default}, beta: {}}", "tenant: acme", "tenants.beta.router: is missing"),
    ("tenants: {acme: {limits: {usd: -1}}}", "tenant: acme", "tenants[...].limits.usd: expected `float` >= 0.0"),
    ("tenants: {acme: {limit: {}}}", "tenant: acme", "tenants.acme.limit: is not a setting; did you mean 'limits'?"),
]


@pytest.mark.parametrize(("tenants", "token", "named"), BAD)
def test_wrong_tenants_are_named(tenants, token, named):
    text = f"version: 1\nagents: [{{id: a, kind: simulated}}]\ntokens: [{{name: a, scopes: [], env: A, {token}}}]"
    with pytest.raises(InvalidInputError) as caught:
        parse_config(f"{text}\n{tenants}\n")
    assert named in str(caught.value)


def test_a_token_may_name_a_router_of_its_tenant_alone():
    text = ROUTERS.replace("{{", "{").replace("}}", "}").replace("tenant: beta}", "tenant: beta, router: own}")
    with pytest.raises(InvalidInputError, match="'own' is not for the tenant; choose from default, free"):
        parse_config(text)
