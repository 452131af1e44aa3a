"""Outputs that arrive before their outcomes, and the two verdicts on audited decisions."""

from __future__ import annotations

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.core.engine import Engine
from bot_orch.core.roster import Roster
from bot_orch.core.state import FirstVerdict, State
from bot_orch.errors import InvalidInputError
from bot_orch.types import Decision, Measure, Outcome

__all__ = ["check_audit", "keep", "read_output", "second", "see_output"]

_MOST = 4096


def check_audit(decision: Decision) -> None:
    """Refuse the truth about a decision that is not marked for an audit."""
    if not decision.audit:
        problem = f"is True, and decision {decision.id} is not marked for an audit"
        raise InvalidInputError("audit", problem, "pass audit=True only where decision.audit is True, see audit_rate")


def keep(state: State, decision: Decision, reward: float, *, audit: bool) -> None:
    """Store the first verdict on an audited decision; the oldest is dropped if too many wait for their second."""
    verdicts = state.verdicts
    verdicts[decision.id] = FirstVerdict(decision.agent, decision.key.counter + 1, reward=reward, audit=audit)
    if len(verdicts) > _MOST:
        del verdicts[next(iter(verdicts))]


def second(engine: Engine, state: State, roster: Roster, *, decision_id: str, outcome: Outcome, audit: bool) -> None:
    """Learn the second verdict on an audited decision, which only affects the bias."""
    first = state.verdicts[decision_id]
    if first.audit == audit:
        problem = "has been audited" if audit else "has its outcome"
        raise InvalidInputError("decision_id", problem, "report the judge's outcome and the truth once each")
    index, model = roster.index.get(first.agent), engine.settings.reward
    found = None if index is None else model.read(state.parts["reward"], index, outcome)
    del state.verdicts[decision_id]
    state.seq += 1
    if index is not None and found is not None and engine.audits.rate:
        judge, truth = (first.reward, found) if audit else (found, first.reward)
        engine.compare(state.parts, np.array(index), first.round, judge=np.array(judge), truth=np.array(truth))


def read_output(engine: Engine, output: Measure) -> Floats | None:
    """The output as the alignment compares it."""
    return None if engine.alignment is None else engine.alignment.outcomes_of(Outcome.completed(0.0, output=output))


def see_output(engine: Engine, state: State, roster: Roster, *, decision: Decision, raw: Floats | None) -> bool:
    """Learn the output of a pending decision; returns whether an alarm restarted its agent."""
    state.shown[decision.id] = None
    state.seq += 1
    index = roster.index.get(decision.agent)
    if index is None or raw is None:
        return False
    return engine.see_outputs(state.parts, roster.names, np.array(index), raw=raw, t=decision.key.counter + 1)
