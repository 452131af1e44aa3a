"""Wasserstein barycenters: the distribution with the least average distance to several others.

The objective depends on the order. Under W2 it is sum_k w_k W2^2, and quantile vectors are averaged [1]_; under W1 it
is sum_k w_k W1, and every quantile level takes the weighted median. Averaging distribution functions or
probabilities gives the *mixture* instead: two narrow peaks at 0 and 1 have a W2 barycenter with one
peak at 1/2, and a mixture with two.

References
----------
.. [1] Agueh, Carlier. Barycenters in the Wasserstein space. SIAM J. Math. Anal. 2011.
.. [2] Alvarez-Esteban, del Barrio, Cuesta-Albertos, Matran. A fixed-point approach to barycenters in Wasserstein
   space. J. Math. Anal. Appl. 2016.
"""

from __future__ import annotations

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.transport.geometries.base import Geometry, QuantileGeometry
from bot_orch.transport.geometries.bures import Bures, psd_root
from bot_orch.transport.geometries.ground_cost import CostLabels
from bot_orch.transport.geometries.labels import LabelGeometry, OrderedLabels, ZeroOneLabels
from bot_orch.transport.geometries.scores import Scores

_TIE = 1e-12  # weights that sum to 1/2 up to rounding count as 1/2


def rule(geometry: Geometry) -> str:
    """Algorithm for a geometry's barycenter: ``mean``, ``median``, ``simplex``, ``fixed_point`` or ``programme``."""
    if isinstance(geometry, Bures):
        return "mean" if geometry.diagonal else "fixed_point"
    if isinstance(geometry, ZeroOneLabels):
        return "simplex"
    if isinstance(geometry, Scores | OrderedLabels):
        return "median"
    if isinstance(geometry, QuantileGeometry):
        return "median" if geometry.order == 1 else "mean"
    if isinstance(geometry, LabelGeometry):
        return "programme"
    raise InvalidInputError("reference", f"has no barycenter under {geometry.name}", "give a reference with every task")


def barycenter(geometry: Geometry, embeddings: Floats, weights: Floats | None = None) -> Floats:
    """The embedding (q,) of the barycenter of measures with embeddings (K, q).

    For :class:`Sliced`, each projection has its own barycenter.

    Examples
    --------
    >>> from bot_orch.transport import Samples, Scalars
    >>> geometry = Scalars(order=2)
    >>> peaks = np.stack([geometry.embed(Samples([0.0])), geometry.embed(Samples([1.0]))])
    >>> middle = barycenter(geometry, peaks)
    >>> np.allclose(middle, geometry.embed(Samples([0.5])))
    True
    """
    w = _weights(weights, len(embeddings))
    how = rule(geometry)
    if how == "mean":
        return w @ embeddings
    if how == "median":
        return weighted_median(embeddings.T, np.broadcast_to(w, embeddings.T.shape))
    if how == "simplex":
        return 0.5 * simplex_median(2.0 * embeddings.T, np.broadcast_to(w, embeddings.T.shape))
    if isinstance(geometry, Bures):
        return _gaussian(geometry, embeddings, w)
    if isinstance(geometry, CostLabels):
        return _plans(geometry, embeddings, w)
    return _programme(geometry, embeddings, w)


def mixture(geometry: Geometry, embeddings: Floats, weights: Floats | None = None) -> Floats:
    """The embedding of the mixture, where embeddings are linear in the measure (scores and labels).

    Examples
    --------
    >>> from bot_orch.transport import ZeroOneLabels
    >>> geometry = ZeroOneLabels(2)
    >>> geometry.probabilities(mixture(geometry, geometry.embed_outcome(np.array([0, 0, 0, 1]))))
    array([0.75, 0.25])
    """
    if not isinstance(geometry, Scores | LabelGeometry):
        raise InvalidInputError("geometry", f"{geometry.name} is not linear in the measure", "use barycenter")
    return _weights(weights, len(embeddings)) @ embeddings


def weighted_median(points: Floats, weights: Floats) -> Floats:
    """The lower weighted median over the last axis; points of weight zero are ignored."""
    return _weighted_quantile(points, weights, 0.5 - _TIE)


