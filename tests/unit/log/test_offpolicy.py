"""Off-policy evaluation: intervals cover at the stated rate, thin support is refused, logs are read rightly."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from scribing import Scribe

from bot_orch import InvalidInputError, Orchestrator, Outcome, Router, Task
from bot_orch.cli import main
from bot_orch.core.events import Censored, FeedbackGiven
from bot_orch.errors import MissingExtraError
from bot_orch.evaluation import Refusal, evaluate
from bot_orch.evaluation.export import COLUMNS, decision_rows, export
from bot_orch.evaluation.offpolicy import LogSample, estimates, support
from bot_orch.evaluation.rounds import collect
from bot_orch.log import MemoryLog, SqliteLog


def world(seed, n=600, m=3):
    """Contexts, logged choices, and the exact value of a target that prefers agent 2."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 1))
    means = np.column_stack([0.5 + 0.3 * x[:, 0], np.full(n, 0.4), 0.5 - 0.3 * x[:, 0]])
    p = np.column_stack([np.full(n, 0.5), np.full(n, 0.3), np.full(n, 0.2)])
    p = np.where(x > 0, p, p[:, ::-1])
    u = rng.random(n)
    agent = (u[:, None] > p.cumsum(axis=1)).sum(axis=1)
    reward = (rng.random(n) < means[np.arange(n), agent]).astype(float)
    target = np.tile([0.2, 0.2, 0.6], (n, 1))
    return LogSample(agent, reward, p, features=x), target, 0.2 * 0.5 + 0.2 * 0.4 + 0.6 * 0.5


def coverage(runs, level, distort=lambda logged: logged):
    hits = dict.fromkeys(("IPS", "SNIPS", "DR"), 0)
    for seed in range(runs):
        logged, target, truth = world(seed)
        for estimate in estimates(distort(logged), target, confidence=level):
            hits[estimate.method] += estimate.low <= truth <= estimate.high
    return {name: count / runs for name, count in hits.items()}


@pytest.mark.parametrize("level", [0.95, 0.8])
def test_intervals_cover_at_the_stated_rate(level):
    runs = 400
    slack = 3.5 * np.sqrt(level * (1 - level) / runs)
    for method, rate in coverage(runs, level).items():
        assert abs(rate - level) < slack + 0.01, f"{method} covers {rate} at {level}"


def test_wrong_propensities_are_caught_by_the_coverage_check():
    def distort(logged):
        return LogSample(
            logged.agent, logged.reward, np.full_like(logged.propensities, 1 / 3), features=logged.features
        )

    rates = coverage(100, 0.95, distort)
    assert rates["IPS"] < 0.85 or rates["SNIPS"] < 0.85


def test_doubly_robust_is_narrower_than_ips():
    logged, target, _ = world(1)
    width = {e.method: e.high - e.low for e in estimates(logged, target)}
    assert width["DR"] < width["IPS"] and width["SNIPS"] < width["IPS"]


@pytest.mark.parametrize(("factor", "offset"), [(1e-6, 0.0), (1e6, 0.0), (1.0, 1e7)])
def test_units_and_origin_of_features_do_not_matter(factor, offset):
    logged, target, _ = world(1)
    moved = LogSample(logged.agent, logged.reward, logged.propensities, features=factor * logged.features + offset)
    for one, other in zip(estimates(logged, target), estimates(moved, target), strict=True):
        assert [other.value, other.low, other.high] == pytest.approx([one.value, one.low, one.high], abs=1e-6)


def test_a_feature_that_never_changes_says_nothing():
    logged, target, _ = world(1)
    more = np.column_stack([logged.features, np.full(len(logged), 1.7e9)])
    found = estimates(LogSample(logged.agent, logged.reward, logged.propensities, features=more), target)
    for one, other in zip(estimates(logged, target), found, strict=True):
        assert other.value == pytest.approx(one.value)


