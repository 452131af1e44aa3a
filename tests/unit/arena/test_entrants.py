"""Every entrant plays, learns, repeats itself, and sees only what it chose."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import numpy as np
import pytest

from bot_orch.errors import InvalidInputError, MissingExtraError
from bot_orch.lab.arena.registry import Entrant, discover_entrants, find_entrants, register
from bot_orch.lab.environments.gaming import GamingSettings, gaming_matrix
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.players import PolicyPlayer, ReplayTrace, play
from bot_orch.policies.registry import make_policy
from bot_orch.testing.entrants import check_sees_only_chosen

ENTRANTS = discover_entrants()
PEERS = {"vw": "vowpal_wabbit_next", "river": "river"}

OPEN = ("constant", "copy", "length")  # cheats that look different


def _need(name: str) -> None:
    if ENTRANTS[name].kind == "peer":
        pytest.importorskip(PEERS[name.split("-")[0]])


def _matrix(features: bool) -> Matrix:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(150, 2))
    reward = np.clip(
        np.column_stack([0.2 + 0 * x[:, 0], 0.5 + 0.4 * np.sign(x[:, 0]), 0.5 - 0.4 * np.sign(x[:, 0])]), 0, 1
    )
    reward[::10, 0] = np.nan
    return Matrix("small", ("low", "plus", "minus"), reward, features=x if features else None)


def _run(name: str, matrix: Matrix, seeds: list[int]) -> ReplayTrace:
    replay = Replay(matrix, seeds=seeds)
    return play(ENTRANTS[name].build(replay.setup), replay)


@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize("name", ENTRANTS)
def test_plays_and_repeats_itself(name: str, features: bool) -> None:
    _need(name)
    matrix = _matrix(features)
    one, two = (_run(name, matrix, [0, 1]) for _ in range(2))
    assert np.array_equal(one.agent, two.agent)
    assert ((one.agent >= 0) & (one.agent < 3)).all()


@pytest.mark.parametrize("name", ["linucb", "lints", "vw-squarecb", "vw-softmax"])
def test_contextual_entrants_use_the_features(name: str) -> None:
    _need(name)
    with_features, without = (
        float(np.mean(_run(name, _matrix(features), list(range(4))).learned[75:])) for features in (True, False)
    )
    assert with_features > without + 0.1


@pytest.mark.parametrize("name", [name for name, entrant in ENTRANTS.items() if entrant.default])
def test_sees_only_what_it_chose(name: str) -> None:
    _need(name)
    check_sees_only_chosen(lambda replay: play(ENTRANTS[name].build(replay.setup), replay), _matrix(True))


def test_alignment_refuses_every_cheat_and_without_it_they_win() -> None:
    matrix = gaming_matrix(GamingSettings(tasks=800, agents=12, cheats=OPEN))
    cheating = {}
    for name in ("thompson-beta", "thompson-beta+ot"):
        cheating[name] = float((_run(name, matrix, [0, 1, 2]).agent[240:] >= 9).mean())
    assert cheating["thompson-beta"] > 0.8
    assert cheating["thompson-beta+ot"] < 0.01


@pytest.mark.parametrize("agents", [5, 60])
def test_cheats_win_the_judge_and_are_worth_little(agents: int) -> None:
    matrix = gaming_matrix(GamingSettings(tasks=300, agents=agents, cheats=OPEN))
    honest = agents - 3
    assert matrix.true_reward is not None
    assert matrix.reward[:, honest:].mean(axis=0).min() > matrix.reward[:, :honest].mean(axis=0).max() + 0.1
    assert matrix.true_reward[:, honest:].mean(axis=0).max() < 0.15
    with pytest.raises(InvalidInputError, match="cheats"):
        gaming_matrix(GamingSettings(agents=2, cheats=("constant", "copy")))
    with pytest.raises(InvalidInputError, match="cheats"):
        gaming_matrix(GamingSettings(cheats=("bribe",)))


@pytest.mark.parametrize("name", ["linucb", "lints"])
def test_linear_policies_do_not_lock_in_without_features(name: str) -> None:
    """An untried agent's prediction is 0, so a bonus below what others earn never tries it."""
    rng = np.random.default_rng(0)
    matrix = Matrix("flat", tuple("abcdefgh"), (rng.random((300, 8)) < np.linspace(0.4, 0.9, 8)).astype(float))
    seeds = list(range(6))
    share = (_run(name, matrix, seeds).agent[150:] >= 6).mean(axis=0)
    assert share.min() > 0.25, "every seed finds the two best"
    stuck = play(
        PolicyPlayer(make_policy(name, scale=0.1), Replay(matrix, seeds=seeds).setup), Replay(matrix, seeds=seeds)
    )
    assert (stuck.agent[150:] >= 6).mean(axis=0).min() < 0.05, "a small bonus locks in"


def test_names() -> None:
    ours = find_entrants(None)
    assert {"bot", "no-ot", "ucb1", "linucb", "lints", "thompson-beta", "epsilon-greedy"} <= set(ours)
    assert all(ENTRANTS[name].kind == "peer" for name in find_entrants(["peers"]))
    assert find_entrants(["ucb1", "random", "ucb1"]) == ["ucb1"]
    with pytest.raises(InvalidInputError, match="--policies: no policy 'nobody'"):
        find_entrants(["nobody"])


def test_an_entrant_of_ones_own() -> None:
    mine = register(Entrant("mine", "ucb1 again", ENTRANTS["ucb1"].build))
    try:
        assert discover_entrants()["mine"] is mine
    finally:
        from bot_orch.lab.arena import registry

        registry._extra.pop("mine")


@pytest.mark.parametrize("name", ["vw-squarecb", "river-ucb"])
def test_a_missing_library_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = PEERS[name.split("-")[0]]
    real = builtins.__import__

    def missing(wanted: str, *args: Any, **kwargs: Any) -> Any:
        if wanted.split(".")[0] == module:
            raise ImportError(wanted)
        return real(wanted, *args, **kwargs)

    for loaded in [key for key in sys.modules if key.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingExtraError, match=r"\[peers\]"):
        ENTRANTS[name].build(Replay(_matrix(True), seeds=[0]).setup)
