"""The law of completion: Kaplan-Meier with competing risks (Aalen-Johansen) on a fixed grid of times.

Times fall into ``BINS`` bins, each 1.6 times as long as the one before, from 20 ms to about 8 hours; the last one is
open. Ties follow the usual convention: within a bin events come before censorings. Between the ends of a bin curves are
interpolated linearly in the share of the bin (on the log scale) that has passed.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.survival.kaplan_meier import hazard_of, incidence, number_at_risk, product_limit

BINS = 32
_FIRST_S = 0.02
_LOG_RATIO = math.log(1.6)


def bin_of(elapsed_s: float) -> int:
    """Return the index of the time bin that ``elapsed_s`` falls into.

    Examples
    --------
    >>> [bin_of(t) for t in (0.0, 0.019, 0.021, 1.0, 1e9)]
    [0, 0, 1, 9, 31]
    """
    if elapsed_s < _FIRST_S:
        return 0
    return min(BINS - 1, 1 + int(math.log(elapsed_s / _FIRST_S) / _LOG_RATIO))


def place_in_bin(elapsed_s: float) -> tuple[int, float]:
    """The bin of a time, and the share of the bin that has passed."""
    index = bin_of(elapsed_s)
    if index == 0:
        return 0, elapsed_s / _FIRST_S
    return index, min(1.0, max(0.0, math.log(elapsed_s / _FIRST_S) / _LOG_RATIO - (index - 1)))


@dataclass(frozen=True, slots=True, eq=False)
class CompletionLaw:
    """Curves at the ends of the bins, ``(BINS + 1,)`` each, beginning at time 0.

    Parameters
    ----------
    running
        P(neither completed nor failed by t).
    completed, failed
        P(completed by t), P(failed by t).
    earned
        E[reward * 1(completed by t)].
    """

    running: Floats
    _: KW_ONLY
    completed: Floats
    failed: Floats
    earned: Floats

    def information(self, silent_s: float, patience_s: float | None) -> float | None:
        """Information of silence until ``silent_s``: 1 - E[reward in time | still running] / E[reward in time].

        1 means that nothing can come any more, 0 that silence says nothing; below 0 it is good news. Before the first
        reward, completions count as rewards of 1; None without a completion.
        """
        curve = self.earned if self.earned[-1] > 0.0 else self.completed
        whole = float(curve[-1]) if patience_s is None else _at(curve, patience_s)
        if whole <= 0.0:
            return None
        running = _at(self.running, silent_s)
        left = whole - _at(curve, silent_s)
        if running <= 1e-9 or left <= 0.0:
            return 1.0
        return max(-1.0, 1.0 - left / running / whole)


def law_of(exits: Floats, reward: Floats, beyond: float = 0.0) -> CompletionLaw:
    """The law from exits by cause (completed, failed, censored) and bin, ``(3, BINS)``, and sums of reward by bin.

    ``beyond`` counts those still running after the last bin.

    Examples
    --------
    >>> exits = np.zeros((3, BINS))
    >>> exits[0, [2, 5]] = 1.0
    >>> exits[2, 3] = 1.0  # censored between the two completions
    >>> law_of(exits, exits[0]).running[[2, 3, 6]].round(3)
    array([1.   , 0.667, 0.   ])
    """
    at_risk = number_at_risk(np.add.reduce(exits, axis=0)) + beyond
    completion, failure, worth = (hazard_of(part, at_risk) for part in (exits[0], exits[1], reward))
    running = product_limit(completion, failure)
    completed, failed, earned = (incidence(running, part) for part in (completion, failure, worth))
    return CompletionLaw(running, completed=completed, failed=failed, earned=earned)


def shrunk(exits: Floats, reward: Floats, towards: CompletionLaw, *, weight: float) -> CompletionLaw:
    """The law of an agent, with ``weight`` pseudo-outcomes drawn from the law ``towards`` [1]_.

    References
    ----------
    .. [1] Susarla, Van Ryzin. Nonparametric Bayesian estimation of survival curves from incomplete observations.
       JASA 1976.
    """
    exits = exits.copy()
    exits[0] += weight * np.diff(towards.completed)
    exits[1] += weight * np.diff(towards.failed)
    return law_of(exits, reward + weight * np.diff(towards.earned), beyond=weight * float(towards.running[-1]))


def _at(curve: Floats, t_s: float) -> float:
    index, passed = place_in_bin(t_s)
    return float(curve[index] + passed * (curve[index + 1] - curve[index]))
