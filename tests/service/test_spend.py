"""Reports of spending by token, tag, agent and day, over HTTP and from the command line."""

import json

import pytest
from service_running import BASE
from test_token_limits import CHAT, SECRET, TOKENS, bearer

from bot_orch.cli import main
from bot_orch.clock import ManualClock
from bot_orch.evaluation.spend import spent
from bot_orch.log.stores.open import open_log

DAY_S = 86_400


@pytest.fixture
def used(start, tmp_path):
    """Three chats on two days, two tokens, some tags, and one report with dollars."""
    clock = ManualClock(1_800_000_000_000_000)
    service = start(BASE + TOKENS.replace("{limits}", ""), environment=SECRET, clock=clock)
    service.post("/v1/chat/completions", CHAT, headers={**bearer("A"), "x-bot-orch-tags": "checkout, night"})
    task = {"task": {"text": "x"}, "eligible": ["quick"]}
    service.post("/v1/tasks", task, headers={**bearer("B"), "x-bot-orch-tags": "checkout"})
    clock.advance(DAY_S)
    service.post("/v1/chat/completions", CHAT, headers=bearer("A"))
    made = service.post("/v1/decisions", {"eligible": ["quick"]}, headers=bearer("B")).json()
    clock.advance(DAY_S)
    service.post("/v1/feedback", {"decision_id": made["id"], "reward": 1, "cost_usd": 1.5}, headers=bearer("A"))
    return service, tmp_path / "log.sqlite"


def lines(service, query):
    answer = service.get(f"/v1/spend{query}", headers=bearer("OPS"))
    assert answer.status == 200, answer
    return {line["key"]: (line["requests"], round(line["cost_usd"], 6)) for line in answer.json()["lines"]}


def test_by_token_tag_agent_and_day(used):
    service, _ = used
    assert lines(service, "") == lines(service, "?by=token") == {"other": (2, 1.51), "app": (2, 0.2)}
    assert lines(service, "?by=tag") == {"": (1, 1.5), "team-a": (2, 0.2), "checkout": (2, 0.11), "night": (1, 0.1)}
    assert lines(service, "?by=agent") == {"quick": (2, 1.51), "careful": (2, 0.2)}
    days = {"2027-01-15": (2, 0.11), "2027-01-16": (2, 0.1), "2027-01-17": (0, 1.5)}
    assert lines(service, "?by=day") == days
    found = service.get("/v1/spend?by=tag", headers=bearer("OPS")).json()
    assert found["cost_usd"] == pytest.approx(1.71), "every dollar once"


def test_a_range_of_time_and_late_reports(used):
    service, _ = used
    assert lines(service, "?from=2027-01-16&to=2027-01-17") == {"app": (1, 0.1), "other": (1, 0.0)}
    assert lines(service, "?from=2027-01-17") == {"other": (0, 1.5)}, "the decision was made before the range"
    assert lines(service, "?from=2027-01-18T00:00:00Z") == {}


@pytest.mark.parametrize(
    ("query", "said"), [("?by=wish", "by: is not known"), ("?from=soon", "from: 'soon' is no date"), ("?to=1e9", "to:")]
)
def test_mistakes_are_named(used, query, said):
    service, _ = used
    answer = service.get(f"/v1/spend{query}", headers=bearer("OPS"))
    assert answer.status == 422 and said in answer.json()["error"]["message"]


def test_only_admins_see_it_and_bad_tags_are_refused(used):
    service, _ = used
    assert service.get("/v1/spend", headers=bearer("A")).status == 403
    for bad in ("a b", "x" * 65, ",", ",".join(map(str, range(20)))):
        answer = service.post("/v1/decisions", headers={**bearer("A"), "x-bot-orch-tags": bad})
        assert answer.status == 400 and answer.json()["error"]["code"] == "bad_tags", bad


def test_background_tasks_keep_their_tags_over_a_restart(start, tmp_path):
    text = BASE + "  - {{id: person, kind: human, timeout_s: 600}}\n"
    service = start(text)
    body = {"task": {"text": "x"}, "eligible": ["person"], "background": True}
    assert service.post("/v1/tasks", body, headers={"x-bot-orch-tags": "later"}).status == 202
    service.stop()
    log = open_log(tmp_path / "log.sqlite")
    assert [(line.key, line.requests) for line in spent(log, "tag")] == [("later", 1)]
    log.close()


def test_the_command_prints_what_the_service_says(used, capsys):
    service, path = used
    assert main(["report", str(path), "--by", "agent", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    told = service.get("/v1/spend?by=agent", headers=bearer("OPS")).json()
    assert found["lines"] == told["lines"] and found["cost_usd"] == told["cost_usd"]
    assert main(["report", str(path), "--by", "tag", "--from", "2027-01-16"]) == 0
    printed = capsys.readouterr().out
    assert "(none)" in printed and "total: 1.600000 dollars" in printed
    assert main(["report", str(path), "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("other,2,1,0,")
    assert main(["report", str(path), "--from", "soon"]) == 2
    assert "--from: 'soon' is no date" in capsys.readouterr().err
