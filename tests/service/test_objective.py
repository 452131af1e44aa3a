"""Dollars, seconds and limits steer the gateway, without any feedback from the client."""

import numpy as np
import pytest
from service_running import until

from bot_orch import Orchestrator, Outcome, Task
from bot_orch.agents.base import Attempt
from bot_orch.agents.endings import Ending
from bot_orch.errors import InvalidInputError
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay
from bot_orch.service.build import check, make_orchestrator
from bot_orch.service.config import parse_config

CHAT = {"model": "auto", "messages": [{"role": "user", "content": "What is the capital of France?"}]}
CONFIG = """
version: 1
database: {{database}}
listen: {{{{host: 127.0.0.1, port: {{port}}}}}}
router: {{{{policy: auto, seed: 4, floor: 0.02{router}}}}}
agents:
  - {{{{id: left, kind: python, path: 'pricing:{left}', price: {{{{{left_price}}}}}}}}}
  - {{{{id: right, kind: python, path: 'pricing:{right}', price: {{{{{right_price}}}}}}}}}
"""
CHEAP, DEAR = "input_usd_per_million: 0.1, output_usd_per_million: 0.1", "output_usd_per_million: 1000"


def text(router="", *, left="twenty_tokens", right="twenty_tokens", prices=(CHEAP, DEAR)):
    return CONFIG.format(router=router, left=left, right=right, left_price=prices[0], right_price=prices[1])


def chats(service, n, body=CHAT):
    """Who answered ``n`` chats."""
    answers = [service.post("/v1/chat/completions", body) for _ in range(n)]
    assert {each.status for each in answers} == {200}
    return [each.headers["x-bot-orch-agent"] for each in answers]


@pytest.mark.parametrize("success", ["", ", success_reward: 1.0"])
def test_the_price_of_tokens_steers_equal_agents(start, success):
    """With equal answers, prices of .1 and 1000 dollars per million tokens, and no feedback at all or equal rewards."""
    asked = chats(start(text(f", objective: {{{{usd: 5.0}}}}{success}")), 60)
    assert asked[10:].count("left") >= 45


def test_without_an_objective_prices_do_not_count(start):
    assert 15 <= chats(start(text()), 60).count("left") <= 45


def rounds(service, n, *, seconds=None, first=None, reward=None):
    """Who was chosen ``n`` times; answers took as long as told, which reaches the log as from the gateway."""
    chosen = []
    for _ in range(n):
        made = service.post("/v1/decisions", {}).json()
        chosen.append(name := made["agent"])
        took = {"elapsed_s": (seconds or first)[name], "first_byte_s": (first or seconds)[name]}
        attempt = Attempt(name, made["id"], 1, ending=Ending.COMPLETED, **took)
        service.call(lambda attempt=attempt: service.runtime.on_attempt(attempt))
        if reward is not None:
            service.post("/v1/feedback", {"decision_id": made["id"], "reward": reward[name]})
    return chosen


def test_seconds_steer_without_rewards(start):
    service = start(text(", objective: {{usd: 1.0, seconds: 0.5}}", prices=("", "")))
    assert rounds(service, 40, seconds={"left": 0.1, "right": 3.0})[15:].count("left") >= 22
    expected = service.get("/v1/objective").json()["expected"]
    assert expected["right"]["seconds"] > expected["left"]["seconds"]


def test_time_to_the_first_token_steers(start):
    service = start(text(", objective: {{first_token: 0.5}}"))
    first, seconds = {"left": 2.0, "right": 0.2}, {"left": 2.1, "right": 9.0}
    assert rounds(service, 40, seconds=seconds, first=first)[15:].count("right") >= 22
    expected = service.get("/v1/objective").json()["expected"]
    assert expected["left"]["first_token_s"] > 1.0 > expected["right"]["first_token_s"]


def test_the_gateway_measures_both_times(start):
    service = start(text(", objective: {{seconds: 1.0, first_token: 1.0}}", left="begins_late", right="begins_late"))
    chats(service, 2, {**CHAT, "stream": True})
    for found in service.get("/v1/objective").json()["expected"].values():
        assert 0.03 <= found["first_token_s"] < found["seconds"] < 30.0