def simplex_median(points: Floats, weights: Floats) -> Floats:
    """The probability vector p (K,) with the least sum of weighted |p_j - points[j, k]|, points (K, n).

    Coordinatewise medians need not sum to one. At the optimum all coordinates are quantiles of one common level, which
    bisection finds; the remaining mass is distributed over the flat parts of the objective.
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        level = 0.5 * (low + high)
        if _weighted_quantile(points, weights, level).sum() < 1.0:
            low = level
        else:
            high = level
    below, above = _weighted_quantile(points, weights, low), _weighted_quantile(points, weights, high)
    room = float((above - below).sum())
    p: Floats = below + (above - below) * ((1.0 - below.sum()) / room if room > 0 else 0.0)
    p /= p.sum()
    return p


def _weighted_quantile(points: Floats, weights: Floats, level: float) -> Floats:
    x = np.where(weights > 0, points, np.inf)
    order = np.argsort(x, axis=-1, kind="stable")
    mass = np.cumsum(np.take_along_axis(weights, order, -1), axis=-1)
    position = (mass < level * mass[..., -1:]).sum(axis=-1)
    position = np.minimum(position, (weights > 0).sum(axis=-1) - 1)
    quantile: Floats = np.take_along_axis(np.take_along_axis(x, order, -1), position[..., None], -1)[..., 0]
    return quantile


def _gaussian(geometry: Bures, embeddings: Floats, w: Floats) -> Floats:
    """S = sum_k w_k (S^1/2 S_k S^1/2)^1/2, by iteration [2]_."""
    means, covariances = geometry.split(embeddings)
    d = geometry.dimension
    s: Floats = np.tensordot(w, covariances, 1)
    floor = 1e-14 * max(float(np.trace(s)) / d, 1e-300)
    for _ in range(200):
        root = psd_root(s + floor * np.eye(d))
        inverse = np.linalg.inv(root)
        middle = np.tensordot(w, psd_root(root @ covariances @ root), 1)
        new = inverse @ middle @ middle @ inverse
        done = np.abs(new - s).max() <= 1e-13 * np.abs(s).max()
        s = 0.5 * (new + new.T)
        if done:
            break
    return np.concatenate([w @ means, s.ravel()])


def _programme(geometry: Geometry, embeddings: Floats, w: Floats) -> Floats:
    """Minimise the weighted L1 distance over probability vectors by linear programming."""
    from scipy.optimize import linprog
    from scipy.sparse import block_array, csr_array, eye_array

    assert isinstance(geometry, LabelGeometry)  # noqa: S101  (see rule)
    n, (k, q) = len(embeddings), geometry.atoms.shape
    objective = np.concatenate([np.zeros(k), np.repeat(w, q)])
    copies, slack = csr_array(np.tile(geometry.atoms.T, (n, 1))), -eye_array(n * q)
    limits = np.concatenate([embeddings.ravel(), -embeddings.ravel()])
    total = csr_array(np.concatenate([np.ones(k), np.zeros(n * q)])[None])
    bounds = csr_array(block_array([[copies, slack], [-copies, slack]]))
    solution = linprog(objective, A_ub=bounds, b_ub=limits, A_eq=total, b_eq=[1.0], method="highs")
    return _on_simplex(geometry, solution.x[:k])


def _plans(geometry: CostLabels, embeddings: Floats, w: Floats) -> Floats:
    """Minimise the weighted transport cost over probability vectors: one linear programme with a plan per measure."""
    from scipy.optimize import linprog
    from scipy.sparse import block_array, csr_array, eye_array, kron

    n, k = embeddings.shape
    c = np.asarray(geometry.cost, dtype=float) ** geometry.order
    objective = np.concatenate([np.zeros(k), (w[:, None] * c.ravel()).ravel()])
    leaving = kron(eye_array(n), kron(eye_array(k), np.ones((1, k))))
    arriving = kron(eye_array(n), kron(np.ones((1, k)), eye_array(k)))
    copies = csr_array(np.tile(-np.eye(k), (n, 1)))
    total = csr_array(np.concatenate([np.ones(k), np.zeros(n * k * k)])[None])
    equal = csr_array(block_array([[block_array([[copies, leaving], [None, arriving]])], [total]]))
    sides = np.concatenate([np.zeros(n * k), embeddings.ravel(), [1.0]])
    solution = linprog(objective, A_eq=equal, b_eq=sides, method="highs")
    return _on_simplex(geometry, solution.x[:k])


def _on_simplex(geometry: LabelGeometry, x: Floats) -> Floats:
    p = np.clip(x, 0.0, None)
    embedding: Floats = (p / p.sum()) @ geometry.atoms
    return embedding


def _weights(weights: Floats | None, n: int) -> Floats:
    if n == 0:
        raise InvalidInputError("embeddings", "are empty", "observe a task first")
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    if w.shape != (n,) or (w < 0).any() or not w.sum() > 0:
        raise InvalidInputError("weights", f"do not fit {n} measures", "pass one number >= 0 each")
    return np.asarray(w / w.sum(), dtype=float)
