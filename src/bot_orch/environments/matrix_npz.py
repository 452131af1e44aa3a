"""Read a matrix from an ``.npz`` file, and write one."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats, Ints
from bot_orch.environments.matrix import Matrix, Runtime
from bot_orch.environments.matrix_check import check_shape, in_unit, names, non_negative, numbers, zero_or_one
from bot_orch.errors import InvalidInputError
from bot_orch.survival.causes import REASONS, Cause

__all__ = ["REWARD_KEYS", "matrix_from_arrays", "read_npz", "write_npz"]

#: Names under which a file may hold its reward; the first one present counts.
REWARD_KEYS = ("reward", "pass_rate", "success")
_CELL = "a T x M array, one row per task and one column per agent"
#: Not a failure of the agent but a run that did not take place.
_NOT_RUN = ("missing", "not_applicable")

Files = Mapping[str, npt.NDArray[Any]]


def read_npz(path: Path) -> Matrix:
    """The matrix in a file; a malformed file raises an error that names the array."""
    if not zipfile.is_zipfile(path):
        raise InvalidInputError(str(path), "is not an .npz archive", "save the arrays together with numpy.savez")
    with np.load(path, allow_pickle=False) as archive:
        arrays = {key: _array(path, archive, key) for key in archive.files}
    try:
        return matrix_from_arrays(path.stem, arrays)
    except InvalidInputError as error:
        raise InvalidInputError(f"{path.name}: {error.field}", error.problem, error.remedy) from error


def _array(path: Path, archive: Any, key: str) -> npt.NDArray[Any]:
    try:
        found: npt.NDArray[Any] = np.asarray(archive[key])
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        damaged = "allow_pickle" not in str(error)
        problem = "is damaged" if damaged else "cannot be read without unpickling"
        remedy = "save the file again" if damaged else "save plain numbers or strings, not objects"
        raise InvalidInputError(f"{path.name}: {key}", problem, remedy) from error
    return found


def matrix_from_arrays(name: str, arrays: Files) -> Matrix:
    """Check the arrays of a file and put them together.

    Examples
    --------
    >>> matrix_from_arrays("toy", {"reward": np.array([[0.0, 1.0]])}).agents
    ('agent-0', 'agent-1')
    >>> matrix_from_arrays("toy", {"reward": np.array([[0.0, 2.0]])})
    Traceback (most recent call last):
    bot_orch.errors.InvalidInputError: reward: ranges from 0 to 2; rescale it to [0, 1]
    """
    runtime = _runtime(arrays)
    reward, trials = _reward(arrays, runtime)
    t, m = reward.shape
    agents = names("agent", arrays["agent"], m) if "agent" in arrays else tuple(f"agent-{i}" for i in range(m))
    features, feature_names = _features(arrays, t)
    output, reference = _embeddings(arrays, t, m)
    return Matrix(
        name,
        agents,
        reward,
        trials,
        _cells(arrays, "true_reward", (t, m), unit=True),
        runtime,
        not any(key in arrays for key in REWARD_KEYS),
        features,
        feature_names,
        _elapsed(arrays, runtime, (t, m)),
        _cost(arrays, (t, m)),
        output,
        reference,
        _label_outputs(arrays, t, m),
        {key: a for key, a in arrays.items() if key.startswith("task_") and a.shape[:1] == (t,)},
    )


def write_npz(path: Path, matrix: Matrix) -> None:
    """Save a matrix in the same format (runtimes, rewards, features, embeddings, costs)."""
    arrays: dict[str, npt.NDArray[Any]] = {"agent": np.array(matrix.agents), **matrix.groups}
    if not matrix.runtime_only:
        arrays["reward"] = matrix.reward if matrix.trials is None else matrix.trials
    if matrix.runtime is not None:
        r = matrix.runtime
        word = np.array([cause.name.lower() for cause in Cause])
        arrays |= {"time_s": r.time_s, "event": r.event, "cutoff_s": r.cutoff_s, "status": r.cause, "status_name": word}
    for key in ("true_reward", "features", "cost_usd", "output_embed", "reference_embed"):
        value = getattr(matrix, key)
        if value is not None:
            arrays[key] = value
    if matrix.feature_names:
        arrays["feature_name"] = np.array(matrix.feature_names)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def _reward(arrays: Files, runtime: Runtime | None) -> tuple[Floats, Floats | None]:
    key = next((key for key in REWARD_KEYS if key in arrays), None)
    if key is None:
        if runtime is None:
            raise InvalidInputError(
                "reward",
                "is missing",
                f"add an array {' or '.join(REWARD_KEYS)} of T x M [x K] in [0, 1], or time_s, event and cutoff_s",
            )
        return np.where(np.isnan(runtime.time_s), np.nan, runtime.reward), None
    values = numbers(key, arrays[key])
    if values.ndim not in (2, 3) or 0 in values.shape:
        raise InvalidInputError(key, f"has shape {values.shape}", f"save it as {_CELL}, or T x M x K for K trials")
    in_unit(key, values)
    if runtime is not None and runtime.time_s.shape != values.shape[:2]:
        raise InvalidInputError("time_s", f"has shape {runtime.time_s.shape}", f"give it the shape of {key}")
    return (values, None) if values.ndim == 2 else (_trial_mean(values), values)


def _trial_mean(values: Floats) -> Floats:
    known = np.isfinite(values)
    count = known.sum(axis=-1)
    total = np.where(known, values, 0.0).sum(axis=-1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _runtime(arrays: Files) -> Runtime | None:
    if "time_s" not in arrays:
        return None
    for key in ("event", "cutoff_s"):
        if key not in arrays:
            if any(reward in arrays for reward in REWARD_KEYS):
                return None  # the times are only reported
            raise InvalidInputError(key, "is missing", "time_s needs event (1 completed, 0 censored) and cutoff_s")
    time_s = non_negative("time_s", numbers("time_s", arrays["time_s"]))
    check_shape("time_s", time_s, (None, None), _CELL)
    event = zero_or_one("event", numbers("event", arrays["event"]))
    check_shape("event", event, time_s.shape, f"{_CELL}, the shape of time_s {time_s.shape}")
    cutoff_s = _cutoff(arrays["cutoff_s"], time_s.shape)
    if np.any(np.isnan(time_s) & (event == 1.0)):
        raise InvalidInputError("time_s", "is NaN where event is 1", "give every completed cell its time in seconds")
    if np.any((event == 1.0) & (time_s > cutoff_s * (1 + 1e-6))):
        raise InvalidInputError("time_s", "exceeds cutoff_s where event is 1", "set event to 0 there, time_s to cutoff")
    cause = _cause(arrays, event)
    watched = time_s
    if "recorded_time_s" in arrays:
        recorded = non_negative("recorded_time_s", numbers("recorded_time_s", arrays["recorded_time_s"]))
        check_shape("recorded_time_s", recorded, time_s.shape, _CELL)
        watched = np.where(np.isnan(recorded) | (cause == Cause.CENSORED), time_s, recorded)
    gone = np.isnan(event) | (cause < 0)
    return Runtime(np.where(gone, np.nan, np.minimum(watched, cutoff_s)), np.maximum(cause, 0), cutoff_s)


def _cutoff(raw: npt.NDArray[Any], shape: tuple[int, ...]) -> Floats:
    values = numbers("cutoff_s", raw)
    if values.ndim == 1 and values.shape[0] == shape[0]:
        values = values[:, None]
    try:
        full = np.broadcast_to(values, shape)
    except ValueError:
        raise InvalidInputError(
            "cutoff_s", f"has shape {values.shape}", "save one number, T numbers or T x M numbers"
        ) from None
    if not np.all(full > 0.0):
        raise InvalidInputError("cutoff_s", "holds NaN, zero or a negative number", "pass positive seconds")
    return full


def _cause(arrays: Files, event: Floats) -> Ints:
    """Why watching ended; -1 where the run did not take place."""
    done = np.where(event == 1.0, int(Cause.COMPLETED), int(Cause.CENSORED)).astype(np.int64)
    if "status" not in arrays:
        return done
    status = arrays["status"]
    check_shape("status", status, event.shape, f"{_CELL}, the shape of event")
    if status.dtype.kind in "iu":
        if "status_name" not in arrays:
            raise InvalidInputError("status_name", "is missing", "name the codes of status, such as ok and timeout")
        words = arrays["status_name"].astype(str)
        if status.size and (status.min() < 0 or status.max() >= len(words)):
            raise InvalidInputError("status", "holds a code without a name", "give status_name one entry per code")
        status = words[status.astype(np.int64)]
    cause = done.copy()
    for word in np.unique(status.astype(str)):
        low = word.strip().lower()
        if low in _NOT_RUN:
            code = -1
        elif low in ("censored", *REASONS):
            code = int(REASONS.get(low, Cause.CENSORED))
        else:
            code = int(Cause.OTHER_FAILURE)
        cause[(status == word) & (event == 0.0)] = int(Cause.CENSORED) if code == Cause.COMPLETED else code
    return cause


def _cells(arrays: Files, key: str, shape: tuple[int, int], *, unit: bool = False) -> Floats | None:
    """An optional T x M array, averaged over trials if it has a third axis."""
    if key not in arrays:
        return None
    values = numbers(key, arrays[key])
    if values.ndim == 3:
        values = _trial_mean(values)
    check_shape(key, values, shape, f"a {shape[0]} x {shape[1]} array, the shape of reward")
    return in_unit(key, values) if unit else non_negative(key, values)


def _elapsed(arrays: Files, runtime: Runtime | None, shape: tuple[int, int]) -> Floats | None:
    if runtime is not None:
        return runtime.time_s
    for key in ("time_s", "latency_s", "duration_s"):
        found = _cells(arrays, key, shape)
        if found is not None:
            return found
    return None


def _cost(arrays: Files, shape: tuple[int, int]) -> Floats | None:
    found = _cells(arrays, "cost_usd", shape)
    key = "agent_cost_per_10k"
    if found is None and key in arrays:
        price = non_negative(key, numbers(key, arrays[key]))
        check_shape(key, price, shape[1:], "one price per agent, dollars for 10,000 calls")
        found = np.broadcast_to(price / 1e4, shape)
    return found


def _features(arrays: Files, t: int) -> tuple[Floats | None, tuple[str, ...]]:
    if "features" not in arrays:
        return None, ()
    features = numbers("features", arrays["features"])
    check_shape("features", features, (t, None), f"a {t} x F array, one row per task")
    if features.shape[1] == 0:
        return None, ()
    if "feature_name" not in arrays:
        return features, ()
    found = arrays["feature_name"]
    check_shape("feature_name", found, features.shape[1:], f"{features.shape[1]} names, one per feature")
    return features, tuple(str(word) for word in found)


def _embeddings(arrays: Files, t: int, m: int) -> tuple[Floats | None, Floats | None]:
    output = reference = None
    if "output_embed" in arrays:
        output = numbers("output_embed", arrays["output_embed"])
        check_shape("output_embed", output, (t, m, None), f"a {t} x {m} x D array")
    if "reference_embed" in arrays:
        reference = numbers("reference_embed", arrays["reference_embed"])
        check_shape("reference_embed", reference, (t, None), f"a {t} x D array")
    if output is not None and reference is not None and output.shape[-1] != reference.shape[-1]:
        problem = f"has {reference.shape[-1]} dimensions, output_embed has {output.shape[-1]}"
        raise InvalidInputError("reference_embed", problem, "embed both in the same space")
    return output, reference


def _label_outputs(arrays: Files, t: int, m: int) -> Floats | None:
    """Distributions over labels per agent: ``model_probs`` for the first agents, ``human_counts`` for the last."""
    if "model_probs" not in arrays and "human_counts" not in arrays:
        return None
    counts = probs = None
    if "model_probs" in arrays:
        probs = non_negative("model_probs", numbers("model_probs", arrays["model_probs"]))
        check_shape("model_probs", probs, (t, None, None), f"a {t} x agents x labels array")
        if probs.shape[1] > m:
            raise InvalidInputError("model_probs", f"has {probs.shape[1]} agents", f"the reward has {m}")
    if "human_counts" in arrays and (probs is None or probs.shape[1] == m - 1):
        labels = None if probs is None else probs.shape[2]
        counts = non_negative("human_counts", numbers("human_counts", arrays["human_counts"]))
        check_shape("human_counts", counts, (t, labels), f"a {t} x {labels or 'labels'} array")
    known = [array for array in (probs, counts) if array is not None]
    full = np.full((t, m, known[0].shape[-1]), np.nan)
    if probs is not None:
        full[:, : probs.shape[1]] = probs
    if counts is not None:
        full[:, -1] = counts
    total = full.sum(axis=-1, keepdims=True)
    return full / np.where(total > 0.0, total, 1.0)
