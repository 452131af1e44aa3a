"""Uncertainty of distances: bias, confidence distances and sample size.

The plug-in distance from n outcomes is biased upwards: it is positive even if the agent matches the reference, because
a sample scatters. Uncorrected, a policy that prefers small distances avoids agents with unlucky first outcomes.
Every distance therefore comes with

* ``b0``, its expected value when profile and reference are the same distribution;
* a standard deviation, from the Kantorovich potential of the transport (central limit theorem for W [1]_);
* lower and upper confidence distances; the orchestrator uses the lower one by default.

References
----------
.. [1] del Barrio, Loubes. Central limit theorems for empirical transportation cost. Annals of Probability 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.transport.geometries.base import Geometry
from bot_orch.transport.geometries.labels import LabelGeometry
from bot_orch.transport.geometries.scores import Scores
from bot_orch.transport.noise import SMALL, noise


@dataclass(frozen=True, slots=True, eq=False)
class Distances:
    """Distances of M agents to a reference; every array is ``(..., M)``.

    Attributes
    ----------
    value
        The plug-in W; 0, and so no penalty, for an agent without outcomes.
    debiased
        sqrt(W^2 - b0^2), at least 0.
    lower, upper
        Confidence distances; 0 and infinity without outcomes, or with a single one if outcomes are unbounded.
    n
        Effective sample size; infinity for a profile known in advance.
    """

    value: Floats
    debiased: Floats
    lower: Floats
    upper: Floats
    n: Floats

    def pick(self, which: str) -> Floats:
        """``lower``, ``plug_in``, ``debiased`` or ``upper``."""
        names = {"lower": "lower", "plug_in": "value", "debiased": "debiased", "upper": "upper"}
        if which not in names:
            raise InvalidInputError("distance", f"is {which!r}", f"pass one of {', '.join(names)}")
        chosen: Floats = getattr(self, names[which])
        return chosen


def confidence(
    geometry: Geometry,
    bank: Floats,
    reference: Floats,
    n: Floats,
    *,
    level: float = 0.90,
) -> Distances:
    """W between profiles ``(..., M, q)`` learned from n ``(..., M)`` outcomes and a known reference ``(..., q)``.

    The bounds are W - b0 - z sd - s/n and W + z sd + s'/n. For bounded outcomes s is 0.8 and s' is z^2 times the range
    (which allows for a rare unseen outcome, as in Wilson's interval for a proportion). Without bounds both are twice
    the integral of sqrt(F (1 - F)), and rare unseen outcomes are not covered.

    Parameters
    ----------
    level
        Probability that the true distance lies between ``lower`` and ``upper``.

    Examples
    --------
    >>> from bot_orch.transport import Samples, Scores
    >>> geometry = Scores()
    >>> profile = geometry.embed(Samples(np.linspace(0.0, 1.0, 21)))
    >>> same = confidence(geometry, profile[None], profile, np.array([21.0]))
    >>> float(same.lower[0]), bool(same.upper[0] < 0.2)
    (0.0, True)
    """
    if not 0.0 < level < 1.0:
        raise InvalidInputError("level", f"is {level}", "pass a probability such as 0.90")
    n = np.asarray(n, dtype=float)
    value = geometry.distances(bank, reference)
    root = np.sqrt(np.maximum(n, 1.0))
    bounded = isinstance(geometry, Scores | LabelGeometry)
    b0, sd, small = noise(geometry, bank, reference, value=value, root=root)
    z = _normal_quantile(0.5 + 0.5 * level)
    lower = np.maximum(value - b0 - z * sd - small, 0.0)
    upper = value + z * sd + small * (z * z / SMALL if bounded else 1.0)
    debiased = np.sqrt(np.maximum(value * value - b0 * b0, 0.0))
    blind = n < (1 if bounded else 2)  # one unbounded outcome does not determine a spread
    if blind.any():
        lower, upper = np.where(blind, 0.0, lower), np.where(blind, np.inf, upper)
        value, debiased = np.where(n > 0, value, 0.0), np.where(n > 0, debiased, 0.0)
    return Distances(value, debiased, lower, upper, n)


@lru_cache(maxsize=64)
def _normal_quantile(p: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(p))
