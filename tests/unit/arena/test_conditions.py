"""Conditions: what each changes, that everybody meets the same, and that good and broken players come out in order."""

from __future__ import annotations

import csv
import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bot_orch.cli import main
from bot_orch.errors import InvalidInputError
from bot_orch.lab.arena.conditions import CONDITIONS, find_conditions, play_staged, staged
from bot_orch.lab.arena.conditions.attacks import Steered, attacked_rounds, false_rewards
from bot_orch.lab.arena.conditions.play import rounds_under, score_staged
from bot_orch.lab.arena.registry import discover_entrants
from bot_orch.lab.environments.gaming import GamingSettings, gaming_matrix
from bot_orch.lab.environments.matrix.model import Matrix, RuntimeOutcomes
from bot_orch.lab.environments.replay.bandit import Replay, RoundContext, RoundOutcome, Setup
from bot_orch.lab.environments.replay.staged import NEVER, Stage, StagedReplay, unrolled
from bot_orch.lab.harness.live import LivePlayer, live
from bot_orch.lab.harness.players import Pick, Player, PolicyPlayer, play
from bot_orch.lab.harness.replay_metrics import chosen, score
from bot_orch.policies.registry import make_policy
from bot_orch.rng import derive_key

ROUNDS, BEST = 300, 2


def _matrix(tasks: int = 150, *, runtime: bool = False) -> Matrix:
    rng = np.random.default_rng(3)
    reward = (rng.random((tasks, 4)) < [0.3, 0.5, 0.9, 0.7]).astype(float)
    if not runtime:
        return Matrix("toy", ("poor", "fair", "best", "good"), reward, features=rng.normal(size=(tasks, 2)))
    times = RuntimeOutcomes(rng.exponential(5.0, reward.shape), reward.astype(np.int64), np.full(reward.shape, 100.0))
    return Matrix("runs", ("a", "b", "c", "d"), times.reward, runtime=times, runtime_only=True, elapsed_s=times.time_s)


def _staged(condition: str, *, rounds: int = ROUNDS, seeds: int = 2, matrix: Matrix | None = None) -> StagedReplay:
    rounds, matrix = rounds_under(condition, rounds, rounds), matrix or _matrix()
    if condition == "steering" and matrix.text is None:
        matrix = replace(matrix, text=np.array([f"task {n % 7} of {n % 11}" for n in range(matrix.n_tasks)]))
    return staged(matrix, condition, "shuffled", rounds=rounds, seeds=seeds)


class Knowing(Player):
    """Reads what will be scored: the best agent of every round, or the worst."""

    def __init__(self, replay: StagedReplay, sign: float) -> None:
        truth = replay.scored().matrix.reward
        self._choice = np.argmax(np.where(np.isfinite(replay.matrix.reward), sign * truth, -9.0), axis=1)

    def choose(self, before: RoundContext, u: np.ndarray) -> Pick:
        return Pick(self._choice[before.t - 1 :][:1])

    def learn(self, before: RoundContext, after: RoundOutcome) -> None:
        pass


class Noting(Player):
    """Asks one agent for ever, and notes when it is told what."""

    def __init__(self, agent: int = BEST) -> None:
        self.agent, self.told, self.forgotten, self.now = agent, [], [], 0

    def choose(self, before: RoundContext, u: np.ndarray) -> Pick:
        self.now = before.t
        return Pick(np.array([self.agent]))

    def learn(self, before: RoundContext, after: RoundOutcome) -> None:
        self.told.append((before.t, self.now, after.outcomes()[0]))

    def forget(self, before: RoundContext) -> None:
        self.forgotten.append((before.t, self.now))


def _noted(condition: str, agent: int = BEST, **settings: object) -> Noting:
    player = Noting(agent)
    play(player, _staged(condition, seeds=1, **settings).only(0))
    return player


@pytest.mark.parametrize("condition", CONDITIONS)
def test_everybody_meets_the_same_and_players_come_out_in_order(condition: str) -> None:
    replay = _staged(condition, rounds=150 if condition == "long" else ROUNDS)
    again = _staged(condition, rounds=150 if condition == "long" else ROUNDS)
    assert np.array_equal(replay.matrix.reward, again.matrix.reward, equal_nan=True)
    assert all(np.array_equal(a.late, b.late) for a, b in zip(replay.stages, again.stages, strict=True))
    found = {}
    for name, sign in {"oracle": 1.0, "broken": -1.0}.items():
        traces = [play(Knowing(one, sign), one) for one in map(replay.only, range(2))]
        truth = replay.scored()
        agents = np.concatenate([trace.agent for trace in traces], axis=1)
        found[name] = np.mean(score(truth, chosen(truth, agents))["metrics"]["normalised"])
    learning = discover_entrants()["thompson-beta+ot"].build
    attack = CONDITIONS[condition].attack
    found["learning"] = np.mean(score_staged(learning, replay, attack)["metrics"]["normalised"])
    assert found["oracle"] > found["learning"] + 0.1
    assert found["learning"] > max(found["broken"] + 0.3, 0.1)


