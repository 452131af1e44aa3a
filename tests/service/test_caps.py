"""Dollars of a session and of a run: told, then the cheapest agent alone, or nothing more."""

import pytest

from bot_orch.log.ledger import Ledger
from bot_orch.log.verification import replay

TEXT = """
version: 1
database: {database}
listen: {port: {port}}
router: {policy: epsilon-greedy, success_reward: 0.5, budget: {BUDGET}}
agents:
  - {id: small, kind: simulated, price: {per_call_usd: SMALL}, settings: {median_s: 0.001}}
  - {id: large, kind: simulated, price: {per_call_usd: 1.0}, settings: {median_s: 0.001}}
"""


@pytest.fixture
def serve(start):
    def begin(budget, small=0.25):
        text = TEXT.replace("BUDGET", budget).replace("SMALL", str(small)).replace("{", "{{").replace("}", "}}")
        return start(text.replace("{{database}}", "{database}").replace("{{port}}", "{port}"))

    return begin


def ask(service, session="s", model="auto", **headers):
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "bot_orch": {"session": session}}
    return service.post("/v1/chat/completions", body, headers=headers)


def used(answer):
    return answer.headers.get("x-bot-orch-budget-used", "")


def test_a_session_stops_at_its_cap(serve):
    service = serve("per_session_usd: 2.0")
    shares = [used(ask(service, model="large")) for _ in range(2)]
    assert shares == ["", "session=1.00"], "said from four fifths on"
    refused = ask(service)
    assert (refused.status, refused.json()["error"]["code"]) == (403, "session_budget")
    assert "per_session_usd" in refused.json()["error"]["message"]
    assert ask(service, "another", "large").status == 200


def test_an_agent_that_would_exceed_the_rest_is_left_out(serve):
    service = serve("per_session_usd: 1.5")
    ask(service, model="large")
    for _ in range(2):
        assert ask(service).headers["x-bot-orch-agent"] == "small"
    assert ask(service).status == 403


def test_downgrade_leaves_the_cheapest(serve):
    service = serve("per_session_usd: 1.0, on_exhausted: cheapest")
    ask(service, model="large")
    for _ in range(6):
        answer = ask(service)
        assert (answer.status, answer.headers["x-bot-orch-agent"]) == (200, "small")
    assert used(answer) == "session=2.50"


def test_warn_only_tells(serve):
    service = serve("per_session_usd: 1.0, on_exhausted: warn")
    assert [ask(service, model="large").status for _ in range(4)] == [200] * 4
    assert used(ask(service, model="large")) == "session=5.00"


def test_warn_leaves_the_window_open_too(serve):
    service = serve("window_usd: 1.0, on_exhausted: warn")
    assert [ask(service, model="large").status for _ in range(3)] == [200] * 3


def test_a_free_agent_may_go_on(serve):
    service = serve("per_session_usd: 1.0", small=0.0)
    ask(service, model="large")
    assert ask(service).headers["x-bot-orch-agent"] == "small"


def test_a_run_is_named_by_a_tag_over_all_its_sessions(serve):
    service = serve("per_run_usd: 2.0")
    run = {"x-bot-orch-tags": "run:nightly, team-a"}
    for session in ("a", "b"):
        assert ask(service, session, "large", **run).status == 200
    refused = ask(service, "c", **run)
    assert (refused.status, refused.json()["error"]["code"]) == (403, "run_budget")
    assert ask(service, "c", "large", **{"x-bot-orch-tags": "run:other"}).status == 200


def test_reported_dollars_count_and_the_sums_are_in_log_and_snapshot(serve):
    service = serve("per_session_usd: 2.0")
    made = service.post("/v1/decisions", {"session": "s", "eligible": ["large"]}).json()
    service.post("/v1/feedback", {"decision_id": made["id"], "reward": 1, "cost_usd": 2.0})
    assert service.post("/v1/decisions", {"session": "s"}).status == 403
    ledger = service.call(lambda: service.runtime.ledger)
    assert ledger.spent_by == {"s": 2.0} and not ledger.charged
    assert Ledger.load(service.call(ledger.snapshot)).fingerprint() == service.call(ledger.fingerprint)
    assert service.call(lambda: replay(service.runtime.writer.log).ok)
