"""Sampling error of a plug-in distance, from embeddings alone: bias, standard deviation, small-sample term."""

from __future__ import annotations

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.transport.geometries.base import Geometry, QuantileGeometry
from bot_orch.transport.geometries.bures import Bures
from bot_orch.transport.geometries.ground_cost import CostCloud, CostLabels
from bot_orch.transport.geometries.labels import LabelGeometry
from bot_orch.transport.geometries.scores import Scores
from bot_orch.transport.quantiles import cosine_levels, level_widths

_FOLD = float(np.sqrt(2.0 / np.pi))  # E|Z| for a standard normal Z
SMALL = 0.8
Triple = tuple[Floats, Floats, Floats]


def noise(geometry: Geometry, bank: Floats, reference: Floats, *, value: Floats, root: Floats) -> Triple:
    """``(b0, sd, small)`` of distances ``value`` ``(..., M)``; ``root`` is the square root of the sample size."""
    target = reference[..., None, :]
    if isinstance(geometry, Scores):
        return _scores(geometry, bank, target, root=root)
    if isinstance(geometry, CostLabels):
        return _cost_labels(geometry, bank, reference, value=value, root=root)
    if isinstance(geometry, LabelGeometry):
        return _labels(geometry, bank, target, root=root)
    if isinstance(geometry, QuantileGeometry):
        return _quantiles(geometry, bank, target, value=value, root=root)
    if isinstance(geometry, Bures):
        return _bures(geometry, bank, target, root=root)
    if isinstance(geometry, CostCloud):
        return _clouds(geometry, bank, root)
    raise NotImplementedError(geometry.name)


def _deviation(p: Floats, f: Floats) -> Floats:
    """The standard deviation of f under p, over the last axis."""
    mean = (p * f).sum(axis=-1, keepdims=True)
    sd: Floats = np.sqrt((p * (f - mean) ** 2).sum(axis=-1))
    return sd


def _with_reference(bank: Floats, target: Floats, root: Floats) -> Floats:
    """Profiles with one pseudo-outcome of the reference, so that n equal outcomes do not give zero variance."""
    share = (1.0 / (1.0 + root**2))[..., None]
    mixed: Floats = bank + share * (target - bank)
    return mixed


def _scores(geometry: Scores, bank: Floats, target: Floats, *, root: Floats) -> Triple:
    """The potential is h sum_j s_j 1{x > t_j}, s = sign(F - G); its moments need only 1 - F and sums of s."""
    h = geometry.step
    g = np.clip(target / h, 0.0, 1.0)
    b0 = _FOLD * h * np.sqrt(g * (1.0 - g)).sum(axis=-1) / root
    signs = np.sign(bank - target)
    above = (1.0 - _with_reference(bank, target, root) / h) * signs
    sums = 2.0 * np.cumsum(signs, axis=-1) - signs
    variance = (above * sums).sum(axis=-1) - above.sum(axis=-1) ** 2
    sd = h * np.sqrt(np.maximum(variance, 0.0)) / root
    return b0, sd, SMALL * (geometry.high - geometry.low) / root**2


def _labels(geometry: LabelGeometry, bank: Floats, target: Floats, *, root: Floats) -> Triple:
    atoms = geometry.atoms
    r, p = geometry.probabilities(target), geometry.probabilities(_with_reference(bank, target, root))
    spread = np.sqrt(np.maximum(r @ atoms**2 - (r @ atoms) ** 2, 0.0))
    b0 = _FOLD * spread.sum(axis=-1) / root
    sd = _deviation(p, np.sign(bank - target) @ atoms.T) / root
    return b0, sd, SMALL * geometry.diameter / root**2


def _cost_labels(geometry: CostLabels, bank: Floats, reference: Floats, *, value: Floats, root: Floats) -> Triple:
    r = geometry.probabilities(reference[..., None, :])
    variation = 0.5 * _FOLD * np.sqrt(r * (1.0 - r)).sum(axis=-1) / root
    p, c = geometry.order, geometry.diameter
    b0 = c * variation ** (1.0 / p)  # W_p^p is at most c^p times the total variation
    seen = geometry.probabilities(_with_reference(bank, reference[..., None, :], root))
    deviation = _deviation(seen, geometry.solve(bank, reference)[1]) / root
    sd = deviation if p == 1 else deviation / (2.0 * np.maximum(value, np.maximum(b0, 1e-300)))
    return b0, sd, SMALL * c / root**2


