"""Texts of a data set reach every contextual player without a flag, encoded as a live router encodes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bot_orch.encoders import HashedText
from bot_orch.environments.matrix import context
from bot_orch.environments.matrix.context import context_of, encoded_texts
from bot_orch.environments.matrix.model import Matrix
from bot_orch.environments.matrix.npz import matrix_from_arrays, read_npz, write_npz
from bot_orch.environments.replay.bandit import Replay
from bot_orch.errors import InvalidInputError
from bot_orch.experiments.arena.registry import discover_entrants
from bot_orch.experiments.harness.players import play

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
    np.testing.assert_array_equal(encoded_texts(TEXT), [HashedText()(str(text)) for text in TEXT])
    features = np.array([[1.0, 5.0], [2.0, np.nan], [3.0, 7.0]])
    both = context_of(Matrix("toy", ("a", "b"), R, features=features, text=TEXT), None)
    alone = context_of(Matrix("toy", ("a", "b"), R, text=TEXT), None)
    assert both is not None and alone is not None
    assert both.shape[1] == alone.shape[1] + 3  # two features, and what is missing of them
    assert Replay(Matrix("toy", ("a", "b"), R, text=TEXT)).setup.features == 2  # components: three rows span two


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
