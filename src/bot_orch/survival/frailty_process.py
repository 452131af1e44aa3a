"""Autocorrelated frailty: a stationary process theta_t with a given marginal distribution.

A latent normal number follows a stationary first-order autoregression, ``z' = rho z + sqrt(1 - rho^2) e``, and
``theta`` is the quantile of its distribution at ``P(Z <= z)`` (a Gaussian copula). So theta_t has exactly the given
distribution with mean 1 for every ``rho``; ``rho = 0`` is the paper's i.i.d. case, ``rho > 0`` the history-dependent
one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Arrays, Field, Floats, Schema, allocate
from bot_orch.errors import InvalidInputError
from bot_orch.survival.frailty import Frailty
from bot_orch.survival.quadrature import normal_nodes
from bot_orch.survival.special import normal_quantile

__all__ = ["FrailtyFilter", "FrailtyProcess"]


@dataclass(frozen=True, slots=True)
class FrailtyProcess:
    """Generates theta_1, theta_2, ... for an environment.

    Parameters
    ----------
    frailty
        Marginal distribution of theta_t.
    rho
        Correlation of the latent normal from one task to the next, in [0, 1).

    Examples
    --------
    >>> from bot_orch.survival.frailty import GammaFrailty
    >>> process = FrailtyProcess(GammaFrailty(0.5), rho=0.9)
    >>> u = np.random.Generator(np.random.Philox(key=1)).random((1000, 30))  # rounds, seeds
    >>> theta = process.path(u)
    >>> theta.shape, bool(abs(theta.mean() - 1) < 0.05)
    ((1000, 30), True)
    """

    frailty: Frailty
    rho: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.rho < 1:
            raise InvalidInputError("rho", f"is {self.rho}", "pass a correlation from 0 to below 1")

    def step(self, z: Floats | None, u: npt.ArrayLike) -> tuple[Floats, Floats]:
        """``(next latent, theta)`` from the last latent (None at the start) and uniforms."""
        fresh = normal_quantile(np.clip(np.asarray(u, dtype=float), 1e-300, 1 - 1e-16))
        z = fresh if z is None else self.rho * z + np.sqrt(1 - self.rho**2) * fresh
        return z, self.frailty.at_normal(z)

    def path(self, u: npt.ArrayLike) -> Floats:
        """All rounds at once; rounds are the first axis of the uniforms."""
        latent = normal_quantile(np.clip(np.asarray(u, dtype=float), 1e-300, 1 - 1e-16))
        for t in range(1, len(latent) if self.rho else 0):
            latent[t] = self.rho * latent[t - 1] + np.sqrt(1 - self.rho**2) * latent[t]
        return self.frailty.at_normal(latent)


@dataclass(frozen=True, slots=True)
class FrailtyFilter:
    """The posterior of theta given all outcomes so far, on a grid of the latent variable.

    Call :meth:`advance` when a new task begins and :meth:`update` for every outcome of the current task; several
    agents may work on one task. The state is not per agent: frailty belongs to the task.

    Examples
    --------
    >>> from bot_orch.survival.frailty import GammaFrailty
    >>> belief = FrailtyFilter(GammaFrailty(0.5), rho=0.8)
    >>> state = belief.init(())
    >>> belief.update(state, events=0, hazard=3.0)  # ran through H = 3 without finishing
    >>> belief.mean(state).round(3)
    np.float64(0.4)
    >>> belief.advance(state)  # the next task is probably hard too, but less surely
    >>> 0.4 < float(belief.mean(state)) < 1
    True
    """

    frailty: Frailty
    rho: float = 0.0
    nodes: int = 121

    def __post_init__(self) -> None:
        FrailtyProcess(self.frailty, self.rho)

    @property
    def schema(self) -> Schema:
        """Log weights of the grid relative to the prior."""
        return {"log_belief": Field(per_agent=False, shape=(self.nodes,))}

    def init(self, batch: tuple[int, ...] = ()) -> Arrays:
        """Initial state: the prior."""
        return allocate(self.schema, batch, 0)

    def advance(self, state: Arrays) -> None:
        """Prediction step of the filter: move to the next task."""
        z, log_prior = self._grid()
        kernel = np.exp(-0.5 * (z[:, None] - self.rho * z) ** 2 / (1 - self.rho**2))  # (to, from)
        kernel /= kernel.sum(axis=0)
        p = self._probabilities(state) @ kernel.T
        state["log_belief"][...] = np.log(np.maximum(p, 1e-300)) - log_prior

    def update(self, state: Arrays, events: npt.ArrayLike, hazard: npt.ArrayLike) -> None:
        """Update step of the filter with outcomes of the current task: events and baseline cumulative hazard."""
        theta = self.frailty.at_normal(self._grid()[0])
        d, h = (np.asarray(part, dtype=float)[..., None] for part in (events, hazard))
        state["log_belief"] += d * np.log(np.maximum(theta, 1e-300)) - h * theta
        state["log_belief"] -= state["log_belief"].max(axis=-1, keepdims=True)

    def mean(self, state: Arrays) -> Floats:
        """E[theta | outcomes so far]."""
        return np.asarray(self._probabilities(state) @ self.frailty.at_normal(self._grid()[0]))

    def survival(self, state: Arrays, hazard: npt.ArrayLike) -> Floats:
        """E[S^theta | outcomes so far] at baseline cumulative hazards of shape ``batch + (...)``."""
        theta, h = self.frailty.at_normal(self._grid()[0]), np.asarray(hazard, dtype=float)
        p = self._probabilities(state)
        p = p.reshape(*p.shape[:-1], *(1,) * (h.ndim - p.ndim + 1), -1)
        return np.asarray(np.sum(p * np.exp(-h[..., None] * theta), axis=-1))

    def _grid(self) -> tuple[Floats, Floats]:
        return normal_nodes(self.nodes, 7.5)

    def _probabilities(self, state: Arrays) -> Floats:
        joint = state["log_belief"] + self._grid()[1]
        p = np.exp(joint - joint.max(axis=-1, keepdims=True))
        return np.asarray(p / p.sum(axis=-1, keepdims=True))
