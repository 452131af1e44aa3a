"""Answers are looked at before one is delivered: checks, signals, money and learning."""

import re
import time

import pytest
from upstream import completion, said, status

from bot_orch.core.events import DecisionMade, FeedbackGiven
from bot_orch.errors import InvalidInputError
from bot_orch.log.ledger import fold
from bot_orch.log.verification import replay
from bot_orch.service.build import check
from bot_orch.service.config import parse_config

ROUTER = "seed: 3, floor: 0.0, checks: [right], attempts: 2"
RIGHT = "judges: [{name: right, kind: python, settings: {path: 'judging_fixtures:right'}}]"
HELLO = [{"role": "user", "content": "2 + 2?"}]
PRICE = "per_call_usd: {}"


@pytest.fixture
def pair(upstream, serve, agent):
    """A service with a small agent whose answers fail the check and a large one whose answers pass."""

    def begin(router=ROUTER, after=RIGHT, *, wrong=None, right=None, **more):
        agents = [
            agent(
                upstream.script("small", *(wrong or [[completion(content="wrong")]])), "small", price=PRICE.format(1)
            ),
            agent(
                upstream.script("large", *(right or [[completion(content="right")]])), "large", price=PRICE.format(9)
            ),
        ]
        return serve(*agents, router=router, after=after, **more)

    return begin


def ask(client, service, times=1, **more):
    one = client(service).chat.completions
    return [one.with_raw_response.create(model="auto", messages=HELLO, **more) for _ in range(times)]


def events(service, kind):
    rows = service.call(lambda: list(service.runtime.writer.log.read()))
    return [event for row in rows if isinstance(event := row.event(), kind)]


def test_a_failed_check_asks_the_next_agent(pair, client):
    service = pair()
    answers = ask(client, service, 8)
    assert {answer.parse().choices[0].message.content for answer in answers} == {"right"}
    steps = [answer.headers["x-bot-orch-steps"] for answer in answers]
    twice = next(each for each in steps if each.startswith("small"))
    assert twice.startswith("small: right failed: 2 of 9; large (worth of")
    assert "large (worth of asking" in twice and "): right passed; delivered large (" in twice
    assert {answer.headers["x-bot-orch-agent"] for answer in answers} == {"large"}
    attempts = {answer.headers["x-bot-orch-attempts"] for answer in answers}
    assert attempts <= {"1", "2"} and "2" in attempts
    made = events(service, DecisionMade)
    assert all(abs(sum(each.column("propensity")) - 1.0) < 1e-9 for each in made)
    accepted = [each for each in made if each.action == "accept"]
    assert len(accepted) == 8 and {each.agent for each in accepted} == {"large"}
    explained = service.get(f"/v1/decisions/{answers[-1].headers['x-bot-orch-decision-id']}").json()
    assert explained["steps"][-1].startswith("delivered large") and len(explained["round"]) == len(explained["steps"])
    page = service.get(f"/decisions/{answers[-1].headers['x-bot-orch-decision-id']}").body.decode()
    assert "<h2>Steps</h2>" in page and "delivered large" in page
    metrics = service.get("/metrics").body.decode()
    assert 'bot_orch_rounds_total{agents="2",changed="yes"}' in metrics
    again = [each for each in steps if each.count(";") == 2]
    changed = [each for each in steps if each.startswith("small")]
    cost = sum(9 if each.startswith("small") else 1 for each in again)
    tile = f"{100 * len(again) / 8:.0f} %<small>changed {100 * len(changed) / 8:.0f} %, for ${cost:.2f}"
    assert f"<dt>Asked again</dt><dd>{tile}" in service.get("/").body.decode()
    state = service.call(lambda: service.runtime.ledger.fingerprint())
    log = service.runtime.writer.log
    assert replay(log).ok and fold(log, use_snapshot=False).fingerprint() == state


def test_a_passed_check_ends_the_round(pair, client, upstream):
    """One agent is asked per request where every answer passes, whichever it is."""
    service = pair(ROUTER.replace("floor: 0.0", "floor: 0.2"), wrong=[[completion(content="right")]])
    answers = ask(client, service, 12)
    assert {answer.headers["x-bot-orch-attempts"] for answer in answers} == {"1"}
    assert len(upstream.requests) == 12


def test_a_check_that_cannot_run_says_so(pair, client):
    judge = "judges: [{name: tests, kind: python, settings: {path: 'judging_fixtures:fails'}}]"
    service = pair("seed: 3, checks: [tests], attempts: 2", judge)
    (answer,) = ask(client, service)
    assert "tests could not run: " in answer.headers["x-bot-orch-steps"]
    explained = service.get(f"/v1/decisions/{answer.headers['x-bot-orch-decision-id']}").json()
    assert "tests could not run" in explained["steps"][0] and "nothing is known" not in explained["steps"][0]