def _quantiles(geometry: QuantileGeometry, bank: Floats, target: Floats, *, value: Floats, root: Floats) -> Triple:
    """One-dimensional errors per track; orthogonal tracks add in squares, different bases of a frame linearly."""
    tracks, cells, constant = geometry.n_tracks, geometry.cells, geometry.constant
    m = bank.reshape(*bank.shape[:-1], tracks, cells) / geometry.scale
    r = target.reshape(*target.shape[:-1], tracks, cells) / geometry.scale
    if geometry.order == 1:
        b0, sd, small = _track_w1(m, r)
        b0 = constant * b0.sum(axis=-1) / root
        small = constant * small.sum(axis=-1) / root**2
        return b0, constant * _across(sd, geometry) / root, small
    b0, sd, small = _track_w2(m, r)
    b0 = constant * np.sqrt(b0.sum(axis=-1)) / root
    scale = 2.0 * np.maximum(np.maximum(value, b0), 1e-300)
    small = constant * np.sqrt((small**2).sum(axis=-1)) / root**2
    return b0, constant**2 * _across(sd, geometry) / root / scale, small


def _across(sd: Floats, geometry: QuantileGeometry) -> Floats:
    d = max(1, int(np.prod(geometry.outcome_shape)))
    bases = sd.reshape(*sd.shape[:-1], d, geometry.n_tracks // d)  # tracks k, k + L/d, ... are orthogonal
    total: Floats = np.sqrt((bases**2).sum(axis=-2)).sum(axis=-1)
    return total


def _scatter(m: Floats) -> Floats:
    """Integral of sqrt(F (1 - F)) from cell means."""
    inner = cosine_levels(m.shape[-1])[1:-1]
    total: Floats = np.maximum(np.diff(m, axis=-1), 0.0) @ np.sqrt(inner * (1.0 - inner))
    return total


def _potential(m: Floats, slope: Floats) -> Floats:
    """Kantorovich potential with this slope at the cell means, up to a constant."""
    steps = np.diff(m, axis=-1) * 0.5 * (slope[..., 1:] + slope[..., :-1])
    return np.concatenate([np.zeros((*m.shape[:-1], 1)), np.cumsum(steps, axis=-1)], axis=-1)


def _track_w1(m: Floats, r: Floats) -> Triple:
    scatter = _scatter(r)
    sd = _deviation(level_widths(m.shape[-1]), _potential(m, np.sign(m - r)))
    return _FOLD * scatter, sd, 2.0 * np.maximum(scatter, _scatter(m))


def _track_w2(m: Floats, r: Floats) -> Triple:
    """Returns n b0^2, the standard deviation of the potential of W2^2, and the small-sample term."""
    cells = m.shape[-1]
    w = level_widths(cells)
    middle = 0.5 * (cosine_levels(cells)[1:] + cosine_levels(cells)[:-1])
    gaps = np.diff(r, axis=-1)
    reach = np.concatenate([gaps[..., :1], 0.5 * (gaps[..., 1:] + gaps[..., :-1]), gaps[..., -1:]], axis=-1)
    b0 = (reach**2) @ (middle * (1.0 - middle) / w)
    sd = _deviation(w, _potential(m, 2.0 * (m - r)))
    return b0, sd, 2.0 * np.maximum(_scatter(r), _scatter(m))


def _bures(geometry: Bures, bank: Floats, target: Floats, *, root: Floats) -> Triple:
    """Gaussian scatter of mean and covariance; W2 moves at most sqrt(largest eigenvalue) per unit of noise."""
    d = geometry.dimension
    if geometry.diagonal:
        spread, largest = target[..., d:] ** 2, bank[..., d:].max(axis=-1) ** 2
        b0 = np.sqrt(1.5 * spread.sum(axis=-1)) / root
    else:
        spread = np.clip(np.linalg.eigvalsh(geometry.split(target)[1]), 0.0, None)
        largest = np.clip(np.linalg.eigvalsh(geometry.split(bank)[1])[..., -1], 0.0, None)
        pairs = spread[..., :, None] + spread[..., None, :]
        product = spread[..., :, None] * spread[..., None, :]
        mixed = (product / np.where(pairs > 0, pairs, 1.0)).sum(axis=(-2, -1))
        b0 = np.sqrt(1.25 * spread.sum(axis=-1) + 0.5 * mixed) / root
    return b0, np.sqrt(largest) / root, SMALL * np.sqrt(largest) * d / root**2


def _clouds(geometry: CostCloud, bank: Floats, root: Floats) -> Triple:
    """The bias is at most the expected distance between two halves of the cloud; potentials are 1-Lipschitz."""
    from scipy.spatial.distance import cdist

    flat = bank.reshape(-1, geometry.width)
    b0, sd = np.zeros(len(flat)), np.zeros(len(flat))
    for row, embedding in enumerate(flat):
        points, _ = geometry.unpack(embedding)
        half = len(points) // 2
        if half == 0:
            continue
        halves = [geometry.embed_outcomes(points[start::2][:half]) for start in (0, 1)]
        b0[row] = geometry.distances(halves[0][None], halves[1])[0]
        sd[row] = np.sqrt(0.5 * (cdist(points, points, geometry.metric) ** 2).mean())
    shape = bank.shape[:-1]
    spread = sd.reshape(shape)
    finite = np.isfinite(root)
    return np.where(finite, b0.reshape(shape), 0.0), spread / root, SMALL * spread / root**2
