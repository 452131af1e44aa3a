"""Special functions with lazy SciPy imports."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats

__all__ = ["gamma_quantile", "log_normal_sf", "normal_cdf", "normal_isf_exp", "normal_quantile"]


def log_normal_sf(w: npt.ArrayLike) -> Floats:
    """The log of P(Z > w) for a standard normal Z."""
    from scipy.special import log_ndtr

    return np.asarray(log_ndtr(-np.asarray(w, dtype=float)))


def normal_isf_exp(log_p: npt.ArrayLike) -> Floats:
    """The w with log P(Z > w) = log_p."""
    from scipy.special import ndtri_exp

    return -np.asarray(ndtri_exp(np.asarray(log_p, dtype=float)))


def normal_cdf(z: npt.ArrayLike) -> Floats:
    """P(Z <= z)."""
    from scipy.special import ndtr

    return np.asarray(ndtr(np.asarray(z, dtype=float)))


def normal_quantile(p: npt.ArrayLike) -> Floats:
    """The z with P(Z <= z) = p."""
    from scipy.special import ndtri

    return np.asarray(ndtri(np.asarray(p, dtype=float)))


def gamma_quantile(shape: npt.ArrayLike, z: npt.ArrayLike) -> Floats:
    """The quantile of a unit-rate gamma at P(Z <= z), accurate in both tails."""
    from scipy.special import gammainccinv, gammaincinv

    z = np.asarray(z, dtype=float)
    low, high = gammaincinv(shape, normal_cdf(np.minimum(z, 0.0))), gammainccinv(shape, normal_cdf(-np.maximum(z, 0.0)))
    return np.asarray(np.where(z <= 0, low, high))
