"""A policy that learns from a log: the replay is faithful, and its value is that of a live router."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from audited_logs import AGENTS, GOOD, World, Writer, true_value, write_log

from bot_orch import Agent, InvalidInputError, Orchestrator, Outcome, Task
from bot_orch.cli import main
from bot_orch.core.alignment import Alignment, Reference
from bot_orch.core.engine import ENGINE
from bot_orch.core.events import Censored, Configured, FeedbackGiven, record_decision, record_task
from bot_orch.core.reward import SurvivalReward
from bot_orch.evaluation import evaluate
from bot_orch.evaluation.rounds import collect
from bot_orch.evaluation.shadow import follow, shadow, share
from bot_orch.log.stores.sqlite.log import SqliteLog
from bot_orch.rng import uniform
from bot_orch.transport import Labels, ZeroOneLabels


def value(log, lambda_, **settings):
    """The doubly robust estimate for ``bot``."""
    return evaluate(log, "bot", lambda_=lambda_, paths=2, **settings).estimates[2]


@pytest.mark.parametrize(("policy", "least"), [("random", 0.0), ("bot", 0.1)])
def test_a_gamed_judge_that_is_audited_speaks_for_alignment(policy, least):
    log = write_log(World(2), 800, policy=policy, least=least)
    plain, aligned = (value(log, lambda_) for lambda_ in (0.0, 1.0))
    assert aligned.low > plain.high
    rounds = evaluate(log, "bot", lambda_=0.0, paths=2).learned
    for found, lambda_ in ((plain, 0.0), (aligned, 1.0)):
        assert found.low - 0.06 < true_value("bot", lambda_, rounds, seeds=8, least=least) < found.high + 0.06
    unaudited = write_log(World(2), 800, policy=policy, least=least, audit=0.0)
    assert value(unaudited, 1.0).low < value(unaudited, 0.0).high


def test_values_agree_with_what_live_routers_earn():
    """Averaged over logs of a learning, floored policy: the replay has no bias."""
    logs = [write_log(World(s), 300, policy="bot", least=0.1, seed=s) for s in range(6)]
    for lambda_ in (0.0, 1.0):
        values = [value(log, lambda_, min_effective=20).value for log in logs]
        truth = true_value("bot", lambda_, 30, seeds=40, least=0.1)
        assert abs(np.mean(values) - truth) < 3.0 * np.hypot(np.std(values) / np.sqrt(6), 0.5 / np.sqrt(1200))


def test_audits_of_a_part_are_enough_if_only_they_are_scored():
    log = write_log(World(4), 1500, audit=0.25)
    found = evaluate(log, "agent:cheat", audited=True)
    assert found.estimates[2].high < 0.3 and 300 < found.decisions < 450
    assert evaluate(log, "agent:cheat").estimates[2].low > 0.5  # three in four are scored by the gamed judge
    assert evaluate(write_log(World(4), 60, audit=0.0), "bot", audited=True).reason == "no_revised_rewards"


def test_the_same_log_gives_the_same_values():
    log = write_log(World(5), 200)
    one, two = (evaluate(log, "bot", min_effective=10, paths=2) for _ in range(2))
    assert one == two
    assert evaluate(write_log(World(1), 40), "bot").reason == "few_decisions"


def test_a_policy_without_alignment_has_no_lambda():
    log = write_log(World(6), 60)
    with pytest.raises(InvalidInputError, match="does not use lambda"):
        evaluate(log, "random", lambda_=1.0)
    with pytest.raises(InvalidInputError, match="paths"):
        evaluate(log, "bot", paths=0)
    with pytest.raises(InvalidInputError, match="lambda_"):
        evaluate(log, "bot", lambda_=-1.0)


def routers():
    fixed = Reference("fixed", measure=Labels([0.8, 0.2]))
    priced = [Agent("a", cost=0.2, profile=Labels([0.7, 0.3])), Agent("b", cost=0.05), Agent("c")]
    yield "costs", Orchestrator(priced, "bot", lambda_=0.7, floor=0.15, seed=1)
    yield (
        "alignment",
        Orchestrator(
            list("abc"), "bot", lambda_=1.0, floor=0.15, alignment=Alignment(ZeroOneLabels(2), reference=fixed)
        ),
    )
    yield "auto", Orchestrator(list("abc"), "auto", lambda_="auto", floor=0.15, n_features=1, seed=4)
    yield "survival", Orchestrator(list("abc"), "ucb1", floor=0.3, reward=SurvivalReward())


def busy_log(router, n=120):
    """Profiles, some ineligible agents, outcomes that are late, early, censored or missing, with output and time."""
    rng, writer, waiting = np.random.default_rng(3), Writer(), []
    writer.put(Configured(router.to_json(), ENGINE))
    for number in range(n):
        profiles = {"b": Labels([0.5, 0.5])} if number % 7 == 0 else {}
        task = Task(f"t{number}", features=(rng.normal(),), reference=Labels([0.9, 0.1]), profiles=profiles)
        allowed = ("a", "c") if number % 11 == 0 else None
        made = router.decide(task, allowed)
        writer.put(record_decision(made, record_task(task), eligible=allowed), made.id)
        waiting.append(made.id)
        while len(waiting) > 3:
            decision_id = waiting.pop(int(rng.integers(3)))
            if rng.random() < 0.1:
                router.observe(decision_id, Outcome.censored(elapsed_s=9.0, reason="horizon"))
                writer.put(Censored(decision_id, 9.0, "horizon"), decision_id)
                continue
            reward, output = float(rng.random()), Labels(rng.dirichlet([2.0, 1.0]))
            router.observe(decision_id, Outcome.completed(reward, elapsed_s=1 + reward, output=output))
            told = FeedbackGiven(
                f"f-{decision_id}", decision_id, "learned", reward, 1 + reward, output=output.to_dict()
            )
            writer.put(told, decision_id)
            writer.put(FeedbackGiven(f"r-{decision_id}", decision_id, "revision", 0.5), decision_id)
    writer.log.commit()
    return writer.log


@pytest.mark.parametrize(("name", "router"), list(routers()), ids=lambda value: value if isinstance(value, str) else "")
def test_a_shadow_with_the_settings_of_the_log_does_what_the_log_did(name, router):
    rounds = collect(busy_log(router))
    twin = follow(rounds, shadow(rounds, router.policy.id), c=1.0)  # pi = p: it adopts every decision
    assert np.allclose(twin.propensities, rounds.propensities(), rtol=1e-9, atol=0.0)
    assert twin.learned == len(rounds.lessons) > 100
    other = follow(rounds, shadow(rounds, router.policy.id, 5.0), c=1.0)
    assert not np.allclose(other.propensities, rounds.propensities(), rtol=1e-2)


def adopted(log, path=0, lambda_=1.0):
    """Which agents a shadow adopted, and what it expected to."""
    rounds, chosen, expected = collect(log), np.zeros(len(AGENTS)), np.zeros(len(AGENTS))
    router = shadow(rounds, "bot", lambda_)
    take = router.commit

    def commit(decision, task, eligible=None):
        chosen[AGENTS.index(decision.agent)] += 1
        expected[:] += decision.propensities
        take(decision, task)

    router.commit = commit
    follow(rounds, router, path)
    return chosen, expected


def test_adopted_decisions_are_distributed_as_the_target_draws_them():
    log = write_log(World(7), 1000, policy="bot", least=0.1)  # prefers the cheat; the target avoids it
    chosen, expected = np.sum([adopted(log, path) for path in range(4)], axis=0)
    assert abs(chosen.sum() / 4 - 1000 * share(collect(log))) < 3.5 * np.sqrt(100 / 4)
    assert np.all(np.abs(chosen - expected) < 3.5 * np.sqrt(expected))


def test_learning_where_two_draws_happen_to_match_favours_what_the_log_favours():
    """The control: the log prefers the cheat; matched rows hold it far more often than the target would choose it."""
    rounds = collect(write_log(World(7), 1500, policy="bot", least=0.1))
    chosen, expected = np.zeros(len(AGENTS)), np.zeros(len(AGENTS))
    router = shadow(rounds, "bot", 1.0)
    for index, (event, task) in enumerate(zip(rounds.made, rounds.tasks, strict=True)):
        decision = router.prepare(task, event.eligible)
        edges = np.cumsum(decision.propensities)
        if AGENTS[int(np.argmax(edges > uniform(11, index)))] != event.agent:
            continue
        router.commit(replace(decision, agent=event.agent), task)
        router.observe(decision.id, rounds.lessons[event.id].outcome)
        chosen[AGENTS.index(event.agent)] += 1
        expected += decision.propensities
    assert np.any(np.abs(chosen - expected) > 3.5 * np.sqrt(expected))


def test_first_outcomes_teach_and_last_rewards_score():
    writer, router = Writer(), Orchestrator(["a", "b"], "bot", lambda_=2.0)
    writer.put(Configured(Orchestrator(["b", "x"], "bot").to_json(), ENGINE))
    writer.put(Configured(router.to_json(), ENGINE))
    ids = []
    for number in range(4):
        made = router.decide(Task(f"t{number}"))
        ids.append(made.id)
        if number == 3:
            writer.put(FeedbackGiven("early", made.id, "early", 0.3), made.id)
        writer.put(record_decision(made, record_task(Task(f"t{number}"))), made.id)
    writer.put(FeedbackGiven("one", ids[0], "learned", 0.9, output=GOOD.to_dict()), ids[0])
    writer.put(FeedbackGiven("two", ids[0], "revision", 0.1), ids[0])
    writer.put(Censored(ids[1], 5.0, "horizon"), ids[1])
    writer.put(FeedbackGiven("late", ids[1], "late", 0.4), ids[1])
    writer.log.commit()
    rounds = collect(writer.log)
    assert rounds.rewards == {ids[0]: 0.1, ids[1]: 0.4, ids[3]: 0.3} and rounds.missing == 1
    assert rounds.lessons[ids[0]].outcome.reward == 0.9 and rounds.lessons[ids[0]].outcome.output is not None
    assert rounds.lessons[ids[1]].outcome.event is False and rounds.lessons[ids[3]].before == 4
    assert rounds.revised == {ids[0]} and rounds.configured().lambda_ == 2.0
    writer.put(Configured(Orchestrator(["a", "b", "c"], "bot").to_json(), ENGINE))
    writer.log.commit()
    assert collect(writer.log).configured().lambda_ == 2.0  # nobody has decided with the third agent yet


def test_decisions_among_other_agents_are_left_out_and_counted():
    writer = Writer()
    for agents, n in (("ab", 5), ("abc", 60)):
        router = Orchestrator(list(agents), "random", seed=n)
        writer.put(Configured(router.to_json(), ENGINE))
        for number in range(n):
            made = router.decide(Task(f"{agents}{number}"))
            writer.put(record_decision(made, record_task(Task(f"t{number}"))), made.id)
            if agents == "ab" or number < 40:
                writer.put(FeedbackGiven(f"{agents}{number}", made.id, "learned", 0.5), made.id)
    writer.log.commit()
    found = evaluate(writer.log, "uniform", min_effective=10)
    assert (found.decisions, found.missing, found.earlier) == (40, 20, 5)
    refused = evaluate(writer.log, "uniform", max_missing=0.1)
    assert refused.problem.startswith("20 of 60 decisions have no reward (5 earlier ones")


@pytest.fixture
def database(tmp_path):
    log = SqliteLog(tmp_path / "log.sqlite")
    log.append(list(write_log(World(2), 500).read()))
    log.commit()
    log.close()
    return str(tmp_path / "log.sqlite")


def test_the_command_evaluates_every_lambda(database, capsys):
    command = ["evaluate", database, "--policy", "bot", "--lambda", "0", "3", "auto", "--paths", "2"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert [line.partition(" (")[0] for line in printed.splitlines() if not line.startswith(" ")] == [
        "bot, lambda 0",
        "bot, lambda 3",
        "bot, lambda auto",
    ]
    assert main([*command, "--min-effective", "499"]) == 1
    assert "bot, lambda 3: refused; 500 decisions are worth" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "bot", "--lambda", "-1"], "--lambda: holds '-1'; pass numbers"),
        (["--policy", "bot", "--lambda", "much"], "--lambda: holds 'much'; pass numbers"),
        (["--policy", "bot", "--lambda", "nan"], "--lambda: holds 'nan'; pass numbers"),
        (["--policy", "uniform", "--lambda", "1"], "policy: 'uniform' does not use lambda"),
        (["--policy", "agent:cheat", "--lambda", "1"], "policy: 'agent:cheat' does not use lambda"),
        (["--policy", "no-ot", "--lambda", "1"], "policy: 'no-ot' does not use lambda; name a policy that does"),
        (["--policy", "bott", "--lambda", "1"], "policy: 'bott' is not known; choose one of"),
        (["--policy", "bot", "--lambda", "1", "--paths", "0"], "paths: is 0; pass a whole number"),
        (["--policy", "uniform", "--paths", "0"], "paths: is 0; pass a whole number"),
        (["--policy", "uniform", "--max-missing", "7"], "max_missing: is 7.0; pass a share"),
        (["--policy", "uniform", "--min-effective", "-1"], "min_effective: is -1.0; pass a number"),
        (["--policy", "logged", "--lambda", "1"], "policy: 'logged' does not use lambda"),
        (["--policy", "bot", "--lambda", "1", "--confidence", "2"], "confidence: is 2.0; pass a number"),
    ],
)
def test_mistakes_are_named_with_a_remedy(database, arguments, message, capsys):
    assert main(["evaluate", database, *arguments]) == 2
    assert message in capsys.readouterr().err
