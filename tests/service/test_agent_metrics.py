"""/metrics parses, follows Prometheus' naming rules, and counts what agents cost, take and fail at."""

import re
from collections import Counter
from pathlib import Path

import pytest
from exposition import parse
from service_running import BASE

import bot_orch.service
from bot_orch.core.events import AttemptEnded, FeedbackGiven
from bot_orch.service.metrics import CATALOGUE, Metrics, exposition

SOURCE = Path(bot_orch.service.__file__).parent
BAD = "  - {{id: 'b\"ad\\', kind: simulated, params: {{median_s: 0.0, sigma: 0, crash: 1.0}}}}\n"


def value(families, name, **labels):
    family = next(each for each in families if name in {each, each + "_count", each + "_sum", each + "_bucket"})
    return {tuple(sorted(given.items())): number for n, given, number in families[family][2] if n == name}[
        tuple(sorted(labels.items()))
    ]


def chat(service, model, **more):
    return service.post(
        "/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": "x"}], **more}
    )


def test_an_agents_tokens_dollars_times_and_errors(start):
    service = start(BASE + BAD)
    for _ in range(3):
        assert chat(service, "careful").status == 200
    assert chat(service, "careful", stream=True).status == 200
    assert chat(service, 'b"ad\\').status >= 500
    text = service.get("/metrics").body.decode()
    found = parse(text)
    assert value(found, "bot_orch_agent_cost_usd_total", agent="careful") == pytest.approx(0.4)
    assert value(found, "bot_orch_agent_call_seconds_count", agent="careful") == 4
    assert value(found, "bot_orch_agent_call_seconds_count", agent='b"ad\\') == 1
    first = value(found, "bot_orch_agent_first_token_seconds_count", agent="careful")
    assert first == 1, "only the stream knows when its first token came"
    errors = {labels["kind"]: n for _, labels, n in found["bot_orch_agent_errors_total"][2]}
    assert errors and all(labels["agent"] == 'b"ad\\' for _, labels, _ in found["bot_orch_agent_errors_total"][2])
    read = sum(n for _, labels, n in found["bot_orch_agent_tokens_total"][2] if labels["direction"] == "input")
    logged = [row.event() for row in service.runtime.writer.log.read() if row.kind.startswith("attempt@")]
    assert read == sum(each.input_tokens for each in logged)
    assert all(helped for _, helped, _ in found.values()), "every family has a HELP line"


def test_rewards_overhead_and_dollars_by_token(start):
    service = start(BASE + BAD)
    for _ in range(3):
        assert chat(service, "careful").status == 200
    made = service.post("/v1/decisions").json()
    report = {"decision_id": made["id"], "reward": 0.25, "cost_usd": 0.5, "id": "once"}
    for _ in range(2):
        assert service.post("/v1/feedback", report).status == 200
    assert service.post("/v1/feedback", {"decision_id": made["id"], "reward": 0.75, "id": "again"}).status == 200
    found = parse(service.get("/metrics").body.decode())
    rows = [row.event() for row in service.runtime.writer.log.read()]
    learned = [each.reward for each in rows if isinstance(each, FeedbackGiven) and each.effect == "learned"]
    rewards = found["bot_orch_reward"][2]
    assert sum(n for name, _, n in rewards if name.endswith("_count")) == len([r for r in learned if r is not None])
    assert value(found, "bot_orch_reward_bucket", agent=made["agent"], le="0.25") >= 1, "once, and no revision"
    assert value(found, "bot_orch_overhead_seconds_count") == 3
    dollars = sum(n for _, _, n in found["bot_orch_token_cost_usd_total"][2])
    spent = sum(each.cost_usd or 0.0 for each in rows if isinstance(each, AttemptEnded | FeedbackGiven))
    assert dollars == pytest.approx(spent) and dollars > 0.5