@pytest.mark.parametrize(
    ("limit", "name"),
    [("p95_seconds: 2.0", "deadline of 2 s"), ("p95_first_token_seconds: 2.0", "first token within 2 s")],
)
def test_limits_on_time_move_traffic_to_the_prompt_agent(start, limit, name):
    """The slow one is better, but too slow."""
    service = start(text(f", subject_to: {{{{{limit}}}}}"))
    asked = rounds(service, 120, seconds={"left": 3.0, "right": 1.0}, reward={"left": 0.95, "right": 0.7})
    assert asked[60:].count("right") >= 48
    made = service.post("/v1/decisions", {}).json()
    assert made["multipliers"][name] > 0
    explained = service.get(f"/v1/decisions/{made['id']}").json()
    assert explained["decision"]["multipliers"] == made["multipliers"]
    assert f"{name}: multiplier" in explained["why"]
    (found,) = service.get("/v1/objective").json()["limits"]
    assert (found["name"], found["limit"]) == (name, 0.05) and found["multiplier"] > 0


def test_least_dollars_within_a_loss_of_quality(start, tmp_path):
    """Rewards .8 and .82 at a thirtieth of the price: within 5 % the cheap one does; within 0.1 % it does not."""
    shares = {}
    for within in (0.05, 0.001):
        router = f", minimise: usd, subject_to: {{{{quality_within: {within}}}}}"
        prices = ("per_call_usd: 0.001", "per_call_usd: 0.03")
        service = start(
            text(router, left="eighty", right="eighty_two", prices=prices), database=tmp_path / f"{within}.sqlite"
        )
        shares[within] = chats(service, 400)[300:].count("left") / 100
        service.stop()
    assert shares[0.05] >= 0.75
    assert shares[0.001] <= shares[0.05] - 0.3


def test_the_first_requests_do_not_go_to_the_dear_one_of_two_equals():
    """``minimise: usd``, prices of 1 : 10, right in 80 %: its share of the first 400 requests, in the mean of seeds."""
    router = ", minimise: usd, subject_to: {{quality_within: 0.02}}"
    prices, shares = ("per_call_usd: 0.0004", "per_call_usd: 0.004"), []
    for seed in range(6):
        config = text(router, prices=prices).replace("seed: 4", f"seed: {seed}").format(database="x", port=0)
        made, rng, dear = make_orchestrator(parse_config(config)), np.random.default_rng(seed), 0
        for number in range(400):
            decision = made.decide(Task(str(number)))
            dear += decision.agent == "right"
            usd = 0.004 if decision.agent == "right" else 0.0004
            made.observe(decision.id, Outcome.completed(float(rng.random() < 0.8), cost_usd=usd))
        shares.append(dear / 400)
    assert np.mean(shares) < 0.25


def test_dollars_per_task_are_kept(start):
    prices = ("per_call_usd: 0.001", "per_call_usd: 0.02")
    router = ", subject_to: {{usd_per_task: 0.005}}"
    service = start(text(router, left="eighty", right="right_always", prices=prices))
    asked = chats(service, 200)
    mean = sum({"left": 0.001, "right": 0.02}[each] for each in asked[50:]) / 150
    assert 0.0025 <= mean <= 0.0065, "unconstrained it would be 0.02"
    assert service.get("/v1/objective").json()["limits"][0]["multiplier"] > 0


def test_dollars_per_day_are_paced_and_never_an_outage(start):
    router = ", success_reward: 1.0, subject_to: {{usd_per_day: 1.0}}"
    service = start(text(router, prices=("per_call_usd: 0.0001", "per_call_usd: 0.09")))
    assert chats(service, 40)[-10:] == ["left"] * 10
    view = service.get("/v1/objective").json()
    assert view["usd_per_day"] == 1.0 and view["spent_last_day_usd"] <= 0.6


