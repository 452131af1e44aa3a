"""Mode observe: the baseline serves, the router decides in the background, and some answers are compared."""

import asyncio
import csv
import math
from collections import Counter

import numpy as np
import pytest
from service_running import until

from bot_orch.agents.base import CallReply
from bot_orch.cli.main import main
from bot_orch.core.events import DecisionMade, FeedbackGiven
from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.rounds import collect
from bot_orch.evaluation.savings import observed
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay
from bot_orch.service.config import parse_config
from bot_orch.service.judges.answer import AnswerGiven
from bot_orch.service.judges.pairs import PairwiseJudge, PairwiseSettings

CONFIG = """
version: 1
database: {database}
listen: {{host: 127.0.0.1, port: {port}}}
router: {{policy: auto, seed: 4, floor: 0.05, ROUTER}}
JUDGES
agents:
  - {{id: short, kind: python, settings: {{path: "judging_fixtures:short"}}, price: {{per_call_usd: 0.001}}}}
  - {{id: long, kind: python, settings: {{path: "judging_fixtures:long"}}, price: {{per_call_usd: 0.01}}}}
"""
LENGTH = 'judges: [{{name: length, kind: python, settings: {{path: "judging_fixtures:long_is_good"}}}}]'
PAIRS = (
    "judges: [{{name: pairs, kind: pairwise, settings: {{agent: {{kind: python, settings: "
    '{{path: "judging_fixtures:longer_is_better"}}}}}}}}]'
)
CHAT = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}


def config(judges=LENGTH, *, mode="observe", usd_per_day=1e9, judge=""):
    shadow = f"{{{{baseline: long, usd_per_day: {usd_per_day:.0f}{judge}}}}}"
    return CONFIG.replace("ROUTER", f"mode: {mode}, shadow: {shadow}").replace("JUDGES", judges)


def chats(service, n, **more):
    answers = [service.post("/v1/chat/completions", {**CHAT, **more}) for _ in range(n)]
    assert {each.status for each in answers} == {200}
    until(lambda: not any(name.startswith(("shadow", "judge ")) for name in service.runtime.background))
    return answers


def events(path):
    return [row.event() for row in open_log(str(path)).read()]


def made(path):
    return [event for event in events(path) if isinstance(event, DecisionMade)]


def test_the_baseline_serves_and_the_choice_of_the_router_is_asked_beside_it(start, tmp_path):
    service = start(config())
    answers = chats(service, 80)
    assert {each.headers["x-bot-orch-agent"] for each in answers} == {"long"}
    service.stop()
    found = made(tmp_path / "log.sqlite")
    shadows = [event for event in found if event.by == "shadow"]
    assert sum(event.by == "observe" for event in found) == 80
    assert len(shadows) >= 78, "all but the first, before dollars have accrued"
    assert {event.agent for event in shadows} == {"short", "long"}
    assert all(event.propensity < 1.0 for event in shadows), "drawn by the router"
    log = open_log(str(tmp_path / "log.sqlite"))
    compared = observed(collect(log))
    assert compared.n == len(shadows)
    share = sum(event.agent == "short" for event in shadows) / len(shadows)
    assert compared.differences["usd"].value == pytest.approx(-0.009 * share)
    assert compared.differences["reward"].value == pytest.approx(-0.8 * share)
    assert compared.total_usd().value == pytest.approx(-0.009 * share * 80)
    assert "80 requests: $" in str(compared) and "less" in str(compared)
    assert replay(log).ok


def test_the_command_says_what_would_have_been_saved(start, tmp_path, capsys):
    service = start(config())
    chats(service, 80)
    service.stop()
    assert main(["savings", str(tmp_path / "log.sqlite")]) == 0
    assert "The router, had it served, compared with\n  what was served (mode observe), " in capsys.readouterr().out


def test_the_dashboard_says_what_would_have_been_saved(start):
    service = start(config())
    assert "Nothing to compare yet." in service.get("/").body.decode()
    service.stop()
    service = start(config())
    chats(service, 80)
    page = service.get("/").body.decode()
    assert "Savings" in page
    assert "what was served (mode observe)" in page and "less; quality -0." in page and "±" in page
    table = csv.DictReader(service.get("/dashboard/agents.csv").body.decode().splitlines())
    assert {row["agent"]: float(row["usd"]) for row in table} == pytest.approx({"short": 0.001, "long": 0.01})
    service.stop()
    plain = CONFIG.replace(", ROUTER", "").replace("JUDGES", "")
    service = start(plain)
    assert "observe" in service.get("/dashboard/live").json()["parts"]["savings"], "against the dearest agent"
    service.stop()
    service = start(plain.replace("0.001", "0.01"))
    assert service.get("/dashboard/live").json()["parts"]["savings"] == "", "no agent is dearer than the other one"


