"""Limits per token: requests per minute, dollars per day; they survive a restart."""

import pytest
from service_running import BASE

from bot_orch.clock import ManualClock
from bot_orch.core.events import AttemptEnded, TaskRecord, record_decision
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.errors import InvalidInputError
from bot_orch.log.events import encode_event
from bot_orch.log.log import Row
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.service.config import TokenConfig, TokenLimitsConfig, parse_config
from bot_orch.service.operations.usage import TokenUsage
from bot_orch.service.problems import Problem
from bot_orch.types import Task

SECRET = {"A": "a" * 20, "B": "b" * 20, "OPS": "o" * 20}
TOKENS = """
tokens:
  - {{name: app, scopes: [decide, feedback], env: A, limits: {{{limits}}}, tags: [team-a]}}
  - {{name: other, scopes: [decide, feedback], env: B}}
  - {{name: ops, scopes: [admin], env: OPS}}
"""
CHAT = {"model": "careful", "messages": [{"role": "user", "content": "x"}]}


def bearer(name):
    return {"Authorization": f"Bearer {SECRET[name]}"}


@pytest.fixture
def limited(start, tmp_path):
    clock = ManualClock(1_800_000_000_000_000)

    def begin(limits):
        text = BASE + TOKENS.replace("{limits}", limits)
        return start(text, environment=SECRET, clock=clock, database=tmp_path / "limits.sqlite")

    return begin, clock


def refused(answer, code, kind):
    assert answer.status == 429, answer
    error = answer.json()["error"]
    assert (error["code"], error["type"]) == (code, kind) and "app" in error["message"]
    assert int(answer.headers["retry-after"]) >= 1
    return int(answer.headers["retry-after"])


def test_requests_per_minute(limited):
    begin, clock = limited
    service = begin("requests_per_minute: 3")
    left = []
    for path, body in (("/v1/decisions", {}), ("/v1/chat/completions", CHAT), ("/v1/tasks", {"task": {"text": "x"}})):
        answer = service.post(path, body, headers=bearer("A"))
        assert answer.status == 200, answer
        assert answer.headers["x-ratelimit-limit-requests"] == "3"
        left.append(answer.headers["x-ratelimit-remaining-requests"])
        clock.advance(1)
    assert left == ["2", "1", "0"]
    wait_s = refused(service.post("/v1/chat/completions", CHAT, headers=bearer("A")), "rate_limit_exceeded", "requests")
    assert 55 <= wait_s <= 61
    assert service.post("/v1/decisions", headers=bearer("B")).status == 200, "others go on"
    assert service.get("/v1/models", headers=bearer("A")).status == 200, "only requests that decide count"
    clock.advance(wait_s)
    assert service.post("/v1/decisions", headers=bearer("A")).status == 200
    text = service.get("/metrics", headers=bearer("OPS")).body.decode()
    assert 'bot_orch_limited_requests_total{limit="requests",token="app"} 1' in text


def test_requests_count_over_a_restart(limited):
    begin, clock = limited
    service = begin("requests_per_minute: 2")
    for _ in range(2):
        assert service.post("/v1/decisions", headers=bearer("A")).status == 200
    service.stop()
    service = begin("requests_per_minute: 2")
    refused(service.post("/v1/decisions", headers=bearer("A")), "rate_limit_exceeded", "requests")
    clock.advance(62)
    assert service.post("/v1/decisions", headers=bearer("A")).status == 200


def test_dollars_in_a_window_from_attempts_and_reports(limited):
    begin, clock = limited
    service = begin("usd_per_day: 0.25")
    assert service.post("/v1/chat/completions", CHAT, headers=bearer("A")).status == 200  # 0.1 dollars
    clock.advance(43_200)
    made = service.post("/v1/decisions", headers=bearer("A")).json()
    assert service.post("/v1/chat/completions", CHAT, headers=bearer("B")).status == 200, "another's money"
    report = {"decision_id": made["id"], "reward": 1.0, "cost_usd": 0.2}
    assert service.post("/v1/feedback", report, headers=bearer("A")).status == 200
    answer = service.post("/v1/chat/completions", CHAT, headers=bearer("A"))
    wait_s = refused(answer, "insufficient_quota", "insufficient_quota")
    assert 43_200 <= wait_s <= 43_261, "the first 0.1 dollars leave the window then"
    assert answer.headers["x-should-retry"] == "false"
    service.stop()
    service = begin("usd_per_day: 0.25")
    again = service.post("/v1/chat/completions", CHAT, headers=bearer("A"))
    assert refused(again, "insufficient_quota", "insufficient_quota") == wait_s
    clock.advance(wait_s)
    assert service.post("/v1/chat/completions", CHAT, headers=bearer("A")).status == 200


def test_what_the_log_says_counts_after_a_move():
    log, told = MemoryLog(), []
    router = Orchestrator(["a"], seed=1)
    events = [
        record_decision(router.decide(Task("t"), decision_id=f"d{number}"), TaskRecord(), token="app")  # noqa: S106
        for number in range(2)
    ]
    events.append(AttemptEnded("d1", "", "a", 1, "completed", 1.0, cost_usd=0.5))
    for number, event in enumerate(events, 1):
        about = getattr(event, "id", "d1")
        log.append([Row(number, number * 1_000_000, event.kind, about, encode_event(event))])
    log.commit()
    usage = TokenUsage(lambda *said: told.append(said))
    limits = TokenLimitsConfig(requests_per_minute=2, usd_per_day=0.6)
    usage.track([TokenConfig(name="app", scopes=("decide",), env="A", limits=limits)])
    usage.recall(log, 4_000_000)
    with pytest.raises(Problem):
        usage.admit("app", limits, 4_000_000)
    assert usage.admit("app", limits, 64_000_000)["x-ratelimit-remaining-requests"] == "1"
    usage.take(65_000_000, AttemptEnded("d1", "", "a", 2, "completed", 1.0, cost_usd=0.2))
    with pytest.raises(Problem):
        usage.admit("app", limits, 66_000_000)
    assert told == [("app", "requests"), ("app", "usd")]


def test_official_client_sees_a_rate_limit(limited):
    openai = pytest.importorskip("openai")
    begin, _ = limited
    service = begin("requests_per_minute: 1")
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{service.port}/v1", api_key=SECRET["A"], max_retries=0)
    client.chat.completions.create(**CHAT)
    with pytest.raises(openai.RateLimitError) as caught:
        client.chat.completions.create(**CHAT)
    assert caught.value.code == "rate_limit_exceeded" and caught.value.response.headers["retry-after"]
    client.close()


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ("{requests_per_minute: -1}", "tokens[0].limits.requests_per_minute: expected `int` >= 0"),
        ("{usd_per_day: .inf}", "tokens[0].limits.usd_per_day: expected `float` <= "),
        ("{usd: 1}", "tokens[0].limits.usd: is not a setting; write usd_per_day"),
        ("{dollars: 1}", "tokens[0].limits.dollars: is not a setting"),
    ],
)
def test_wrong_limits_are_named(limits, named):
    text = (
        f"version: 1\nagents: [{{id: a, kind: simulated}}]\ntokens: [{{name: a, scopes: [], env: A, limits: {limits}}}]"
    )
    with pytest.raises(InvalidInputError) as caught:
        parse_config(text)
    assert named in str(caught.value)