def test_long_prompts_cost_more(start):
    """The dollars of a call are predicted from its text: the same weight sends short and long prompts elsewhere."""
    router = ", encoder: builtin, objective: {{usd: 20.0}}"
    prices = ("per_call_usd: 0.01", "input_usd_per_million: 20")
    service = start(text(router, left="reads", right="reads", prices=prices))
    short, long = "What is the time?", "Summarise: " + "the council met and spoke of the bridge. " * 200
    asked = {short: [], long: []}
    for number in range(160):
        prompt = (short, long)[number % 2]
        asked[prompt] += chats(service, 1, {**CHAT, "messages": [{"role": "user", "content": prompt}]})
    assert asked[short][40:].count("right") >= 32, "a tenth of a cent against a cent"
    assert asked[long][40:].count("left") >= 32, "four cents against one"


def test_usage_counts_once_and_a_replay_agrees(start, tmp_path):
    service = start(text(", objective: {{usd: 5.0, seconds: 0.1}}", prices=("per_call_usd: 0.01",) * 2))
    made = [service.post("/v1/chat/completions", CHAT).headers for _ in range(12)]
    for each in made[:6]:
        report = {"decision_id": each["x-bot-orch-decision-id"], "reward": 1.0}
        assert service.post("/v1/feedback", report).json()["effect"] == "learned"
    part = service.call(lambda: service.runtime.ledger.router._state.parts["prices"])
    assert part["outcomes"].sum() == 12
    assert part["usd"].sum() == pytest.approx(0.12)
    assert service.call(lambda: len(service.runtime.ledger.router.used)) == 6
    state = service.get("/v1/admin/state").json()["fingerprint"]
    service.stop()
    again = start(text(", objective: {{usd: 5.0, seconds: 0.1}}", prices=("per_call_usd: 0.01",) * 2))
    assert again.get("/v1/admin/state").json()["fingerprint"] == state
    again.stop()
    log = open_log(str(tmp_path / "log.sqlite"))
    found = replay(log)
    log.close()
    assert found.derived == 12 and not found.mismatches


def test_a_changed_price_counts_at_once():
    """A reload tells the new price: nobody has to pay it before it counts."""
    before, after = (
        make_orchestrator(parse_config(text(", objective: {{usd: 1.0}}", prices=prices).format(database="x", port=0)))
        for prices in (("per_call_usd: 0.5", CHEAP), ("per_call_usd: 0.05", CHEAP))
    )
    for _ in range(30):
        decision = before.decide(Task())
        cost = 0.5 if decision.agent == "left" else 1e-4
        before.observe(decision.id, Outcome.completed(1.0, cost_usd=cost))
    was = before.expected_usage()
    before.reconfigure(after.settings, after.members)
    now = before.expected_usage()
    assert now["left"]["usd"] == pytest.approx(was["left"]["usd"] / 10)
    assert now["right"] == was["right"]


@pytest.mark.parametrize(
    ("router", "field"),
    [
        ("minimise: usd", "subject_to: has no quality_within"),
        ("minimise: eur", "minimise"),
        ("subject_to: {quality: 0.1}", "did you mean 'quality_within'"),
        ("subject_to: {quality_within: 2}", "quality.within"),
        ("subject_to: {p95_seconds: -1}", "deadline.seconds"),
        ("subject_to: {p95_first_token_seconds: 0}", "first_token.seconds"),
        ("subject_to: {usd_per_task: 0}", "budget.usd"),
        ("subject_to: {usd_per_day: 0}", "usd_per_day"),
        ("subject_to: {usd_per_day: 1}, budget: {window_usd: 2}", "keep one of them"),
        ("subject_to: {shares: {nobody: 0.5}}", "'nobody' is not an agent"),
        ("subject_to: {shares: {a: 0}}", "capacity.share"),
        ("objective: {euro: 1}", "objective.euro"),
        ("subject_to: {p95_seconds: 3}, constraints: [{kind: deadline, seconds: 2}]", "holds a kind twice"),
    ],
)
def test_mistakes_are_refused_before_the_start(router, field):
    with pytest.raises(InvalidInputError, match=field):
        check(parse_config(f"version: 1\nagents: [{{id: a, kind: simulated}}]\nrouter: {{{router}}}"))