def test_a_request_gets_the_agent_that_it_names(start):
    service = start(config())
    assert chats(service, 3, model="short")[-1].headers["x-bot-orch-agent"] == "short"


def test_no_more_is_spent_on_comparisons_than_the_cap(start, tmp_path):
    service = start(config(usd_per_day=1))
    chats(service, 30)
    service.stop()
    assert [event.by for event in made(tmp_path / "log.sqlite")] == ["observe"] * 30, "a cent takes 15 minutes"


def test_a_router_that_serves_is_compared_with_the_baseline(start, tmp_path):
    service = start(config(mode="serve"))
    chats(service, 60)
    service.stop()
    found = made(tmp_path / "log.sqlite")
    beside = [event for event in found if event.by == "shadow"]
    assert beside and {event.agent for event in beside} == {"long"}
    other = {event.task.id for event in found if event.by == "policy" and event.agent == "short"}
    assert {event.task.id for event in beside} <= other


def test_a_judge_of_pairs_rewards_both_answers_and_others_stay_without(start, tmp_path):
    service = start(config(PAIRS, judge=", judge: pairs"))
    chats(service, 40)
    until(lambda: not service.runtime.ledger.pending)
    service.stop()
    found = made(tmp_path / "log.sqlite")
    rewards = {
        event.decision_id: event.reward
        for event in events(tmp_path / "log.sqlite")
        if isinstance(event, FeedbackGiven) and event.judge == "pairs"
    }
    short = {event.task.id: event.id for event in found if event.by == "shadow" and event.agent == "short"}
    assert short
    assert {rewards[one] for one in short.values()} == {0.0}
    served = {event.id: event.task.id for event in found if event.by == "observe"}
    assert {served[one]: value for one, value in rewards.items() if one in served} == dict.fromkeys(short, 1.0)


@pytest.mark.parametrize("shadow", [True, False])
def test_answers_tell_their_dollars_and_the_baselines(start, shadow):
    """Without a baseline, the dearest agent is it."""
    service = start(config() if shadow else CONFIG.replace("ROUTER", "").replace("JUDGES", LENGTH))
    (answer,) = chats(service, 1, model="short")
    assert float(answer.headers["x-bot-orch-cost-usd"]) == 0.001
    assert float(answer.headers["x-bot-orch-baseline-usd"]) == 0.01


@pytest.mark.parametrize(
    ("router", "judges", "message"),
    [
        ("mode: observe", "", "router.shadow: is missing in mode observe"),
        ("shadow: {baseline: a, usd_per_day: 1}", "", "router.shadow.judge: is missing: nothing would judge"),
        ("shadow: {baseline: c, usd_per_day: 1}", "", "router.shadow.baseline: 'c' is not an agent"),
        ("shadow: {baseline: a, usd_per_day: 1, judge: x}", "", "'x' is no judge of kind pairwise"),
        ("floor: 0.1", "{name: p, kind: pairwise, settings: {agent: a}}", "judges pairs, and gets none"),
        (
            "guarantee: {baseline: a, loss_at_most: 0.1}, shadow: {baseline: a, usd_per_day: 1, judge: p}",
            "{name: p, kind: pairwise, settings: {agent: a}}",
            "router.guarantee: needs a reward of every answer",
        ),
        (
            "mode: observe, guarantee: {baseline: a, loss_at_most: 0.1}, shadow: {baseline: a, usd_per_day: 1}",
            "{name: r, kind: regex, settings: {pattern: x}}",
            "router.guarantee: has no effect in mode observe",
        ),
        (
            "shadow: {baseline: a, usd_per_day: 1, judge: p}",
            "{name: p, kind: pairwise, rate: 0.1, settings: {agent: a}}",
            "judges.p.rate: has no effect on pairs",
        ),
        (
            "success_reward: 1.0, shadow: {baseline: a, usd_per_day: 1, judge: p}",
            "{name: p, kind: pairwise, settings: {agent: a}}",
            "router.success_reward: would count beside preferences",
        ),
        (
            "guarantee: {baseline: a, loss_at_most: 0.1}, rules: [{deny: [a]}]",
            "{name: r, kind: regex, settings: {pattern: x}}",
            "router.rules[0]: keeps all requests from a, the baseline",
        ),
    ],
)
def test_comparisons_without_effect_are_refused(router, judges, message):
    from bot_orch.service.build import check

    agents = "[{id: a, kind: human}, {id: b, kind: human}]"
    with pytest.raises(InvalidInputError) as refused:
        check(parse_config(f"version: 1\nrouter: {{{router}}}\njudges: [{judges}]\nagents: {agents}"))
    assert message in str(refused.value)


