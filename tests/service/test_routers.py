"""Several routers in one service: chosen by path, model or token, each with its own agents, log, budget and pages."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from exposition import parse
from service_running import Running, until

from bot_orch.cli import main
from bot_orch.errors import InvalidInputError
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay
from bot_orch.service.config import load_config, parse_config

TEXT = """
version: 1
database: log.sqlite
listen: {port: 0}
router: {policy: bot, success_reward: 1.0}
agents:
  - {id: general, kind: simulated, params: {median_s: 0.0, sigma: 0.0}, price: {per_call_usd: 1.0}}
routers:
  support:
    router: {policy: ucb1, success_reward: 1.0, budget: {window_usd: 0.25}}
    agents:
      - {id: helper, kind: simulated, params: {median_s: 0.0, sigma: 0.0}, price: {per_call_usd: 0.1}}
  code:
    agents: [{id: coder, kind: simulated, params: {median_s: 0.0, sigma: 0.0}}, {id: person, kind: human}]
"""
TOKENS = """
tokens:
  - {name: everyone, scopes: [decide, feedback, queue, admin], env: ALL}
  - {name: helpdesk, scopes: [decide, feedback, queue, admin], env: HELP, router: support}
"""
SECRETS = {"ALL": "a" * 20, "HELP": "h" * 20}
ALL, HELP = ({"Authorization": f"Bearer {SECRETS[name]}"} for name in ("ALL", "HELP"))
CHAT = {"model": "auto", "messages": [{"role": "user", "content": "x"}]}


@pytest.fixture
def begin(tmp_path):
    """Starts a service with a configuration file."""
    running = []

    def start(text=TEXT, environment=None):
        path = tmp_path / "c.yaml"
        path.write_text(text)
        read = lambda: load_config(path, environment)  # noqa: E731
        running.append(Running(read(), read=read, environment=environment))
        until(lambda: all(each.loaded for each in running[-1].runtime.peers.values()))
        return running[-1]

    yield start
    for each in running:
        if each.thread.is_alive():
            each.stop()


def agent_of(answer):
    assert answer.status == 200, answer
    return answer.headers["x-bot-orch-agent"]


def test_path_and_model_choose_the_router(begin):
    service = begin()
    assert agent_of(service.post("/v1/chat/completions", CHAT)) == "general"
    assert agent_of(service.post("/r/support/v1/chat/completions", CHAT)) == "helper"
    assert agent_of(service.post("/r/default/v1/chat/completions", CHAT)) == "general"
    assert agent_of(service.post("/v1/chat/completions", {**CHAT, "model": "auto:support"})) == "helper"
    assert service.post("/r/code/v1/chat/completions", {**CHAT, "model": "auto:support"}).status == 400
    assert service.post("/v1/chat/completions", {**CHAT, "model": "auto:none"}).status == 404
    assert service.get("/r/none/v1/agents").status == 404
    assert [each["id"] for each in service.get("/r/code/v1/agents").json()] == ["coder", "person"]
    routers = ["auto:default", "auto:support", "auto:code"]
    assert [each["id"] for each in service.get("/v1/models").json()["data"]] == ["auto", *routers, "general"]
    assert service.get("/v1/models/auto:support").status == 200 and service.get("/v1/models/auto:none").status == 404
    assert [each["id"] for each in service.get("/r/support/v1/models").json()["data"]] == [
        "auto",
        "auto:support",
        "helper",
    ]
    names = {each["name"]: each for each in service.get("/v1/routers").json()}
    assert list(names) == ["default", "support", "code"]
    assert names["support"] == {
        "name": "support",
        "default": False,
        "path": "/r/support",
        "model": "auto:support",
        "agents": ["helper"],
        "ready": True,
        "decisions": 2,
        "pending": 0,
        "process": None,
    }


def test_a_token_that_names_its_router_gets_that_one_alone(begin):
    service = begin(TEXT + TOKENS, SECRETS)
    assert agent_of(service.post("/v1/chat/completions", CHAT, headers=HELP)) == "helper"
    assert agent_of(service.post("/r/support/v1/chat/completions", CHAT, headers=HELP)) == "helper"
    assert service.post("/r/code/v1/chat/completions", CHAT, headers=HELP).status == 403
    assert service.post("/v1/chat/completions", {**CHAT, "model": "auto:code"}, headers=HELP).status == 403
    assert [each["name"] for each in service.get("/v1/routers", headers=HELP).json()] == ["support"]
    listed = service.get("/v1/models", headers=HELP).json()["data"]
    assert [each["id"] for each in listed] == ["auto", "auto:support", "helper"]
    assert service.get("/r/default/", headers=HELP).status == 403
    led = service.get("/decisions", headers=HELP)
    assert (led.status, led.headers["location"]) == (303, "/r/support/decisions")
    assert agent_of(service.post("/v1/chat/completions", CHAT, headers=ALL)) == "general"


def test_reports_find_the_router_of_their_decision(begin):
    service = begin()
    made = service.post("/r/code/v1/decisions", {"task": {}, "eligible": ["coder"]}).json()
    assert service.get(f"/v1/decisions/{made['id']}").json()["decision"]["agent"] == "coder"
    report = {"decision_id": made["id"], "reward": 1.0}
    assert service.post("/v1/feedback", report).json()["effect"] == "learned"
    assert service.post("/v1/feedback", report).json()["duplicate"] is True
    assert not service.runtime.ledger.router.early


def test_budget_and_log_are_the_router_s_own(begin, tmp_path):
    service = begin()
    for _ in range(3):
        agent_of(service.post("/v1/chat/completions", CHAT))
    statuses = [service.post("/r/support/v1/chat/completions", CHAT).status for _ in range(4)]
    assert statuses == [200, 200, 503, 503]
    service.stop()
    counts = {}
    for name, file in (("default", "log.sqlite"), ("support", "log.support.sqlite"), ("code", "log.code.sqlite")):
        found = replay(open_log(str(tmp_path / file)))
        assert found.ok
        counts[name] = found.decisions
    assert counts == {"default": 3, "support": 2, "code": 0}
    assert main(["replay", str(tmp_path / "log.support.sqlite")]) == 0
    again = begin()
    assert again.get("/v1/routers").json()[1]["decisions"] == 2


def test_the_queue_is_the_router_s_own(begin):
    service = begin()
    body = {"task": {"text": "look at this"}, "eligible": ["person"], "background": True}
    task = service.post("/r/code/v1/tasks", body).json()
    until(lambda: "look at this" in service.get("/r/code/queue").body.decode())
    assert "look at this" not in service.get("/queue").body.decode()
    assert service.get(f"/v1/tasks/{task['id']}").json()["status"] == "running"


def test_a_token_has_one_limit_over_all_routers(begin):
    tokens = TOKENS.replace("env: ALL}", "env: ALL, limits: {requests_per_minute: 3, usd: 2.05, window_s: 3600}}")
    service = begin(TEXT + tokens, SECRETS)
    left = []
    for path in ("", "/r/support", "/r/code"):
        body = CHAT if path != "/r/code" else {**CHAT, "model": "coder"}
        answer = service.post(f"{path}/v1/chat/completions", body, headers=ALL)
        agent_of(answer)
        left.append(answer.headers["x-ratelimit-remaining-requests"])
    assert left == ["2", "1", "0"]
    for path in ("", "/r/support", "/r/code"):
        refused = service.post(f"{path}/v1/decisions", headers=ALL)
        assert (refused.status, refused.json()["error"]["type"]) == (429, "requests")
    agent_of(service.post("/v1/chat/completions", CHAT, headers=HELP))
    said = service.get("/metrics", headers=ALL).body.decode()
    assert 'bot_orch_limited_requests_total{limit="requests",router="support",token="everyone"} 1' in said
    service.stop()
    again = begin(TEXT + tokens, SECRETS)
    assert again.post("/r/code/v1/decisions", headers=ALL).status == 429, "the logs of all routers count"
    again.stop()
    service = begin(TEXT + tokens.replace("requests_per_minute: 3, usd: 2.05", "usd: 1.05"), SECRETS)
    refused = service.post("/r/code/v1/decisions", headers=ALL)
    assert (refused.status, refused.json()["error"]["code"]) == (429, "insufficient_quota"), "1 dollar here, 0.1 there"


def test_links_of_a_router_s_pages_stay_with_it(begin):
    service = begin()
    for path in ("/r/support/dashboard", "/r/support/", "/r/support/decisions", "/r/support/queue"):
        page = service.get(path).body.decode()
        links = re.findall(r'(?:href|action|data-live)="(/[^"]*)"', page)
        own = [link for link in links if not link.startswith(("/static/", "/r/support/"))]
        assert set(own) <= {"/r/default/dashboard", "/r/code/dashboard", "/logout"}, own
        assert '"/static/app.css' in page
    answer = service.post("/r/support/v1/chat/completions", CHAT)
    live = service.get("/r/support/dashboard/live").body.decode()
    assert f'href=\\"/r/support/decisions/{answer.headers["x-bot-orch-decision-id"]}\\"' in live
    assert service.get("/dashboard").status == 200
    assert 'aria-label="Routers"' in service.get("/").body.decode()
    page = service.get("/r/support/dashboard?last=1h&kind=chat").body.decode()
    assert 'href="/r/code/dashboard?last=1h"' in page, "the same range of another router"
    assert 'data-live="/r/support/dashboard/live?last=1h&amp;kind=chat"' in page


def test_signing_in_leads_back_to_the_router(begin):
    service = begin(TEXT + TOKENS, SECRETS)
    assert service.get("/r/code/decisions").headers["location"] == "/login?next=/r/code/decisions"


def test_metrics_have_the_router_as_a_label(begin):
    service = begin()
    service.post("/r/support/v1/chat/completions", CHAT)
    text = service.get("/metrics").body.decode()
    parse(text)
    assert 'bot_orch_decisions_total{agent="helper",router="support"} 1' in text
    assert 'bot_orch_ready{router="code"} 1' in text
    own = service.get("/r/support/metrics").body.decode()
    assert 'router="support"' in own
    assert 'router="code"' not in own


def test_a_reload_reaches_every_router(begin, tmp_path):
    service = begin()
    more = TEXT.replace("{id: coder,", "{id: second, kind: simulated}, {id: coder,")
    changed = more.replace("policy: ucb1", "policy: bot")
    (tmp_path / "c.yaml").write_text(changed)
    answer = service.post("/v1/admin/reload").json()
    assert answer == {"changed": ["routers.support.router", "routers.code.agents"], "after_restart": []}
    assert {each["id"] for each in service.get("/r/code/v1/agents").json()} == {"coder", "person", "second"}
    assert service.post("/r/support/v1/decisions", {"task": {}}).json()["policy"].startswith("bot")
    (tmp_path / "c.yaml").write_text(TEXT.replace("policy: ucb1", "policy: nonsense"))
    assert service.post("/v1/admin/reload").status == 422


def test_a_reload_adds_and_removes_routers_under_load(begin, tmp_path):
    service = begin(TEXT.partition("routers:")[0])
    assert service.get("/r/default/v1/agents").status == 404
    seen, done = [], threading.Event()

    def load():
        while not done.is_set():
            seen.append(service.post("/v1/chat/completions", CHAT).status)

    client = threading.Thread(daemon=True, target=load)
    client.start()
    try:
        (tmp_path / "c.yaml").write_text(TEXT)
        answer = service.post("/v1/admin/reload").json()
        assert answer == {"changed": ["routers.code", "routers.support"], "after_restart": []}
        assert agent_of(service.post("/r/support/v1/chat/completions", CHAT)) == "helper"
        assert agent_of(service.post("/v1/chat/completions", {**CHAT, "model": "auto:code"})) == "coder"
        assert agent_of(service.post("/r/default/v1/chat/completions", CHAT)) == "general"
        assert service.get("/r/code/dashboard").status == 200
        assert 'bot_orch_ready{router="code"} 1' in service.get("/metrics").body.decode()
        slow = TEXT.replace(
            "{id: helper, kind: simulated, params: {median_s: 0.0",
            "{id: helper, kind: simulated, params: {median_s: 0.3",
        )
        (tmp_path / "c.yaml").write_text(slow)
        assert service.post("/v1/admin/reload").json()["changed"] == ["routers.support.agents"]
        with ThreadPoolExecutor(1) as pool:
            under_way = pool.submit(service.post, "/r/support/v1/chat/completions", CHAT)
            until(lambda: service.runtime.peers["support"].in_flight)
            (tmp_path / "c.yaml").write_text(TEXT.partition("  support:")[0] + "  code:" + TEXT.partition("  code:")[2])
            assert service.post("/v1/admin/reload").json()["changed"] == ["routers.support"]
            assert service.post("/r/support/v1/chat/completions", CHAT).status == 404
            assert service.post("/v1/chat/completions", {**CHAT, "model": "auto:support"}).status == 404
            assert agent_of(under_way.result()) == "helper", "a request that was under way is answered"
        until(lambda: not any("removed router" in name for name in service.runtime.background))
        (tmp_path / "c.yaml").write_text(TEXT)
        assert service.post("/v1/admin/reload").json()["changed"] == ["routers.support"]
        assert service.get("/v1/routers").json()[2]["decisions"] == 2, "it goes on with its log"
    finally:
        done.set()
        client.join()
    assert set(seen) == {200} and len(seen) > 3, "nothing was dropped"
    service.stop()
    for file in ("log.sqlite", "log.support.sqlite", "log.code.sqlite"):
        assert replay(open_log(str(tmp_path / file))).ok


def test_a_router_that_cannot_start_changes_nothing(begin, tmp_path):
    service = begin(TEXT.partition("  code:")[0])
    (tmp_path / "other.sqlite").write_bytes(b"not a log" * 100)
    (tmp_path / "c.yaml").write_text(TEXT + "    database: other.sqlite\n")
    assert service.post("/v1/admin/reload").status >= 400
    assert list(service.runtime.peers) == ["default", "support"]
    assert agent_of(service.post("/r/support/v1/chat/completions", CHAT)) == "helper"
    assert service.post("/r/code/v1/decisions").status == 404


def test_a_file_with_routers_alone_has_the_first_as_default(begin):
    text = "version: 1\ndatabase: log.sqlite\nlisten: {port: 0}\nrouters:" + TEXT.partition("routers:")[2]
    service = begin(text)
    assert agent_of(service.post("/v1/chat/completions", CHAT)) == "helper"
    assert [each["name"] for each in service.get("/v1/routers").json()] == ["support", "code"]


def test_one_router_looks_as_before(start):
    service = start()
    assert service.get("/v1/routers").json()[0]["model"] == "auto"
    assert "router=" not in service.get("/metrics").body.decode()
    assert service.get("/r/default/v1/agents").status == 404
    assert "Routers" not in service.get("/").body.decode()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("routers: {x: {agents: []}}", "config.routers.x.agents: is empty"),
        ("routers: {X: {agents: [{id: a, kind: simulated}]}}", "config.routers.X: is not a name"),
        ("routers: {x: {agents: [{id: a, kind: simulated}], polcy: 1}}", "config.routers.x.polcy: is not a setting"),
        ("routers: {default: {agents: [{id: a, kind: simulated}]}}", "config.routers.default: is the default router"),
        ("routers: {x: {agents: [{id: a, kind: simulated}], database: bot-orch.sqlite}}", "config.routers: share"),
        ("tokens: [{name: t, scopes: [decide], env: T, router: y}]", "config.tokens[0].router: 'y' is not a router"),
    ],
)
def test_mistakes_are_named(more, message):
    with pytest.raises(InvalidInputError) as refused:
        parse_config(f"version: 1\nagents: [{{id: a, kind: simulated}}]\n{more}")
    assert message in str(refused.value)