def test_files_without_an_objective_are_as_before():
    """Prices break ties alone: settings stay what they were, and no dollars are learned."""
    config = parse_config(text(", budget: {{window_usd: 5}}").format(database="x", port=0))
    router = make_orchestrator(config)
    assert [agent.price for agent in router.members] == pytest.approx([0.0001, 0.5])
    assert not {"objective", "constraints"} & set(router.settings.spec())
    assert router.expected_usage() == {"left": {}, "right": {}}


def test_a_check_compiles_what_the_first_requests_need(monkeypatch):
    seen, observe = [], Orchestrator.observe
    monkeypatch.setattr(Orchestrator, "observe", lambda self, *a, **k: seen.append(a) or observe(self, *a, **k))
    check(parse_config("version: 1\nagents: [{id: a, kind: simulated}]"))
    assert len(seen) == 1


def test_a_guarantee_keeps_the_baseline_until_there_is_credit_and_shows_its_certificate(start):
    promise = ", guarantee: {{baseline: right, loss_at_most: 0.9}}"
    service = start(text(f"{promise}, objective: {{{{usd: 5.0}}}}"))
    asked = rounds(service, 90, seconds={"left": 0.1, "right": 0.1}, reward={"left": 1.0, "right": 1.0})
    certificate = service.get("/v1/objective").json()["certificate"]
    assert set(asked[:20]) == {"right"}, "the dear one is the baseline"
    assert "left" in asked[60:]
    assert certificate["rounds"] == 90
    assert certificate["loss_bound"] <= certificate["credit"]


def test_default_rewards_certify_nothing(start):
    promise = ", guarantee: {{baseline: right, loss_at_most: 0.9}}"
    service = start(text(f"{promise}, objective: {{{{usd: 5.0}}}}, success_reward: 1.0"))
    chats(service, 70)
    before = service.get("/v1/objective").json()["certificate"]
    chats(service, 10)
    after = service.get("/v1/objective").json()["certificate"]
    assert after["loss_bound"] > before["loss_bound"], "answers without a report count as lost"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ("{loss_at_most: 0.1}", "baseline"),
        ("{baseline: right, loss_at_most: 2}", "loss"),
        ("{baseline: rigth, loss_at_most: 0.1}", "baseline: 'rigth' is not an agent; did you mean 'right'"),
    ],
)
def test_a_guarantee_that_cannot_be_given_names_its_field(given, field):
    with pytest.raises(InvalidInputError, match=f"config.router.guarantee.{field}"):
        check(parse_config(text(f", guarantee: {{{given}}}").format(database="x", port=1)))


def test_a_policy_that_is_unknown_names_its_field():
    with pytest.raises(InvalidInputError, match=r"^config\.router\.policy: 'ucb' is not known"):
        check(parse_config("version: 1\nrouter: {policy: ucb}\nagents: [{id: a, kind: simulated}]"))


def test_a_guarantee_decides_about_answers_that_were_looked_at(start, tmp_path):
    promise = (
        ", attempts: 2, checks: [size], guarantee: {{baseline: right, loss_at_most: 0.9}}, objective: {{usd: 20.0}}"
    )
    judges = "judges: [{{name: size, kind: python, settings: {{path: 'judging_fixtures:anything'}}}}]\n"
    service = start(text(promise) + judges)
    found = [service.post("/v1/chat/completions", CHAT) for _ in range(120)]
    assert {each.status for each in found} == {200}
    until(lambda: not any(name.startswith("judge ") for name in service.runtime.background))
    certificate = service.get("/v1/objective").json()["certificate"]
    assert certificate["rounds"] == 120
    assert certificate["loss_bound"] <= certificate["credit"]
    late = [each.headers["x-bot-orch-agent"] for each in found[60:]]
    assert "left" in late and "right" in late
    service.stop()
    found = replay(open_log(str(tmp_path / "log.sqlite")))
    assert found.ok
    assert found.derived == found.decisions
