"""Frailty: a latent multiplier theta of the hazard, common to all agents on a task, with mean 1.

Given theta, the times of different agents are independent with survival ``S_i(t)^theta``. Marginally they are
dependent: one slow agent suggests a hard task, on which the others are slow too. Theta is never observed, but outcomes
determine its posterior: with ``d`` events and total cumulative hazard ``H`` so far the likelihood is
``theta^d exp(-theta H)``, to which the gamma distribution is conjugate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError


@dataclass(frozen=True)
class GammaFrailty:
    """Gamma distribution of theta with mean 1 and the given variance; variance 0 means theta = 1.

    Examples
    --------
    >>> law = GammaFrailty(variance=0.5)
    >>> law.posterior_mean(events=0, hazard=3.0).round(2)  # (1/v + d) / (1/v + H): it did not finish, so it is hard
    np.float64(0.4)
    """

    variance: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.variance) and self.variance >= 0):
            raise InvalidInputError("variance", f"is {self.variance}", "pass a variance of zero or more")

    def at_normal(self, z: npt.ArrayLike) -> Floats:
        """The quantile at P(Z <= z): increasing in z, and distributed as theta if z is standard normal."""
        from scipy.special import gammainccinv, gammaincinv, ndtr

        z = np.asarray(z, dtype=float)
        if self.variance == 0:
            return np.ones(z.shape)
        shape = 1 / self.variance
        # each half by the tail that it is in, so that both are accurate
        low, high = gammaincinv(shape, ndtr(np.minimum(z, 0.0))), gammainccinv(shape, ndtr(-np.maximum(z, 0.0)))
        return np.asarray(self.variance * np.where(z <= 0, low, high))

    def sample(self, u: npt.ArrayLike) -> Floats:
        """Draws from uniforms in [0, 1)."""
        return self.at_normal(_normal_quantile(u))

    def posterior_mean(self, events: npt.ArrayLike, hazard: npt.ArrayLike) -> Floats:
        """E[theta | outcomes] = (1/v + d) / (1/v + H) after ``events`` completions and total cumulative ``hazard``.

        A censored outcome adds hazard but no event, so repeated timeouts indicate a hard task (small theta).
        """
        d, h = np.asarray(events, dtype=float), np.asarray(hazard, dtype=float)
        return (1 + self.variance * d) / (1 + self.variance * h)


@dataclass(frozen=True, slots=True)
class FrailtyProcess:
    """Generates theta_1, theta_2, ... for an environment: a stationary process with a given marginal distribution.

    A latent normal number follows a first-order autoregression, ``z' = rho z + sqrt(1 - rho^2) e``, and ``theta`` is
    the quantile of its distribution at ``P(Z <= z)`` (a Gaussian copula). So theta_t has exactly the given distribution
    for every ``rho``; ``rho = 0`` is the paper's i.i.d. case, ``rho > 0`` the history-dependent one.

    Parameters
    ----------
    frailty
        Marginal distribution of theta_t.
    rho
        Correlation of the latent normal from one task to the next, in [0, 1).

    Examples
    --------
    >>> process = FrailtyProcess(GammaFrailty(0.5), rho=0.9)
    >>> u = np.random.Generator(np.random.Philox(key=1)).random((1000, 30))  # rounds, seeds
    >>> theta = process.path(u)
    >>> theta.shape, bool(abs(theta.mean() - 1) < 0.05)
    ((1000, 30), True)
    """

    frailty: GammaFrailty
    rho: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.rho < 1:
            raise InvalidInputError("rho", f"is {self.rho}", "pass a correlation from 0 to below 1")

    def path(self, u: npt.ArrayLike) -> Floats:
        """All rounds together; rounds are the first axis of the uniforms."""
        latent = _normal_quantile(u)
        for t in range(1, len(latent) if self.rho else 0):
            latent[t] = self.rho * latent[t - 1] + np.sqrt(1 - self.rho**2) * latent[t]
        return self.frailty.at_normal(latent)


def _normal_quantile(u: npt.ArrayLike) -> Floats:
    """The z with P(Z <= z) = u, finite at both ends."""
    from scipy.special import ndtri

    return np.asarray(ndtri(np.clip(np.asarray(u, dtype=float), 1e-300, 1 - 1e-16)))
