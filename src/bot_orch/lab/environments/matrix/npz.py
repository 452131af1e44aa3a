"""Read a matrix from an ``.npz`` file, and write one."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.lab.environments.matrix.check import (
    CELL,
    check_shape,
    in_unit,
    known_mean,
    names,
    non_negative,
    numbers,
    words,
)
from bot_orch.lab.environments.matrix.model import Matrix, RuntimeOutcomes
from bot_orch.lab.environments.matrix.runtime import one_run_each, read_feature_cost, read_runtime
from bot_orch.survival.causes import Cause

#: Names under which a file may hold its reward; the first one present counts.
REWARD_KEYS = ("reward", "pass_rate", "success", "resolved", "score", "accuracy", "correct")
#: Other names of arrays, read where the documented one is absent.
_SYNONYMS = {
    **dict.fromkeys(("cost", "usd"), "cost_usd"),
    **dict.fromkeys(("seconds", "latency", "elapsed_s"), "latency_s"),
    **dict.fromkeys(("prompt", "question"), "text"),
    "model": "agent",
}
#: Arrays of the format, T tasks by M agents: shape and meaning. Notes of a matrix name whatever else its file holds.
ARRAYS: dict[tuple[str, ...], tuple[str, str]] = {
    ("reward",): (
        "T x M, or T x M x K trials",
        "in [0, 1] or truth values, higher is better; NaN: the agent cannot take the task",
    ),
    ("time_s", "event", "cutoff_s"): (
        "T x M [x K], T x M [x K], one number or T",
        "instead of a reward: seconds; 1 completed, 0 right-censored",
    ),
    ("status", "status_name"): (
        "T x M codes and their names, or T x M words",
        "`ok`, `timeout`, `memout`, `crash`, ...: tells failures (competing risks) from timeouts (right-censored)",
    ),
    ("recorded_time_s",): ("T x M", "time of a failure, if `time_s` holds the cutoff there"),
    ("features", "feature_name", "feature_cost_s"): (
        "T x F, F, T",
        "known before the decision; seconds that it takes to compute them",
    ),
    ("text",): ("T", "the requests, known before the decision"),
    ("claim",): (
        "T x M",
        "probability of being right that an agent states of itself before the decision; NaN where it states none",
    ),
    ("cost_usd", "agent_cost_per_10k", "latency_s", "duration_s"): ("T x M, or M", "dollars, seconds"),
    ("true_reward",): ("T x M", "ground truth, where `reward` is a judge's score"),
    ("output_embed", "reference_embed"): ("T x M x D, T x D", "embeddings of the outputs and of the task's reference"),
    ("model_probs", "human_counts"): (
        "T x agents x L, T x L",
        "label distributions of the first agents and of the last one. Models run before the decision: without `claim`, "
        "an agent's largest probability is its claim",
    ),
    ("agent", "task_*"): ("M, T", "names, groups"),
}
_KNOWN = {*REWARD_KEYS, *(name for each in ARRAYS for name in each)}
#: The same of arrays about answers, which rounds of several attempts read.
ANSWERS: dict[tuple[str, ...], tuple[str, str]] = {
    ("signal", "check"): (
        "T x M",
        "with `--attempts`: how sure an agent is of its answer, what a verifier said of it, 0 to 1; NaN and -1: none",
    ),
    ("answer",): ("T x M", "with `--attempts`: number or text of the answer; equal ones in a row agree"),
    ("label", "probability"): (
        "T, T x M x L",
        "with `--attempts`: the right label, and the label distribution that each answer is",
    ),
}
_ANSWERS = {name for each in ANSWERS for name in each}

Files = Mapping[str, npt.NDArray[Any]]


def read_npz(path: Path) -> Matrix:
    """The matrix in a file; a malformed file raises an error that names the array."""
    if not zipfile.is_zipfile(path):
        raise InvalidInputError(str(path), "is not an .npz archive", "save the arrays together with numpy.savez")
    with path.open("rb") as file:
        try:
            archive = np.load(file, allow_pickle=False)
        except (ValueError, EOFError, RuntimeError, zipfile.BadZipFile) as error:
            problem, remedy = "is a damaged archive", "save the file again with numpy.savez"
            raise InvalidInputError(str(path), problem, remedy) from error
        arrays = {key: _array(path, archive, key) for key in _wanted(archive.files)}
        others, notes = _synonyms(path, archive, arrays)
    arrays |= others
    try:
        return replace(matrix_from_arrays(path.stem, arrays), notes=tuple(notes))
    except InvalidInputError as error:
        raise InvalidInputError(f"{path.name}: {error.field}", error.problem, error.remedy) from error


def _wanted(files: Sequence[str]) -> list[str]:
    """Arrays of the format, of several rewards the first."""
    reward = next((key for key in REWARD_KEYS if key in files), None)
    wanted = [key for key in files if key in _KNOWN or key.startswith("task_")]
    return [key for key in wanted if key == reward or key not in REWARD_KEYS]


def _synonyms(path: Path, archive: Any, arrays: Files) -> tuple[dict[str, npt.NDArray[Any]], list[str]]:
    """Arrays with alternative names, if their shape fits a missing array, and notes about the file."""
    reward = next((key for key in REWARD_KEYS if key in arrays), "time_s")
    shape = arrays[reward].shape[:2] if reward in arrays else ()
    notes = [f"{reward} is read as reward"] if reward in REWARD_KEYS[3:] else []
    found: dict[str, npt.NDArray[Any]] = {}
    left = [key for key in archive.files if key not in arrays]
    for key in [key for key in left if key in _SYNONYMS]:
        name = _SYNONYMS[key]
        if name in arrays or name in found:
            continue
        with suppress(InvalidInputError):  # a file with an array of this name was read without it, and still is
            values = _array(path, archive, key)
            if values.shape == {"text": shape[:1], "agent": shape[1:]}.get(name, shape):
                found[name] = values
                left.remove(key)
                notes.append(f"{key} is read as {name}")
    later = [key for key in left if key in _ANSWERS]
    left = [key for key in left if key not in _ANSWERS]
    notes += [f"read with --attempts 2 or more: {', '.join(later)}"] if later else []
    return found, [*notes, f"not read: {', '.join(left)}"] if left else notes


def _array(path: Path, archive: Any, key: str) -> npt.NDArray[Any]:
    try:
        found: npt.NDArray[Any] = np.asarray(archive[key])
    except (ValueError, EOFError, OSError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        damaged = "allow_pickle" not in str(error)
        problem = "is damaged" if damaged else "cannot be read without unpickling"
        remedy = "save the file again" if damaged else "save plain numbers or strings, not objects"
        raise InvalidInputError(f"{path.name}: {key}", problem, remedy) from error
    return found


def matrix_from_arrays(name: str, arrays: Files) -> Matrix:
    """Validate the arrays of a file and build a matrix.

    Examples
    --------
    >>> matrix_from_arrays("toy", {"reward": np.array([[0.0, 1.0]])}).agents
    ('agent-0', 'agent-1')
    >>> matrix_from_arrays("toy", {"reward": np.array([[0.0, 2.0]])})
    Traceback (most recent call last):
    bot_orch.errors.InvalidInputError: reward: ranges from 0 to 2; rescale it to [0, 1]
    """
    arrays = one_run_each(arrays)
    runtime = read_runtime(arrays, needed=not any(key in arrays for key in REWARD_KEYS))
    reward, trials = _reward(arrays, runtime)
    t, m = reward.shape
    agents = names("agent", arrays["agent"], m) if "agent" in arrays else tuple(f"agent-{i}" for i in range(m))
    features, feature_names = _features(arrays, t)
    output, reference = _embeddings(arrays, t, m)
    return Matrix(
        name,
        agents,
        reward,
        trials=trials,
        true_reward=_cells(arrays, "true_reward", (t, m), unit=True),
        runtime=runtime,
        runtime_only=not any(key in arrays for key in REWARD_KEYS),
        features=features,
        feature_names=feature_names,
        feature_cost_s=read_feature_cost(arrays, t),
        elapsed_s=_elapsed(arrays, runtime, (t, m)),
        cost_usd=_cost(arrays, (t, m)),
        output_embed=output,
        reference_embed=reference,
        output_probs=_label_outputs(arrays, t, m),
        claims=_claims(arrays, (t, m)),
        text=_text(arrays, t),
        groups={key: a for key, a in arrays.items() if key.startswith("task_") and a.shape[:1] == (t,)},
    )


def write_npz(path: Path, matrix: Matrix) -> None:
    """Save a matrix in the same format (runtimes, rewards, features, texts, claims, embeddings, dollars, seconds)."""
    arrays: dict[str, npt.NDArray[Any]] = {"agent": np.array(matrix.agents), **matrix.groups}
    if not matrix.runtime_only:
        arrays["reward"] = matrix.reward if matrix.trials is None else matrix.trials
    if matrix.runtime is not None:
        r = matrix.runtime
        word = np.array([cause.name.lower() for cause in Cause])
        arrays |= {"time_s": r.time_s, "event": r.event, "cutoff_s": r.cutoff_s, "status": r.cause, "status_name": word}
    for key in ("true_reward", "features", "feature_cost_s", "cost_usd", "output_embed", "reference_embed"):
        value = getattr(matrix, key)
        if value is not None:
            arrays[key] = value
    latency_s = matrix.elapsed_s if matrix.runtime is None else None
    for key, value in (("claim", matrix.claims), ("text", matrix.text), ("latency_s", latency_s)):
        if value is not None:
            arrays[key] = value
    if matrix.feature_names:
        arrays["feature_name"] = np.array(matrix.feature_names)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def _reward(arrays: Files, runtime: RuntimeOutcomes | None) -> tuple[Floats, Floats | None]:
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
        raise InvalidInputError(key, f"has shape {values.shape}", f"save it as {CELL}, or T x M x K for K trials")
    values = in_unit(key, values)
    if runtime is not None and runtime.time_s.shape != values.shape[:2]:
        raise InvalidInputError("time_s", f"has shape {runtime.time_s.shape}", f"give it the shape of {key}")
    return (values, None) if values.ndim == 2 else (known_mean(values, axis=-1), values)


def _cells(arrays: Files, key: str, shape: tuple[int, int], *, unit: bool = False) -> Floats | None:
    """An optional T x M array, averaged over trials if it has a third axis."""
    if key not in arrays:
        return None
    values = numbers(key, arrays[key])
    if values.ndim == 3:
        values = known_mean(values, axis=-1)
    check_shape(key, values, shape, words=f"a {shape[0]} x {shape[1]} array, the shape of reward")
    return in_unit(key, values) if unit else non_negative(key, values)


def _elapsed(arrays: Files, runtime: RuntimeOutcomes | None, shape: tuple[int, int]) -> Floats | None:
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
        check_shape(key, price, shape[1:], words="one price per agent, dollars for 10,000 calls")
        found = np.broadcast_to(price / 1e4, shape)
    return found


def _features(arrays: Files, t: int) -> tuple[Floats | None, tuple[str, ...]]:
    if "features" not in arrays:
        return None, ()
    features = numbers("features", arrays["features"])
    check_shape("features", features, (t, None), words=f"a {t} x F array, one row per task")
    if features.shape[1] == 0:
        return None, ()
    if "feature_name" not in arrays:
        return features, ()
    found = arrays["feature_name"]
    check_shape("feature_name", found, features.shape[1:], words=f"{features.shape[1]} names, one per feature")
    return features, tuple(str(word) for word in words("feature_name", found))


def _embeddings(arrays: Files, t: int, m: int) -> tuple[Floats | None, Floats | None]:
    output = reference = None
    if "output_embed" in arrays:
        output = numbers("output_embed", arrays["output_embed"])
        check_shape("output_embed", output, (t, m, None), words=f"a {t} x {m} x D array")
    if "reference_embed" in arrays:
        reference = numbers("reference_embed", arrays["reference_embed"])
        check_shape("reference_embed", reference, (t, None), words=f"a {t} x D array")
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
        check_shape("model_probs", probs, (t, None, None), words=f"a {t} x agents x labels array")
        if probs.shape[1] > m:
            raise InvalidInputError(
                "model_probs", f"has {probs.shape[1]} agents", f"save those of the {m} agents of the reward, or fewer"
            )
    if "human_counts" in arrays and (probs is None or probs.shape[1] == m - 1):
        labels = None if probs is None else probs.shape[2]
        counts = non_negative("human_counts", numbers("human_counts", arrays["human_counts"]))
        check_shape("human_counts", counts, (t, labels), words=f"a {t} x {labels or 'labels'} array")
    n = max(array.shape[-1] for array in (probs, counts) if array is not None)
    if n < 2:
        key = "human_counts" if probs is None else "model_probs"
        raise InvalidInputError(key, f"has {n} labels", "save one number per label, for two labels or more")
    full = np.full((t, m, n), np.nan)
    if probs is not None:
        full[:, : probs.shape[1]] = probs
    if counts is not None:
        full[:, -1] = counts
    total = full.sum(axis=-1, keepdims=True)
    return full / np.where(total > 0.0, total, np.nan)  # no label at all: nothing was put out


def _claims(arrays: Files, shape: tuple[int, int]) -> Floats | None:
    """``claim``, else the maximum of each agent's ``model_probs``: models run before the choice, people do not.

    If every ``claim`` is NaN, no agent makes a claim, regardless of ``model_probs``.
    """
    if "claim" in arrays:
        stated = numbers("claim", arrays["claim"])
        check_shape("claim", stated, shape, words=f"a {shape[0]} x {shape[1]} array, the shape of reward")
        return None if np.isnan(stated).all() else in_unit("claim", stated)
    if "model_probs" not in arrays:
        return None
    probs = numbers("model_probs", arrays["model_probs"])
    total = probs.sum(axis=-1)
    claims = np.full(shape, np.nan)
    claims[:, : probs.shape[1]] = probs.max(axis=-1) / np.where(total > 0.0, total, np.nan)
    return claims


def _text(arrays: Files, t: int) -> npt.NDArray[np.str_] | None:
    if "text" not in arrays:
        return None
    check_shape("text", arrays["text"], (t,), words=f"{t} strings, one per task")
    return words("text", arrays["text"])
