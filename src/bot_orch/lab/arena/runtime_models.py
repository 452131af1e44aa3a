"""Runtime models of two published online selectors: log-normal with a linear mean, and least squares.

References
----------
.. [1] Tornede, Bengs, Hüllermeier. Machine learning for online algorithm selection under censored feedback. AAAI 2022.
.. [2] Degroote, Bischl, Kotthoff, De Causmaecker. Reinforcement learning for automatic online algorithm selection - an
   empirical study. ITAT 2016.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from bot_orch.arrays import Bools, Floats, Ints

_SMALLEST_S = 1e-4  # a runtime recorded as 0 has a logarithm


def expected_par10(mean: Floats, sd: Floats, cutoff_s: Floats) -> Floats:
    """E[PAR10] of a runtime whose logarithm is normal: E[T; T <= cutoff] + 10 cutoff P(T > cutoff).

    Examples
    --------
    >>> expected_par10(np.array([0.0, 9.0]), np.array([1e-9, 1e-9]), np.array(100.0)).round(3)
    array([   1., 1000.])
    """
    sd = np.maximum(sd, 1e-9)
    z = (np.log(cutoff_s) - mean) / sd
    with np.errstate(over="ignore"):
        inside = np.exp(np.minimum(mean + 0.5 * sd**2, 700.0)) * ndtr(z - sd)
    return np.asarray(np.minimum(inside, cutoff_s * ndtr(z)) + 10.0 * cutoff_s * ndtr(-z))


def imputed_beyond(mean: Floats, sd: Floats, bound: Floats, *, u: Floats) -> Floats:
    """A draw from a normal distribution beyond ``bound``, by ``u`` in [0, 1); the bound where that is out of reach."""
    beyond = ndtr((mean - bound) / sd)
    return np.where(beyond > 1e-6, mean - sd * ndtri(np.maximum(beyond * (1.0 - u), 1e-300)), bound)


def unit_vectors(x: Floats) -> Floats:
    """Rows scaled to length 1; a row of zeros stays."""
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    return np.asarray(x / np.where(length > 0.0, length, 1.0))


class LogLinearRuntimes:
    """Bayesian linear regression of log runtimes per seed and agent [1]_; the prior precision is ``ridge``."""

    def __init__(self, seeds: int, agents: int, width: int, *, ridge: float = 0.5) -> None:
        self.inverse = np.broadcast_to(np.eye(width) / ridge, (seeds, agents, width, width)).copy()
        self.weighted = np.zeros((seeds, agents, width))
        self.seen = np.zeros((seeds, agents), dtype=np.int64)
        self._rows = np.arange(seeds)

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Posterior mean and standard deviation of the regression at ``x``, ``(seeds, agents)`` each."""
        spread = np.einsum("smij,sj->smi", self.inverse, x)
        variance = np.einsum("smi,si->sm", spread, x)
        return np.einsum("smi,smi->sm", spread, self.weighted), np.sqrt(np.maximum(variance, 0.0))

    def learn(self, x: Floats, agent: Ints, log_time: Floats) -> None:
        """Learn one log runtime per seed, by the Sherman-Morrison formula."""
        at = (self._rows, agent)
        inverse = self.inverse[at]
        spread = np.einsum("sij,sj->si", inverse, x)
        scale = 1.0 + np.einsum("si,si->s", spread, x)
        self.inverse[at] = inverse - np.einsum("si,sj->sij", spread, spread) / scale[:, None, None]
        self.weighted[at] += log_time[:, None] * x
        self.seen[at] += 1

    @staticmethod
    def log_time(time_s: Floats) -> Floats:
        """Logarithms of runtimes; 0 counts as 0.1 ms."""
        return np.log(np.maximum(time_s, _SMALLEST_S))


class LeastSquaresRuntimes:
    """Least squares of runtimes per seed and agent, with an intercept [2]_.

    Features of a prediction are clipped to the range that the agent was seen with. With fewer runs than features it is
    the solution of least norm, up to a ridge of a millionth.
    """

    def __init__(self, seeds: int, agents: int, width: int) -> None:
        shape = (seeds, agents)
        self._gram = np.zeros((*shape, width + 1, width + 1))
        self._moment = np.zeros((*shape, width + 1))
        self._weights = np.zeros((*shape, width + 1))
        self._low, self._high = np.full((*shape, width), np.inf), np.full((*shape, width), -np.inf)
        self.seen = np.zeros(shape, dtype=np.int64)

    def predict(self, x: Floats) -> Floats:
        """Predicted runtimes, ``(seeds, agents)``; 0 for an agent that was not seen."""
        known: Bools = self.seen[..., None] > 0
        inside = np.where(known, np.clip(x[:, None], self._low, self._high), 0.0)
        return np.asarray(np.einsum("smi,smi->sm", inside, self._weights[..., 1:]) + self._weights[..., 0])

    def learn(self, x: Floats, agent: Ints, time_s: Floats) -> None:
        """Learn one runtime per seed, and refit the agent's weights."""
        for seed, who in enumerate(agent):
            at, row = (seed, int(who)), np.concatenate([[1.0], x[seed]])
            self._gram[at] += np.outer(row, row)
            self._moment[at] += time_s[seed] * row
            self._low[at], self._high[at] = np.minimum(self._low[at], x[seed]), np.maximum(self._high[at], x[seed])
            self.seen[at] += 1
            ridge = 1e-6 * (1.0 + np.trace(self._gram[at]) / len(row)) * np.eye(len(row))
            self._weights[at] = np.linalg.solve(self._gram[at] + ridge, self._moment[at])
