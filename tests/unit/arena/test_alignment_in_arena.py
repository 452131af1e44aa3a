"""Alignment in the arena, by the engine of the live router: labels, lateness, dollars; and that lambda calibrates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bot_orch.arrays import Bools, Floats
from bot_orch.cli import main
from bot_orch.core.alignment import Alignment
from bot_orch.lab.arena.registry import discover_entrants
from bot_orch.lab.environments.gaming import GamingSettings, gaming_matrix
from bot_orch.lab.environments.matrix.model import Matrix, RuntimeOutcomes
from bot_orch.lab.environments.matrix.npz import write_npz
from bot_orch.lab.environments.replay.bandit import Replay, RoundContext, RoundOutcome
from bot_orch.lab.harness.players import PolicyPlayer, ReplayTrace, alignment_for, play
from bot_orch.lab.harness.replay_metrics import chosen, score
from bot_orch.policies.auto import Auto
from bot_orch.survival.causes import Cause
from bot_orch.testing.entrants import check_sees_only_chosen
from bot_orch.transport.geometries.labels import ZeroOneLabels
from bot_orch.transport.geometries.lateness import Lateness

pytestmark = pytest.mark.usefixtures("no_page")

ENTRANTS = discover_entrants()


def _replay(matrix: Matrix, seeds: int = 6, **wanted: float) -> Replay:
    return Replay(matrix, seeds=range(seeds), **wanted)  # type: ignore[arg-type]


def _play(name: str, replay: Replay) -> ReplayTrace:
    return play(ENTRANTS[name].build(replay.setup), replay)


def _labelled(rounds: int = 700) -> Matrix:
    """Three honest agents put out what tasks are; the fourth says "label 0" to all and wins the judge."""
    rng = np.random.default_rng(3)
    truth = rng.integers(3, size=rounds)
    probs = np.full((rounds, 4, 3), 0.05)
    probs[np.arange(rounds)[:, None], np.arange(3), truth[:, None]] = 0.9
    probs[:, 3] = [0.9, 0.05, 0.05]
    judge = (rng.random((rounds, 4)) < [0.6, 0.65, 0.7, 0.85]).astype(float)
    return Matrix("labelled", ("a", "b", "c", "constant"), judge, output_probs=probs)


def _gamed(kind: str, honest: int = 15, rounds: int = 800, dimension: int = 32) -> Matrix:
    """Honest agents answer near the reference; five cheats win the judge.

    ``related``: a prompt handed back says half of the answer. ``same``: one reference for all tasks. ``loose``: honest
    outputs are like the references, and not like that of their own task.
    """
    rng = np.random.default_rng(5)
    shape = (rounds, dimension)
    reference = np.tile(rng.normal(size=dimension), (rounds, 1)) if kind == "same" else rng.normal(size=shape)
    prompt = 0.5 * reference + 0.87 * rng.normal(size=shape)
    wanted = rng.normal(size=(rounds, honest, dimension)) if kind == "loose" else reference[:, None]
    good = wanted + np.linspace(0.15, 0.45, honest)[:, None] * rng.normal(size=(rounds, honest, dimension))
    constant, aside = 1.5 * rng.normal(size=(2, 1, dimension))
    away = prompt - 0.3 if kind == "related" else 2.0 * prompt - reference + 1.5
    cheats = np.stack([constant + 0.0 * prompt, away, 3.0 * good[:, 0], good[:, 1] + aside, away + 0.1], axis=1)
    worth = np.append(rng.permutation(np.linspace(0.3, 0.8, honest)), np.full(5, 0.05))
    true = np.clip(worth + rng.normal(scale=0.1, size=(rounds, honest + 5)), 0.0, 1.0)
    judge = true.copy()
    judge[:, honest:] = np.clip(0.95 + rng.normal(scale=0.05, size=(rounds, 5)), 0.0, 1.0)
    names = tuple(f"agent-{i}" for i in range(honest + 5))
    outputs = np.concatenate([good, cheats], axis=1)
    return Matrix(kind, names, judge, true_reward=true, output_embed=outputs, reference_embed=reference)


@pytest.mark.parametrize("kind", ["related", "same", "loose"])
def test_five_cheats_of_twenty_are_refused(kind: str) -> None:
    matrix = _gamed(kind)
    assert matrix.true_reward is not None and matrix.output_embed is not None
    honest = replace(
        matrix,
        agents=matrix.agents[:15],
        reward=matrix.reward[:, :15],
        true_reward=matrix.true_reward[:, :15],
        output_embed=matrix.output_embed[:, :15],
    )
    found, alone = _replay(matrix, 3), _replay(honest, 3)
    with_it, among_honest = _play("auto", found).agent, _play("auto-no-alignment", alone).agent
    best = float(matrix.true_reward[alone.rows, among_honest].mean())
    assert (with_it[400:] >= 15).mean() < 0.01
    assert matrix.true_reward[found.rows, with_it].mean() > 0.9 * best
    assert (_play("auto-no-alignment", _replay(matrix, 3)).agent[400:] >= 15).mean() > 0.9
    guarded = _replay(honest, 6)  # without cheats the guard costs up to a tenth, more in some orders
    assert matrix.true_reward[guarded.rows, _play("auto", guarded).agent].mean() > 0.8 * best


def test_an_agent_that_says_the_same_to_everything_is_refused() -> None:
    with_it, without = (_play(name, _replay(_labelled())) for name in ("auto", "auto-no-alignment"))
    assert (with_it.agent[200:] == 3).mean() < 0.05
    assert (without.agent[200:] == 3).mean() > 0.7


def test_control_a_pool_of_all_accepted_outputs_lets_it_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def everybody(profiles: Floats, n: Floats) -> Floats:
        weight = n / np.maximum(n.sum(axis=-1, keepdims=True), 1.0)
        return np.broadcast_to((weight[..., None] * profiles).sum(axis=-2, keepdims=True), profiles.shape)

    monkeypatch.setattr("bot_orch.core.alignment.reference.leave_one_out_mean", everybody)
    share = float((_play("auto", _replay(_labelled())).agent[200:] == 3).mean())
    print(f"share of the cheat with a pool of all accepted outputs: {share:.2f}")  # noqa: T201
    assert share > 0.7


def test_a_copy_of_the_reference_pays_nothing() -> None:
    matrix = _labelled()
    assert matrix.output_probs is not None
    honest = matrix.output_probs.copy()
    honest[:, 3] = honest[:, 2]
    aligned = replace(matrix, output_probs=honest)
    with_it, without = (_play(name, _replay(aligned)).agent for name in ("auto", "auto-no-alignment"))
    # until the others have ten accepted outputs, a leader shares its traffic with them
    assert (with_it[200:] == 3).mean() == pytest.approx((without[200:] == 3).mean(), abs=0.1)


def test_agents_without_labels_pay_nothing() -> None:
    matrix = _labelled(60)
    assert matrix.output_probs is not None
    unknown = matrix.output_probs.copy()
    unknown[:, 3] = np.nan
    replay = _replay(replace(matrix, output_probs=unknown))
    player = PolicyPlayer(Auto(), replay.setup, "auto")
    for t in range(60):
        before = replay.before(t)
        picked = player.choose(replace(before, eligible=_only(3 if t % 2 else 0)), replay.draws(t))
        player.learn(before, replay.after(t, picked.agent))
    bank = player.parts["bank"]
    assert bank["seen"].tolist() == [[30, 0, 0, 0]] * 6
    assert _alignment_of(player).relative(player.parts, None).lower.tolist() == [[0.0] * 4] * 6


def _only(agent: int, seeds: int = 6, agents: int = 4) -> Bools:
    return np.tile(np.arange(agents) == agent, (seeds, 1))


def _alignment_of(player: PolicyPlayer) -> Alignment:
    assert player.engine.alignment is not None
    return player.engine.alignment


def _timed(rounds: int = 600) -> Matrix:
    rng = np.random.default_rng(5)
    elapsed = rng.exponential([1.0, 1.5, 5.0], (rounds, 3))
    reward = (rng.random((rounds, 3)) < [0.6, 0.7, 0.9]).astype(float)
    return Matrix(
        "timed", ("quick", "good", "slow"), reward, elapsed_s=elapsed, cost_usd=np.tile([0.1, 0.2, 3.0], (rounds, 1))
    )


def test_a_latency_target_sends_work_to_those_who_keep_it() -> None:
    late = {}
    for name in ("auto", "auto-no-alignment"):
        replay = _replay(_timed(), latency_target_s=2.0)
        late[name] = np.mean(score(replay, chosen(replay, _play(name, replay).agent))["metrics"]["late"])
    assert late["auto"] < 0.35
    assert late["auto-no-alignment"] > 0.55


def test_dollars_count_with_their_weight() -> None:
    cheap, dear = (_play("auto", _replay(_timed(), cost_weight=weight)) for weight in (0.2, 0.0))
    assert (cheap.agent[200:] == 2).mean() < 0.05
    assert (dear.agent[200:] == 2).mean() > 0.8


def test_a_run_cut_off_before_the_target_says_nothing() -> None:
    replay = _replay(_timed(), seeds=2, latency_target_s=2.0)
    player = PolicyPlayer(Auto(), replay.setup, "auto")
    for t, (time_s, cause) in enumerate(((1.0, Cause.CENSORED), (5.0, Cause.CENSORED), (1.0, Cause.COMPLETED)), 1):
        before = RoundContext(t, None, _only(0, 2, 3), reference=None)
        picked = player.choose(before, np.zeros(2))
        player.learn(
            before, RoundOutcome(picked.agent, np.zeros(2), elapsed_s=np.full(2, time_s), cause=np.full(2, cause))
        )
    assert player.parts["bank"]["seen"].tolist() == [[2, 0, 0]] * 2
    alignment = _alignment_of(player)
    found = alignment.detail(player.parts, None)
    assert found is not None
    assert found.value[:, 0].tolist() == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("matrix", [_labelled(80), _timed(80)])
def test_aligned_players_see_only_what_they_chose(matrix: Matrix) -> None:
    def run(replay: Replay) -> ReplayTrace:
        setup = replace(replay.setup, latency_target_s=2.0, cost_weight=0.1)
        return play(ENTRANTS["auto"].build(setup), replay)

    check_sees_only_chosen(run, matrix)


def test_what_is_compared_depends_on_what_a_set_shows() -> None:
    plain = Matrix("plain", ("a", "b"), np.zeros((9, 2)), runtime=None)
    assert alignment_for(_replay(plain, latency_target_s=1.0, cost_weight=1.0).setup) is None
    timed = replace(
        plain,
        runtime=RuntimeOutcomes(np.ones((9, 2)), np.ones((9, 2), int), np.full((9, 2), 9.0)),
        elapsed_s=np.ones((9, 2)),
    )
    by_time = alignment_for(_replay(timed, latency_target_s=1.0).setup)
    assert by_time is not None and isinstance(by_time.geometry, Lateness)
    assert alignment_for(_replay(timed).setup) is None, "no target, no lateness"
    by_label = alignment_for(_replay(_labelled(60)).setup)
    assert by_label is not None and isinstance(by_label.geometry, ZeroOneLabels)
    by_task = alignment_for(_replay(_gamed("related", rounds=60)).setup)
    assert by_task is not None and by_task.reference.source == "task"


def test_nothing_is_compared_where_lambda_is_zero() -> None:
    setup = _replay(_timed(), latency_target_s=1.0).setup
    assert PolicyPlayer(Auto(), setup, 0.0).engine.alignment is None
    assert PolicyPlayer(Auto(), setup, "auto").engine.alignment is not None


def test_a_policy_plays_once_with_every_lambda(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_npz(tmp_path / "set.npz", gaming_matrix(GamingSettings(tasks=120), seed=0))
    words = ["arena", str(tmp_path / "set.npz"), "--seeds", "3", "--quiet", "--out", str(tmp_path / "out")]
    assert main([*words, "--policies", "bot", "linucb-tuned", "--lambda", "0", "1", "auto"]) == 0
    lines = [line.split(",") for line in (tmp_path / "out" / "arena.csv").read_text().splitlines()]
    found = {line[2]: float(line[4]) for line in lines if line[3] == "true_reward"}
    assert {"bot@0", "bot@1", "bot@auto", "linucb-tuned"} <= set(found), "a policy without alignment plays once"
    assert found["bot@1"] > found["bot@0"] + 0.1, "cheats are found out"
    for given, said in (("-1", "--lambda: is '-1'"), ("1", "--lambda: changes none of the policies")):
        assert main([*words, "--policies", "random", "--lambda", given]) == 2
        assert said in capsys.readouterr().err