def test_the_reward_of_a_round_is_learned_once(pair, client):
    """The check is a judge, too: its value of the delivered answer is the outcome of the round."""
    service = pair()
    ask(client, service, 4)
    accepted = {each.id for each in events(service, DecisionMade) if each.action == "accept"}
    found = events(service, FeedbackGiven)
    for _ in range(100):  # it is written after the answer
        if len(found) == len(accepted):
            break
        time.sleep(0.05)
        found = events(service, FeedbackGiven)
    assert {each.decision_id for each in found} == accepted
    assert {(each.judge, each.reward, each.effect) for each in found} == {("right", 1.0, "learned")}
    assert not service.call(lambda: service.runtime.ledger.pending)


def test_a_report_takes_the_place_of_the_judges_value(pair, client):
    service = pair(after=RIGHT.replace("[{", "[{name: people, kind: thumbs}, {"))
    (answer,) = ask(client, service)
    decision_id = answer.headers["x-bot-orch-decision-id"]
    body = {"decision_id": decision_id, "reward": 0.25}
    assert service.post("/v1/feedback", body).json()["effect"] == "replaced"
    again = service.post("/v1/feedback", body).json()
    assert (again["duplicate"], again["decision_id"]) == (True, decision_id)
    outcomes = service.get(f"/v1/decisions/{decision_id}").json()["outcomes"]
    assert [(each["judge"], each["reward"]) for each in outcomes] == [("right", 1.0), ("people", 0.25)]
    assert replay(service.runtime.writer.log).ok


def test_a_check_that_is_no_reward_waits_for_feedback(pair, client):
    """With rate 0 a judge checks and does not reward: what it is worth is learned from reports."""
    service = pair(after=RIGHT.replace("}}]", "}, rate: 0}]"))
    (answer,) = ask(client, service)
    assert events(service, FeedbackGiven) == []
    body = {"decision_id": answer.headers["x-bot-orch-decision-id"], "reward": 1.0}
    assert service.post("/v1/feedback", body).json()["effect"] == "learned"
    checks = service.call(lambda: service.runtime.ledger.router._state.parts["cascade"]["checks"])
    assert checks[:, 1].sum() >= 3.0 and not service.call(lambda: service.runtime.ledger.pending)


def test_a_stream_is_passed_on_as_it_comes(pair, client):
    service = pair(wrong=[said("wr", "ong")], right=[said("ri", "ght")])
    found = set()
    for _ in range(12):
        stream = client(service).chat.completions.create(model="auto", messages=HELLO, stream=True)
        found.add("".join(each.choices[0].delta.content or "" for each in stream if each.choices))
    assert "wrong" in found
    assert all(each.action == "ask" and not each.answers for each in events(service, DecisionMade))


def test_the_budget_of_a_request_ends_the_round(pair, client):
    service = pair(ROUTER + ", budget: {per_request_usd: 9.5}")
    texts = [each.parse().choices[0].message.content for each in ask(client, service, 8)]
    assert set(texts) == {"wrong", "right"}, "after the small one the large one is too dear"
    spent = [each.answers for each in events(service, DecisionMade) if each.action == "accept"]
    assert {len(each) for each in spent} == {1}
    excluded = [each.excluded for each in events(service, DecisionMade) if each.answers and each.agent == "small"]
    assert {each["large"] for each in excluded} == {"over budget of a request"}


def test_the_best_answer_so_far_is_delivered_if_the_next_agent_fails(pair, client):
    service = pair(right=[[status(500)]])
    answers = ask(client, service, 6)
    assert {answer.parse().choices[0].message.content for answer in answers} == {"wrong"}
    steps = [each.headers["x-bot-orch-steps"] for each in answers]
    assert any(re.fullmatch(r"small: .*; large \(worth .*\): upstream_5xx; delivered small .*", each) for each in steps)
    assert replay(service.runtime.writer.log).ok


def test_the_page_of_a_decision_shows_what_the_operators_own_check_said(pair, client):
    service = pair()
    ask(client, service, 6)
    pages = [f"/decisions/{each.id}" for each in events(service, DecisionMade) if each.action == "accept"]
    assert any("right failed: 2 of 9" in service.get(page).body.decode() for page in pages)


def test_a_promise_holds_with_several_answers(pair, client):
    service = pair(ROUTER + ", guarantee: {baseline: large, loss_at_most: 0.1}")
    assert {each.parse().choices[0].message.content for each in ask(client, service, 6)} == {"right"}
    assert replay(service.runtime.writer.log).ok


def probable(text, *logprobs):
    document = completion(content=text)
    document["choices"][0]["logprobs"] = {"content": [{"token": "t", "logprob": each} for each in logprobs]}
    return document


