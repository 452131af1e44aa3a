"""The survival reward R = delta * S(T)^theta, and the tail bound of the paper's lemma.

Rewards by type of outcome:

=================================  ==============  ==================================================================
outcome                            paper           with ``censored="expected"``
=================================  ==============  ==================================================================
completed at T                     S(T)^theta      the same
failed (crash, out of memory) at T 0               0: the task will never complete
still running at c (timeout, ...)  0               E[S(T)^theta | T > c], the conditional expectation
=================================  ==============  ==================================================================

Notes
-----
If S is the survival function of T itself, then ``S(T)^theta`` given theta is *uniform* on [0, 1] (probability integral
transform). Without censoring every agent then has mean reward 1/2, fast or slow; agents differ only through censoring
and failures. To reward speed, use one common ``S`` for all agents: the reference model of :func:`reward_of`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Bools, Floats
from bot_orch.errors import InvalidInputError
from bot_orch.survival.causes import Cause, cause_of
from bot_orch.survival.models import SurvivalModel
from bot_orch.types import Outcome


def survival_reward(survival: npt.ArrayLike, event: npt.ArrayLike, theta: npt.ArrayLike = 1.0) -> Floats:
    """The paper's formula delta * S^theta, in [0, 1].

    Examples
    --------
    >>> survival_reward([0.25, 0.25], [True, False], theta=0.5)
    array([0.5, 0. ])
    """
    s = np.clip(np.asarray(survival, dtype=float), 0.0, 1.0)
    return np.where(np.asarray(event, dtype=bool), s ** np.asarray(theta, dtype=float), 0.0)


def expected_reward(
    model: SurvivalModel,
    cutoff_s: npt.ArrayLike = np.inf,
    theta: npt.ArrayLike = 1.0,
    running_for_s: npt.ArrayLike = 0.0,
    reference: SurvivalModel | None = None,
) -> Floats:
    """E[R | T > running_for_s, theta] with observation until the cutoff and reward 0 for a censored outcome.

    Parameters
    ----------
    model
        Given theta, T has the survival function of ``model`` to the power theta.
    reference
        The S of the reward; the model itself if None. For the model itself, with ``a = S(running)^theta`` and
        ``b = S(cutoff)^theta``, the result is ``(a^2 - b^2) / (2 a)``; otherwise quadrature over ``S(T)^theta``.

    Examples
    --------
    >>> from bot_orch.survival.models import Exponential
    >>> expected_reward(Exponential([1.0, 100.0]))  # without censoring all agents are equal
    array([0.5, 0.5])
    >>> expected_reward(Exponential([1.0, 100.0]), cutoff_s=10.0).round(3)
    array([0.5  , 0.091])
    >>> expected_reward(Exponential([1.0, 4.0]), reference=Exponential(2.0)).round(3)  # S_ref: the faster earns more
    array([0.667, 0.333])
    """
    theta = np.asarray(theta, dtype=float)
    a, b = (model.survival(t) ** theta for t in (running_for_s, cutoff_s))
    b = np.minimum(a, b)
    if reference is None:
        ratio = np.divide(b, a, out=np.zeros_like(a + b), where=a > 0)
        return np.asarray((a - b * ratio) / 2)
    total = np.zeros(np.broadcast_shapes(a.shape, b.shape, reference.lead))
    for node, weight in zip(*_unit_nodes(), strict=True):
        level = b + node * (a - b)
        with np.errstate(divide="ignore"):
            t = model.time_at(-np.log(level) / theta)
        total += weight * np.where(np.isfinite(t), reference.survival(np.where(np.isfinite(t), t, 0.0)) ** theta, 0.0)
    share = np.divide(a - b, a, out=np.zeros_like(total + a), where=a > 0)
    return np.asarray(share * total)


def reward_of(
    model: SurvivalModel,
    t_s: npt.ArrayLike,
    cause: npt.ArrayLike,
    theta: npt.ArrayLike = 1.0,
    *,
    reference: SurvivalModel | None = None,
    censored: Literal["zero", "expected"] = "zero",
    horizon_s: npt.ArrayLike = np.inf,
) -> Floats:
    """Rewards of observed outcomes.

    Parameters
    ----------
    model
        S_i of the agent, estimated *before* this outcome.
    t_s, cause
        End of observation and its cause (:class:`~bot_orch.survival.causes.Cause`; a boolean means completed or
        censored).
    theta
        The frailty: known in a simulation; live, its posterior mean given the outcomes so far
        (:meth:`~bot_orch.survival.frailty.GammaFrailty.posterior_mean`), or 1.
    reference
        The S of the reward, if not the agent's own.
    censored
        Reward of a timeout: ``zero`` as in the paper, or ``expected``, the conditional expectation with waiting until
        ``horizon_s``. A failure gets zero in both cases.

    Examples
    --------
    >>> from bot_orch.survival.models import Exponential
    >>> causes = [Cause.COMPLETED, Cause.CRASHED, Cause.CENSORED]
    >>> reward_of(Exponential(10.0), 5.0, causes).round(3)
    array([0.607, 0.   , 0.   ])
    >>> reward_of(Exponential(10.0), 5.0, causes, censored="expected").round(3)
    array([0.607, 0.   , 0.303])
    """
    code = np.asarray(cause).astype(np.int64)
    reward = survival_reward((reference or model).survival(t_s), code == Cause.COMPLETED, theta)
    if censored == "zero":
        return reward
    waiting = expected_reward(model, horizon_s, theta, t_s, reference)
    return np.clip(np.where(code == Cause.CENSORED, waiting, reward), 0.0, 1.0)


def live_reward(
    model: SurvivalModel,
    outcome: Outcome,
    theta: npt.ArrayLike = 1.0,
    *,
    reference: SurvivalModel | None = None,
    censored: Literal["zero", "expected"] = "expected",
) -> float:
    """Reward of one outcome in deployment; the arguments are those of :func:`reward_of`.

    Theta is not observed there: pass its posterior mean given the attempts so far on this task
    (:meth:`~bot_orch.survival.frailty.GammaFrailty.posterior_mean`), or leave it at 1.

    Examples
    --------
    >>> from bot_orch.survival.models import Exponential
    >>> from bot_orch.survival.frailty import GammaFrailty
    >>> model = Exponential(10.0)
    >>> round(live_reward(model, Outcome.completed(elapsed_s=5.0)), 3)
    0.607
    >>> round(live_reward(model, Outcome.censored(elapsed_s=5.0, reason="timeout")), 3)
    0.303
    >>> live_reward(model, Outcome.censored(elapsed_s=5.0, reason="crash"))
    0.0
    >>> # another agent already ran through H = 2 on this task in vain: it is hard, so 5 s is better than it looks
    >>> round(live_reward(model, Outcome.completed(elapsed_s=5.0), GammaFrailty(1.0).posterior_mean(0, hazard=2.0)), 3)
    0.846
    """
    if outcome.elapsed_s is None:
        raise InvalidInputError("outcome.elapsed_s", "is missing", "a survival reward needs the elapsed time")
    cause = cause_of(outcome)
    return float(reward_of(model, outcome.elapsed_s, cause, theta, reference=reference, censored=censored))


@dataclass(frozen=True, slots=True, eq=False)
class TailCheck:
    """Empirical tails of |R - E R| and the bound 2 exp(-2 e^2); ``slack`` is the tolerance for sampling error."""

    epsilon: Floats
    empirical: Floats
    bound: Floats
    _: KW_ONLY
    slack: Floats

    @property
    def holds(self) -> Bools:
        """Whether each empirical tail is at most the bound plus ``slack``."""
        return np.asarray(self.empirical <= self.bound + self.slack)


def tail_check(
    rewards: npt.ArrayLike, epsilon: npt.ArrayLike, mean: npt.ArrayLike | None = None, confidence: float = 0.999
) -> TailCheck:
    """P(|R - E R| > e) against the lemma's 2 exp(-2 e^2).

    Parameters
    ----------
    rewards
        Independent rewards on the last axis.
    epsilon
        Deviations e.
    mean
        E R; the empirical mean if None.
    confidence
        ``slack`` is such that a tail at the bound exceeds it with at most the complementary probability (Hoeffding).

    Notes
    -----
    The bound is weak: it exceeds 1 for e < 0.589, and |R - E R| never exceeds 1. It is informative for means of n
    rewards: pass those means, and e times sqrt(n).

    Examples
    --------
    >>> tail_check([0.0, 0.5, 1.0, 0.5], [0.1, 0.6]).empirical
    array([0.5, 0. ])
    """
    r = np.asarray(rewards, dtype=float)
    e = np.asarray(epsilon, dtype=float)
    centre = r.mean(axis=-1) if mean is None else np.asarray(mean, dtype=float)
    away = np.abs(r - centre[..., None])
    empirical = np.mean(away[..., None, :] > e[:, None], axis=-1)
    slack = np.full(e.shape, np.sqrt(np.log(1 / (1 - confidence)) / (2 * r.shape[-1])))
    return TailCheck(e, empirical, 2 * np.exp(-2 * e**2), slack=slack)


@cache
def _unit_nodes() -> tuple[Floats, Floats]:
    """Nodes and weights on (0, 1): Gauss-Legendre after ``v = s^3 (10 - 15 s + 6 s^2)``.

    The substitution makes integrands with a power-law singularity at either end smooth enough for the rule.
    """
    node, weight = np.polynomial.legendre.leggauss(64)
    s = (node + 1) / 2
    return s**3 * (10 - 15 * s + 6 * s**2), weight / 2 * 30 * (s * (1 - s)) ** 2
