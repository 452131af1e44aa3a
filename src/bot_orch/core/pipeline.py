"""One round of one policy: choose and draw an agent, then apply the feedback. All callers share these functions."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Arrays, Bools, Floats, Ints, row_views
from bot_orch.policies.base import Choice, Feedback, Policy, Situation
from bot_orch.policies.choice import draw, with_uniform_share

__all__ = ["Drawn", "apply", "bandit_feedback", "decide", "feedback", "full_feedback"]


@dataclass(frozen=True, slots=True)
class Drawn:
    """The drawn agent per row, with the propensities and the situation."""

    agent: Ints
    propensities: Floats
    choice: Choice
    _: KW_ONLY
    situation: Situation


def decide(policy: Policy, state: Arrays, situation: Situation, *, u: npt.ArrayLike, floor: float = 0.0) -> Drawn:
    """Compute propensities, mix in the uniform share ``floor``, draw. ``u`` in [0, 1) is the only randomness."""
    choice = policy.choose(state, situation)
    p = with_uniform_share(choice.propensities, floor, situation.eligible)
    return Drawn(draw(p, u), p, choice, situation=situation)


def apply(policy: Policy, state: Arrays, feedback: Feedback) -> None:
    """Update ``state`` in place. Rows of a batch without an observed reward are left unchanged."""
    if feedback.observed.ndim == 1:
        if np.count_nonzero(feedback.observed):
            policy.update(state, feedback)
        return
    seen = np.logical_or.reduce(feedback.observed, axis=-1)
    rows = np.count_nonzero(seen)
    if rows == seen.size:
        policy.update(state, feedback)
    elif rows:
        for row in map(tuple, np.argwhere(seen)):
            _apply_row(policy, state, feedback, row=row)


def feedback(
    t: int,
    agent: Ints,
    reward: Floats,
    *,
    propensities: Floats,
    penalty: Floats,
    context: Floats | None = None,
    claims: Floats | None = None,
    everybody: bool = False,
) -> Feedback:
    """Feedback for round ``t``, with the propensities, penalties and claims at decision time.

    ``reward`` has shape ``batch`` for the chosen agents (NaN where missing), or ``batch + (M,)`` with ``everybody``.
    """
    if everybody:
        return Feedback(t, agent, _all(propensities.shape), reward, propensities, penalty, context, claims)
    observed: Bools = _one_hot(propensities.shape[-1])[agent]
    known = np.isfinite(reward)
    if np.count_nonzero(known) < known.size:
        observed, reward = observed & known[..., None], np.where(known, reward, 0.0)
    seen = np.broadcast_to(reward[..., None], observed.shape) if reward.ndim else np.full(observed.shape, reward)
    return Feedback(t, agent, observed, seen, propensities, penalty, context, claims)


def bandit_feedback(drawn: Drawn, reward: Floats) -> Feedback:
    """Bandit feedback: only the chosen agent's reward is observed. ``reward`` has shape ``batch``."""
    s, p, seen = drawn.situation, drawn.propensities, np.asarray(reward)
    return feedback(s.t, drawn.agent, seen, propensities=p, penalty=s.penalty, context=s.context, claims=s.claims)


def full_feedback(drawn: Drawn, rewards: Floats) -> Feedback:
    """Full feedback: every agent's reward is observed, as in the paper's theory. ``rewards`` is ``batch + (M,)``."""
    s, p = drawn.situation, drawn.propensities
    return feedback(
        s.t,
        drawn.agent,
        rewards,
        propensities=p,
        penalty=s.penalty,
        context=s.context,
        claims=s.claims,
        everybody=True,
    )


def _apply_row(policy: Policy, state: Arrays, given: Feedback, *, row: tuple[int, ...]) -> None:
    """Update one row of a batch, on views of its state."""
    views = row_views(state, row)
    part = dict(views)
    context = None if given.context is None else given.context[row]
    penalty = np.broadcast_to(given.penalty, given.propensities.shape)[row]
    claims = None if given.claims is None else given.claims[row]
    one = (given.observed[row], given.reward[row], given.propensities[row], penalty, context, claims)
    policy.update(part, Feedback(given.t, np.asarray(given.agent[row]), *one))
    for name, view in views.items():
        if part[name] is not view:
            state[name][row] = part[name]


@lru_cache(maxsize=64)
def _one_hot(m: int) -> Bools:
    rows = np.eye(m, dtype=bool)
    rows.flags.writeable = False
    return rows


@lru_cache(maxsize=64)
def _all(shape: tuple[int, ...]) -> Bools:
    everybody = np.ones(shape, dtype=bool)
    everybody.flags.writeable = False
    return everybody
