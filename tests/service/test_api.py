"""Decisions, feedback and rounds over HTTP, against a real server."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from service_running import BASE, hang_up, until

from bot_orch import InvalidInputError
from bot_orch.clock import ManualClock
from bot_orch.core.events import AttemptEnded
from bot_orch.encoders import HashedWords
from bot_orch.log.ids import time_ordered_id
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay
from bot_orch.service.build import check
from bot_orch.service.config import parse_config
from bot_orch.service.runtime import sweep


def decide(service, **body):
    answer = service.post("/v1/decisions", body)
    assert answer.status == 200, answer
    return answer.json()


def test_a_decision_carries_its_propensities_and_terms(service):
    found = decide(service, task={"id": "t", "kind": "k", "features": []})
    plain = {"id", "agent", "propensity", "propensities", "terms", "policy", "state_seq", "by", "multipliers"}
    assert set(found) == plain | {"action", "audit", "audit_probability"} and not found["audit"]
    assert sum(found["propensities"].values()) == pytest.approx(1.0)
    assert found["propensity"] == found["propensities"][found["agent"]]
    assert set(found["terms"]["quick"]) == {"estimate", "exploration", "distance", "alignment", "cost", "bias"}


def test_claims_go_with_a_decision_and_into_the_log(start, tmp_path):
    service = start(database=tmp_path / "log.sqlite")
    found = decide(service, task={"id": "t", "claims": {"quick": 0.75}})
    assert found["agent"] in ("quick", "careful")
    service.stop()
    log = open_log(tmp_path / "log.sqlite")
    event = next(row.event() for row in log.read() if row.kind == "decision@1")
    assert event.claim_values()[event.agents.index("quick")] == 0.75
    assert replay(log).ok
    log.close()


WITH_TEXT = BASE.replace("policy: bot", "policy: linucb, encoder: builtin, n_features: 1")


def test_the_text_of_a_task_is_context_and_only_its_numbers_are_logged(start, tmp_path):
    assert WITH_TEXT != BASE
    service = start(WITH_TEXT, database=tmp_path / "log.sqlite")
    decide(service, task={"id": "no text", "features": [0.1]})
    made = decide(service, task={"id": "t", "text": "Who painted the chapel?", "features": [0.1]})
    done = service.post("/v1/tasks", {"task": {"text": "Who painted the chapel?", "features": [0.1]}})
    assert done.status == 200
    service.post("/v1/feedback", {"decision_id": made["id"], "reward": 1.0})
    state = service.get("/v1/admin/state").json()
    service.stop()
    log = open_log(tmp_path / "log.sqlite")
    first, second, third = (row for row in log.read() if row.kind == "decision@1")
    assert {each.event().encoder for each in (first, second, third)} == {"words@1:64#70"}
    assert first.event().seen()[1:] == (0.0,) * 70 and second.event().seen() == third.event().seen()
    single = np.asarray(HashedWords()("Who painted the chapel?"), dtype=np.float32)
    assert np.array_equal(second.event().seen()[1:], single) and b"chapel" not in second.body
    assert replay(log).ok
    log.close()
    again = start(WITH_TEXT, database=tmp_path / "log.sqlite")
    assert again.get("/v1/admin/state").json()["fingerprint"] == state["fingerprint"]
    assert again.post("/v1/decisions", {"task": {"text": "more"}}).status == 200  # features that are missing are zero


def test_a_missing_feature_is_null(start, tmp_path):
    service = start(WITH_TEXT, database=tmp_path / "log.sqlite")
    for number in (None, 0.5):
        made = decide(service, task={"text": "Who?", "features": [number]})
        service.post("/v1/feedback", {"decision_id": made["id"], "reward": 1.0})
    assert service.post("/v1/tasks", {"task": {"text": "Who?", "features": [None]}}).status == 200
    assert service.get(f"/v1/decisions/{made['id']}").status == 200
    service.stop()
    log = open_log(tmp_path / "log.sqlite")
    first, second, third = (row.event().seen()[0] for row in log.read() if row.kind == "decision@1")
    assert np.isnan([first, third]).all() and second == 0.5 and replay(log).ok
    log.close()


def test_an_unknown_encoder_is_refused_before_the_start():
    text = WITH_TEXT.format(database="log.sqlite", port=0)
    check(parse_config(text))
    with pytest.raises(InvalidInputError, match="encoder: is 'word2vec'"):
        check(parse_config(text.replace("builtin", "word2vec")))


@pytest.mark.parametrize("claims", [{"quick": 1.5}, {"nobody": 0.5}, {"quick": "sure"}])
def test_a_wrong_claim_is_refused(service, claims):
    answer = service.post("/v1/decisions", {"task": {"claims": claims}})
    assert answer.status in (400, 422) and "claims" in answer.json()["error"]["message"]


def test_ids_sort_by_time(service):
    ids = [decide(service)["id"] for _ in range(5)]
    assert ids == sorted(ids)


def test_a_key_that_was_used_with_another_body_is_422_everywhere(service):
    chat = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}
    bodies = {
        "/v1/decisions": ({"task": {"id": "a"}}, {"task": {"id": "b"}}),
        "/v1/tasks": ({"task": {"id": "a"}}, {"task": {"id": "b"}}),
        "/v1/chat/completions": (chat, {**chat, "max_tokens": 9}),
    }
    headers = {"Idempotency-Key": "one-key"}
    for path, (first, other) in bodies.items():
        assert service.post(path, first, headers=headers).status == 200, path
        clash = service.post(path, other, headers=headers)
        assert (clash.status, clash.json()["error"]["code"]) == (422, "idempotency_conflict"), path


def test_a_retry_with_the_same_key_gets_the_same_decision(service):
    headers = {"Idempotency-Key": "retry-1"}
    first = service.post("/v1/decisions", {"task": {"id": "a"}}, headers=headers).json()
    again = service.post("/v1/decisions", {"task": {"id": "a"}}, headers=headers)
    assert again.status == 200 and again.json() == first
    other = service.post("/v1/decisions", {"task": {"id": "b"}}, headers=headers)
    assert other.status == 422 and other.json()["error"]["code"] == "idempotency_conflict"
    assert service.post("/v1/decisions", {}, headers={"Idempotency-Key": "x" * 257}).status == 400


def test_simultaneous_retries_make_one_decision(service):
    def call(_):
        return service.post("/v1/decisions", {"task": {"id": "p"}}, headers={"Idempotency-Key": "p"}).json()["id"]

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(call, range(24)))) == 1


def test_a_decision_is_explained(service):
    found = decide(service, task={"id": "why"}, eligible=["quick"], session="s")
    service.post("/v1/feedback", {"decision_id": found["id"], "reward": 0.4, "elapsed_s": 2.0, "cost_usd": 0.5})
    told = service.get(f"/v1/decisions/{found['id']}").json()
    assert told["decision"] == found and told["excluded"] == {"careful": "not requested"}
    assert told["outcomes"][0]["reward"] == 0.4 and told["outcomes"][0]["effect"] == "learned"
    assert told["session"] == "s" and not told["pending"] and "> quick" in told["why"]
    assert service.get("/v1/decisions/nope").status == 404


def test_feedback_counts_once(service):
    decision_id = decide(service)["id"]
    body = {"decision_id": decision_id, "id": "f-1", "reward": 0.5}
    first, again = service.post("/v1/feedback", body).json(), service.post("/v1/feedback", body).json()
    assert first["effect"] == "learned" and not first["duplicate"] and again["duplicate"]
    clash = service.post("/v1/feedback", {**body, "reward": 0.6})
    assert clash.status == 409 and clash.json()["error"]["code"] == "feedback_conflict"
    revised = service.post("/v1/feedback", {**body, "id": "f-2", "reward": 0.6}).json()
    assert revised["effect"] == "revision"


def test_feedback_without_an_id_is_known_by_its_content(service):
    decision_id = decide(service)["id"]
    body = {"decision_id": decision_id, "reward": 0.5}
    assert not service.post("/v1/feedback", body).json()["duplicate"]
    assert service.post("/v1/feedback", body).json()["duplicate"]
    assert service.post("/v1/feedback", {**body, "reward": 0.9}).json()["effect"] == "revision"


def test_early_feedback_waits_for_its_decision(service):
    decision_id = time_ordered_id(1_800_000_000_000_000)
    early = service.post("/v1/feedback", {"decision_id": decision_id, "reward": 1.0}).json()
    assert early["effect"] == "early"
    assert service.post("/v1/feedback", {"decision_id": decision_id, "reward": 1.0}).json()["duplicate"]
    assert decide(service, id=decision_id)["id"] == decision_id
    assert not service.get(f"/v1/decisions/{decision_id}").json()["pending"]
    assert service.post("/v1/decisions", {"id": decision_id}).status == 409
    assert service.post("/v1/decisions", {"id": "x" * 36}).status == 422
    assert service.post("/v1/feedback", {"decision_id": "unknown", "reward": 1.0}).status == 404


@pytest.mark.parametrize(
    "body",
    [
        {"reward": 2},
        {"reward": -0.1},
        {"completed": False},
        {"completed": False, "reason": "timed out"},
        {},
        {"elapsed_s": -1.0, "reward": 1},
        {"reward": 0.5, "output": {"kind": "nonsense"}},
        {"reward": "0.5"},
        {"reward": 0.5, "surprise": 1},
    ],
)
def test_bad_feedback_is_refused_and_changes_nothing(service, body):
    decision_id = decide(service)["id"]
    before = service.get("/v1/admin/state").json()["fingerprint"]
    answer = service.post("/v1/feedback", {"decision_id": decision_id, **body})
    assert answer.status == 422, answer
    assert service.get("/v1/admin/state").json()["fingerprint"] == before


def test_bad_tasks_leave_no_trace(service):
    before = service.get("/v1/admin/state").json()
    for task in ({"features": [1.0, 2.0], "reference": {"kind": "labels", "probabilities": [1, 1e400]}},):
        assert service.request("POST", "/v1/decisions", raw=json.dumps({"task": task}).encode()).status in (400, 422)
    bad = {"reference": {"kind": "labels", "probabilities": []}}
    assert service.post("/v1/decisions", {"task": bad}).status == 422
    assert service.post("/v1/decisions", {"eligible": ["nobody"]}).status == 422
    assert service.get("/v1/admin/state").json() == before


def test_silence_past_the_horizon_is_censored_and_a_late_reward_replaces_it(start):
    clock = ManualClock()
    service = start(clock=clock)
    quiet, late = decide(service)["id"], decide(service)["id"]
    clock.advance(3599)
    assert service.call(lambda: sweep(service.runtime)) == 0
    clock.advance(2)
    service.call(lambda: sweep(service.runtime))
    assert service.get("/v1/admin/state").json()["pending"] == 0
    told = service.get(f"/v1/decisions/{quiet}").json()
    assert told["outcomes"][0]["effect"] == "censored" and told["outcomes"][0]["reward"] is None
    assert told["outcomes"][0]["elapsed_s"] == pytest.approx(3601, abs=0.1)
    assert told["outcomes"][0]["reason"] == "horizon"
    assert all(row["estimate"] == 0.0 for row in decide(service)["terms"].values()), "nobody to compare with"
    report = {"decision_id": late, "reward": 1.0}
    assert service.post("/v1/feedback", report).json()["effect"] == "replaced"
    assert service.post("/v1/feedback", report).json() | {"id": ""} == {
        "id": "",
        "decision_id": late,
        "effect": "replaced",
        "duplicate": True,
    }
    assert service.post("/v1/feedback", report | {"reward": 0.5}).json()["effect"] == "revision"
    assert sum(row["estimate"] > 0.0 for row in decide(service)["terms"].values()) == 1


@pytest.mark.parametrize(
    ("report", "effect"),
    [
        ({"reward": 0.5}, "learned"),
        ({"completed": False, "reason": "timeout", "elapsed_s": 3.0}, "learned"),
        ({"completed": False, "reason": "crash", "elapsed_s": 3.0}, "learned"),
        ({"completed": False, "reason": "cancelled", "elapsed_s": 0.1}, "noted"),
        ({"completed": False, "reason": "deadline", "elapsed_s": 0.1}, "noted"),
        ({"completed": True, "elapsed_s": 0.1}, "noted"),
    ],
)
def test_a_report_that_teaches_no_reward_is_noted_and_can_be_replaced(service, report, effect):
    made = decide(service)
    assert service.post("/v1/feedback", {"decision_id": made["id"], **report}).json()["effect"] == effect
    assert not service.get(f"/v1/decisions/{made['id']}").json()["pending"]
    before = decide(service)["terms"][made["agent"]]["estimate"]
    again = service.post("/v1/feedback", {"decision_id": made["id"], "reward": 1.0}).json()["effect"]
    assert again == ("revision" if report.get("reward") or report.get("reason") == "crash" else "replaced")
    after = decide(service)["terms"][made["agent"]]["estimate"]
    assert (after > before) == (again == "replaced")


def test_an_answer_that_nobody_judged_is_no_silence(start):
    """At the horizon the log knows that the agent answered: only the reward is missing, whatever the patience."""
    clock = ManualClock()
    service = start(BASE.replace("horizon_s: 3600", "horizon_s: 3600, patience_s: 60"), clock=clock)
    answered, quiet = decide(service), decide(service)
    event = AttemptEnded(answered["id"], "", answered["agent"], 1, "completed", 0.5)
    service.call(lambda: service.runtime.writer.stage(service.runtime.writer.stamp(), event, answered["id"]))
    clock.advance(3601)
    service.call(lambda: sweep(service.runtime))
    counts = service.runtime.ledger.router._state.parts["policy"]["count"]
    agents = service.runtime.ledger.router.agents
    expected = np.zeros(len(agents))
    expected[agents.index(quiet["agent"])] = 1.0
    assert counts.tolist() == expected.tolist()


def test_time_never_runs_backwards(start):
    clock = ManualClock()
    service = start(clock=clock)
    decide(service)
    clock.advance(-1e6)
    decide(service)
    rows = list(service.runtime.writer.log.read())
    assert [row.time_us for row in rows] == sorted({row.time_us for row in rows})


def test_a_restart_continues_exactly(start, tmp_path):
    first = start()
    twin = start(database=tmp_path / "twin.sqlite")
    for number in range(20):
        made = decide(first, task={"id": str(number)})
        same = decide(twin, task={"id": str(number)})
        assert made["propensities"] == same["propensities"]
        if number % 3:
            for each, service in ((made, first), (same, twin)):
                service.post("/v1/feedback", {"decision_id": each["id"], "reward": (number % 5) / 5})
    state = first.get("/v1/admin/state").json()
    first.stop()
    again = start()
    assert again.get("/v1/admin/state").json()["fingerprint"] == state["fingerprint"]
    made, same = decide(again), decide(twin)
    assert made["agent"] == same["agent"] and made["propensities"] == same["propensities"]
    again.stop()
    log = open_log(tmp_path / "log.sqlite")
    assert replay(log).ok and log.snapshot() is not None
    log.close()


ROUTED = BASE.replace(
    "horizon_s: 3600",
    "horizon_s: 3600, sticky_s: 60, budget: {{window_usd: 0.5, window_s: 3600}}, rules: "
    "[{{kind: legal, allow: [careful]}}, {{kind: chat, pin: quick}}, {{kind: odd, deny: [quick]}},"
    " {{kind: none, deny: [quick, careful]}}]",
)


def test_hard_rules(start):
    service = start(ROUTED)
    for kind, agent, by in (("legal", "careful", "policy"), ("chat", "quick", "pin"), ("odd", "careful", "policy")):
        found = decide(service, task={"kind": kind})
        assert (found["agent"], found["propensity"], found["by"]) == (agent, 1.0, by)
    refused = service.post("/v1/decisions", {"task": {"kind": "none"}})
    assert refused.status == 503 and refused.json()["error"]["details"]["excluded"]["quick"] == "denied by a rule"


def test_sessions_stick(start):
    clock = ManualClock()
    service = start(ROUTED, clock=clock)
    first = decide(service, session="s")
    for _ in range(5):
        found = decide(service, session="s")
        assert (found["agent"], found["by"]) == (first["agent"], "sticky")
        service.post("/v1/feedback", {"decision_id": found["id"], "reward": 1})  # else the budget is held
    clock.advance(61)
    assert decide(service, session="s")["by"] == "policy"


def test_the_kill_switch_survives_a_restart(start):
    service = start()
    assert service.post("/v1/admin/kill-switch", {"agent": "nobody"}).status == 422
    assert service.post("/v1/admin/kill-switch", {"agent": "quick"}).status == 200
    assert decide(service)["by"] == "kill switch"
    service.stop()
    again = start()
    assert {decide(again)["agent"] for _ in range(5)} == {"quick"}
    again.post("/v1/admin/kill-switch", {"agent": None})
    assert decide(again)["by"] == "policy"


def test_the_budget_leaves_out_what_is_too_dear(start):
    service = start(ROUTED)
    decision_id = decide(service)["id"]
    service.post("/v1/feedback", {"decision_id": decision_id, "reward": 1.0, "cost_usd": 0.45})
    told = service.get(f"/v1/decisions/{decide(service)['id']}").json()
    assert told["decision"]["agent"] == "quick" and told["excluded"] == {"careful": "over budget"}


CRASHING = BASE.replace("quality: 0.6", "quality: 0.6, crash: 1.0")


def test_a_round_falls_back_and_every_attempt_is_a_row(start):
    service = start(CRASHING)
    answers = [service.post("/v1/tasks", {"task": {"text": f"t{n}"}}) for n in range(12)]
    assert {a.status for a in answers} == {200}
    assert {a.json()["agent"] for a in answers} == {"careful"}
    two = next(a for a in answers if len({x["agent"] for x in a.json()["attempts"]}) == 2).json()
    assert [x["agent"] for x in two["attempts"]][-1] == "careful" and two["attempts"][0]["ending"] == "crashed"
    failed = service.get(f"/v1/decisions/{two['attempts'][0]['decision_id']}").json()
    assert failed["outcomes"][0]["reward"] == 0.0 and failed["outcomes"][0]["reason"] == "crashed"
    states = {a["id"]: a["circuit"] for a in service.get("/v1/agents").json()}
    assert states["careful"] == "closed"


def test_nobody_left_is_a_502_with_headers(start):
    service = start(CRASHING.replace("quality: 0.9", "quality: 0.9, crash: 1.0"))
    answer = service.post("/v1/chat/completions", {"model": "auto", "messages": [{"role": "user", "content": "x"}]})
    assert answer.status == 502 and answer.json()["error"]["code"] == "crashed"
    assert answer.headers["x-bot-orch-attempts"] == "2" and "x-bot-orch-decision-id" in answer.headers
    task = service.post("/v1/tasks", {"task": {"text": "x"}})
    assert task.status == 502


def test_background_tasks_survive_a_restart(start):
    slow = BASE.replace("median_s: 0.0", "median_s: 3600.0").replace("sigma: 0,", "sigma: 0.0,")
    service = start(slow)
    made = service.post("/v1/tasks", {"task": {"text": "x"}, "background": True}, headers={"Idempotency-Key": "b"})
    assert made.status == 202
    task_id = made.json()["id"]
    assert service.get(f"/v1/tasks/{task_id}").json()["status"] == "running"
    again = service.post("/v1/tasks", {"task": {"text": "x"}, "background": True}, headers={"Idempotency-Key": "b"})
    assert again.json()["id"] == task_id
    service.stop()
    quick = start()
    view = until(lambda: (v := quick.get(f"/v1/tasks/{task_id}").json())["status"] != "running" and v)
    assert view["status"] == "completed" and view["output"]
    assert quick.get("/v1/tasks/nope").status == 404


def test_a_background_round_goes_on_with_the_same_decision(start):
    service = start(BASE.replace("median_s: 0.0", "median_s: 3600.0"))
    task_id = service.post("/v1/tasks", {"task": {"text": "x"}, "background": True}).json()["id"]
    (decision_id,) = until(lambda: service.call(lambda: list(service.runtime.ledger.pending)))
    service.stop()
    again = start()
    view = until(lambda: (v := again.get(f"/v1/tasks/{task_id}").json())["status"] != "running" and v)
    assert view["status"] == "completed" and view["decision_id"] == decision_id
    told = again.get(f"/v1/decisions/{decision_id}").json()
    assert [outcome["effect"] for outcome in told["outcomes"]] == ["learned"]


def test_a_caller_who_hangs_up_censors_the_attempt(start):
    service = start(BASE.replace("median_s: 0.0", "median_s: 3600.0"))
    with hang_up(service, "/v1/tasks", {"task": {"text": "x"}}):
        until(lambda: any(guard.view().in_flight for guard in service.runtime.guards.values()))

    def at_the_end():
        found = [row.event() for row in service.runtime.writer.log.read()]
        return found if any(type(each).__name__ == "TaskEnded" for each in found) else None

    rows = until(at_the_end)
    reports = [each for each in rows if type(each).__name__ == "FeedbackGiven"]
    assert [(r.reward, r.reason, r.completed) for r in reports] == [(None, "cancelled", False)]
    endings = [each.ending for each in rows if type(each).__name__ == "AttemptEnded"]
    assert endings == ["cancelled_by_caller"]


def test_settings_change_between_runs(start, tmp_path):
    service = start()
    for _ in range(5):
        service.post("/v1/feedback", {"decision_id": decide(service)["id"], "reward": 0.9})
    service.stop()
    more = start(BASE + "  - {{id: third, kind: simulated}}\n")
    found = decide(more)
    assert set(found["propensities"]) == {"quick", "careful", "third"}
    assert any(terms["estimate"] > 0 for terms in found["terms"].values())
    more.stop()
    log = open_log(tmp_path / "log.sqlite")
    assert replay(log).ok
    log.close()


def test_metrics_and_health(service):
    decide(service)
    text = service.get("/metrics").body.decode()
    for name in (
        "decisions_total",
        "requests_total",
        "request_seconds_bucket",
        "circuit_state",
        "ready 1",
        "log_events",
    ):
        assert f"bot_orch_{name}" in text
    assert service.get("/health/live").status == service.get("/health/ready").status == 200
    unknown = service.get("/nothing").json()["error"]
    assert unknown["code"] == "unknown_path" and "/openapi.json" in unknown["message"] and "/v1" in unknown["message"]
    wrong = service.get("/v1/feedback")
    assert wrong.status == 405 and wrong.json()["error"]["message"].endswith("another method: POST")


def test_a_service_level_moves_work_to_those_who_keep_it(start, tmp_path):
    service = start(
        BASE.replace("router: {{policy: bot,", "router: {{policy: auto, alignment: {{latency_target_s: 2}},")
    )
    names = []
    for number in range(120):
        found = decide(service)
        late = found["agent"] == "careful"
        names.append(found["agent"])
        reward, elapsed_s = (1.0, 6.0) if late else (float(number % 3 > 0), 0.5)
        service.post("/v1/feedback", {"decision_id": found["id"], "reward": reward, "elapsed_s": elapsed_s})
    assert names[60:].count("careful") < 10, "the floor alone gives it one in twenty"
    assert decide(service)["terms"]["careful"]["distance"] > 1.0
    service.stop()
    log = open_log(tmp_path / "log.sqlite")
    assert replay(log).ok
    log.close()


def test_lambda_may_change_from_a_number_to_auto(start, tmp_path):
    body = {"task": {"id": "t", "reference": {"kind": "labels", "probabilities": [0.1, 0.9]}}}
    numbered = BASE.replace("router: {{policy: bot,", "router: {{policy: bot, lambda: 1.5,")
    for text in (numbered, BASE, numbered):
        service = start(text)
        for _ in range(4):
            found = decide(service, **body)
            output = {"kind": "labels", "probabilities": [1.0, 0.0]}
            report = {"decision_id": found["id"], "reward": 0.5, "output": output}
            assert service.post("/v1/feedback", report).status == 200
        service.stop()
    log = open_log(tmp_path / "log.sqlite")
    found = replay(log)
    assert found.ok and found.decisions == 12
    log.close()


CHAT = {"model": "auto", "messages": [{"role": "user", "content": "x"}]}


def test_a_chat_may_bring_features_and_a_reference(start):
    service = start(BASE.replace("router: {{policy: bot,", "router: {{policy: auto, n_features: 2,"))
    aside = {"kind": "small", "features": [1.0, 2.5], "reference": {"kind": "labels", "probabilities": [1.0, 0.0]}}
    answer = service.post("/v1/chat/completions", {**CHAT, "bot_orch": aside})
    assert answer.status == 200
    rows = service.runtime.writer.log.about(answer.headers["x-bot-orch-decision-id"])
    event = rows[0].event()
    assert (event.task.kind, event.seen(), event.task.reference) == ("small", (1.0, 2.5), aside["reference"])


def test_features_are_decided_on_in_single_precision(start):
    """As the log keeps them, so that every decision can be derived again exactly."""
    service = start(BASE.replace("router: {{policy: bot,", "router: {{policy: linucb, n_features: 2,"))
    for number in range(20):
        made = service.post("/v1/decisions", {"task": {"features": [0.1 * number, -1 / (number + 3)]}}).json()
        service.post("/v1/feedback", {"decision_id": made["id"], "reward": (number % 3) / 2})
    log = service.runtime.writer.log
    event = log.about(made["id"])[0].event()
    assert event.seen() == tuple(float(np.float32(x)) for x in (1.9000000000000001, -1 / 22))
    assert (event.feature_type, len(event.features)) == ("<f4", 8)
    found = replay(log)
    assert found.ok and found.derived == 20
    assert found.fingerprint == service.get("/v1/admin/state").json()["fingerprint"]


def test_features_beyond_single_precision_are_refused(start):
    service = start(BASE.replace("router: {{policy: bot,", "router: {{policy: linucb, n_features: 2,"))
    before = service.get("/v1/admin/state").json()["fingerprint"]
    answer = service.post("/v1/decisions", {"task": {"features": [0.5, 1e39]}})
    assert answer.status == 422 and answer.json()["error"]["param"] == "task.features"
    assert "single precision" in answer.json()["error"]["message"]
    assert service.get("/v1/admin/state").json()["fingerprint"] == before


@pytest.mark.parametrize(
    ("aside", "param"),
    [
        ({"features": [1, "a"]}, "bot_orch.features[1]"),
        ({"kinds": "x"}, "bot_orch"),
        ({"kind": 5}, "bot_orch.kind"),
        (3, "bot_orch"),
        ({"features": [1.0]}, "task.features"),
    ],
)
def test_what_a_chat_says_to_the_router_is_checked(start, aside, param):
    service = start(BASE.replace("router: {{policy: bot,", "router: {{policy: auto, n_features: 2,"))
    answer = service.post("/v1/chat/completions", {**CHAT, "bot_orch": aside})
    assert answer.status == 422 and answer.json()["error"]["param"] == param, answer


@pytest.mark.parametrize(
    ("path", "body", "param", "message"),
    [
        ("/v1/decisions", {"task": {"id": 5}}, "task.id", "task.id: expected `str`, got `int`; see its schema"),
        ("/v1/decisions", {"tusk": {}}, "tusk", "tusk: is not a field; see those there are in /openapi.json"),
        ("/v1/decisions", {"task": {"fatures": []}}, "task", "task.fatures: is not a field; see"),
        ("/v1/decisions", [], None, "body: expected `object`, got `array`; see its schema"),
        ("/v1/feedback", {}, "decision_id", "decision_id: is missing; add it"),
        (
            "/v1/feedback",
            {"decision_id": "x", "reward": 2},
            "reward",
            "reward: is 2.0, outside of [0, 1]; rescale it; an operator can state another range in",
        ),
        ("/v1/admin/kill-switch", {"agent": "x"}, "agent", "agent: "),
    ],
)
def test_what_is_wrong_with_a_body_is_said_with_field_and_remedy(service, path, body, param, message):
    error = service.post(path, body).json()["error"]
    assert error["param"] == param and error["message"].startswith(message) and ";" in error["message"]


def test_what_is_not_json_is_said_with_its_place(service):
    error = service.request("POST", "/v1/decisions", raw=b'{"task": nope}').json()["error"]
    assert error["code"] == "malformed_json" and "(byte 1" in error["message"] and ";" in error["message"]


@pytest.mark.parametrize("status", [429, 503])
def test_whoever_is_to_come_back_is_told_when(status):
    from bot_orch.service.problems import Problem, problem_reply

    assert (b"retry-after", b"1") in problem_reply(Problem(status, "x", "x")).headers
    assert (b"retry-after", b"7") in problem_reply(Problem(status, "x", "x", headers={"retry-after": "7"})).headers
    assert not any(name == b"retry-after" for name, _ in problem_reply(Problem(422, "x", "x")).headers)


@pytest.mark.parametrize("encoder", ["", ", encoder: builtin"])
def test_a_caller_without_features_is_served(start, encoder):
    service = start(BASE.replace("policy: bot,", f"policy: linucb, n_features: 2{encoder},"))
    made = service.post("/v1/decisions", {"task": {"text": "x"}})
    assert made.status == 200, made
    assert service.post("/v1/chat/completions", CHAT).status == 200
    assert service.post("/v1/tasks", {"task": {"text": "x"}}).status == 200
    assert service.post("/v1/decisions", {"task": {"features": [1.0]}}).status == 422
    row = service.runtime.writer.log.about(made.json()["id"])[0]
    assert row.event().seen()[:2] == (0.0, 0.0)


def test_an_early_report_says_which_ids_it_takes(service):
    answer = service.post("/v1/feedback", {"decision_id": "mine-1", "reward": 1})
    assert answer.status == 404 and "UUID of version 7 in lower case" in answer.json()["error"]["message"]
    early = {"decision_id": "018bcfe5-6800-707b-8000-00000000aaaa", "reward": 1}
    assert service.post("/v1/feedback", early).json()["effect"] == "early"


def test_a_task_tells_its_times_and_decisions(service):
    made = service.post("/v1/tasks", {"task": {"id": "t-7", "kind": "refund", "text": "x"}}).json()
    shown = service.get(f"/v1/tasks/{made['id']}").json()
    assert (shown["task_id"], shown["kind"]) == ("t-7", "refund")
    assert shown["decisions"] == [shown["decision_id"]] and shown["submitted_us"] < shown["ended_us"]