def test_a_shadow_cannot_serve_as_the_baseline_of_mode_observe():
    router = "router: {mode: observe, shadow: {baseline: a, usd_per_day: 1}}"
    with pytest.raises(InvalidInputError, match=r"agents\.a\.shadow: is set for the baseline, which serves"):
        parse_config(f"version: 1\n{router}\nagents: [{{id: a, kind: python, shadow: 0.1}}, {{id: b, kind: human}}]")


class Biased:
    """A judge of pairs that sees two numbers, prefers the larger one with some noise, and often the first place."""

    def __init__(self, first):
        self.first, self.rng = first, np.random.default_rng(1)

    async def call(self, request):
        text = request.messages[1]["content"]
        a, b = (float(text.partition(f"<answer_{each}>\n")[2].partition("\n")[0]) for each in "AB")
        if self.rng.random() < self.first:
            return CallReply("better: A")
        better = self.rng.random() < 1.0 / (1.0 + math.exp(b - a))
        return CallReply("better: A" if better else "better: B")


async def preferences(first, n=400):
    guard = Biased(first)
    judge = PairwiseJudge("pairs", PairwiseSettings("x"), lambda: guard)
    one, other = AnswerGiven("d-1", "one", text="1.0"), AnswerGiven("d-2", "other", text="0.0")
    values = [await judge.preference(one, other) for _ in range(n)]
    back = [(await judge.preference(other, one)).value for _ in range(n)]
    placed = Counter(each.place for each in values)
    assert placed["first"] > 4 * placed["second"] if first else placed["first"] < 2 * placed["second"]
    return judge, sum(each.value for each in values) / n, sum(back) / n


@pytest.mark.parametrize("first", [0.0, 0.6])
def test_the_order_of_two_answers_is_measured_and_cancels(first):
    judge, value, back = asyncio.run(preferences(first))
    fair = (1.0 - first) / (1.0 + math.exp(-1.0)) + 0.5 * first
    assert value == pytest.approx(fair, abs=0.05)
    assert value + back == pytest.approx(1.0, abs=0.05)
    assert judge.bias.value == pytest.approx(0.5 * first, abs=0.05)


class InFull:
    """A judge of pairs that prefers the first place, and waits until all pairs have been asked about."""

    def __init__(self, abreast):
        self.left, self.all = abreast, asyncio.Event()

    async def call(self, request):
        self.left -= 1
        if self.left <= 0:
            self.all.set()
        await self.all.wait()
        return CallReply("better: tie" if "<answer_A>\nequal" in request.messages[1]["content"] else "better: A")


def test_what_decided_is_told_pair_by_pair_with_several_at_a_time():
    async def judged():
        guard = InFull(3)
        judge = PairwiseJudge("pairs", PairwiseSettings("x"), lambda: guard)
        texts = ("equal", "one", "equal")
        pairs = [[AnswerGiven(f"{name}-{i}", name, text=text) for name in "de"] for i, text in enumerate(texts)]
        return [each.place for each in await asyncio.gather(*(judge.preference(*pair) for pair in pairs))]

    assert asyncio.run(judged()) == ["", "first", ""]


def test_one_order_alone_would_be_biased():
    """The control: the verdict of the call that shows an answer first."""

    async def verdicts(n=300):
        guard = Biased(0.6)
        judge = PairwiseJudge("pairs", PairwiseSettings("x"), lambda: guard)
        one, other = AnswerGiven("d-1", "one", text="0.0"), AnswerGiven("d-2", "other", text="0.0")
        alone = [await judge._verdict(one, other) for _ in range(n)]
        return sum(alone) / n, sum([(await judge.preference(one, other)).value for _ in range(n)]) / n

    alone, both = asyncio.run(verdicts())
    assert alone > 0.7
    assert both == pytest.approx(0.5, abs=0.06)