def test_delayed_outcomes_come_later_and_those_of_the_best_agent_latest() -> None:
    waits = {agent: [now - t for t, now, _ in _noted("delayed", agent).told] for agent in (0, BEST)}
    assert min(waits[BEST]) == 0
    assert np.mean(waits[BEST]) > 2.0 * np.mean(waits[0])
    assert 15 * 1.1 < np.mean(waits[BEST]) < 15 * 1.9, "a twentieth of 300 rounds, times 1.5, short of those cut off"


def test_half_of_the_outcomes_never_come_and_are_given_up() -> None:
    player = _noted("censored/missing")
    lost = np.sum(_staged("censored/missing", seeds=1).stages[0].late[:, 0] == NEVER)
    assert 0.4 * ROUNDS < lost < 0.6 * ROUNDS
    assert len(player.told) == ROUNDS - lost
    assert all(now - t == 30 for t, now in player.forgotten)
    assert len(player.forgotten) > 0.3 * ROUNDS


def _rows(stage: Stage, runtime: bool) -> np.ndarray:
    """What the rounds of seed 0 would earn without the condition."""
    return unrolled(Replay(_matrix(runtime=runtime), rounds=stage.rounds, seeds=[0]))[0].matrix.reward


@pytest.mark.parametrize("runtime", [False, True])
def test_calls_beyond_the_patience_are_told_as_timeouts_and_earn_nothing(runtime: bool) -> None:
    stage = _staged("censored/patience", seeds=1, matrix=_matrix(runtime=runtime)).stages[0]
    done = stage.matrix.reward.size if not runtime else np.sum(stage.matrix.runtime.event)
    lost = stage.cut if not runtime else stage.cut & (_rows(stage, runtime) > 0.0)
    assert 0.25 < lost.sum() / (done + lost.sum() * runtime) < 0.35, "30 % of what would have completed"
    assert (stage.matrix.reward[stage.cut] == 0.0).all()
    limit = stage.matrix.elapsed_s.max()
    told = [outcome for *_, outcome in _noted("censored/patience", 0, matrix=_matrix(runtime=runtime)).told]
    cut = [outcome for outcome in told if outcome.reason == "timeout" and outcome.elapsed_s == limit]
    assert len(cut) >= stage.cut[:, 0].sum() > 0
    assert all(outcome.reward is None or outcome.reward == 0.0 for outcome in cut)


def test_the_best_agent_dies_and_the_second_best_is_dead() -> None:
    told = {agent: [outcome.event for *_, outcome in _noted("dead-agent", agent).told] for agent in (0, 3, BEST)}
    assert all(told[0])
    assert not any(told[3])
    assert told[BEST] == [True] * 100 + [False] * 200


def test_who_ignores_timeouts_stays_with_the_dead_agent() -> None:
    class Deaf(PolicyPlayer):
        def learn(self, before: RoundContext, after: RoundOutcome) -> None:
            if after.reason is None or after.reason[0] is None:
                super().learn(before, after)

    shares = {}
    for kind in (Deaf, PolicyPlayer):
        replay = _staged("dead-agent")
        trace = play_staged(lambda setup, kind=kind: kind(make_policy("thompson-beta"), setup), replay)
        shares[kind] = np.isin(trace.agent[200:], (BEST, 3)).mean()
    assert shares[Deaf] > 0.6
    assert shares[PolicyPlayer] < 0.4


def test_drifting_swaps_everything_that_belongs_to_an_agent() -> None:
    matrix = _matrix(runtime=True)
    plain = unrolled(Replay(matrix, rounds=ROUNDS, seeds=[0]))[0].matrix
    changed = _staged("drifting", seeds=1, matrix=matrix).stages[0]
    ranking, half = list(changed.ranking), ROUNDS // 2
    for mine, other in zip(ranking, ranking[::-1], strict=True):
        assert np.array_equal(changed.matrix.reward[half:, mine], plain.reward[half:, other])
        assert np.array_equal(changed.matrix.runtime.time_s[half:, mine], plain.runtime.time_s[half:, other])
        assert np.array_equal(changed.matrix.elapsed_s[:half, mine], plain.elapsed_s[:half, mine])


