"""The terms of a decision, agent by agent, for answers and pages."""

from __future__ import annotations

import msgspec

from bot_orch.log.events import DecisionMade

__all__ = ["AgentTerms", "WhyView", "why_view"]


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
