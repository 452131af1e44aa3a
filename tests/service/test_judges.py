"""Judges: rewards without plumbing, over HTTP, in the log and after a restart."""

import json

import judging_fixtures as fixtures
import pytest
from service_running import until

from bot_orch.core.events import DecisionMade, FeedbackGiven
from bot_orch.errors import InvalidInputError
from bot_orch.log.ledger import fold
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay
from bot_orch.rng import derive_key, uniform
from bot_orch.service.build import check
from bot_orch.service.config import parse_config

BASE = """
version: 1
database: {{database}}
listen: {{{{host: 127.0.0.1, port: {{port}}}}}}
router: {{{{policy: ucb1, seed: 5, horizon_s: 3600}}}}
judges: {judges}
{more}
agents:
  - {{{{id: short, kind: python, path: "judging_fixtures:short"}}}}
  - {{{{id: long, kind: python, path: "judging_fixtures:long"}}}}
  - {{{{id: flow, kind: python, path: "judging_fixtures:stream"}}}}
"""


def configured(*judges, more=""):
    text = json.dumps(judges).replace("{", "{{").replace("}", "}}")
    return BASE.format(judges=text, more=more.replace("{", "{{").replace("}", "}}"))


def python(function="long_is_good", name="length", **rest):
    return {"name": name, "kind": "python", "settings": {"path": f"judging_fixtures:{function}"}, **rest}


def chat(service, model="auto", messages=None, **rest):
    said = messages or [{"role": "user", "content": "hello"}]
    answer = service.post("/v1/chat/completions", {"model": model, "messages": said, **rest})
    assert answer.status == 200, answer
    return answer


def decision_of(answer):
    return answer.headers["x-bot-orch-decision-id"]


def reports(service, decision_id):
    rows = service.call(lambda: service.runtime.writer.log.about(decision_id))
    return [event for row in rows if isinstance(event := row.event(), FeedbackGiven)]


def judged(service, decision_id, count=1):
    return until(lambda: found if len(found := reports(service, decision_id)) >= count else None)


def learned(service):
    """How many rewards of the first agent the policy has learned, and their sum."""
    policy = service.runtime.ledger.router._state.parts["policy"]
    return float(policy["count"][0]), float(policy["total"][0])


def settings_of(text):
    return parse_config(text.format(database="log.sqlite", port=0))


def test_a_function_judges_every_answer_streams_too(start, tmp_path):
    service = start(configured(python()))
    for model, value in (("short", 0.2), ("long", 1.0)):
        (event,) = judged(service, decision_of(chat(service, model)))
        assert (event.judge, event.agent, event.reward, event.effect) == ("length", model, value, "learned")
        assert event.elapsed_s is not None and event.rate == 1.0
    streamed = chat(service, "flow", stream=True)
    (event,) = judged(service, decision_of(streamed))
    assert (event.agent, event.reward) == ("flow", 1.0) and fixtures.asked[-1].text == "a long answer"
    task = service.post("/v1/tasks", {"task": {"text": "sort"}, "eligible": ["short"]}).json()
    assert judged(service, task["decision_id"])[0].reward == 0.2 and fixtures.asked[-1].question == "sort"
    state = service.get("/v1/admin/state").json()["fingerprint"]
    service.stop()
    log = open_log(tmp_path / "log.sqlite")
    assert replay(log).ok and fold(log, use_snapshot=False).fingerprint() == fold(log).fingerprint() == state
    assert b"a long answer" not in b"".join(row.body for row in log.read() if not row.kind.startswith("task")), "text"
    log.close()


def test_the_highest_rank_counts_whenever_it_reports(start):
    thumbs, low = {"name": "people", "kind": "thumbs"}, python()
    service = start(configured(thumbs, low))
    answer = chat(service, "short")
    made = decision_of(answer)
    judged(service, made)
    up = {"completion_id": answer.json()["id"], "reward": 0.9}
    assert service.post("/v1/feedback", up).json()["effect"] == "replaced"
    assert service.post("/v1/feedback", {**up, "reward": 0.4}).json()["effect"] == "replaced", "the latest counts"
    assert service.post("/v1/feedback", {**up, "reward": 0.4}).json()["duplicate"]
    rows = reports(service, made)
    assert [(event.judge, event.agent, event.reward) for event in rows] == [
        ("length", "short", 0.2),
        ("people", "short", 0.9),
        ("people", "short", 0.4),
    ]
    assert learned(service) == pytest.approx((1.0, 0.4))


def test_a_lower_rank_is_logged_and_outranked(start):
    service = start(configured({"name": "people", "kind": "thumbs"}, python("waits", "slow")))
    fixtures.gate.clear()
    made = decision_of(chat(service, "short"))
    assert service.post("/v1/feedback", {"decision_id": made, "reward": 0.1}).json()["effect"] == "learned"
    fixtures.gate.set()
    event = judged(service, made, 2)[-1]
    assert (event.judge, event.effect, event.reward) == ("slow", "outranked", 1.0)
    assert learned(service) == pytest.approx((1.0, 0.1))
    explained = service.get(f"/v1/decisions/{made}").json()["outcomes"]
    assert [(each["judge"], each["effect"]) for each in explained] == [("people", "learned"), ("slow", "outranked")]


def test_a_caller_without_a_rank_has_the_last_word(start):
    service = start(configured(python()))
    made = decision_of(chat(service, "short"))
    judged(service, made)
    assert service.post("/v1/feedback", {"decision_id": made, "reward": 0.8}).json()["effect"] == "replaced"
    assert service.post("/v1/feedback", {"decision_id": made, "reward": 0.7}).json()["effect"] == "revision"