def test_the_probabilities_of_tokens_are_a_signal(pair, client, upstream):
    service = pair(
        "seed: 3, signal: logprobs, attempts: 2",
        "",
        wrong=[[probable("wrong", -2.0, -2.4)]],
        right=[[probable("right", -0.1)]],
    )
    answers = ask(client, service, 6)
    assert all(document["logprobs"] is True for _, document in upstream.requests), "they are asked for"
    assert all(answer.parse().choices[0].logprobs is None for answer in answers), "the caller has not asked for them"
    steps = " ".join(each.headers["x-bot-orch-steps"] for each in answers)
    assert "sure 0.11" in steps or "sure 0.90" in steps
    seen = [each.covariates["signal"] for made in events(service, DecisionMade) for each in made.answers]
    assert {round(each, 2) for each in seen} <= {0.11, 0.9} and seen


GRADE = "judges: [{name: grade, kind: llm, settings: {agent: grader}}]"


def test_the_dollars_of_a_judge_count(client, upstream, agent, serve):
    """What a model that checks an answer costs is part of the round's dollars and of its budget."""
    lines = [
        agent(upstream.script("a", [completion(content="one")]), "a", price=PRICE.format(1)),
        agent(upstream.script("b", [completion(content="other")]), "b", price=PRICE.format(1)),
        agent(upstream.script("grader", [completion(content="score: 3")]), "grader", price=PRICE.format(5)),
    ]
    rules = "rules: [{deny: [grader]}]"
    service = serve(*lines, router=f"checks: [grade], attempts: 2, {rules}", after=GRADE)
    answers = ask(client, service, 4)
    assert all("grade 0.30" in each.headers["x-bot-orch-steps"] for each in answers)
    assert all(
        float(each.headers["x-bot-orch-cost-usd"]) == 6.0 * int(each.headers["x-bot-orch-attempts"]) for each in answers
    )
    capped = f"checks: [grade], attempts: 2, {rules}, budget: {{per_request_usd: 6.5}}"
    service = serve(*lines, router=capped, after=GRADE)
    assert {each.headers["x-bot-orch-attempts"] for each in ask(client, service, 4)} == {"1"}


def test_a_verdict_that_cannot_be_read_costs_what_it_costs(client, upstream, agent, serve):
    lines = [
        agent(upstream.script("a", [completion(content="one")]), "a", price=PRICE.format(1)),
        agent(upstream.script("b", [completion(content="other")]), "b", price=PRICE.format(1)),
        agent(upstream.script("grader", [completion(content="fine, I think")]), "grader", price=PRICE.format(5)),
    ]
    service = serve(*lines, router="checks: [grade], attempts: 2, rules: [{deny: [grader]}]", after=GRADE)
    (answer,) = ask(client, service)
    assert "grade could not run" in answer.headers["x-bot-orch-steps"]
    assert float(answer.headers["x-bot-orch-cost-usd"]) == 6.0 * int(answer.headers["x-bot-orch-attempts"])


def test_an_agent_that_refuses_the_parameter_is_asked_without_it(serve, agent, upstream, client):
    def refuses(exchange):
        if "logprobs" in exchange.document:
            exchange.reply(
                400, {"error": {"message": "Unsupported parameter: 'logprobs'", "type": "invalid_request_error"}}
            )
        else:
            exchange.reply(200, completion(content="fine"))

    lines = [agent(upstream.script(name, [refuses]), name) for name in ("one", "two")]
    service = serve(*lines, router="signal: logprobs, attempts: 2")
    assert {each.parse().choices[0].message.content for each in ask(client, service, 5)} == {"fine"}
    refused = [name for name, document in upstream.requests if "logprobs" in document]
    assert len(refused) == len(set(refused)), "once each"


def test_an_agent_that_tells_nothing_serves_all_the_same(pair, client):
    service = pair("signal: logprobs, attempts: 2", "")
    answers = ask(client, service, 3)
    assert all("nothing is known of it" in each.headers["x-bot-orch-steps"] for each in answers)


BAD = {
    "checks: [nobody]": "checks: 'nobody' is not a judge",
    "checks: [people]": "of kind thumbs, which does not judge one answer",
    "checks: [right], attempts: 1": "attempts: is 1",
    "checks: [right], success_reward: 1.0": "success_reward: would teach",
    "signal: logprobs": "signal: is logprobs, which agents of kind openai alone tell",
    "checks: [right, right]": "checks: holds 'right' twice",
}


@pytest.mark.parametrize("router", BAD)
def test_settings_without_effect_are_refused(router):
    judges = RIGHT.replace("[{", "[{name: people, kind: thumbs}, {")
    text = f"version: 1\ndatabase: ':memory:'\nrouter: {{{router}}}\n{judges}\nagents: [{{id: a, kind: simulated}}"
    with pytest.raises(InvalidInputError) as found:
        check(parse_config(f"{text}, {{id: b, kind: simulated}}]"))
    assert BAD[router] in str(found.value)


def test_checks_need_another_agent():
    text = (
        f"version: 1\ndatabase: ':memory:'\nrouter: {{checks: [right]}}\n{RIGHT}\nagents: [{{id: a, kind: simulated}}]"
    )
    with pytest.raises(InvalidInputError, match="agents: are one: nothing follows from checks"):
        check(parse_config(text))
