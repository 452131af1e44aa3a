"""What a fit of the context computes: numbers tamed, words weighted, principal components. Pure functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from bot_orch.arrays import Floats, Ints
from bot_orch.encoders import BUCKETS

LIMIT = 4.0  # standard deviations at which a number is clipped
HEAVY = 8.0  # kurtosis from which numbers of both signs are replaced by logarithms
LARGE = 1e30  # numbers are clipped there before anything else


def tamed(x: Floats, frame: Floats) -> Floats:
    """Numbers imputed, partly replaced by signed logarithms, standardised and clipped."""
    median, logged, mean, scale = frame
    x = np.where(np.isfinite(x), np.minimum(np.maximum(x, -LARGE), LARGE), median)
    if np.count_nonzero(logged):
        x = np.where(logged > 0.0, np.sign(x) * np.log1p(np.abs(x)), x)
    return np.asarray(np.minimum(np.maximum((x - mean) * scale, -LIMIT), LIMIT))


def frame(x: Floats) -> tuple[Floats, Floats]:
    """What :func:`tamed` needs to know of each column, and the rows tamed."""
    missing = ~np.isfinite(x)
    empty = missing.all(axis=0)
    median = np.where(empty, 0.0, np.nanmedian(np.where(empty, 0.0, x), axis=0))
    x = np.where(missing, median, x)
    logs = np.sign(x) * np.log1p(np.abs(x))
    tails = _kurtosis(x)
    two_sided = (x.min(axis=0) < 0.0) & (x.max(axis=0) > 0.0)  # in large units a logarithm leaves but their sign
    logged = (_kurtosis(logs) < tails) & (~two_sided | (tails > HEAVY))
    y = np.where(logged, logs, x)
    mean, spread = y.mean(axis=0), y.std(axis=0)
    varies = spread > 1e-9 * np.abs(y).max(axis=0)
    frame = np.array([median, logged, mean, np.where(varies, 1.0 / np.where(varies, spread, 1.0), 0.0)])
    return frame, tamed(x, frame)


def _kurtosis(columns: Floats) -> Floats:
    square = (columns - columns.mean(axis=0)) ** 2
    return np.asarray((square * square).mean(axis=0) / np.maximum(square.mean(axis=0), 1e-24) ** 2)


def weighted(codes: Ints, rarity: Floats) -> Any:
    """The sparse matrix of documents, (n, words): the words of each by rarity, with a norm of one."""
    weight = rarity[codes].astype(float)
    weight /= np.maximum(np.sqrt(np.sum(weight * weight, axis=1, keepdims=True)), 1e-12)
    known = weight > 0.0
    starts = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
    return csr_array((weight[known], codes[known], starts), shape=(len(codes), BUCKETS + 1))


def components(x: Any, basis: Floats, told: Floats, used: int) -> tuple[Floats, Floats]:
    """Principal axes of the rows ``x`` within a basis, and their mean; first those that covary with the rewards.

    Rows projected to the first ``used`` axes have a squared length of one on average.
    """
    middle = np.asarray(x.mean(axis=0))
    rows = x @ basis - middle @ basis
    vectors = np.linalg.eigh(rows.T @ rows)[1][:, ::-1]
    points = rows @ vectors
    order = np.argsort(-np.sum((told.T @ points) ** 2, axis=0), kind="stable")
    scale = 1.0 / max(math.sqrt(np.mean(np.sum(points[:, order[:used]] ** 2, axis=1))), 1e-12)
    return _signed(basis @ vectors[:, order]) * scale, middle


def surprises(agent: Ints, reward: Floats, m: int) -> Floats:
    """What each outcome says of its agent, (n, m): reward less the agent's mean, over the root of its outcomes."""
    found = np.zeros((len(agent), m))
    for each in range(m):
        mine = np.flatnonzero(agent == each)
        if len(mine):
            found[mine, each] = (reward[mine] - reward[mine].mean()) / math.sqrt(len(mine))
    return found


def _signed(vectors: Floats) -> Floats:
    """Columns with a positive largest entry, so that the sign does not depend on the linear algebra library."""
    largest = vectors[np.argmax(np.abs(vectors), axis=0), np.arange(vectors.shape[1])]
    return vectors * np.where(largest < 0.0, -1.0, 1.0)


def novelty(rarity: Floats, codes: Ints) -> float:
    """Share of the squared word weights of the documents that falls on words without weight in any before."""
    weight = rarity[codes.astype(np.intp)].astype(float) ** 2
    unknown = weight >= float(rarity.max()) ** 2 * (1.0 - 1e-6)
    return float(np.sum(weight * unknown) / max(float(np.sum(weight)), 1e-12))


def iterated(x: Any, basis: Floats, passes: int) -> Floats:
    """A basis closer to the leading principal axes of the rows ``x``, by subspace iteration."""
    middle = np.asarray(x.mean(axis=0))
    for _ in range(passes):
        basis = _orthonormal(x.T @ (x @ basis - middle @ basis))
    return basis


def _orthonormal(columns: Floats) -> Floats:
    """An orthonormal basis of the columns' span, by the small matrix of their products."""
    values, vectors = np.linalg.eigh(columns.T @ columns)
    scale = np.where(values > 1e-12 * values[-1], 1.0 / np.sqrt(np.maximum(values, 1e-300)), 0.0)
    return np.asarray(columns @ (vectors * scale))
