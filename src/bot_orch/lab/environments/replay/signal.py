"""The reward signal: from the observed outcome of the chosen agent to the number a policy learns from.

A data set with rewards is learned from as it is. A runtime data set is learned from through the survival reward
R = delta * S(T): completed earlier earns more, a timeout (right-censored at the cutoff) and a failure (crash, out of
memory: a competing risk) earn nothing. S is common to all agents, so that speed counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats, Ints
from bot_orch.errors import InvalidInputError
from bot_orch.survival import Cause, OnlineKaplanMeier, survival_reward


class Signal(ABC):
    """Converts times and causes of the chosen agents to rewards; may learn S online."""

    @abstractmethod
    def __call__(self, time_s: Floats, cause: Ints, cutoff_s: Floats) -> Floats:
        """The survival reward of one outcome per seed, using only earlier outcomes; all arrays are ``(seeds,)``."""


def log_uniform_survival(t_s: npt.ArrayLike, cutoff_s: npt.ArrayLike) -> Floats:
    """S(t) if log(1 + T) is uniform on [0, log(1 + cutoff)]: every doubling of the time costs the same.

    Examples
    --------
    >>> log_uniform_survival([0.0, 9.0, 99.0], 99.0).round(3)
    array([1. , 0.5, 0. ])
    """
    return np.asarray(np.clip(1.0 - np.log1p(np.asarray(t_s, dtype=float)) / np.log1p(cutoff_s), 0.0, 1.0))


class LogUniformSignal(Signal):
    """S fixed by the cutoff (:func:`log_uniform_survival`): the same scale in every run, without learning."""

    def __call__(self, time_s: Floats, cause: Ints, cutoff_s: Floats) -> Floats:
        """``delta * S(T)``."""
        return survival_reward(log_uniform_survival(time_s, cutoff_s), cause == Cause.COMPLETED)


class KaplanMeierSignal(Signal):
    """S learned online, one curve per seed pooled over agents, failures as competing risks.

    S(t) is the share of outcomes not completed by t, so a completion earns the share of outcomes it beats. At the start
    S is :func:`log_uniform_survival`; what was learned takes over with weight n / (n + prior) after n outcomes.
    """

    def __init__(self, seeds: int, capacity: int = 64, prior: float = 10.0) -> None:
        self._fit = OnlineKaplanMeier(capacity)
        self._state = self._fit.init((seeds,), 1)
        self._agent = np.zeros(seeds, dtype=np.int64)
        self._seen, self._prior = 0, prior

    def __call__(self, time_s: Floats, cause: Ints, cutoff_s: Floats) -> Floats:
        """``delta * S(T)`` with S as of before this outcome; then S learns it."""
        start = log_uniform_survival(time_s, cutoff_s)
        learned = self._fit.model(self._state).survival(time_s[:, None])[:, 0]
        weight = self._prior / (self._prior + self._seen)
        self._fit.update(self._state, time_s, cause, self._agent)
        self._seen += 1
        return survival_reward(weight * start + (1.0 - weight) * learned, cause == Cause.COMPLETED)


class Par10Signal(Signal):
    """PAR10 as a reward, 1 - PAR10 / (10 * cutoff): a timeout or a failure earns 0, a completion 0.9 or more."""

    def __call__(self, time_s: Floats, cause: Ints, cutoff_s: Floats) -> Floats:
        """``delta * (1 - T / (10 * cutoff))``."""
        return survival_reward(1.0 - time_s / (10.0 * cutoff_s), cause == Cause.COMPLETED)


SIGNALS = ("log-uniform", "kaplan-meier", "par10")


def make_signal(name: str, seeds: int) -> Signal:
    """The signal of that name."""
    if name not in SIGNALS:
        raise InvalidInputError("signal", f"{name!r} is not known", f"choose one of {', '.join(SIGNALS)}")
    if name == "kaplan-meier":
        return KaplanMeierSignal(seeds)
    return LogUniformSignal() if name == "log-uniform" else Par10Signal()
