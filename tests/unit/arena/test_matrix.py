"""Reading matrices: what is accepted, what is refused, and how the refusal reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bot_orch.errors import InvalidInputError
from bot_orch.lab.environments.gaming import GamingSettings, gaming_matrix
from bot_orch.lab.environments.matrix.context import prepare
from bot_orch.lab.environments.matrix.find import data_paths, expand, load_matrix
from bot_orch.lab.environments.matrix.npz import matrix_from_arrays, read_npz, write_npz
from bot_orch.survival import Cause

R = np.array([[0.0, 1.0], [0.5, 0.25], [1.0, 0.0]])
RUNTIME: dict[str, Any] = {
    "time_s": np.array([[1.0, 100.0], [100.0, 50.0], [9.0, 100.0]]),
    "event": np.array([[1, 0], [0, 1], [1, 0]]),
    "cutoff_s": np.array(100.0),
}

MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing to earn": ({"features": np.zeros((3, 2))}, "reward: is missing"),
    "flat reward": ({"reward": np.zeros(4)}, "reward: has shape"),
    "empty reward": ({"reward": np.zeros((0, 3))}, "reward: has shape"),
    "reward above one": ({"reward": 2 * R}, "reward: ranges from 0 to 2"),
    "negative pass rate": ({"pass_rate": R - 0.5}, "pass_rate: ranges from -0.5"),
    "infinite reward": ({"reward": np.where(R == 1, np.inf, R)}, "reward: holds infinity"),
    "all missing": ({"reward": np.full((3, 2), np.nan)}, "reward: holds no value"),
    "words for reward": ({"reward": np.array([["good", "bad"]])}, "reward: holds <U4"),
    "true reward shape": ({"reward": R, "true_reward": R[:2]}, "true_reward: has shape"),
    "true reward range": ({"reward": R, "true_reward": R - 1}, "true_reward: ranges"),
    "features rows": ({"reward": R, "features": np.zeros((2, 4))}, "features: has shape"),
    "infinite feature": ({"reward": R, "features": np.full((3, 1), np.inf)}, "features: holds infinity"),
    "feature names": (
        {"reward": R, "features": np.zeros((3, 2)), "feature_name": np.array(["a"])},
        "feature_name: has",
    ),
    "agents": ({"reward": R, "agent": np.array(["a", "b", "c"])}, "agent: has shape"),
    "agent twice": ({"reward": R, "agent": np.array(["a", "a"])}, "agent: holds 'a' twice"),
    "negative cost": ({"reward": R, "cost_usd": R - 1}, "cost_usd: holds a negative"),
    "cost shape": ({"reward": R, "cost_usd": R.T}, "cost_usd: has shape"),
    "event missing": ({k: v for k, v in RUNTIME.items() if k != "event"}, "event: is missing"),
    "cutoff missing": ({k: v for k, v in RUNTIME.items() if k != "cutoff_s"}, "cutoff_s: is missing"),
    "event 2": (RUNTIME | {"event": np.full((3, 2), 2)}, "event: holds 2"),
    "infinite time": (RUNTIME | {"time_s": np.full((3, 2), np.inf)}, "time_s: holds infinity"),
    "completed without a time": (RUNTIME | {"time_s": np.full((3, 2), np.nan)}, "time_s: is NaN where event is 1"),
    "negative time": (RUNTIME | {"time_s": -RUNTIME["time_s"]}, "time_s: holds a negative"),
    "completed after the cutoff": (RUNTIME | {"cutoff_s": np.array(5.0)}, "time_s: exceeds cutoff_s"),
    "cutoff zero": (RUNTIME | {"cutoff_s": np.array(0.0)}, "cutoff_s: holds NaN, zero"),
    "cutoff shape": (RUNTIME | {"cutoff_s": np.ones(7)}, "cutoff_s: has shape"),
    "status without names": (RUNTIME | {"status": np.zeros((3, 2), int)}, "status_name: is missing"),
    "status code in between": (
        RUNTIME | {"status": np.full((3, 2), 0.5), "status_name": np.array(["ok"])},
        "status: holds a code",
    ),
    "status records": (RUNTIME | {"status": np.zeros((3, 2), [("a", "f8")])}, "status: holds [('a', '<f8')]"),
    "status names in a table": (
        RUNTIME | {"status": np.zeros((3, 2), int), "status_name": np.array([["ok"]])},
        "status_name: has shape",
    ),
    "no task timed": ({k: v[:0] if k != "cutoff_s" else v for k, v in RUNTIME.items()}, "time_s: has shape (0, 2)"),
    "nothing ran": (RUNTIME | {"event": np.full((3, 2), np.nan)}, "event: holds no run"),
    "infinite cutoff": (RUNTIME | {"cutoff_s": np.array(np.inf)}, "cutoff_s: holds infinity; pass the longest"),
    "one label": ({"reward": R, "model_probs": np.ones((3, 2, 1))}, "model_probs: has 1 labels"),
    "too many distributions": ({"reward": R, "model_probs": np.ones((3, 5, 2))}, "model_probs: has 5 agents"),
    "agents that are records": ({"reward": R, "agent": np.zeros(2, [("a", "f8")])}, "agent: holds [('a'"),
    "agents in no encoding": ({"reward": R, "agent": np.array([b"a", b"\xff"])}, "agent: holds bytes"),
    "status code": (RUNTIME | {"status": np.full((3, 2), 5), "status_name": np.array(["ok"])}, "status: holds a code"),
    "output shape": ({"reward": R, "output_embed": np.zeros((3, 4))}, "output_embed: has shape"),
    "reference rows": ({"reward": R, "reference_embed": np.zeros((2, 4))}, "reference_embed: has shape"),
    "two spaces": (
        {"reward": R, "output_embed": np.zeros((3, 2, 4)), "reference_embed": np.zeros((3, 5))},
        "reference_embed: has 5 dimensions",
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_file_names_the_array(case: str, tmp_path: Path) -> None:
    arrays, words = MALFORMED[case]
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)
    with pytest.raises(InvalidInputError) as caught:
        read_npz(path)
    assert str(caught.value).startswith(f"bad.npz: {words}")
    assert ";" in str(caught.value), "says what to do"
    assert "\n" not in str(caught.value)


def test_object_arrays_are_not_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "objects.npz"
    np.savez(path, reward=R, agent=np.array(["a", None], dtype=object))
    with pytest.raises(InvalidInputError, match=r"objects\.npz: agent: cannot be read without unpickling"):
        read_npz(path)


def test_arrays_outside_the_format_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "prompts.npz"
    np.savez(path, reward=R, prompt=np.array([{"text": "hi"}] * 3, dtype=object))
    assert np.array_equal(read_npz(path).reward, R)


def test_what_rounding_put_outside_the_unit_interval_is_put_back() -> None:
    reward = matrix_from_arrays("t", {"reward": np.array([[np.float32(1.0000001), -1e-9, np.nan]])}).reward
    assert reward[0, :2].tolist() == [1.0, 0.0]
    assert np.isnan(reward[0, 2])
    with pytest.raises(InvalidInputError, match="ranges from 0 to 1.00001"):
        matrix_from_arrays("t", {"reward": np.array([[0.0, 1.00001]])})


def test_names_in_bytes_are_names() -> None:
    arrays = {
        "reward": R,
        "agent": np.array(["é".encode(), b"b"]),
        "features": R,
        "feature_name": np.array([b"x", b"y"]),
    }
    matrix = matrix_from_arrays("t", arrays)
    assert matrix.agents == ("é", "b")
    assert matrix.feature_names == ("x", "y")


def test_files_that_are_no_archive(tmp_path: Path) -> None:
    text, single = tmp_path / "text.npz", tmp_path / "single.npz"
    text.write_text("hello")
    np.save(tmp_path / "single.npy", R)
    (tmp_path / "single.npy").rename(single)
    for path in (text, single):
        with pytest.raises(InvalidInputError, match=path.name):
            read_npz(path)


def test_a_damaged_array_is_named(tmp_path: Path) -> None:
    path = tmp_path / "torn.npz"
    np.savez(path, reward=np.zeros((50, 2)))
    data = bytearray(path.read_bytes())
    data[300:340] = b"x" * 40
    path.write_bytes(bytes(data))
    with pytest.raises(InvalidInputError, match=r"torn\.npz: reward: is damaged"):
        read_npz(path)


@pytest.mark.parametrize("marker", [b"PK\x01\x02", b"PK\x03\x04", b"\x93NUMPY"])
@pytest.mark.parametrize("at", range(0, 32, 2))
def test_damage_anywhere_is_one_line(marker: bytes, at: int, tmp_path: Path) -> None:
    path = tmp_path / "torn.npz"
    np.savez(path, reward=np.zeros((5, 2)))
    data = bytearray(path.read_bytes())
    data[data.index(marker) + at] ^= 0x5A
    path.write_bytes(bytes(data))
    try:
        matrix = read_npz(path)
    except InvalidInputError as error:
        assert str(error).count("\n") == 0  # noqa: PT017  (not every byte matters)
    else:
        assert matrix.reward.shape == (5, 2)


def test_trials_are_averaged_and_kept() -> None:
    values = np.array([[[0.0, 1.0, np.nan], [np.nan] * 3]])
    matrix = matrix_from_arrays("t", {"success": values})
    assert matrix.reward[0, 0] == 0.5
    assert np.isnan(matrix.reward[0, 1])
    assert matrix.trials is not None
    assert matrix.eligible.tolist() == [[True, False]]


def test_runtime_reward_is_what_the_format_says() -> None:
    matrix = matrix_from_arrays("t", RUNTIME)
    assert matrix.runtime is not None
    expected = 1 - np.log(2) / np.log(101)
    assert matrix.reward[0, 0] == pytest.approx(expected)
    assert matrix.reward[0, 1] == 0.0
    assert matrix.runtime.par10.tolist() == [[1.0, 1000.0], [1000.0, 50.0], [9.0, 1000.0]]
    assert matrix.runtime_only


def test_times_beside_a_reward_need_no_cutoff() -> None:
    matrix = matrix_from_arrays("t", {"reward": R, "time_s": RUNTIME["time_s"], "event": RUNTIME["event"]})
    assert matrix.runtime is None
    assert np.array_equal(matrix.elapsed_s, RUNTIME["time_s"])


def test_failures_are_told_from_timeouts_and_missing_runs_are_not_eligible() -> None:
    names = np.array(["ok", "timeout", "memout", "crash", "missing", "weird"])
    arrays = {
        "time_s": np.array([[1.0, 10.0, 10.0], [10.0, 10.0, 10.0]]),
        "recorded_time_s": np.array([[1.0, 10.0, 3.0], [4.0, 10.0, 2.0]]),
        "event": np.array([[1, 0, 0], [0, 0, 0]]),
        "cutoff_s": np.array(10.0),
        "status": np.array([[0, 1, 2], [3, 4, 5]]),
        "status_name": names,
    }
    matrix = matrix_from_arrays("t", arrays)
    assert matrix.runtime is not None
    assert matrix.runtime.cause[0].tolist() == [Cause.COMPLETED, Cause.CENSORED, Cause.OUT_OF_MEMORY]
    assert matrix.runtime.cause[1, [0, 2]].tolist() == [Cause.CRASHED, Cause.OTHER_FAILURE]
    assert matrix.runtime.time_s[:, 2].tolist() == [3.0, 2.0], "a failure is seen when it happens"
    assert matrix.eligible.tolist() == [[True, True, True], [True, False, True]]


@pytest.mark.parametrize("kind", ["U7", "S7", float, np.int8])
def test_status_in_words_bytes_or_codes_says_the_same(kind: Any) -> None:
    names = np.array(["ok", "crash", "missing"])
    codes = np.array([[0, 1], [2, 0], [0, 1]])
    status = names[codes].astype(kind) if isinstance(kind, str) else codes.astype(kind)
    matrix = matrix_from_arrays("t", RUNTIME | {"status": status, "status_name": names})
    assert matrix.runtime is not None
    assert matrix.runtime.cause.tolist() == [[1, Cause.CRASHED], [0, 1], [1, Cause.CRASHED]]
    assert matrix.eligible.tolist() == [[True, True], [False, True], [True, True]]


def test_a_recorded_time_counts_for_failures_only() -> None:
    arrays = RUNTIME | {
        "recorded_time_s": np.array([[0.5, 7.0], [60.0, 49.0], [9.5, np.nan]]),
        "status": np.array([["ok", "memout"], ["timeout", "ok"], ["ok", "crash"]]),
    }
    matrix = matrix_from_arrays("t", arrays)
    assert matrix.runtime is not None
    assert matrix.runtime.time_s.tolist() == [[1.0, 7.0], [100.0, 50.0], [9.0, 100.0]]


def test_written_and_read_back(tmp_path: Path) -> None:
    matrix = gaming_matrix(GamingSettings(tasks=20, agents=5))
    write_npz(tmp_path / "g.npz", matrix)
    copy = read_npz(tmp_path / "g.npz")
    assert copy.agents == matrix.agents
    for name in ("reward", "true_reward", "features", "output_embed", "reference_embed"):
        assert np.array_equal(getattr(copy, name), getattr(matrix, name))
    runtime = matrix_from_arrays("t", RUNTIME)
    write_npz(tmp_path / "r.npz", runtime)
    again = read_npz(tmp_path / "r.npz")
    assert np.array_equal(again.reward, runtime.reward)
    assert again.runtime_only


def test_label_outputs_put_the_human_last() -> None:
    arrays = {"reward": np.zeros((1, 2)), "model_probs": np.array([[[0.25, 0.75]]]), "human_counts": np.array([[3, 1]])}
    probs = matrix_from_arrays("t", arrays).output_probs
    assert probs is not None
    assert probs.tolist() == [[[0.25, 0.75], [0.75, 0.25]]]


def test_no_label_at_all_is_no_output() -> None:
    arrays = {"reward": np.zeros((2, 1)), "human_counts": np.array([[0, 0], [1, 3]])}
    probs = matrix_from_arrays("t", arrays).output_probs
    assert probs is not None
    assert np.isnan(probs[0, 0]).all()
    assert probs[1, 0].tolist() == [0.25, 0.75]


def test_human_counts_alone_are_the_last_agents_output() -> None:
    probs = matrix_from_arrays("t", {"reward": np.zeros((1, 2)), "human_counts": np.array([[3, 1]])}).output_probs
    assert probs is not None
    assert np.isnan(probs[0, 0]).all()
    assert probs[0, 1].tolist() == [0.75, 0.25]


def test_features_are_finite_whatever_they_were() -> None:
    rng = np.random.default_rng(0)
    raw = np.column_stack(
        [rng.lognormal(sigma=4, size=200), np.full(200, 3.0), np.full(200, np.nan), rng.normal(size=200)]
    )
    raw[::7, 0] = np.nan
    x = prepare(raw, components=10)
    assert x is not None
    assert np.isfinite(x).all()
    assert x.shape[1] == 3, "two columns that vary, and the share of gaps"
    assert np.abs(x).max() < 4.1
    assert prepare(np.full((5, 2), 1.0)) is None
    assert prepare(None) is None


def test_wide_features_have_the_same_components_as_narrow_ones() -> None:
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(60, 12))
    wide = prepare(np.tile(raw, 6), components=4)  # 72 columns, 60 rows; every direction six times
    narrow = prepare(raw, components=4)
    assert wide is not None
    assert narrow is not None
    signs = np.sign((wide * narrow).sum(axis=0))
    assert np.allclose(wide, narrow * signs, atol=1e-9)


@pytest.mark.filterwarnings("error")
def test_features_of_any_size_do_not_overflow() -> None:
    x = prepare(np.random.default_rng(0).normal(size=(40, 3)) * [1e300, 1e9, 1e-6])
    assert x is not None
    assert np.isfinite(x).all()


def test_features_never_read_an_outcome() -> None:
    matrix = gaming_matrix(GamingSettings(tasks=50))
    one = prepare(matrix.features, 3)
    assert one is not None
    assert one.shape == (50, 3)


def test_expand_finds_files_folders_and_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_npz(tmp_path / "one.npz", gaming_matrix(GamingSettings(tasks=5)))
    (tmp_path / "._one.npz").write_bytes(b"what a desktop leaves behind")
    assert [p.name for p in expand([tmp_path])] == ["one.npz"]
    assert load_matrix(tmp_path / "one.npz").n_tasks == 5
    monkeypatch.setenv("BOT_ORCH_DATA", str(tmp_path))
    assert data_paths() == [tmp_path]
    assert len(expand([])) == 1
    write_npz(tmp_path / "other" / "two.npz", gaming_matrix(GamingSettings(tasks=5)))
    monkeypatch.setenv("BOT_ORCH_DATA", os.pathsep.join([str(tmp_path), str(tmp_path / "other" / "two.npz")]))
    assert [p.name for p in expand([])] == ["one.npz", "two.npz"], "a list of paths, files too"
    monkeypatch.chdir(tmp_path / "other")
    assert [p.parent.name for p in expand([Path("one.npz"), Path("two.npz")])] == [tmp_path.name, ""], "or by name"
    monkeypatch.delenv("BOT_ORCH_DATA")
    with pytest.raises(InvalidInputError, match="set BOT_ORCH_DATA"):
        expand([])  # no default
    monkeypatch.setenv("BOT_ORCH_DATA", str(tmp_path / "nowhere"))
    for paths, words in (
        ([], "BOT_ORCH_DATA"),
        ([tmp_path / "nowhere"], "does not exist"),
        ([tmp_path / "one.npz", tmp_path], "two data sets"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            expand(paths)
