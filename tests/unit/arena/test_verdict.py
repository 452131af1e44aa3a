"""The verdict: intervals that cover, words that follow the numbers, the plane, and a run without figures."""

import json
import sys

import numpy as np
import pytest

from bot_orch import Orchestrator
from bot_orch.cli import main
from bot_orch.lab.arena import run
from bot_orch.lab.arena.plots import has_plane, plane_points
from bot_orch.lab.arena.run import ArenaPlan, run_arena
from bot_orch.lab.arena.verdict import difference, pays_from, verdicts
from bot_orch.lab.arena.warm import warm_start
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.replay_metrics import fixed_agent, net_weight, scored


def toy(tasks=200, seed=0):
    rng = np.random.default_rng(seed)
    hard = rng.random(tasks) < 0.4
    reward = np.column_stack([np.where(hard, 0.2, 0.9), np.full(tasks, 0.95)])
    usd = np.column_stack([np.full(tasks, 0.001), np.full(tasks, 0.01)])
    return Matrix("toy", ("small", "large"), reward, features=hard[:, None].astype(float), cost_usd=usd)


def table(path, matrix):
    lines = ["task,agent,reward,cost,feature_hard"]
    for t, m in np.ndindex(matrix.reward.shape):
        row = [t, matrix.agents[m], matrix.reward[t, m], matrix.cost_usd[t, m], matrix.features[t, 0]]
        lines.append(",".join(map(str, row)))
    path.write_text("\n".join(lines))
    return str(path)


@pytest.fixture
def arena(tmp_path, capsys, monkeypatch):
    def arena(*words, matrix=None, policies=("linucb",), out="out", page=False):
        monkeypatch.setattr(run, "can_draw", lambda: page)  # drawing takes longer than playing
        path = table(tmp_path / "toy.csv", matrix or toy())
        common = ["--seeds", "3", "--jobs", "1", "--quiet", "--out", str(tmp_path / out), "--policies", *policies]
        status = main(["arena", path, *words, *common])
        told = capsys.readouterr()
        if status:
            return status, told.err
        (found,) = json.loads((tmp_path / out / "verdict.json").read_text())["verdicts"]
        return found, told.out

    return arena


def payload(replay, agent):
    return scored(replay, fixed_agent(replay, agent))


def test_the_interval_covers_the_difference_of_new_tasks():
    """Tasks drawn anew a hundred times: the interval of about 95 of them holds the true difference."""
    inside = 0
    for draw in range(100):
        rng = np.random.default_rng(draw)
        reward = (rng.random((120, 2)) < [0.6, 0.7]).astype(float)
        replay = Replay(Matrix("m", ("a", "b"), reward), seeds=range(2))
        found = difference(payload(replay, 1), payload(replay, 0), "reward")
        assert found.difference == pytest.approx(reward[:, 1].mean() - reward[:, 0].mean())
        inside += found.low <= 0.1 <= found.high
    assert 88 <= inside <= 99


def test_more_policies_compared_make_a_wider_interval():
    replay = Replay(Matrix("m", ("a", "b"), np.random.default_rng(0).random((80, 2))), seeds=range(2))
    one, ten = (difference(payload(replay, 1), payload(replay, 0), "reward", compared=k) for k in (1, 10))
    assert ten.low < one.low < one.high < ten.high


def test_the_total_is_ahead_from_the_last_crossing_on():
    base = {"totals": {"round": [1, 10, 20, 30], "reward": [1.0, 5.0, 9.0, 12.0]}}
    for totals, want in (([1, 4, 10, 13], 20), ([2, 6, 10, 13], 1), ([2, 6, 10, 11], None), ([0, 9, 8, 13], 30)):
        assert pays_from({"totals": {"round": [1, 10, 20, 30], "reward": totals}}, base, "reward") == want


