"""Lambda from a log: the choice is right where it matters, kept where it does not, and the replay is faithful."""

import re
import runpy
import sys
from functools import partial
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
from bot_orch.evaluation.evaluate import evaluate_log
from bot_orch.evaluation.lambda_choice import choose, pick_lambda
from bot_orch.evaluation.offpolicy import LogSample, ThinSupportError, difference
from bot_orch.evaluation.rounds import collect
from bot_orch.evaluation.shadow import follow, shadow, share
from bot_orch.lab.environments.gaming import GamingSettings, gaming_matrix
from bot_orch.log.stores.sqlite.log import SqliteLog
from bot_orch.transport import Cloud, Labels, ZeroOneLabels


def differing(seed, n=300):
    """Contexts, choices by skewed propensities, two targets, and the exact difference of their values."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 1))
    means = np.column_stack([0.5 + 0.3 * x[:, 0], np.full(n, 0.4), 0.55 - 0.3 * x[:, 0]])
    p = np.where(x > 0, [0.6, 0.3, 0.1], [0.1, 0.3, 0.6])
    agent = (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    reward = (rng.random(n) < means[np.arange(n), agent]).astype(float)
    target, baseline = np.tile([0.1, 0.2, 0.7], (n, 1)), np.tile([0.4, 0.5, 0.1], (n, 1))
    return LogSample(agent, reward, p, features=x), target, baseline, -0.3 * 0.5 - 0.3 * 0.4 + 0.6 * 0.55


def covered(runs, level, distort=lambda logged: logged, among=1):
    hits = 0
    for seed in range(runs):
        logged, target, baseline, truth = differing(seed)
        found = difference(distort(logged), target, baseline, confidence=level, among=among)
        hits += found.low <= truth <= found.high
    return hits / runs


@pytest.mark.parametrize("level", [0.95, 0.8])
def test_intervals_of_differences_cover_at_the_stated_rate(level):
    assert abs(covered(300, level) - level) < 3.0 * np.sqrt(level * (1 - level) / 300) + 0.01


def test_several_intervals_are_wider_than_one():
    assert covered(100, 0.8, among=8) > 0.93  # each at 0.975


def test_pairing_narrows_the_interval():
    logged, target, baseline, _ = differing(1)
    near = 0.9 * baseline + 0.1 * target
    assert (lambda d: d.high - d.low)(difference(logged, near, baseline)) < 0.1


@pytest.mark.parametrize(("policy", "least"), [("random", 0.0), ("bot", 0.1)])
def test_a_gamed_judge_that_is_audited_asks_for_alignment(policy, least):
    log = write_log(World(2), 800, policy=policy, least=least)
    found = pick_lambda(log, "bot", [0, 1, "auto"], paths=2)
    assert found.choice.changed and found.choice.recommended in (1.0, "auto")
    assert found.choice.configured == 0.0 and found.revised == 800
    rounds = found.learned[0.0]
    worth = {each: true_value("bot", each, rounds, seeds=8, least=least) for each in (0.0, found.choice.recommended)}
    assert worth[found.choice.recommended] > worth[0.0] + 0.1
    for candidate in found.choice.candidates:
        if candidate.lambda_ in worth:
            assert candidate.value.low - 0.06 < worth[candidate.lambda_] < candidate.value.high + 0.06


def play(router, matrix, tasks, put=lambda event, ref: None):
    """Rounds on a matrix of tasks with references, outputs and a gamed judge, audited; what they are truly worth."""
    worth = []
    for i in tasks:
        reference = Cloud(matrix.reference_embed[i][None])
        task = Task(f"t{i}", features=tuple(matrix.features[i]), reference=reference)
        made = router.decide(task)
        a = matrix.agents.index(made.agent)
        judged, truth = float(matrix.reward[i, a]), float(matrix.true_reward[i, a])
        output = Cloud(matrix.output_embed[i, a][None])
        router.observe(made.id, Outcome.completed(judged, output=output))
        put(record_decision(made, record_task(task)), made.id)
        put(FeedbackGiven(f"j{i}", made.id, "learned", judged, output=output.to_dict()), made.id)
        put(FeedbackGiven(f"a{i}", made.id, "revision", truth), made.id)
        worth.append(truth)
    return np.mean(worth)


def test_tasks_with_features_and_references_of_their_own():
    matrix = gaming_matrix(GamingSettings(tasks=800, agents=3), seed=1)
    make = {each: partial(Orchestrator, matrix.agents, "bot", lambda_=each, floor=0.45) for each in (0.0, "auto")}
    writer, router = Writer(), make[0.0](n_features=4)
    writer.put(Configured(router.to_json(), ENGINE))
    play(router, matrix, range(800), writer.put)
    writer.log.commit()
    found = pick_lambda(writer.log, "bot", ["auto"], paths=2)
    assert found.choice.recommended == "auto"
    for candidate in found.choice.candidates:
        parts = [play(make[candidate.lambda_](), matrix, range(k, k + 120)) for k in range(0, 680, 170)]
        assert candidate.value.low - 0.02 < np.mean(parts) < candidate.value.high + 0.02


def test_values_agree_with_what_live_routers_earn():
    """Averaged over logs of a learning, floored policy: the replay has no bias."""
    told = [
        pick_lambda(
            write_log(World(s), 300, policy="bot", least=0.1, seed=s), "bot", [1], paths=2, min_effective=20
        ).choice
        for s in range(8)
    ]
    for index, lambda_ in enumerate((0.0, 1.0)):
        values = [choice.candidates[index].value.value for choice in told]
        truth = true_value("bot", lambda_, 30, seeds=40, least=0.1)
        assert abs(np.mean(values) - truth) < 3.0 * np.hypot(np.std(values) / np.sqrt(8), 0.5 / np.sqrt(1200))


def changes(logs):
    found = [pick_lambda(log, "bot", [0, 3], paths=2, min_effective=20) for log in logs]
    return sum(each.choice.changed for each in found)


def test_where_alignment_is_irrelevant_the_configured_lambda_stays():
    logs = (write_log(World(seed, gamed=False), 120, seed=seed, audit=0.0) for seed in range(40))
    assert changes(logs) <= 3  # at most 2.5 % are wrong on that side: 1 of 40, and a margin


def test_audits_of_a_part_are_enough_if_only_they_are_scored():
    log = write_log(World(4), 1500, audit=0.25)
    found = pick_lambda(log, "bot", [0, 3], paths=2, audited=True)
    assert found.choice.recommended == 3.0 and 300 < found.decisions < 450
    assert evaluate_log(log, "agent:cheat", audited=True).estimates[3].high < 0.3
    assert evaluate_log(log, "agent:cheat").estimates[3].low > 0.5  # three in four are scored by the gamed judge
    with pytest.raises(InvalidInputError, match="no revised reward"):
        pick_lambda(write_log(World(4), 60, audit=0.0), "bot", [1], audited=True)


def test_the_same_log_gives_the_same_choice():
    log = write_log(World(5), 200)
    one, two = (pick_lambda(log, "bot", [0, 1], min_effective=10, paths=2) for _ in range(2))
    assert one.text() == two.text()


def test_thin_support_is_refused_lambda_by_lambda():
    logged, target, baseline, _ = differing(1)
    nowhere = np.where(logged.propensities == logged.propensities.min(axis=1, keepdims=True), 1.0, 0.0)
    found = choose(logged, {0.0: baseline, 1.0: target, 3.0: nowhere}, 0.0, min_effective=60)
    assert [bool(each.refused) for each in found.candidates] == [False, False, True]
    assert "are worth" in found.candidates[2].refused and found.candidates[2].gain is None
    blind = choose(logged, {0.0: nowhere, 1.0: target}, 0.0, min_effective=60)
    assert not blind.changed and "nothing can be compared" in blind.reason
    alone = choose(logged, {0.0: target, 1.0: nowhere}, 0.0, min_effective=60)
    assert "too little about every other" in alone.reason
    assert "no other was asked for" in choose(logged, {0.0: target}, 0.0, min_effective=60).reason
    with pytest.raises(InvalidInputError, match="lacks the configured lambda"):
        choose(logged, {1.0: target}, 0.0)
    with pytest.raises(ThinSupportError):
        evaluate_log(write_log(World(1), 40), "bot")


def test_a_policy_without_alignment_has_no_lambda():
    log = write_log(World(6), 60)
    with pytest.raises(InvalidInputError, match="does not use lambda"):
        pick_lambda(log, "random", [0, 1])
    with pytest.raises(InvalidInputError, match="paths"):
        pick_lambda(log, "bot", [0, 1], paths=0)
    with pytest.raises(InvalidInputError, match="lambda_"):
        pick_lambda(log, "bot", [-1.0])


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
    found = evaluate_log(writer.log, "uniform", min_effective=10)
    assert (found.decisions, found.missing, found.earlier) == (40, 20, 5)
    with pytest.raises(InvalidInputError, match=r"20 of 60 decisions have no reward \(5 earlier ones"):
        evaluate_log(writer.log, "uniform", max_missing=0.1)


@pytest.fixture
def database(tmp_path):
    log = SqliteLog(tmp_path / "log.sqlite")
    log.append(list(write_log(World(2), 500).read()))
    log.commit()
    log.close()
    return str(tmp_path / "log.sqlite")


def test_the_command_prints_a_table_and_a_recommendation(database, capsys):
    assert main(["evaluate", database, "--policy", "bot", "--lambdas", "0", "3", "auto", "--paths", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["bot", "lambda", "0", "3", "auto", "recommendation:"]
    assert "better than the configured 0 by" in lines[-1]
    learned = lines[2].split()[-1]
    assert re.search(rf"logged mean 0\.\d+, in its first {learned} rounds 0\.\d+\)", lines[0])
    assert main(["evaluate", database, "--policy", "bot", "--lambdas", "3", "--min-effective", "499"]) == 1
    assert "refused; support:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "bot", "--lambdas", "-1"], "--lambdas: holds '-1'; pass numbers"),
        (["--policy", "bot", "--lambdas", "much"], "--lambdas: holds 'much'; pass numbers"),
        (["--policy", "bot", "--lambdas", "nan"], "--lambdas: holds 'nan'; pass numbers"),
        (["--policy", "uniform", "--lambdas", "1"], "--policy: 'uniform' does not use lambda"),
        (["--policy", "agent:cheat", "--lambdas", "1"], "--policy: 'agent:cheat' does not use lambda"),
        (["--policy", "no-ot", "--lambdas", "1"], "policy: 'no-ot' does not use lambda; name a policy that does"),
        (["--policy", "bott", "--lambdas", "1"], "policy: 'bott' is not known; choose one of"),
        (["--policy", "bot", "--lambdas", "1", "--paths", "0"], "paths: is 0; pass a whole number"),
        (["--policy", "uniform", "--paths", "0"], "--paths: is 0; pass a whole number"),
        (["--policy", "uniform", "--max-missing", "7"], "--max-missing: is 7.0; pass a share"),
        (["--policy", "uniform", "--min-effective", "-1"], "--min-effective: is -1.0; pass a number"),
        (["--policy", "bot", "--lambdas", "1", "--confidence", "2"], "confidence: is 2.0; pass a number"),
    ],
)
def test_mistakes_are_named_with_a_remedy(database, arguments, message, capsys):
    assert main(["evaluate", database, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_the_page_shows_what_its_example_prints(capsys):
    root = Path(__file__).parents[3]
    (shown,) = re.findall(r"```text\n(.*?)```", (root / "docs" / "how-to" / "evaluation.md").read_text(), re.DOTALL)
    runpy.run_path(str(root / "examples" / "19_choose_lambda.py"))
    printed, number = capsys.readouterr().out, r"[+-]?\d+(?:\.\d+)?"
    assert re.sub(rf"\s*{number}", "#", printed) == re.sub(rf"\s*{number}", "#", shown)
    pairs = zip(re.findall(number, printed), re.findall(number, shown), strict=True)
    assert all(abs(float(a) - float(b)) <= 0.01 + 0.05 * abs(float(b)) for a, b in pairs)
