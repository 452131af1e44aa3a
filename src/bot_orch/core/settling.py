"""Learning from the outcome of one decision of an orchestrator, in place of its silence if that was counted before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.core import pipeline
from bot_orch.core.completion.model import FAILED
from bot_orch.core.completion.silences import Silence, remember
from bot_orch.core.engine import Engine, Learned
from bot_orch.core.roster import Roster
from bot_orch.core.settings import Settings
from bot_orch.core.state import State
from bot_orch.policies.base import Feedback
from bot_orch.policies.choice import indices
from bot_orch.types import Decision, Outcome

__all__ = ["FORGOTTEN", "Read", "feedback", "learn", "overdue"]

#: The outcome of a decision of which nothing was heard, for an unknown time.
FORGOTTEN = Outcome(False, None, None, "horizon")


class Read(NamedTuple):
    """What was read of an outcome: reward, outputs to compare; and the silence that it replaces."""

    reward: float | None = None
    raw: Floats | None = None
    earlier: Silence | None = None


def overdue(pending: Mapping[str, Decision], counter: int) -> list[Decision]:
    """Pending decisions, oldest first, with a number smaller than ``counter``."""
    made: Iterable[Decision] = pending.values()
    return list(takewhile(lambda decision: decision.key.counter < counter, made))


def learn(
    engine: Engine, state: State, roster: Roster, *, decision: Decision, outcome: Outcome, read: Read | None = None
) -> None:
    """Turn an outcome into a lesson and learn it; a decision that ends without a reward is remembered."""
    index = roster.index.get(decision.agent)
    if index is None:
        return  # the agent was removed
    read = read or Read()
    earlier, part = read.earlier, state.parts["completion"]
    if earlier is not None:
        engine.completion.undo(part, index, earlier.taken)
    taken = engine.completion.take(part, index, outcome, reward=read.reward)
    paid = earlier is not None and earlier.paid
    cost_usd = None if paid or outcome.cost_usd is None else np.array(outcome.cost_usd)
    engine.learn(
        state.parts,
        roster.names,
        feedback(engine, roster, decision, reward=_number(taken.lesson)),
        learned=_learned(engine, roster, decision, outcome=outcome, read=read, cost_usd=cost_usd),
        replaces=_replaced(engine, roster, decision, earlier=earlier),
    )
    if outcome.reward is None and taken.exit.cause != FAILED:
        position = engine.settings.policy.position(state.parts["policy"], index)
        paid, elapsed_s = paid or cost_usd is not None, outcome.elapsed_s if engine.accounts else None
        remember(state.silences, Silence(decision, taken, position=position, paid=paid, elapsed_s=elapsed_s))


def feedback(
    engine: Engine, roster: Roster, decision: Decision, *, reward: Floats, everybody: bool = False
) -> Feedback:
    """Feedback with the propensities, penalties, features and claims stored in the decision.

    No reward of a decision made with other features can be learned: it counts as missing.
    """
    penalty, claims = decision.terms.alignment + decision.terms.cost, decision.claims
    fits, propensities = _fits(engine.settings, decision), decision.propensities
    if decision.agents is not roster.names:
        propensities, penalty = roster.place(decision, propensities), roster.place(decision, penalty)
    return pipeline.feedback(
        decision.key.counter + 1,
        indices(len(roster.names))[roster.index[decision.agent]],
        reward if fits else np.full_like(reward, np.nan),
        propensities=propensities,
        penalty=penalty,
        context=np.array(decision.features) if fits and engine.settings.context_width else None,
        claims=roster.place(decision, np.array(claims), absent=np.nan) if claims else None,
        everybody=everybody and fits,
    )


def _learned(
    engine: Engine, roster: Roster, decision: Decision, *, outcome: Outcome, read: Read, cost_usd: Floats | None
) -> Learned:
    """What an outcome brings beside the reward; ``cost_usd`` is None if it was counted with the earlier silence."""
    if not engine.accounts:
        return Learned(read.raw, cost_usd)
    learned = Learned(
        read.raw,
        cost_usd,
        elapsed_s=_time(outcome.elapsed_s),
        completed=np.array(outcome.event),
        price=roster.price,
    )
    if read.earlier is None:
        return replace(learned, estimate=roster.place(decision, decision.terms.estimate))
    before = Learned(elapsed_s=_time(read.earlier.elapsed_s), completed=np.array(read.earlier.taken.exit.completed))
    return replace(learned, earlier=before)


def _time(elapsed_s: float | None) -> Floats | None:
    return None if elapsed_s is None else np.array(elapsed_s)


def _fits(settings: Settings, decision: Decision) -> bool:
    """Whether the policy can learn from a decision: one made before features or encoder changed has others."""
    width, text = settings.context_width, settings.text
    if not width:
        return True
    return len(decision.features) == width and decision.encoder == ("" if text is None else str(text))


def _replaced(
    engine: Engine, roster: Roster, decision: Decision, *, earlier: Silence | None
) -> tuple[Feedback, float] | None:
    """The lesson that silence was, and its position; None if it was none."""
    if earlier is None or earlier.taken.lesson is None:
        return None
    return feedback(engine, roster, decision, reward=_number(earlier.taken.lesson)), earlier.position


def _number(lesson: float | None) -> Floats:
    return np.array(np.nan if lesson is None else lesson)
