"""The budget: calls under way count, what is left is spread, and what happens when nothing is left."""

import threading

import pytest
from service_running import BASE, until

from bot_orch.agents.base import Usage
from bot_orch.clock import ManualClock
from bot_orch.service.routing.requests import size_of

SLOW = """
version: 1
database: {{database}}
listen: {{{{host: 127.0.0.1, port: {{port}}}}}}
router:
  policy: bot
  floor: 0.05
  success_reward: 1.0
  budget: {{{{window_usd: 1.0, window_s: 3600{more}}}}}
agents:
  - id: only
    kind: simulated
    params: {{{{median_s: {median_s}, sigma: 0.0, quality: 0.9}}}}
    price: {{{{per_call_usd: 0.1}}}}
    concurrency: 100
{agents}
"""
CHEAP = """  - id: cheap
    kind: simulated
    params: {{median_s: 0.0, sigma: 0.0, quality: 0.1}}
    price: {{per_call_usd: 0.001}}
    concurrency: 100
"""
CHAT = {"model": "auto", "messages": [{"role": "user", "content": "x"}]}


def text(more="", agents="", median_s=0.0):
    return SLOW.format(more=more, agents=agents, median_s=median_s)


def spent(service):
    return service.get("/v1/admin/state").json()["spent_usd"]


