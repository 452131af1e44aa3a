"""Who may say, in a whole round, what an answer was worth."""

CONFIG = """
version: 1
database: {{database}}
listen: {{{{host: 127.0.0.1, port: {{port}}}}}}
router: {{{{policy: auto, alignment: {{{{geometry: {{{{name: labels, labels: 2}}}}}}}}}}}}
agents:
  - {agent}
"""
REFERENCE = {"kind": "labels", "probabilities": [1.0, 0.0]}


def function(name):
    return f"{{{{id: own, kind: python, path: 'answering:{name}'}}}}"


def outcomes(start, agent):
    service = start(CONFIG.format(agent=agent))
    done = service.post("/v1/tasks", {"task": {"text": "x", "reference": REFERENCE}})
    assert done.status == 200, done
    return service, service.get(f"/v1/decisions/{done.json()['decision_id']}").json()["outcomes"]


def distance(service):
    return service.post("/v1/decisions", {"task": {"reference": REFERENCE}}).json()["terms"]["own"]["distance"]


def test_a_function_of_ones_own_may_judge_and_measure_its_answer(start):
    service, (outcome,) = outcomes(start, function("judged"))
    assert outcome["reward"] == 0.25
    assert distance(service) == 0.0, "once is no evidence"
    for _ in range(30):
        assert service.post("/v1/tasks", {"task": {"text": "x", "reference": REFERENCE}}).status == 200
    assert distance(service) > 0.1


def test_a_document_cannot_rate_itself(start):
    service, found = outcomes(start, function("rates_itself"))
    assert found == [], "somebody else will judge it"
    assert service.get("/v1/agents").json()[0]["circuit"] == "closed"


def test_a_measure_that_does_not_fit_is_left_out(start, caplog):
    service, (outcome,) = outcomes(start, function("unmeasurable"))
    assert outcome["reward"] == 0.25, "the answer and its reward are good all the same"
    assert [record.message for record in caplog.records if record.name == "bot_orch.rounds"] == ["measure not learned"]
    for _ in range(30):
        assert service.post("/v1/tasks", {"task": {"text": "x", "reference": REFERENCE}}).status == 200
    assert distance(service) == 0.0


def test_a_reward_that_is_none_is_the_agents_failure(start):
    service = start(CONFIG.format(agent=function("overrated")))
    done = service.post("/v1/tasks", {"task": {"text": "x"}})
    assert done.status == 502 and done.json()["error"]["code"] == "crashed"


HANGS = """
version: 1
database: {{database}}
listen: {{{{host: 127.0.0.1, port: {{port}}}}}}
router: {{{{policy: ucb1, floor: 0}}}}
agents:
  - {{{{id: own, kind: simulated, params: {{{{median_s: 3600.0}}}}, timeout_s: {total_s}}}}}
"""


def cut_off(start, total_s, **asked):
    """What is recorded of a call that takes too long, and what was learned: the estimate after one report of 1."""
    service = start(HANGS.format(total_s=total_s))
    done = service.post("/v1/tasks", {"task": {"text": "x"}, **asked})
    assert done.status == 504
    made = service.post("/v1/decisions", {"task": {}}).json()
    service.post("/v1/feedback", {"decision_id": made["id"], "reward": 1.0})
    first = next(row.event() for row in service.runtime.writer.log.read() if row.kind.startswith("feedback"))
    estimate = service.post("/v1/decisions", {"task": {}}).json()["terms"]["own"]["estimate"]
    return done.json()["error"]["code"], (first.reward, first.reason, first.completed), estimate


def test_a_timeout_of_the_agents_own_is_learned_as_zero(start):
    assert cut_off(start, 0.2) == ("timeout_total", (None, "timeout", False), 0.5)


def test_a_deadline_of_the_caller_teaches_nothing(start):
    assert cut_off(start, 60.0, deadline_s=0.2) == ("caller_deadline", (None, "deadline", False), 1.0)
