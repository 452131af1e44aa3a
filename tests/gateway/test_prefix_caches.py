"""Prompts in providers' caches: what staying with an agent saves enters the decision."""

import sys
from pathlib import Path

import pytest
from upstream import completion

from bot_orch import Agent, Budget, Objective, Orchestrator, Outcome, Task
from bot_orch.agents import Price, Usage
from bot_orch.core.events import DecisionMade
from bot_orch.errors import InvalidInputError
from bot_orch.log.verification import replay
from bot_orch.service.prefixes import TURNS, PrefixCaches, prefixes_of

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from prefix_cache import play

PRICE = Price(input_usd_per_million=10.0, output_usd_per_million=10.0, cached_input_usd_per_million=1.0)
A_TOKEN = 9e-6 / TURNS  # that is cached, rather than not, spread over the turns of a switch
TALK = [{"role": "system", "content": "rules " * 4000}, {"role": "user", "content": "hello"}]
LATER = [*TALK, {"role": "assistant", "content": "Hi."}, {"role": "user", "content": "and now?"}]
BOTH = {"one": PRICE, "two": PRICE}


def caches():
    made = PrefixCaches(clock=lambda: made.now)
    made.now = 0.0
    return made


def note(made, prompt, agent="one", caller="app", cached=0):
    usage = Usage(prompt[-1].tokens, 10, cached_tokens=cached)
    made.note(caller, prompt, agent, usage, price=PRICE)


def test_the_agent_with_the_beginning_is_cheaper_until_the_cache_forgets():
    made, first, later = caches(), prefixes_of(TALK, {}), prefixes_of(LATER, {})
    assert made.extra_usd("app", first, BOTH) is None
    note(made, first)
    saved = first[-1].tokens * A_TOKEN
    assert made.extra_usd("app", later, BOTH) == {"one": pytest.approx(-saved, abs=1e-8), "two": 0.0}
    assert made.extra_usd("other", later, BOTH) is None, "callers do not share caches"
    changed = [{"role": "system", "content": "other " * 4000}, *LATER[1:]]
    assert made.extra_usd("app", prefixes_of(changed, {}), BOTH) is None
    assert made.extra_usd("app", prefixes_of(LATER, {"tools": [{"type": "function"}]}), BOTH) is None
    made.now = 301.0
    assert made.extra_usd("app", later, BOTH) is None


def test_short_prompts_are_not_kept():
    made, turns = caches(), [{"role": "user", "content": "x" * 4000}]
    note(made, prefixes_of(turns, {}))
    assert made.extra_usd("app", prefixes_of([*turns, *turns], {}), BOTH) is None


def test_an_agent_that_never_reports_cached_tokens_is_not_believed():
    made, prompt = caches(), prefixes_of(TALK, {})
    for _ in range(50):
        note(made, prompt)
    reports = caches()
    for _ in range(50):
        note(reports, prompt, cached=prompt[-1].tokens)
    never, always = (each.extra_usd("app", prompt, BOTH)["one"] for each in (made, reports))
    assert abs(never) < 0.1 * prompt[-1].tokens * A_TOKEN
    assert abs(always) < 0.1 * prompt[-1].tokens * A_TOKEN, "what is usual is in the mean already"
    cold = prefixes_of([{"role": "system", "content": "other " * 4000}], {})
    note(reports, cold, agent="two")
    assert reports.extra_usd("app", cold, BOTH)["one"] > 0.8 * cold[-1].tokens * A_TOKEN, "cold is dearer than usual"


def test_forgetting_begins_with_the_oldest():
    made = PrefixCaches(most=2)
    prompts = [prefixes_of([{"role": "user", "content": f"{number} " * 4000}], {}) for number in range(3)]
    for prompt in prompts:
        note(made, prompt)
    assert [made.extra_usd("app", prompt, BOTH) is None for prompt in prompts] == [True, False, False]


@pytest.mark.parametrize("how", [{"objective": Objective(usd=100.0)}, {"constraints": [Budget(0.011)]}])
def test_extra_dollars_move_the_choice(how):
    router = Orchestrator([Agent("one", price=0.01), Agent("two", price=0.01)], seed=1, **how)
    for _ in range(60):
        router.observe(router.decide(Task()).id, Outcome.completed(0.5, elapsed_s=1.0, cost_usd=0.015))
    plain = router.prepare(Task()).propensities
    moved = [router.prepare(Task(extra_usd={"one": usd, "two": -usd})).propensities[0] for usd in (-0.01, 0.01)]
    assert moved[0] >= plain[0] >= moved[1] and moved[0] > moved[1] + 0.5
    assert router.prepare(Task(extra_usd={})).propensities.tolist() == plain.tolist()


@pytest.mark.parametrize("wrong", [{"one": float("nan")}, {"one": "cheap"}, 3])
def test_wrong_dollars_are_named(wrong):
    with pytest.raises(InvalidInputError, match=r"task\.extra_usd"):
        Task(extra_usd=wrong)


@pytest.mark.parametrize("session", [{}, {"bot_orch": {"session": "s"}}])
def test_a_gateway_stays_where_the_prompt_is(serve, agent, upstream, session):
    """No stickiness is set; the expected dollars are in the log, and decisions follow from it again."""
    price = "input_usd_per_million: 10, cached_input_usd_per_million: 1, output_usd_per_million: 10"
    answer = completion(content="yes")
    count = prefixes_of(TALK, {})[-1].tokens
    details = {"prompt_tokens": count, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}
    url = upstream.script("shared", [{**answer, "usage": details}])
    lines = [agent(url, name, price=price) for name in ("one", "two")]
    router = "success_reward: 0.5, objective: {usd: 20}, floor: 0.0"
    service = serve(*lines, router=router, policy="epsilon-greedy")
    first = service.post("/v1/chat/completions", {"model": "auto", "messages": TALK, **session})
    chosen = first.headers["x-bot-orch-agent"]
    service.post("/v1/chat/completions", {"model": "auto", "messages": LATER, **session})
    rows = service.call(lambda: list(service.runtime.writer.log.read()))
    made = [event for row in rows if isinstance(event := row.event(), DecisionMade)]
    assert made[0].task.extra_usd is None
    extra = made[1].task.extra_usd
    assert extra[chosen] == pytest.approx(-count * A_TOKEN, rel=0.01) and set(extra.values()) - {extra[chosen]} == {0.0}
    assert service.call(lambda: replay(service.runtime.writer.log).ok)


def test_without_a_price_for_cached_tokens_nothing_is_noted(serve, agent, upstream):
    service = serve(agent(upstream.script("shared", [completion(content="yes")])), router="objective: {usd: 20}")
    for _ in range(2):
        service.post("/v1/chat/completions", {"model": "auto", "messages": TALK})
    assert not service.runtime.caches._until


def test_the_simulation_saves_dollars():
    settings = {"conversations": 30, "turns": 18, "agents": 3, "difference": 0.0, "weight": 20.0, "seed": 1}
    blind, aware, pinned = (play(mode, **settings) for mode in ("blind", "aware", "pinned"))
    assert aware.switches < blind.switches and aware.usd < blind.usd
    assert aware.cached / aware.read > blind.cached / blind.read and pinned.switches == 0