def test_many_calls_at_once_do_not_overdraw_the_window(start):
    service = start(text(median_s=0.3))
    answers = []
    threads = [
        threading.Thread(daemon=True, target=lambda: answers.append(service.post("/v1/chat/completions", CHAT)))
        for _ in range(60)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted({each.status for each in answers}) == [200, 503]
    refused = next(each for each in answers if each.status == 503)
    assert refused.json()["error"]["details"]["excluded"] == {"only": "over budget"}
    assert refused.headers["retry-after"] == "60"
    assert refused.headers["x-should-retry"] == "false", "an official client would wait a minute, twice"
    assert "raise router.budget.window_usd" in refused.json()["error"]["message"]
    assert sum(each.status == 200 for each in answers) == 10
    assert until(lambda: spent(service) >= 0.99) and spent(service) <= 1.0 + 1e-9
    assert service.call(lambda: len(service.runtime.ledger.reserved)) == 0


def test_a_decision_holds_its_price_until_the_outcome(start):
    service = start(text())
    made = [service.post("/v1/decisions").json()["id"] for _ in range(10)]
    assert service.post("/v1/decisions").status == 503
    assert service.post("/v1/feedback", {"decision_id": made[0], "reward": 1, "cost_usd": 0.02}).status == 200
    assert service.post("/v1/decisions").status == 503, "0.08 is left, 0.1 is needed"
    assert service.post("/v1/feedback", {"decision_id": made[1], "reward": 1, "cost_usd": 0.02}).status == 200
    assert service.post("/v1/decisions").status == 200
    held = service.call(lambda: service.runtime.ledger.reserved.to_list())
    assert [units for _, _, units, _ in held] == [100_000_000] * 9


def test_a_caller_who_never_reports_does_not_use_up_the_budget(start):
    clock = ManualClock(1_700_000_000_000_000)
    service = start(text(), clock=clock)
    for _ in range(10):
        assert service.post("/v1/decisions").status == 200
    assert service.post("/v1/decisions").status == 503
    clock.advance(599.0)
    assert service.post("/v1/decisions").status in (200, 503), "counted in whole minutes"
    clock.advance(60.0)
    assert service.post("/v1/decisions").status == 200


def test_a_long_call_of_the_service_is_held_to_its_end(start):
    clock = ManualClock(1_700_000_000_000_000)
    service = start(text(median_s=1000.0), clock=clock)
    for _ in range(10):
        assert service.post("/v1/tasks", {"task": {"text": "x"}, "background": True}).status == 202
    until(lambda: service.call(lambda: len(service.runtime.ledger.reserved)) == 10)
    clock.advance(1800.0)
    assert service.post("/v1/decisions").status == 503


def test_what_is_set_aside_survives_a_restart(start, tmp_path):
    service = start(text())
    for _ in range(10):
        assert service.post("/v1/decisions").status == 200
    fingerprint = service.get("/v1/admin/state").json()["fingerprint"]
    service.stop()
    again = start(text())
    assert again.get("/v1/admin/state").json()["fingerprint"] == fingerprint
    assert again.post("/v1/decisions").status == 503


def test_a_call_that_fails_gives_back_what_was_set_aside(start):
    service = start(text().replace("quality: 0.9", "quality: 0.9, crash: 1.0"))
    for _ in range(3):
        assert service.post("/v1/chat/completions", CHAT).status == 502
        service.get("/v1/admin/state")  # everything is on disk
        rows = service.call(lambda: list(service.runtime.writer.log.read()))
        assert any(row.kind == "decision@1" and row.event().reserved_usd == 0.1 for row in rows)
        assert service.call(lambda: len(service.runtime.ledger.reserved)) == 0


def test_without_a_window_nothing_is_set_aside(start):
    service = start(BASE)
    service.post("/v1/decisions")
    assert service.call(lambda: len(service.runtime.ledger.reserved)) == 0
    assert b"reserved" not in service.call(lambda: list(service.runtime.writer.log.read())[-1].body)


def test_exhausted_asks_the_cheapest_if_told_so(start):
    service = start(text(", on_exhausted: cheapest", CHEAP))
    seen = [service.post("/v1/decisions").json() for _ in range(60)]
    last = seen[-1]
    assert last["agent"] == "cheap"
    chosen = [each["agent"] for each in seen]
    used = chosen.count("only") * 0.1
    assert used <= 1.0
    service.call(lambda: service.runtime.ledger.spending.add(service.runtime.writer.now_us(), 1.0))
    made = service.post("/v1/decisions").json()
    assert made["agent"] == "cheap" and made["by"] == "budget"
    why = service.get(f"/v1/decisions/{made['id']}").json()["excluded"]
    assert why == {"only": "over budget"}


def test_exhausted_refuses_by_default(start):
    service = start(text("", CHEAP))
    service.call(lambda: service.runtime.ledger.spending.add(service.runtime.writer.now_us(), 1.0))
    answer = service.post("/v1/decisions")
    assert answer.status == 503 and set(answer.json()["error"]["details"]["excluded"]) == {"only", "cheap"}


def test_exhausted_warns_alone_if_told_so(start):
    service = start(text(", on_exhausted: warn", CHEAP))
    service.call(lambda: service.runtime.ledger.spending.add(service.runtime.writer.now_us(), 2.0))
    assert {service.post("/v1/decisions").json()["by"] for _ in range(20)} == {"policy"}
    assert 'bot_orch_budget_used{of="router"} 2.0' in service.get("/metrics").body.decode()


def test_a_price_per_request_is_a_limit_whatever_is_left(start):
    service = start(text(", per_request_usd: 0.0001, on_exhausted: cheapest", CHEAP))
    assert service.post("/v1/decisions").status == 503


@pytest.mark.parametrize("pace", [True, False])
def test_spending_is_spread_over_the_window(start, pace):
    """Demand for all the money at once, minute after minute, over an hour."""
    clock = ManualClock(1_700_000_000_000_000)
    service = start(text(f", on_exhausted: cheapest, pace: {str(pace).lower()}", CHEAP), clock=clock)
    minutes = []
    for _ in range(60):
        clock.advance(60.0)
        dear = 0
        for _ in range(4):
            made = service.post("/v1/decisions").json()
            cost = {"only": 0.1, "cheap": 0.001}[made["agent"]]
            service.post(
                "/v1/feedback", {"decision_id": made["id"], "reward": float(made["agent"] == "only"), "cost_usd": cost}
            )
            dear += made["agent"] == "only"
        minutes.append(dear)
    tenths = [sum(minutes[start : start + 6]) for start in range(0, 60, 6)]
    assert sum(minutes) <= 10
    assert tenths[0] >= 4, "half of the money may go at once"
    assert (tenths[0] <= 6) == pace
    assert (sum(tenths[2:]) >= 2) == pace, "there is money left for later"
    assert max(tenths[1:]) <= 1


def part(**fields):
    return {"role": "user", "content": [fields]}


@pytest.mark.parametrize(
    ("params", "messages", "usage"),
    [
        ({}, [{"role": "user", "content": "x" * 400}], (100, 500)),
        ({"max_tokens": 7}, [], (0, 7)),
        ({"max_completion_tokens": 9, "max_tokens": 7}, [], (0, 9)),
        ({"max_completion_tokens": 9, "n": 3}, [], (0, 27)),
        ({"n": 4}, [], (0, 2000)),
        ({"n": True, "max_tokens": -1, "max_completion_tokens": "9"}, [], (0, 500)),
        ({"n": 10**30, "max_tokens": 1}, [], (0, 10**9)),
        ({}, [part(type="text", text="x" * 40)], (10, 500)),
        ({"tools": [{"type": "function", "function": {"description": "x" * 400}}]}, [], (100, 500)),
        ({}, [{"role": "assistant", "tool_calls": [{"function": {"arguments": "x" * 40}}]}], (10, 500)),
        ({}, [part(type="image_url", image_url={"url": "data:" + "A" * 9999})], (1000, 500)),
        ({}, [part(type="image_url", image_url={"url": "x", "detail": "low"})], (85, 500)),
        ({}, [part(type="input_audio", input_audio={"data": "x"})], (1000, 500)),
        ({}, [{"role": "user", "content": None}, {"role": "user"}, {"content": [None, 5, {}]}], (0, 500)),
    ],
)
def test_sizes_are_estimated_as_documented(params, messages, usage):
    found = size_of(params, messages=messages).usage()
    assert (found.input_tokens, found.output_tokens) == usage
    assert isinstance(found, Usage)


def test_what_a_request_asks_for_counts(start):
    priced = text().replace("per_call_usd: 0.1", "output_usd_per_million: 100.0")
    service = start(priced)
    assert service.post("/v1/chat/completions", {**CHAT, "max_completion_tokens": 5000}).status == 200
    answer = service.post("/v1/chat/completions", {**CHAT, "max_completion_tokens": 5000, "n": 3})
    assert answer.status == 503 and answer.json()["error"]["details"]["excluded"] == {"only": "over budget"}


@pytest.mark.parametrize("pace", [True, False])
def test_people_are_not_the_cheapest_agent_that_is_left(start, pace):
    """A person costs nothing here: without money all tasks would go to the person, whatever share was agreed."""
    more = f", on_exhausted: cheapest, pace: {str(pace).lower()}"
    person = "  - {{id: person, kind: human, price: {{per_call_usd: 0}}}}\n"
    limit = "policy: bot\n  subject_to: {{shares: {{person: 0.2}}}}"
    service = start(text(more, CHEAP + person).replace("policy: bot", limit))
    service.post("/v1/decisions", {"eligible": ["only"]})
    for _ in range(12):
        made = service.post("/v1/decisions", {"eligible": ["only", "cheap"]}).json()
        service.post("/v1/feedback", {"decision_id": made["id"], "reward": 0.5, "cost_usd": 0.1})
    for _ in range(5):
        made = service.post("/v1/decisions", {}).json()
        drawn = {name for name, share in made["propensities"].items() if share > 0}
        assert drawn == {"cheap", "person"}, "the policy decides, under the person's share"
        service.post("/v1/feedback", {"decision_id": made["id"], "reward": 1.0, "cost_usd": 0.0})


def test_a_budget_that_decides_is_shown(start):
    service = start(text(", on_exhausted: cheapest, pace: true", CHEAP))
    seen = service.get("/v1/objective").json()["budget"]
    assert seen == {"limit_usd": 1.0, "window_s": 3600.0, "spent_usd": 0.0, "decides": ""}
    assert "used up" not in service.get("/dashboard").body.decode()
    report = {"reward": 1, "cost_usd": 0.6}
    for decides, shown in (("pace", "its pace decides"), ("exhausted", "the cheapest agent serves")):
        made = service.post("/v1/decisions").json()["id"]
        assert service.post("/v1/feedback", {"decision_id": made, **report}).status == 200
        assert until(lambda: service.get("/v1/objective").json()["budget"]["decides"] == decides)  # noqa: B023
        page = service.get("/dashboard").body.decode()
        assert shown in page
        assert "of $1.00 in 1 h" in page
