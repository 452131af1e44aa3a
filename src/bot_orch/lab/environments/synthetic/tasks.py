"""Latent rewards, tasks and means over time: where the five environments differ."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from bot_orch.arrays import Floats
from bot_orch.lab.environments.synthetic.settings import Bridge, Drift, Law, Moons, Setting, Shifts

_A, _B = 2.0, 5.0  # the beta law behind the skewed shapes: skewness 0.6
_BETA_MEAN = _A / (_A + _B)
_BETA_SD = float(np.sqrt(_A * _B / ((_A + _B) ** 2 * (_A + _B + 1))))
_PEAK = 0.97  # share of a bimodal law's sd that lies between its peaks
_TABLE_U = np.concatenate([np.geomspace(1e-9, 1e-3, 400)[:-1], np.linspace(1e-3, 1 - 1e-3, 4000)])
_TABLE_U = np.concatenate([_TABLE_U, 1 - np.geomspace(1e-9, 1e-3, 400)[-2::-1]])
_TABLE_X = betaincinv(_A, _B, _TABLE_U)


def _right(g: Floats) -> Floats:
    beta = np.interp(ndtr(g), _TABLE_U, _TABLE_X)
    return np.asarray((beta - _BETA_MEAN) / _BETA_SD)


def _left(g: Floats) -> Floats:
    return -_right(-g)


def _flat(g: Floats) -> Floats:
    return np.asarray(np.sqrt(12.0) * (ndtr(g) - 0.5))


def _two_peaks(g: Floats) -> Floats:
    u = ndtr(-np.abs(g))  # in (0, 1/2]: which peak is the sign of g, where in the peak is 2 u
    inside = ndtri(np.clip(2.0 * u, 1e-12, 1 - 1e-12))
    return np.asarray(np.sign(g) * (_PEAK - np.sqrt(1.0 - _PEAK**2) * inside))


#: From a standard normal draw to a draw with mean 0 and sd 1 of the named shape; increasing but for ``bimodal``.
SHAPES: dict[str, Callable[[Floats], Floats]] = {
    "normal": lambda g: g,
    "right-skewed": _right,
    "left-skewed": _left,
    "uniform": _flat,
    "bimodal": _two_peaks,
}


def standard_draws(laws: tuple[Law, ...], g: Floats) -> Floats:
    """Draws ``(..., M)`` with mean 0 and each agent's sd, from standard normals of the same shape."""
    out = np.empty_like(g)
    for i, law in enumerate(laws):
        out[..., i] = law.sd * SHAPES[law.shape](g[..., i])
    return out


def correlated_normals(shared: Floats, own: Floats, correlation: Floats) -> Floats:
    """Standard normals ``(T, seeds, M)`` with correlation ``correlation`` (T,) between agents in each round.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> g = correlated_normals(rng.normal(size=(1, 9000)), rng.normal(size=(1, 9000, 2)), np.array([0.6]))
    >>> bool(abs(np.corrcoef(g[0].T)[0, 1] - 0.6) < 0.03)
    True
    """
    rho = correlation[:, None, None]
    mixed: Floats = np.sqrt(rho) * shared[..., None] + np.sqrt(1.0 - rho) * own
    return mixed


def half_moons(rng: np.random.Generator, n: int, noise: float) -> Floats:
    """Points ``(n, 2)`` of two interleaved half circles of radius 1, centred.

    The same shape as scikit-learn's ``make_moons``, with each point's moon drawn at random.
    """
    angle, upper = np.pi * rng.random(n), rng.random(n) < 0.5
    x = np.where(upper, np.cos(angle), 1.0 - np.cos(angle))
    y = np.where(upper, np.sin(angle), 0.5 - np.sin(angle))
    return np.stack([x - 0.5, y - 0.25], axis=-1) + noise * rng.normal(size=(n, 2))


def bridge(rng: np.random.Generator, rounds: int, paths: int) -> Floats:
    """Standard Brownian bridges ``(rounds, paths)``, zero in the first and in the last round.

    Examples
    --------
    >>> b = bridge(np.random.default_rng(0), 5, 2)
    >>> b[0].tolist(), b[-1].round(12).tolist()
    ([0.0, 0.0], [0.0, 0.0])
    """
    steps = rng.normal(size=(rounds - 1, paths)) / np.sqrt(rounds - 1)
    walk = np.concatenate([np.zeros((1, paths)), np.cumsum(steps, axis=0)])
    tied: Floats = walk - np.linspace(0.0, 1.0, rounds)[:, None] * walk[-1]
    return tied


def task_paths(setting: Setting, rng: np.random.Generator, rounds: int) -> tuple[Floats, Floats]:
    """Tasks of one seed in units of ``task_spread`` and of ``path_scale``: scatter and centre, each ``(T, 2)``."""
    if isinstance(setting, Moons):
        return half_moons(rng, rounds, setting.moon_noise), np.zeros((rounds, 2))
    scatter = rng.normal(size=(rounds, 2))
    if isinstance(setting, Drift):
        swing = np.sin(2.0 * np.pi * np.arange(rounds) / setting.period)
        scatter[:, 0] += setting.task_amplitude * swing
    centre = bridge(rng, rounds, 2) if isinstance(setting, Bridge) else np.zeros((rounds, 2))
    return scatter, centre


def mean_paths(setting: Setting, rng: np.random.Generator, rounds: int) -> Floats:
    """Latent mean reward of every agent in every round of one seed, ``(T, M)``."""
    m = len(setting.laws)
    if isinstance(setting, Drift):
        phase = np.arange(rounds)[:, None] / setting.period + np.arange(m) / m
        return 0.5 + setting.mean_amplitude * np.sin(2.0 * np.pi * phase)
    if isinstance(setting, Bridge):
        return np.clip(0.5 + setting.mean_scale * bridge(rng, rounds, m), 0.05, 0.95)
    return np.full((rounds, m), 0.5)


def segments(setting: Setting, rounds: int) -> Floats:
    """Index of the segment of each round, ``(T,)``; 0 without changepoints."""
    if not isinstance(setting, Shifts):
        return np.zeros(rounds)
    starts = np.round(np.asarray(setting.changepoints) * rounds)
    return np.searchsorted(starts, np.arange(rounds), side="right").astype(float)


def laws_by_segment(setting: Setting) -> list[tuple[Law, ...]]:
    """The agents' laws in each segment."""
    if not isinstance(setting, Shifts):
        return [setting.laws]
    return [tuple(setting.laws[k] for k in order) for order in setting.order]


def correlations(setting: Setting, segment: Floats) -> Floats:
    """Correlation of latent rewards between agents in each round, ``(T,)``."""
    table = np.asarray(setting.correlation)
    return np.asarray(table[np.minimum(segment.astype(np.int64), len(table) - 1)])