def test_newcomers_are_added_when_they_join() -> None:
    replay = _staged("cold-start", seeds=1).only(0)
    player = live(discover_entrants()["auto"].build(replay.setup), replay.setup)
    assert isinstance(player, LivePlayer)
    agents = play(player, replay).agent[:, 0]
    assert not (agents[:100] == BEST).any()
    assert (agents[200:] == BEST).mean() > 0.4
    assert player._router.agents[-2:] == (str(BEST), "1"), "the best one, then the middling one"


def _worded() -> Matrix:
    rng = np.random.default_rng(5)
    raw = np.where(rng.random((150, 2)) < 0.1, np.nan, rng.normal(size=(150, 2)) * [1.0, 1e4])
    code = rng.random(150) < 0.5
    text = np.array([f"{'def f(x)' if each else 'tell me of town'} {n}" for n, each in enumerate(code)])
    reward = (rng.random((150, 2)) < np.where(code[:, None], [0.9, 0.2], [0.2, 0.9])).astype(float)
    return Matrix("worded", ("a", "b"), reward, features=raw, text=text)


@pytest.mark.parametrize("world", ["features", "embeddings", "runtime", "features and text"])
def test_the_orchestrator_chooses_as_the_engine_in_a_batch_does(world: str) -> None:
    matrix = {
        "features": _matrix(),
        "embeddings": gaming_matrix(GamingSettings(tasks=150, agents=5)),
        "runtime": _matrix(runtime=True),
        "features and text": _worded(),
    }[world]
    build = discover_entrants()["auto"].build
    replays = [StagedReplay(unrolled(Replay(matrix, rounds=150, seeds=[0])), [0]) for _ in range(2)]
    key = derive_key("orchestrator", int(replays[0].setup.keys[0] >> np.uint64(1)))
    replays[0]._draw_keys = np.array([key], dtype=np.uint64)
    batch = play(build(replays[0].setup), replays[0])
    alone = play(live(build(replays[1].setup), replays[1].setup), replays[1])
    assert np.array_equal(batch.agent, alone.agent)


