"""Simple rules of deferral for the deployable triage, and every entrant of its table by name.

``claim-threshold`` escalates below a calibrated confidence of 0.9; ``threshold-online`` learns the threshold;
``always-ai`` and ``always-person`` never and always escalate; ``told-of-shift`` escalates the shifted patients, which a
router in deployment is not told. ``bot-orch-lambda-0`` is the deployable BOT-Orch without alignment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bot_orch.arrays import Arrays, Field, Floats, Schema
from bot_orch.lab.environments.triage import (
    AI,
    HUMAN,
    DeployableAlignment,
    TriageCondition,
    TriageData,
    TriageEpisodes,
    episodes,
    load_triage,
    stated_claims,
)
from bot_orch.lab.harness.players import ClaimThreshold
from bot_orch.lab.harness.simulate import simulate
from bot_orch.lab.paper.triage.play import entrant
from bot_orch.numerics.choice import argmax_ties
from bot_orch.policies.base import Choice, Feedback, Policy, Situation, no_exploration
from bot_orch.policies.registry import make_policy
from bot_orch.rng import derive_keys

__all__ = ["RULES", "FixedAgent", "LearnedThreshold", "play_rule"]

#: Rules that anybody would try first; the others of the table learn more than a threshold.
RULES = ("claim-threshold", "threshold-online", "always-ai", "always-person", "told-of-shift")


@dataclass(frozen=True, slots=True)
class FixedAgent(Policy):
    """One agent, whatever happens."""

    agent: int
    id: ClassVar[str] = "fixed-agent"
    uses_alignment: ClassVar[bool] = False

    def schema(self, n_features: int) -> Schema:
        """No state."""
        return {}

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """All probability on the agent."""
        value = np.zeros(situation.penalty.shape)
        value[..., self.agent] = 1.0
        return Choice(argmax_ties(value, situation.eligible), value, no_exploration(value))

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Learn nothing."""


@dataclass(frozen=True, slots=True)
class LearnedThreshold(Policy):
    """The threshold on a claim, learned from the answers seen: trust the claim if it beats the others' accuracy.

    An agent that states a claim is expected to be right with that probability plus the mean of (reward - claim) over
    its answers so far; one that states none, with its accuracy so far. Both start from a prior worth ``prior_n``
    answers: claims are true, and others are right in nine of ten cases. The threshold is therefore 0.9 at first.

    Examples
    --------
    >>> from bot_orch.arrays import allocate
    >>> rule, claims = LearnedThreshold(), np.array([0.85, np.nan])
    >>> state = allocate(rule.schema(0), (), 2)
    >>> rule.choose(state, Situation(1, np.zeros(2), claims=claims)).propensities
    array([0., 1.])
    """

    prior_n: float = 10.0
    prior: float = 0.9
    id: ClassVar[str] = "threshold-online"
    uses_alignment: ClassVar[bool] = False

    def schema(self, n_features: int) -> Schema:
        """Answers and the sum of (reward - expected without learning) per agent."""
        return {"answers": Field(), "surprise": Field()}

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """The agent most likely to be right."""
        value = self._plain(situation.claims, situation.penalty.shape)
        value = value + state["surprise"] / (state["answers"] + self.prior_n)
        return Choice(argmax_ties(value, situation.eligible), value, no_exploration(value))

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Add what the observed answers were beyond expectation."""
        plain = self._plain(feedback.claims, state["answers"].shape)
        state["answers"] += feedback.observed
        state["surprise"] += np.where(feedback.observed, feedback.reward - plain, 0.0)

    def _plain(self, claims: Floats | None, shape: tuple[int, ...]) -> Floats:
        given = np.full(shape, np.nan) if claims is None else claims
        return np.where(np.isnan(given), self.prior, given)


def play_rule(name: str, split: int, *, seeds: int, condition: TriageCondition) -> tuple[Floats, Floats]:
    """Accuracy and share of patients escalated of one entrant on one split, one value per seed."""
    data = load_triage(split)
    cases = episodes(data, condition, np.arange(seeds))
    stream = replace(cases.stream, claims=_claims(name, data, cases))
    policy, lambda_ = _policy(name, condition)
    source = DeployableAlignment(data, cases) if lambda_ > 0.0 else None
    keys = derive_keys(["triage-draw", condition], range(seeds))
    trace = simulate(policy, stream, keys, lambda_=lambda_, source=source)
    return trace.pick(stream.reward).mean(axis=0), (trace.agent == HUMAN).mean(axis=0)


def _policy(name: str, condition: TriageCondition) -> tuple[Policy, float]:
    """The policy of that name and its lambda."""
    if name in ("claim-threshold", "told-of-shift"):
        return ClaimThreshold(), 0.0
    if name == "threshold-online":
        return LearnedThreshold(), 0.0
    if name in ("always-ai", "always-person"):
        return FixedAgent(AI if name == "always-ai" else HUMAN), 0.0
    if name.startswith("bot-orch"):
        chosen = entrant("bot-orch", condition, "deployable")
        return chosen.policy, 0.0 if name.endswith("-lambda-0") else chosen.lambda_
    return make_policy(name.removesuffix("-no-claims")), 0.0


def _claims(name: str, data: TriageData, cases: TriageEpisodes) -> Floats | None:
    """What the policy is shown: the classifier's confidence, the shift itself, or nothing."""
    if name == "told-of-shift":
        sure = np.where(cases.shifted, 0.0, 1.0)
        return np.stack([sure, np.full_like(sure, np.nan)], axis=-1)
    return None if name.endswith("-no-claims") else stated_claims(data, cases)
