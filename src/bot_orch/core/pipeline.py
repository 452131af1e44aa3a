"""One round of one policy: choose and draw an agent, then apply the feedback; shared by all callers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Arrays, Bools, Floats, Ints, row_views
from bot_orch.numerics.choice import cheapest_of_ties, mixed_draw
from bot_orch.policies.base import Choice, Feedback, Policy, Situation, one_hot

_DIRECTED = 0.75  # part of the floor that a policy may direct


@dataclass(slots=True)
class Draw:
    """The drawn agent per row, with the propensities and the situation."""

    agent: Ints
    propensities: Floats
    choice: Choice
    situation: Situation


def decide(
    policy: Policy,
    state: Arrays,
    situation: Situation,
    *,
    u: npt.ArrayLike,
    floor: float = 0.0,
    mix: Callable[..., Floats] | None = None,
    price: Floats | None = None,
) -> Draw:
    """Compute propensities, mix in the share ``floor`` of exploration, draw. ``u`` in [0, 1) is the only randomness.

    Three quarters of the floor go where the policy is in doubt, if it says where; the rest is spread evenly. ``mix``
    maps the policy's propensities and ``eligible`` to those with guaranteed exploration. ``price`` breaks ties.
    """
    choice = chosen(policy, state, situation, price=price)
    found = choice.propensities if mix is None else mix(choice.propensities, eligible=situation.eligible)
    if floor > 0.0 and choice.doubt is not None:
        even = (1.0 - _DIRECTED) * floor
        found = ((1.0 - floor) * found + (floor - even) * choice.doubt) / (1.0 - even)
        floor = even
    p, agent = mixed_draw(found, u, floor, eligible=situation.eligible)
    return Draw(agent, p, choice, situation)


def drawn(choice: Choice, situation: Situation, u: npt.ArrayLike) -> Draw:
    """Draw from a choice as it is."""
    p, agent = mixed_draw(choice.propensities, u)
    return Draw(agent, p, choice, situation)


def chosen(policy: Policy, state: Arrays, situation: Situation, *, price: Floats | None) -> Choice:
    """The policy's choice; with ``price`` (M,), ties go to the cheapest agent."""
    choice = policy.choose(state, situation)
    if price is None:
        return choice
    score = choice.estimate - situation.penalty
    return replace(choice, propensities=cheapest_of_ties(choice.propensities, score, choice.exploration, price=price))


def apply(policy: Policy, state: Arrays, feedback: Feedback) -> None:
    """Update ``state`` in place. Rows of a batch without an observed reward are left unchanged."""
    if feedback.earned is not None:  # every row has a reward
        policy.update(state, feedback)
        return
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
    if math.isfinite(reward) if reward.ndim == 0 else math.isfinite(np.vdot(reward, reward)):
        # only the chosen agents' rewards are known, all of them
        return Feedback.of_chosen(t, agent, reward, at_decision=(propensities, penalty, context, claims))
    known = np.isfinite(reward)
    observed: Bools = one_hot(propensities.shape[-1])[agent]
    observed, reward = observed & known[..., None], np.where(known, reward, 0.0)
    seen = np.broadcast_to(reward[..., None], observed.shape) if reward.ndim else np.full(observed.shape, reward)
    return Feedback(t, agent, observed, seen, propensities, penalty, context, claims)


def with_reward(given: Feedback, reward: Floats) -> Feedback:
    """Bandit feedback with the chosen agents' rewards, ``batch``, replaced where not NaN."""
    known = np.isfinite(reward)
    if not known.any():
        return given
    if known.all():
        return replace(given, earned=reward)
    mine = one_hot(given.observed.shape[-1])[given.agent] & known[..., None]
    seen = np.where(mine, reward[..., None], given.reward)
    return replace(given, observed=given.observed | mine, reward=seen, earned=None)


def only(given: Feedback, rows: Bools) -> Feedback:
    """The feedback restricted to batch elements in ``rows``."""
    return replace(given, observed=given.observed & np.asarray(rows)[..., None], earned=None)


def bandit_feedback(drawn: Draw, reward: Floats) -> Feedback:
    """Bandit feedback: only the chosen agent's reward is observed. ``reward`` has shape ``batch``."""
    s, p, seen = drawn.situation, drawn.propensities, np.asarray(reward)
    return feedback(s.t, drawn.agent, seen, propensities=p, penalty=s.penalty, context=s.context, claims=s.claims)


def full_feedback(drawn: Draw, rewards: Floats) -> Feedback:
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
    """Update one row of a batch through views of its state."""
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
def _all(shape: tuple[int, ...]) -> Bools:
    everybody = np.ones(shape, dtype=bool)
    everybody.flags.writeable = False
    return everybody
