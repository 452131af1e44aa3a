"""Latent rewards: laws with one mean and different variance, skewness and bimodality, correlated across agents."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from bot_orch.arrays import Floats
from bot_orch.lab.environments.synthetic.settings import Law

__all__ = ["SHAPES", "correlated_normals", "standard_draws"]

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
    """Standard normals ``(T, seeds, M)`` whose correlation between agents is ``correlation`` (T,) in each round.

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