def test_thin_support_is_refused_with_a_reason():
    logged, target, _ = world(1)
    effective = support(logged, target).effective_n
    needed = float(f"{len(logged) * 10_000 / effective:.1g}")
    refused = estimates(logged, target, min_effective=10_000)
    assert refused.reason == "few_decisions" and f"decisions (about {needed:,.0f})" in str(refused)
    hidden = logged.propensities.copy()
    hidden[logged.agent != 2, 2] = 0.0
    sample = LogSample(logged.agent, logged.reward, hidden, features=logged.features)
    assert estimates(sample, target).reason == "uncovered" and "probability zero" in str(estimates(sample, target))
    rare = logged.propensities.copy()
    rare[0] = 1e-6
    sample = LogSample(logged.agent, logged.reward, rare, features=logged.features)
    assert estimates(sample, target, min_effective=0).reason == "one_decision"
    empty = LogSample(logged.agent[:0], logged.reward[:0], logged.propensities[:0], features=logged.features[:0])
    assert support(empty, target[:0]).effective_n == 0.0
    with pytest.raises(InvalidInputError):
        estimates(logged, target, confidence=1.0)


def fill(scribe, n=400):
    rng = np.random.default_rng(0)
    means = {"a": 0.2, "b": 0.5, "c": 0.8}
    for number in range(n):
        decision_id, made = scribe.decide(Task(f"=t{number}"))
        if number % 10:
            scribe.feedback(decision_id, float(rng.random() < means[made.agent]))
    scribe.log.commit()


def test_large_weights_that_are_missing_by_chance_count():
    """A third of the tasks hardly ever gets agent 1: without such a decision the log knows nothing of it there."""
    p = np.repeat([[0.01, 0.99], [0.99, 0.01]], [200, 100], axis=0)
    agent = np.repeat([1, 0], [200, 100])
    found = support(LogSample(agent, np.ones(300), p, features=np.zeros((300, 0))), np.tile([0.0, 1.0], (300, 1)))
    assert found.effective_n == pytest.approx(300**2 / (200 / 0.99 + 100 / 0.01))


def test_a_log_is_evaluated(scribe):
    fill(scribe)
    best = {e.method: e for e in evaluate(scribe.log, "agent:c", min_effective=30).estimates}
    worst = {e.method: e for e in evaluate(scribe.log, "agent:a", min_effective=10).estimates}
    assert best["DR"].low > worst["DR"].value and best["DR"].low < 0.8 < best["DR"].high
    for target in ("uniform", "ucb1", "bot"):
        found = evaluate(scribe.log, target, min_effective=10)
        assert found.missing == 40 and found.decisions == 360 and len(found.estimates) == 3
    with pytest.raises(InvalidInputError, match="does not occur"):
        evaluate(scribe.log, "agent:zed")
    refused = evaluate(scribe.log, "uniform", max_missing=0.05)
    assert isinstance(refused, Refusal) and refused.reason == "no_rewards"


