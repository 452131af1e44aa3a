"""LinUCB with one regression per agent, and the regressions that it shares with linear Thompson sampling."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from bot_orch.arrays import Arrays, Field, Floats, Ints, Schema, widened
from bot_orch.numerics.choice import argmax_ties
from bot_orch.policies.base import Choice, Feedback, Policy, Situation


class LinearPolicy(Policy):
    """Disjoint ridge regressions on (1, x); without features each is a shrunken mean."""

    ridge: float

    def schema(self, n_features: int) -> Schema:
        """Inverse design matrix, response vector and coefficients."""
        d = n_features + 1
        return {
            "inverse": Field(shape=(d, d), fill=1.0 / self.ridge, identity=True),
            "response": Field(shape=(d,)),
            "theta": Field(shape=(d,)),
        }

    def predict(self, state: Arrays, context: Floats | None) -> tuple[Floats, Floats]:
        """Predicted mean and leverage x' A^-1 x of every agent."""
        x = _with_intercept(state, context)
        mean = np.add.reduce(state["theta"] * x[..., None, :], axis=-1)
        leverage = np.einsum("...i,...mij,...j->...m", x, state["inverse"], x)
        return mean, np.maximum(leverage, 0.0)

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Sherman-Morrison for the chosen agent, or for every agent under full feedback."""
        x = _with_intercept(state, feedback.context)
        if feedback.observed.all():
            for agent in range(feedback.observed.shape[-1]):
                self._rank_one(state, np.full_like(feedback.agent, agent), x, reward=feedback.reward)
        else:
            self._rank_one(state, np.asarray(feedback.agent), x, reward=feedback.reward)

    def adopt(self, state: Arrays, learned: Arrays) -> Arrays:
        """The learned state; new features count as zero so far, which leaves the regression unchanged."""
        return widened(state, learned)

    @property
    def can_revise(self) -> bool:
        """Rewards are linear in the response; the design does not change."""
        return type(self).update is LinearPolicy.update

    def revise(self, state: Arrays, old: Feedback, new: Feedback, *, position: float) -> None:
        """Change the response of the observed agents."""
        x = _with_intercept(state, new.context)
        change = np.where(new.observed, new.reward - old.reward, 0.0)
        state["response"] += change[..., None] * x[..., None, :]
        theta = np.einsum("...mij,...mj->...mi", state["inverse"], state["response"])
        np.copyto(state["theta"], theta, where=new.observed[..., None])

    def _rank_one(self, state: Arrays, agent: Ints, x: Floats, *, reward: Floats) -> None:
        m, d = state["theta"].shape[-2:]
        chosen = (_rows(agent.size), agent.reshape(-1))
        x = x.reshape(-1, d)
        r = reward.reshape(-1, m)[chosen]
        inverse = state["inverse"].reshape(-1, m, d, d)
        response = state["response"].reshape(-1, m, d)
        a = inverse[chosen]
        ax = np.einsum("bij,bj->bi", a, x)
        scale = 1.0 + np.add.reduce(ax * x, axis=-1)
        a -= ax[:, :, None] * ax[:, None, :] / scale[:, None, None]
        inverse[chosen] = a
        response[chosen] += r[:, None] * x
        state["theta"].reshape(-1, m, d)[chosen] = np.einsum("bij,bj->bi", a, response[chosen])


@dataclass(frozen=True, slots=True)
class LinUCB(LinearPolicy):
    """argmax of x'theta_i + scale * sqrt(x' A_i^-1 x) [1]_.

    References
    ----------
    .. [1] Li, Chu, Langford, Schapire. A contextual-bandit approach to personalized news recommendation. WWW 2010.
    """

    scale: float = 1.0
    ridge: float = 1.0
    id: ClassVar[str] = "linucb"
    default_entrant: ClassVar[bool] = True

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """All probability on the largest upper confidence bound."""
        mean, leverage = self.predict(state, situation.context)
        bonus = self.scale * np.sqrt(leverage)
        return Choice(argmax_ties(mean + bonus - situation.penalty, situation.eligible), mean, bonus)


def _with_intercept(state: Arrays, context: Floats | None) -> Floats:
    batch = state["theta"].shape[:-2]
    one = np.ones((*batch, 1))
    return one if context is None else np.concatenate([one, context], axis=-1)


@lru_cache(maxsize=64)
def _rows(n: int) -> Ints:
    rows = np.arange(n)
    rows.flags.writeable = False
    return rows