def test_failures_teach_nothing(start, monkeypatch):
    monkeypatch.setattr("bot_orch.service.judging.judge_runner._TIMEOUT_S", 0.05)
    service = start(configured(python("fails", "a"), python("hangs", "b"), python("silent", "c")))
    made = decision_of(chat(service, "short"))
    lines = (("a", "failed"), ("b", "timeout"), ("c", "no opinion"))
    wanted = [f'bot_orch_judgements_total{{judge="{judge}",result="{result}"}} 1' for judge, result in lines]
    until(lambda: all(line in service.get("/metrics").body.decode() for line in wanted))
    assert reports(service, made) == [] and made in service.runtime.ledger.pending


def test_the_rate_is_drawn_from_a_stream_of_its_own(start):
    service = start(configured(python(rate=0.5)))
    made = [decision_of(chat(service, "short")) for _ in range(20)]
    key = derive_key("judge", "length", 5)
    wanted = {made[number] for number in range(20) if uniform(key, number) < 0.5}
    assert 3 < len(wanted) < 17
    until(lambda: wanted == {each for each in made if reports(service, each)})
    assert {event.rate for each in wanted for event in reports(service, each)} == {0.5}


def test_a_full_queue_drops_and_counts(start, monkeypatch):
    monkeypatch.setattr("bot_orch.service.judging.judge_runner._MOST", 1)
    service = start(configured(python("waits", "slow")))
    fixtures.gate.clear()
    chat(service, "short")
    until(lambda: service.runtime.background and any("judge 1" in name for name in service.runtime.background))
    chat(service, "short")
    assert 'bot_orch_judgements_total{judge="slow",result="dropped"} 1' in service.get("/metrics").body.decode()
    fixtures.gate.set()


def test_functions_models_and_checks(start, tmp_path):
    service = start(
        configured(
            python("says_ok", "ok"),
            {"name": "json", "kind": "json_schema", "settings": {"schema": {"type": "object"}}},
            {
                "name": "model",
                "kind": "llm",
                "settings": {"agent": {"kind": "python", "path": "judging_fixtures:grader"}},
            },
        )
    )
    made = decision_of(chat(service, "long"))
    found = {event.judge: event.reward for event in judged(service, made, 3)}
    assert found == {"ok": 0.0, "json": 0.0, "model": 0.7}
    assert [event.judge for event in reports(service, made) if event.effect in ("learned", "replaced")][-1] == "ok"
    request = next(each for each in fixtures.asked if getattr(each, "id", "") == f"judge-model-{made}")
    assert "a long answer" in request.messages[1]["content"] and "0 (worst) to 10" in request.messages[0]["content"]
    log = service.call(lambda: [row.event() for row in service.runtime.writer.log.read()])
    assert sum(isinstance(event, DecisionMade) for event in log) == 1, "a judge's call is no decision"


def test_sessions_are_credited(start):
    service = start(configured(python(), more=""))
    body = {"bot_orch": {"session": "s1"}}
    made = [decision_of(chat(service, "short", **body)) for _ in range(3)]
    for each in made:
        judged(service, each)
    view = service.post("/v1/feedback", {"session": "s1", "reward": 0.6, "last": 2}).json()
    assert [each["decision_id"] for each in view["credited"]] == made[1:]
    assert {each["effect"] for each in view["credited"]} == {"replaced"}
    everything = service.post("/v1/feedback", {"session": "s1", "reward": 0.5}).json()["credited"]
    assert [each["effect"] for each in everything] == ["replaced", "revision", "revision"]
    unknown = service.post("/v1/feedback", {"session": "nobody", "reward": 0.5})
    assert (unknown.status, unknown.json()["error"]["code"]) == (404, "unknown_session")
    assert service.post("/v1/feedback", {"session": "s1"}).status == 422


def test_reports_name_one_thing(start):
    service = start(configured(python()))
    for body in ({}, {"decision_id": "x", "completion_id": "y"}):
        assert service.post("/v1/feedback", {**body, "reward": 1}).status == 422
    unknown = service.post("/v1/feedback", {"completion_id": "chatcmpl-123", "reward": 1})
    assert (unknown.status, unknown.json()["error"]["code"]) == (404, "unknown_completion")


def test_judgements_survive_a_restart(start):
    text = configured(python())
    service = start(text)
    made = decision_of(chat(service, "short"))
    judged(service, made)
    service.stop()
    again = start(text)
    assert again.runtime.ledger.router.judge_of(made)
    views = again.get("/v1/judges").json()
    assert views[0]["agents"] == [
        {"agent": "short", "count": 1, "mean": 0.2, "audited": 0, "bias": None, "low": None, "high": None}
    ]


MISTAKES = [
    ([{"name": "x", "kind": "oracle"}], "", "kind"),
    ([python(), python()], "", "twice"),
    ([python(name="audit")], "", "name"),
    ([python(rate=2.0)], "", "rate"),
    ([{"name": "x", "kind": "regex", "settings": {"pattern": "a"}}], "", "use kind python"),
    ([{"name": "x", "kind": "json_schema", "settings": {"schema": {"$ref": "a"}}}], "", "retrieving it failed"),
    ([{"name": "x", "kind": "llm", "settings": {"agent": "nobody"}}], "", "is not an agent"),
    ([python("nothing_there")], "", "cannot be imported"),
    ([python()], "audit: {rate: 0.1, by: nobody}", "audit.by"),
    ([{"name": "t", "kind": "thumbs"}], "audit: {rate: 0.1, by: t}", "can be asked"),
]


@pytest.mark.parametrize(("judges", "more", "said"), MISTAKES, ids=[said for *_, said in MISTAKES])
def test_mistakes_are_found_before_the_start(judges, more, said):
    with pytest.raises(InvalidInputError, match=said):
        check(settings_of(configured(*judges, more=more)))