def test_a_trade_names_what_a_dollar_must_be_worth(arena):
    found, told = arena(policies=("epsilon-greedy",))
    assert found["agent"] == "large" and found["why"] == "the most expensive agent" and found["baseline"] == "now"
    reward, usd = found["differences"]["reward"], found["differences"]["cost_usd"]
    assert found["outcome"] == "trade" and reward["high"] < 0 and usd["high"] < 0
    told = " ".join(told.split())
    assert "epsilon-greedy earns less reward than sending everything to large and costs less." in told
    assert f"worth more than {reward['difference'] / usd['difference']:.3g} reward" in told
    assert "Compared with the most expensive agent; --baseline names another." in told


def test_dollars_that_count_change_the_verdict(arena):
    found, told = arena("--cost-weight", "60", "--baseline", "large", policies=("bot",))
    assert found["metric"] == "net" and found["outcome"] == "better" and found["net_weight"] == 60.0
    assert "use bot instead of sending everything to large." in " ".join(told.split())
    assert found["differences"]["net"]["low"] > 0 and found["pays_from"] < found["rounds"]


def test_a_dearer_and_better_policy_than_the_cheap_agent(arena):
    found, told = arena("--baseline", "small")
    assert found["outcome"] == "better" and found["agent"] == "small"
    assert "worth less than" in " ".join(told.split()) and "--baseline names another" not in told


def test_no_difference_is_said(arena):
    rng = np.random.default_rng(3)
    same = Matrix("toy", ("a", "b"), rng.random((90, 2)), cost_usd=np.ones((90, 2)), features=rng.random((90, 1)))
    found, told = arena(matrix=same, policies=("ucb1", "linucb"))
    told = " ".join(told.split())
    assert found["outcome"] == "no difference" and found["compared"] == 2
    assert (
        f"keep sending everything to {found['agent']}: no difference found between it and" in told
        and "the best of 2 policies" in told
    )
    assert "Its total" not in told, "no round from which it is ahead for good"
    best = same.agents[int(same.reward.mean(axis=0).argmax())]
    assert found["agent"] == best and "Compared with the agent with the highest mean reward" in told


def test_where_dollars_do_not_differ_the_best_agent_is_the_baseline(arena):
    """Not the first column: a policy that beats small alone is worth nothing where large alone earns more."""
    rng = np.random.default_rng(5)
    reward = (rng.random((120, 2)) < [0.4, 0.9]).astype(float)
    same = {"cost_usd": np.ones((120, 2)), "features": rng.random((120, 1))}
    found, told = arena(matrix=Matrix("toy", ("small", "large"), reward, **same), policies=("linucb",))
    assert found["agent"] == "large" and found["outcome"] != "better"
    assert "sending everything to large" in " ".join(told.split())


def test_tasks_that_the_baseline_cannot_take_are_counted(arena):
    matrix = toy(60)
    matrix.reward[:7, 1] = np.nan
    found, told = arena("--baseline", "large", matrix=matrix)
    assert found["replaced"] == [7, 60]
    assert "In 7 of 60 tasks large has no value: a random other agent stands for it." in " ".join(told.split())
    assert "has no value" not in arena("--baseline", "small", matrix=matrix, out="again")[1]


def test_what_a_saving_may_cost_is_said(arena):
    rng = np.random.default_rng(4)
    reward = (rng.random((60, 2)) < 0.7).astype(float)
    usd = np.column_stack([np.full(60, 0.001), np.full(60, 0.01)])
    like = Matrix("toy", ("small", "large"), reward, cost_usd=usd, features=rng.random((60, 1)))
    found, told = arena(matrix=like, policies=("ucb1",))
    low = found["differences"]["reward"]["low"]
    assert found["outcome"] == "cheaper" and low < -0.05
    assert f"to save money, if it may cost up to {-low:.4f} of reward per task" in " ".join(told.split())


