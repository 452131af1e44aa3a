"""Texts of a data set reach every contextual player without a flag, encoded as a live router encodes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from bot_orch import Orchestrator, Task
from bot_orch.arrays import Floats
from bot_orch.encoders import HashedWords
from bot_orch.errors import InvalidInputError, MissingExtraError
from bot_orch.lab.arena.entrants.peer_vw import VowpalWabbit
from bot_orch.lab.arena.per_seed import Learner, PerSeedPlayer
from bot_orch.lab.arena.registry import discover_entrants
from bot_orch.lab.environments.matrix import context
from bot_orch.lab.environments.matrix.context import context_of, encoded_texts, inputs_of
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.matrix.npz import matrix_from_arrays, read_npz, write_npz
from bot_orch.lab.environments.replay.bandit import Arrival, Replay
from bot_orch.lab.harness.players import PolicyPlayer, play
from bot_orch.policies.registry import make_policy

R = np.array([[0.0, 1.0], [0.5, 0.25], [1.0, 0.0]])
TEXT = np.array(["x = [i for i in range(9)]", "Who was the first king of Rome?", "naïve; ünïcode?"])


def _routed(rounds: int = 300) -> Matrix:
    """One agent answers code, the other the rest."""
    rng = np.random.default_rng(4)
    code = rng.random(rounds) < 0.5
    asked = np.where(code, "def f(x): return x[0] + ", "Please tell me more about the history of town ")
    text = np.array([f"{each}{number}" for each, number in zip(asked, rng.integers(999, size=rounds), strict=True)])
    return Matrix("routed", ("coder", "poet"), np.stack([code, ~code], axis=1).astype(float), text=text)


def _earned(name: str, matrix: Matrix) -> float:
    replay = Replay(matrix, seeds=range(3))
    trace = play(discover_entrants()[name].build(replay.setup), replay)
    return float(np.take_along_axis(matrix.reward[replay.rows], trace.agent[..., None], axis=-1)[100:].mean())


@pytest.mark.parametrize("name", ["linucb", "lints", "auto"])
def test_contextual_players_read_the_text(name: str) -> None:
    assert _earned(name, _routed()) > 0.9
    assert _earned(name, replace(_routed(), text=None)) < 0.7, "the control"


def test_numbers_of_the_text_are_those_of_a_live_router_behind_the_features() -> None:
    np.testing.assert_array_equal(encoded_texts(TEXT), [HashedWords()(str(text)) for text in TEXT])
    features = np.array([[1.0, 5.0], [2.0, np.nan], [3.0, 7.0]])
    matrix = Matrix("toy", ("a", "b"), R, features=features, text=TEXT)
    router = Orchestrator(matrix.agents)
    tasks = [Task(features=tuple(own), text=str(text)) for own, text in zip(features, TEXT, strict=True)]
    live = [router.decide(task) for task in tasks]
    found = inputs_of(matrix)
    assert found is not None and (found.own, found.words) == (2, 64)
    np.testing.assert_array_equal(found.values, [decision.features for decision in live])
    assert {decision.encoder for decision in live} == {found.text}


def test_a_replay_hands_over_raw_inputs() -> None:
    features = np.array([[1e6, 5.0], [-2.0, np.nan], [3.0, np.inf]])
    replay = Replay(Matrix("toy", ("a", "b"), R, features=features, text=TEXT), "given", seeds=[0, 1])
    assert (replay.setup.inputs, replay.setup.text) == (2, "words@1:64#70")
    for t in range(3):
        shown = replay.before(t).inputs
        assert shown is not None and shown.shape == (2, 72)
        np.testing.assert_array_equal(shown[:, :2], np.where(np.isinf(features), np.nan, features)[[t, t]])
        np.testing.assert_allclose(shown[0, 2:], HashedWords()(str(TEXT[t])), rtol=1e-6)
    player = PolicyPlayer(make_policy("auto"), replay.setup)
    assert player.uses_features and player.engine.settings.context_width == 72
    assert player.engine.settings.words == 64
    assert Replay(Matrix("toy", ("a", "b"), R)).before(0).inputs is None


def test_context_of_peers_is_prepared_in_hindsight() -> None:
    assert Replay(Matrix("toy", ("a", "b"), R, text=TEXT)).setup.features == 2  # components: three rows span two
    wide = np.random.default_rng(0).normal(size=(50, 30)) * 1e3
    found = context_of(Matrix("toy", ("a", "b"), np.zeros((50, 2)), features=wide))
    assert found is not None and found.shape == (50, 10)
    assert np.isclose((found**2).sum(axis=1).mean(), 1.0)


def test_vowpal_wabbit_gets_the_words_of_its_own_task(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("vowpal_wabbit_next")
    shown: list[str] = []
    opened = VowpalWabbit._open

    def watching(self: VowpalWabbit, workspace: object) -> None:
        opened(self, workspace)
        parse = self._parse
        self._parse = lambda line: (shown.append(line), parse(line))[1]

    monkeypatch.setattr(VowpalWabbit, "_open", watching)
    replay = Replay(Matrix("toy", ("a", "b"), R, text=TEXT), "given", seeds=[0])
    play(discover_entrants()["vw-regcb-sa"].build(replay.setup), replay)
    lines = [line for line in shown if line.startswith("shared")]
    assert len(lines) == 6, "a prediction and a lesson per round"
    for t, text in enumerate(TEXT):
        codes = [f"c_{code:g}" for code in HashedWords()(str(text))[6:] if code]
        assert codes and lines[2 * t] == lines[2 * t + 1]
        assert lines[2 * t].split()[-len(codes) :] == codes and lines[2 * t].count("c_") == len(codes)


class _Watching(Learner):
    """Notes what it is given with every call."""

    reads_words = True
    seen: ClassVar[list[tuple[str, int, list[float], list[int]]]] = []

    def pull(self, x: Floats, arms: Sequence[int], u: float) -> int:
        self.seen.append(("pull", self.t, x.tolist(), list(self.words)))
        return arms[0]

    def update(self, x: Floats, arm: int, reward: float) -> None:
        self.seen.append(("update", self.t, x.tolist(), list(self.words)))


@pytest.mark.parametrize("late", [0, 1])
def test_peers_get_the_words_of_the_task_that_a_call_is_about(late: int) -> None:
    arrival = Arrival(late=np.full(3, late))
    replay = Replay(Matrix("toy", ("a", "b"), R, text=TEXT), "given", seeds=[0], arrival=arrival)
    _Watching.seen.clear()
    play(PerSeedPlayer(replay.setup, lambda setup, seed: _Watching()), replay)
    assert replay.context is not None and [each[0] for each in _Watching.seen].count("update") == 3 - late
    for _, t, x, words in _Watching.seen:
        numbers = np.array(HashedWords()(str(TEXT[t - 1])))
        assert words == [int(code) for code in numbers[6:] if code]
        np.testing.assert_allclose(x, replay.context[t - 1])


def test_contextual_peers_read_words() -> None:
    pytest.importorskip("vowpal_wabbit_next")
    assert _earned("vw-regcb", _routed()) > 0.9


def test_every_contextual_peer_reads_words_or_says_that_it_does_not() -> None:
    setup = Replay(Matrix("toy", ("a", "b"), R, text=TEXT), seeds=[0]).setup
    peers = [each for each in discover_entrants().values() if each.kind == "peer"]
    found = {}
    for each in peers:
        try:
            player = each.build(setup)
        except MissingExtraError:
            continue
        if player.uses_features:
            reads = isinstance(player, PerSeedPlayer) and player.reads_words
            found[each.name] = reads
            assert reads != ("no words" in each.about), each.name
    assert found.get("river-linucb") is not True and found.get("vw-regcb", True)


def test_a_set_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counting(text: str) -> list[float]:
        asked.append(text)
        return [float(len(text))]

    monkeypatch.setattr(context, "find_encoder", lambda name: counting)
    matrix = Matrix("toy", ("a", "b"), R, text=np.array(["one", "another", "one"]))
    for _ in range(3):
        Replay(matrix, seeds=range(2))
    assert sorted(asked) == ["another", "one"]


def test_texts_survive_a_file(tmp_path: Path) -> None:
    write_npz(tmp_path / "toy.npz", matrix_from_arrays("toy", {"reward": R, "text": TEXT}))
    found = read_npz(tmp_path / "toy.npz").text
    assert found is not None and found.tolist() == TEXT.tolist()


def test_a_text_per_task_is_needed() -> None:
    with pytest.raises(InvalidInputError, match=r"text: has shape \(2,\); save it as 3 strings, one per task"):
        matrix_from_arrays("toy", {"reward": R, "text": TEXT[:2]})