def test_decisions_in_which_an_agent_could_not_be_chosen_are_counted(tmp_path, capsys):
    with Router(["a", "b", "c"], "random", seed=1, path=tmp_path / "log") as router:
        for number in range(300):
            made = router.decide(Task(), ["a", "b"] if number % 3 == 0 else None)
            router.observe(made.id, Outcome.completed(0.9 if made.agent == "c" else 0.1))
    assert main(["evaluate", str(tmp_path / "log"), "--policy", "agent:c", "agent:a", "--min-effective", "10"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("could not be chosen") == 1
    assert "in 100 decisions c could not be chosen: there an even choice counts" in printed


def test_shadow_calls_are_not_decisions_without_a_reward(scribe):
    """Their answers are not delivered, so nobody reports of them."""
    fill(scribe, 90)
    for _ in range(120):
        scribe.decide(by="shadow")
    scribe.log.commit()
    found = evaluate(scribe.log, "uniform", min_effective=10)
    assert (found.decisions, found.missing) == (81, 9)


def test_a_policy_that_learns_is_compared_with_as_many_first_rounds(tmp_path, capsys):
    """The log earns more and more; a policy that learned from a few rounds is not held against its last ones."""
    log = SqliteLog(tmp_path / "log.sqlite")
    writer = Scribe(log, Orchestrator(["a", "b", "c"], "random", floor=0.0, seed=2))
    for number in range(600):
        decision_id, _ = writer.decide(Task(f"t{number}"))
        if number % 3:
            writer.feedback(decision_id, number / 600)
    log.commit()
    found = evaluate(log, "ucb1", min_effective=10)
    assert 100 < found.learned < 300 and found.logged_mean == pytest.approx(0.5, abs=0.01)
    scored = [number / 600 for number in range(found.learned) if number % 3]
    assert found.logged_first == pytest.approx(np.mean(scored))
    assert evaluate(log, "uniform", min_effective=10).logged_first is None
    log.close()
    assert main(["evaluate", str(tmp_path / "log.sqlite"), "--policy", "ucb1", "uniform", "--min-effective", "10"]) == 0
    told = (
        f"values are those of its first {found.learned} rounds; in its own first {found.learned} rounds the log earned"
    )
    out = capsys.readouterr().out
    assert f"{told} {found.logged_first:.4f}" in out and out.count("values are those") == 1


def test_a_revised_reward_replaces_the_first(scribe):
    decision_id, _ = scribe.decide()
    scribe.feedback(decision_id, 0.2)
    scribe.feedback(decision_id, 0.9, effect="revision")
    scribe.log.commit()
    assert collect(scribe.log).rewards == {decision_id: 0.9}


def test_a_report_of_dollars_alone_takes_no_reward_back(scribe):
    decision_id, _ = scribe.decide()
    scribe.put(FeedbackGiven("first", decision_id, "learned", 0.7, 2.0), decision_id)
    scribe.put(FeedbackGiven("later", decision_id, "revision", cost_usd=0.1), decision_id)
    scribe.log.commit()
    (line,) = decision_rows(scribe.log)
    assert (line["reward"], line["elapsed_s"], line["cost_usd"]) == (0.7, 2.0, 0.1)
    assert collect(scribe.log).rewards == {decision_id: 0.7}


def test_export_to_parquet(scribe, tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    fill(scribe, 30)
    assert export(scribe.log, tmp_path / "x.parquet") == 30
    table = parquet.read_table(tmp_path / "x.parquet")
    assert tuple(table.column_names) == COLUMNS and table.num_rows == 30
    assert table["task_id"][0].as_py() == "=t0" and table["reward"][0].as_py() is None
    assert sum(table["propensity"].to_pylist()) > 0.0
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match="parquet"):
        export(scribe.log, tmp_path / "y.parquet")
    assert not (tmp_path / "y.parquet").exists()


def test_export(scribe, tmp_path):
    fill(scribe, 30)
    assert export(scribe.log, tmp_path / "x.csv") == 30
    with (tmp_path / "x.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS and rows[0]["task_id"] == "'=t0" and rows[1]["reward"] in ("0.0", "1.0")
    assert rows[0]["reward"] == ""
    assert export(scribe.log, tmp_path / "x.jsonl", events=True) == scribe.ledger.seq
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert lines[1]["kind"] == "decision@1" and len(lines[1]["numbers"]) == 6
    assert tuple(lines[1]["numbers"]) == ("propensity", "estimate", "exploration", "distance", "alignment", "cost")
    with pytest.raises(InvalidInputError, match="choose one of"):
        export(scribe.log, tmp_path / "x.xlsx")
    with pytest.raises(InvalidInputError, match="jsonl"):
        export(scribe.log, tmp_path / "x.csv", events=True)


def test_export_gives_a_timeout_the_zero_that_it_counts_as():
    scribe = Scribe(MemoryLog(), Orchestrator(["a", "b"], "bot", patience_s=10.0))
    timeout, cancelled, patient, short = (scribe.decide()[0] for _ in range(4))
    for decision_id, reason in ((timeout, "timeout"), (cancelled, "cancelled")):
        told = FeedbackGiven(reason, decision_id, "learned", elapsed_s=2.0, completed=False, reason=reason)
        scribe.put(told, decision_id)
    scribe.put(Censored(patient, 20.0, "horizon"), patient)
    scribe.put(Censored(short, 5.0, "horizon"), short)
    scribe.log.commit()
    found = {line["decision_id"]: line.get("reward") for line in decision_rows(scribe.log)}
    assert found == {timeout: 0.0, cancelled: None, patient: 0.0, short: None}
    assert {key: value for key, value in found.items() if value is not None} == collect(scribe.log).rewards
