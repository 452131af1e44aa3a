"""Explanations of decisions: the terms of each score, and all decisions of one round together."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bot_orch.core.events import SETTLING, Censored, DecisionMade, FeedbackGiven, Noted
from bot_orch.log.log import Log, Row, Wanted
from bot_orch.service.runtime import Runtime


class AgentTerms(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One agent in a decision: its propensity and the terms of its score."""

    agent: str
    propensity: float
    estimate: float
    exploration: float
    distance: float
    alignment: float
    cost: float
    bias: float = 0.0
    score: float
    excluded: str = ""


class WhyView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Why an agent was chosen. ``by`` is ``policy``, or the rule that decided."""

    by: str
    policy: str
    propensity: float
    lambda_: float = msgspec.field(name="lambda")
    agents: list[AgentTerms] = []


def why_view(decision: DecisionMade) -> WhyView:
    """The terms of a decision, the most probable agent first."""
    excluded = decision.excluded or {}
    agents = [
        AgentTerms(
            agent=name,
            propensity=p,
            estimate=estimate,
            exploration=exploration,
            distance=distance,
            alignment=alignment,
            cost=cost,
            bias=bias,
            score=estimate + exploration - alignment - cost - bias,
            excluded=excluded.get(name, ""),
        )
        for name, p, estimate, exploration, distance, alignment, cost, bias in decision.decision().rows()
    ]
    chosen = next(each for each in agents if each.agent == decision.agent)
    return WhyView(
        by=decision.by,
        policy=decision.policy,
        propensity=chosen.propensity,
        lambda_=decision.lambda_,
        agents=sorted(agents, key=lambda each: -each.propensity),
    )


#: Topic of the note, about a round's first decision, that names a later one.
NEXT_DECISION = "round.decision"


def decisions_of_round(log: Log, decision: DecisionMade) -> list[str]:
    """Ids of all decisions of the same round, in order; a round without failures has one."""
    first = decision.round or decision.id
    notes = [event for row in log.about(first) if isinstance(event := row.event(), Noted)]
    return [first, *(str(note.data["decision"]) for note in notes if note.topic == NEXT_DECISION)]


def rows_of_round(log: Log, decision: DecisionMade) -> list[Row]:
    """Rows about all decisions of the round, in the order of the log."""
    found = log.look_up(Wanted(refs=tuple(decisions_of_round(log, decision))))
    return sorted((row for rows in found.refs.values() for row in rows), key=lambda row: row.seq)


async def awaits_outcome(runtime: Runtime, rows: Sequence[Row]) -> bool:
    """Whether a decision awaits an outcome, given its rows; acknowledged outcomes are always considered."""
    events = [row.event() for row in rows if row.holds(FeedbackGiven) or row.holds(Censored)]
    settled = any(isinstance(each, Censored) or getattr(each, "effect", "") in SETTLING for each in events)
    return rows[0].ref in runtime.ledger.pending and not settled