@pytest.mark.parametrize("tasks", [1, 3, 19])
def test_a_few_tasks_decide_nothing(arena, tasks):
    """Three wins in three tasks have an interval of no width; chance makes them too."""
    reward = np.column_stack([np.ones(tasks), np.zeros(tasks)])
    usd = np.column_stack([np.full(tasks, 0.001), np.full(tasks, 0.01)])
    few = Matrix("toy", ("small", "large"), reward, cost_usd=usd, features=np.zeros((tasks, 1)))
    found, told = arena(matrix=few, policies=("ucb1",))
    told = " ".join(told.split())
    assert found["outcome"] == "too few tasks"
    assert "too few tasks to decide: keep sending everything to large, and evaluate 20 tasks at least." in told


def test_a_budget_has_a_net_metric_at_its_shadow_price(arena, tmp_path):
    found, _ = arena("--budget", "0.006", policies=("lints",))
    matrix = toy()
    replay = Replay(matrix, seeds=range(3), budget_usd=0.006)
    slope = (matrix.reward[:, 1].mean() - matrix.reward[:, 0].mean()) / 0.009
    assert net_weight(replay) == pytest.approx(slope) == found["net_weight"]
    assert found["mix"] < found["differences"]["reward"]["policy"], "the feature tells which tasks are hard"
    assert found["budget_usd"] == 0.006
    assert "toy,shuffled,lints,net," in (tmp_path / "out" / "arena.csv").read_text()


def test_a_policy_can_be_the_baseline(arena):
    found, told = arena("--baseline", "ucb1")
    assert found["baseline"] == "ucb1" and found["agent"] is None and list(found["policies"]) == ["linucb"]
    assert "sending everything" not in told
    status, error = arena("--baseline", "nobody", out="other")
    assert status == 2 and "no agent and no policy 'nobody'; name an agent (small, large) or a policy" in error


def test_the_page_begins_with_the_verdict_and_shows_the_plane(arena, tmp_path):
    pytest.importorskip("matplotlib")
    found, _ = arena(policies=("epsilon-greedy",), page=True)
    page = (tmp_path / "out" / "index.html").read_text()
    assert (
        page.index("<h2>Verdict</h2>") < page.index("<h2>How to read it</h2>") < page.index('<section id="shuffled">')
    )
    assert found["text"].split(". ")[0] in page and 'class="out"' in page
    assert (tmp_path / "out" / "figures" / "plane-shuffled-00.png").exists()


def test_without_dollars_there_is_no_plane(tmp_path):
    np.savez(tmp_path / "plain.npz", reward=np.random.default_rng(0).random((30, 2)))
    seen = []
    run_arena(ArenaPlan([tmp_path / "plain.npz"], ["ucb1"], tmp_path / "out", seeds=2), lambda *each: seen.append(each))
    assert not (tmp_path / "out" / "figures" / "plane-shuffled-00.png").exists()
    (found,) = json.loads((tmp_path / "out" / "verdict.json").read_text())["verdicts"]
    assert list(found["differences"]) == ["reward"] and found["mix"] is None


def test_every_policy_and_the_hull_are_on_the_plane(tmp_path):
    replay = Replay(toy(), seeds=range(2))
    random = {**payload(replay, 0), "kind": "baseline", "fixed": {}}
    results = {("toy", "shuffled", "random"): random, ("toy", "shuffled", "x"): {**payload(replay, 1), "kind": "ours"}}
    assert has_plane(results, "toy", "shuffled") and not has_plane(results, "other", "shuffled")
    assert plane_points(results, "toy", "shuffled")["x"] == pytest.approx((0.01, 0.95))
    assert verdicts(results) == [], "nothing to compare with"


def test_a_baseline_beyond_the_budget_is_not_kept():
    replay = Replay(toy(), seeds=range(2))
    now = {**payload(replay, 1), "kind": "baseline", "agent": "large", "why": "named by --baseline"}
    rows = {"now": now, "hull": {**payload(replay, 0), "kind": "baseline", "budget_usd": 0.006}}
    rows["small"] = {**payload(replay, 0), "kind": "ours"}
    (found,) = verdicts({("toy", "shuffled", name): row for name, row in rows.items()})
    assert found.outcome == "within budget" and found.differences["reward"].sign < 0
    assert "use small: sending everything to large exceeds the budget of 0.006 dollars" in found.text