def test_what_alerts_are_made_of(start):
    """Drift, dollars, the bias of a judge and the guarantee, as the rules in deploy/ read them."""
    watched = "alignment: {{geometry: {{name: labels, labels: 2}}}}"
    text = BASE.replace("seed: 5,", f"seed: 5, {watched}, budget: {{{{window_usd: 10}}}},") + (
        "audit: {{rate: 0.5, by: caller}}\n"
        "tokens: [{{name: app, scopes: [decide, feedback, metrics], env: APP, limits: {{usd_per_day: 20}}}}]\n"
    )
    service = start(text, environment={"APP": "x" * 20})
    bearer = {"authorization": f"Bearer {'x' * 20}"}

    def post(path, body):
        return service.post(path, body, headers=bearer)

    for number in range(200):
        made = post("/v1/decisions", {"eligible": ["quick"]}).json()
        output = {"kind": "labels", "probabilities": [1.0, 0.0] if number < 150 else [0.0, 1.0]}
        report = {"decision_id": made["id"], "reward": 0.9, "output": output, "cost_usd": 0.03}
        assert post("/v1/feedback", report).status == 200
        if made["audit"]:
            assert post("/v1/feedback", {"decision_id": made["id"], "reward": 0.2, "audit": True}).status == 200
    post("/v1/decisions", {})
    found = parse(service.get("/metrics", headers=bearer).body.decode())
    assert value(found, "bot_orch_drift_alarms", agent="quick") >= 1
    assert value(found, "bot_orch_drift_alarms", agent="careful") == 0
    assert value(found, "bot_orch_budget_used", of="router") == pytest.approx(0.6)
    assert value(found, "bot_orch_budget_used", of="token app") == pytest.approx(0.3)
    assert value(found, "bot_orch_judge_bias", agent="quick") > 0.2
    assert "bot_orch_guarantee_credit" not in found


def test_a_guarantee_says_whom_it_holds_back(start):
    promise = "guarantee: {{baseline: careful, loss_at_most: 0.05}}"
    service = start(BASE.replace("seed: 5,", f"seed: 5, {promise},"))
    found = parse(service.get("/metrics").body.decode())
    (held,) = found["bot_orch_guarantee_held_back"][2]
    assert held == ("bot_orch_guarantee_held_back", {"agent": "quick"}, 1.0), "no credit yet"
    assert value(found, "bot_orch_guarantee_loss_bound") >= value(found, "bot_orch_guarantee_credit") == 0.0


def test_every_name_in_the_code_is_in_the_catalogue():
    written = Counter()
    for file in SOURCE.rglob("*.py"):
        written.update(re.findall(r'"(bot_orch_[a-z_]+)"', file.read_text()))
    assert written.keys() - {"bot_orch_token"} == CATALOGUE.keys()  # the cookie is no metric
    assert all(written[name] > 1 for name in CATALOGUE), "what is nowhere counted"


def test_names_follow_the_conventions():
    """https://prometheus.io/docs/practices/naming: a prefix, base units, _total for counters and for them alone."""
    for name, (kind, text) in CATALOGUE.items():
        assert name.startswith("bot_orch_") and text.endswith(".")
        assert name.endswith("_total") == (kind == "counter"), name
        assert not re.search(
            r"_(ms|milliseconds|minutes|percent|kb|counter|gauge|histogram|bucket|sum|count)(_|$)", name
        )
        assert kind != "histogram" or name.endswith(("_seconds", "_reward"))


@pytest.mark.parametrize(
    "broken",
    [
        "x 1",
        "# TYPE x counter\nx -1\n",
        '# TYPE x counter\nx{a="1",a="2"} 1\n',
        "# TYPE x counter\nx 1\nx 2\n",
        "# TYPE x counter\ny 1\n",
        "# TYPE x counter\nx{a=1} 1\n",
        '# TYPE x histogram\nx_bucket{le="1"} 2\nx_bucket{le="+Inf"} 1\nx_sum 1\nx_count 1\n',
        '# TYPE x histogram\nx_bucket{le="1"} 1\nx_sum 1\nx_count 1\n',
        "# TYPE x counter\nx 1\n# TYPE y counter\ny 1\n# TYPE x counter\n",
    ],
)
def test_control_the_parser_refuses(broken):
    with pytest.raises((AssertionError, TypeError)):
        parse(broken)


def test_an_empty_service_is_a_valid_exposition():
    text = exposition([Metrics()], {"bot_orch_ready": [({}, 1.0)]})
    assert parse(text)["bot_orch_ready"][2] == [("bot_orch_ready", {}, 1.0)]