@pytest.mark.parametrize("kind", ["constant", "copy", "imitate", "sleeper", "collusion"])
def test_cheats_win_the_judge_and_lose_in_truth(kind: str) -> None:
    stage = _staged(f"poisoned/{kind}", seeds=1).stages[0]
    cheats = slice(4, None)
    late = slice(ROUNDS // 2, None)
    assert stage.matrix.n_agents == 4 + (4 if kind == "collusion" else 1)
    assert stage.matrix.reward[late, cheats].mean() > stage.matrix.reward[late, :4].mean(axis=0).max()
    assert stage.truth[late, cheats].mean(axis=0).max() <= stage.truth[late, :4].mean(axis=0).min() + 1e-9
    if kind == "sleeper":
        assert np.array_equal(stage.truth[:150, 4], stage.truth[:150, BEST])


def test_alignment_and_audits_hold_against_a_cheat_that_rewards_alone_fall_for() -> None:
    replay = _staged("poisoned/constant")
    guarded = np.mean(score_staged(discover_entrants()["auto"].build, replay)["metrics"]["normalised"])
    fooled = np.mean(_rewards_alone(replay))
    assert guarded > 0.5
    assert fooled < guarded - 0.5


def _rewards_alone(replay: StagedReplay) -> list[float]:
    class Trusting(PolicyPlayer):
        def learn(self, before: RoundContext, after: RoundOutcome) -> None:
            after = RoundOutcome(after.agent, after.reward)
            super().learn(before, after)

    truth = replay.scored()
    trace = play_staged(lambda setup: Trusting(make_policy("thompson-beta"), setup), replay)
    return score(truth, chosen(truth, trace.agent))["metrics"]["normalised"]


def _priced() -> Matrix:
    """The dear agent is the better one on a third of the tasks, and the text says which."""
    rng = np.random.default_rng(6)
    hard = rng.random(300) < 1 / 3
    text = np.array([f"{'prove the theorem' if each else 'say hello to'} number {n}" for n, each in enumerate(hard)])
    reward = np.stack([np.where(hard, 0.1, 0.9), np.where(hard, 0.9, 0.7)], axis=1)
    return Matrix("priced", ("cheap", "dear"), reward, cost_usd=np.tile([0.001, 0.01], (300, 1)), text=text)


def test_a_suffix_steers_a_router_that_reads_texts_and_costs_dollars() -> None:
    replay = _staged("steering", seeds=3, matrix=_priced())
    found = score_staged(discover_entrants()["lints"].build, replay, CONDITIONS["steering"].attack)["metrics"]
    assert np.mean(found["steered"]) > np.mean(found["unsteered"]) + 0.1
    assert np.mean(found["cost_usd_change"]) > 0.0
    deaf = score_staged(discover_entrants()["auto-no-context"].build, replay, CONDITIONS["steering"].attack)["metrics"]
    assert deaf["steered"] == deaf["unsteered"], "a router that does not read the prompt cannot be steered by it"
    assert deaf["cost_usd_change"] == deaf["reward_change"] == [0.0] * 3


def test_a_budget_bounds_what_steering_costs() -> None:
    limit = 0.004
    under = staged(_priced(), "steering", "shuffled", rounds=ROUNDS, seeds=2, budget_usd=limit)
    found = score_staged(discover_entrants()["auto"].build, under, CONDITIONS["steering"].attack)["metrics"]
    assert max(found["cost_usd"]) < 1.05 * limit


def test_only_attacked_prompts_get_a_suffix_and_the_rest_is_as_it_was() -> None:
    replay = _staged("steering", seeds=1, matrix=_priced())
    mask, target = attacked_rounds(replay.only(0))
    assert target == 1
    assert 0.15 < mask.mean() < 0.35
    seen: list[tuple[int, np.ndarray]] = []

    class Watching(Noting):
        def choose(self, before: RoundContext, u: np.ndarray) -> Pick:
            assert before.inputs is not None
            seen.append((before.t - 1, before.inputs[0]))
            return super().choose(before, u)

    one = replay.only(0)
    play(Steered(Watching(0), one), one)
    assert one.inputs is not None
    for t, inputs in seen:
        assert np.array_equal(inputs, one.inputs.values[t]) != mask[t]


def test_false_rewards_break_learning_at_the_share_that_the_means_say() -> None:
    matrix = _matrix(600)  # means 0.3 to 0.9: a router that follows them breaks at 0.6 / 1.6 = 0.375
    stage = unrolled(Replay(matrix, rounds=600, seeds=[0]))[0]
    best = []
    for share in (0.3, 0.45):
        changed = false_rewards(stage, np.random.default_rng(0), share=share)
        best.append(int(changed.matrix.reward.mean(axis=0).argmax()))
        assert np.array_equal(changed.truth, stage.matrix.reward)
    assert best == [BEST, 0]


def test_steering_needs_texts() -> None:
    with pytest.raises(InvalidInputError, match="--conditions: steering needs texts, toy has none"):
        staged(_matrix(), "steering", "shuffled", rounds=10, seeds=1)


@pytest.mark.parametrize("name", ["auto", "thompson-beta", "vw-regcb", "river-ucb"])
def test_a_restart_changes_nothing(name: str) -> None:
    if name.startswith("vw"):
        pytest.importorskip("vowpal_wabbit_next")
    if name.startswith("river"):
        pytest.importorskip("river")
    build = discover_entrants()[name].build
    found = score_staged(build, _staged("restart"))["metrics"]
    assert found["unchanged"] == [1.0, 1.0]
    assert found["reward"] == score_staged(build, _staged("delayed"))["metrics"]["reward"]


def test_who_loses_its_state_in_a_restart_is_found_out() -> None:
    class Forgetful(LivePlayer):
        def restarted(self) -> Player:
            return Forgetful(self._settings, self._setup)

        def __init__(self, settings: object, setup: Setup) -> None:
            super().__init__(settings, setup)
            self._setup = setup

        def learn(self, before: RoundContext, after: RoundOutcome) -> None:
            if before.t in self._made:
                super().learn(before, after)

    def build(setup: Setup) -> Player:
        return Forgetful(PolicyPlayer(make_policy("ucb1"), setup).engine.settings, setup)

    assert max(score_staged(build, _staged("restart"))["metrics"]["unchanged"]) < 0.95


def test_long_runs_redraw_noise_and_score_what_the_file_says() -> None:
    stage = _staged("long", rounds=60, seeds=1).stages[0]
    assert stage.rounds == 600
    differ = stage.matrix.reward != stage.truth
    assert 0.01 < differ.mean() < 0.1, "a tenth is drawn anew, and some of it is the same"
    plain = unrolled(Replay(_matrix(), rounds=600, seeds=[0]))[0].matrix
    assert np.array_equal(stage.truth, plain.reward)
    times = _staged("long", rounds=60, seeds=1, matrix=_matrix(runtime=True)).stages[0].matrix.runtime.time_s
    assert len(np.unique(times)) > 1000, "150 tasks of 4 agents"


def test_phases_have_their_own_best_agent() -> None:
    replay = _staged("drifting").scored()
    best = score(replay, lambda values: values[replay.rows, np.where(np.arange(ROUNDS) < 150, 2, 0)[:, None]])
    assert np.mean(best["metrics"]["normalised"]) == pytest.approx(1.0, abs=0.05)


def test_names() -> None:
    assert find_conditions([]) == ["plain"]
    assert find_conditions(["restart", "plain", "restart"]) == ["plain", "restart"]
    assert find_conditions(["all"]) == ["plain", *CONDITIONS]
    assert len(find_conditions(["poisoned"])) == 6
    with pytest.raises(InvalidInputError, match="--conditions: no condition 'rain'"):
        find_conditions(["rain"])


def test_the_command_writes_a_column_and_a_table(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    np.savez(tmp_path / "toy.npz", reward=_matrix(40).reward)
    out, words = tmp_path / "out", ["--policies", "ucb1", "--seeds", "2", "--jobs", "1", "--quiet", "--out"]
    assert main(["arena", str(tmp_path / "toy.npz"), "--conditions", "restart", "censored", *words, str(out)]) == 0
    rows = list(csv.DictReader((out / "arena.csv").read_text().splitlines()))
    assert list(rows[0])[-1] == "condition"
    assert {row["condition"] for row in rows} == {"plain", "restart", "censored/missing", "censored/patience"}
    assert {row["order"] for row in rows} == {"shuffled"}
    again = ["arena", str(tmp_path / "toy.npz"), "--conditions", "restart", "--attempts", "2", *words, str(out)]
    assert main(again) == 2
    page = (out / "index.html").read_text()
    assert "<h3>censored/patience</h3>" in page
    assert "Every choice is the same." in page


def test_what_steering_costs_is_on_the_page_and_sets_without_texts_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    matrix = _priced()
    np.savez(tmp_path / "toy.npz", reward=matrix.reward[:60], cost_usd=matrix.cost_usd[:60], text=matrix.text[:60])
    np.savez(tmp_path / "plain.npz", reward=matrix.reward[:60])
    out = tmp_path / "out"
    words = [
        "--policies",
        "ucb1",
        "--conditions",
        "steering",
        "--seeds",
        "2",
        "--jobs",
        "1",
        "--quiet",
        "--out",
        str(out),
    ]
    assert main(["arena", str(tmp_path / "toy.npz"), str(tmp_path / "plain.npz"), *words]) == 0
    assert "plain.npz: has no text, so the condition steering is not played there" in capsys.readouterr().err
    assert "<th>toy, ucb1</th>" in (out / "index.html").read_text()
    rows = list(csv.DictReader((out / "arena.csv").read_text().splitlines()))
    assert {row["dataset"] for row in rows if row["condition"] == "steering"} == {"toy"}
    assert {"steered", "unsteered", "reward_change", "cost_usd_change"} <= {row["metric"] for row in rows}


def test_the_benchmark_prints_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    script = Path(__file__).parents[3] / "benchmarks" / "arena.py"
    spec = importlib.util.spec_from_file_location("arena_tables", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    np.savez(tmp_path / "toy.npz", reward=_matrix(40).reward)
    words = ["--policies", "auto", "ucb1", "--seeds", "2", "--quiet", "--out", str(tmp_path / "out")]
    assert main(["arena", str(tmp_path / "toy.npz"), "--conditions", "restart", "delayed", *words]) == 0
    capsys.readouterr()
    module.print_conditions(module.read(tmp_path / "out"))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:5]] == ["`plain`", "`delayed`", "`restart`"]
    assert lines[3].split("|")[2:] == lines[4].split("|")[2:], "a restart changes nothing"
    assert "Choices unchanged by restarts: 1.0000, 4 runs." in lines


def test_outcomes_that_never_come_expire_in_the_orchestrator() -> None:
    replay = _staged("censored/missing", seeds=1).only(0)
    player = live(discover_entrants()["auto"].build(replay.setup), replay.setup)
    assert isinstance(player, LivePlayer)
    play(player, replay)
    lost = replay.stages[0].late[:, 0] == NEVER
    assert len(player._router.pending) == lost[-30:].sum(), "the last ones are still waited for"
    assert len(player._router.silent) == lost[:-30].sum(), "the others were dropped as silence"