def test_tables_are_written_without_the_extra_that_draws(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    words = ["--policies", "ucb1", "--seeds", "2", "--jobs", "1", "--quiet", "--out", str(tmp_path / "out")]
    assert main(["arena", table(tmp_path / "toy.csv", toy(40)), *words]) == 0
    told = capsys.readouterr()
    assert "note: no page: drawing needs pip install" in told.err and "report:" not in told.out
    assert "floor:   0.02\n" in told.out
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"arena.csv", "verdict.json"}
    assert not (tmp_path / "out" / "index.html").exists()


def test_a_user_who_holds_the_table_is_offered_a_warm_start(arena):
    """The feature tells which agent is right; half of the tasks teach it, the other half is earned with it."""
    rng = np.random.default_rng(5)
    hard = rng.random(400) < 0.5
    reward = np.column_stack([~hard, hard]).astype(float)
    features, usd = hard[:, None].astype(float), np.ones((400, 2))
    given = Matrix("toy", ("small", "large"), reward, features=features, cost_usd=usd)
    found, told = arena(matrix=given, policies=("ucb1",))
    told, warm = " ".join(told.split()), found["warm"]
    gain = warm["differences"]["reward"]
    assert (warm["taught"], warm["played"], warm["metric"]) == (200, 200, "reward") and gain["low"] > 0.2
    assert gain["policy"] > 0.9 and 0.4 < gain["baseline"] < 0.6
    assert "You hold the table: with a warm start (learn_from) on 200 of these tasks, auto against" in told
    assert "use it." in told and "out of reach" not in told


def test_a_warm_start_plays_tasks_that_it_was_not_taught(monkeypatch):
    seen = []
    learn, decide = Orchestrator.learn_from, Orchestrator.decide
    monkeypatch.setattr(Orchestrator, "learn_from", lambda self, e, **k: (seen.append(k["tasks"]), learn(self, e, **k)))
    monkeypatch.setattr(Orchestrator, "decide", lambda self, t, e: (seen.append(t), decide(self, t, e))[1])
    reward = np.random.default_rng(0).random((60, 2))
    reward[:30, 0] = 1.0
    matrix = Matrix("toy", ("a", "b"), reward, features=np.arange(60.0)[:, None])
    found = warm_start(Replay(matrix, "given", seeds=[0]))
    taught = {task.features for task in seen[0]}
    assert taught == {(float(row),) for row in range(30)} and taught.isdisjoint(task.features for task in seen[1:])
    assert len(seen) == 31 and found["agent"] == "a", "the best agent of what was taught, not of what is played"
    assert found["single"]["metrics"]["reward"] == [pytest.approx(reward[30:, 0].mean())]


def test_few_tasks_runtimes_and_budgets_have_no_warm_start(arena):
    assert warm_start(Replay(toy(39), seeds=[0])) is None
    assert warm_start(Replay(toy(40), rounds=80, seeds=[0])) is None, "tasks that are played twice would be taught"
    assert arena("--budget", "0.006", policies=("lints",))[0]["warm"] is None


def test_agents_that_cannot_take_every_task_are_taught_and_played():
    reward = np.random.default_rng(1).random((80, 3))
    reward[::3, 1] = np.nan
    found = warm_start(Replay(Matrix("toy", ("a", "b", "c"), reward), seeds=range(2)))
    assert all(np.isfinite(found[who]["metrics"]["reward"]).all() for who in ("policy", "single"))


def test_one_set_has_no_count_of_sets(tmp_path):
    pytest.importorskip("matplotlib")
    table(tmp_path / "one.csv", toy(40)), table(tmp_path / "two.csv", toy(50))
    for names, shown in ((["one"], False), (["one", "two"], True)):
        out = tmp_path / "-".join(names)
        run_arena(ArenaPlan([tmp_path / f"{name}.csv" for name in names], ["ucb1"], out, seeds=2), lambda *_: None)
        page = (out / "index.html").read_text()
        assert ("best or draw" in page, "1 of 1" in page) == (shown, False)
