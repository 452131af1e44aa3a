"""Our policies as a user runs them: one :class:`~bot_orch.Orchestrator`, driven through its public methods."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.core.alignment import Alignment
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.core.settings import Settings
from bot_orch.lab.environments.replay.bandit import RoundContext, RoundOutcome, Setup
from bot_orch.lab.harness.players import Pick, Player, PolicyPlayer
from bot_orch.transport.measures import Cloud, Labels
from bot_orch.types import Agent, Decision, Measure, Outcome, Task


def live(player: Player, setup: Setup) -> Player:
    """The player of one seed; a policy that the engine would play in a batch gets a separate orchestrator."""
    if type(player) is not PolicyPlayer:
        return player
    return LivePlayer(player.engine.settings, setup, context=player.shows_context, claims=player.shows_claims)


class LivePlayer(Player):
    """``decide``, ``observe``, ``expire``, ``add_agent``; a restart is ``to_json`` and ``from_json``.

    An agent is added when it is eligible for the first time. The orchestrator draws by its own random stream and
    marks the decisions to audit.
    """

    def __init__(self, settings: Settings, setup: Setup, *, context: bool = True, claims: bool = True) -> None:
        self._settings = replace(settings, seed=int(setup.keys[0] >> np.uint64(1)))
        self._context, self._claims, self._price = context, claims, setup.price
        self._agents = setup.agents
        self._router: Orchestrator | None = None
        self._made: dict[int, Decision] = {}

    def choose(self, before: RoundContext, u: Floats) -> Pick:
        """``decide`` among the eligible agents."""
        decision = self._with(able := self._able(before)).decide(self._task(before, able), self._eligible(able))
        self._made[before.t] = decision
        audit = np.array([decision.audit]) if self._settings.audit_rate else None
        return Pick(np.array([int(decision.agent)]), None, audit)

    def preview(self, before: RoundContext) -> Floats | None:
        """``prepare``, which changes nothing."""
        decision = self._with(able := self._able(before)).prepare(self._task(before, able), self._eligible(able))
        chance = dict(zip(decision.agents, decision.propensities, strict=True))
        return np.array([[chance.get(str(index), 0.0) for index in range(self._agents)]])

    def learn(self, before: RoundContext, after: RoundOutcome) -> None:
        """``observe``; the truth first where the decision is audited."""
        decision, router = self._made.pop(before.t), self._with(())
        (outcome,) = after.outcomes()
        cost = None if after.cost_usd is None else float(after.cost_usd[0])
        outcome = replace(
            outcome,
            output=self._output(after) if outcome.event else None,
            cost_usd=None if cost is None or not math.isfinite(cost) else cost,
        )
        if after.truth is not None and math.isfinite(after.truth[0]) and decision.audit:
            router.observe(decision.id, Outcome.completed(reward=float(after.truth[0])), audit=True)
        router.observe(decision.id, outcome)

    def forget(self, before: RoundContext) -> None:
        """``expire``."""
        self._with(()).expire([self._made.pop(before.t).id])

    def restarted(self) -> Player:
        """The player after saving and loading its state; decision ids stay known."""
        if self._router is not None:
            self._router = Orchestrator.from_json(self._router.to_json())
        return self

    def _able(self, before: RoundContext) -> range | list[int]:
        return range(self._agents) if before.eligible is None else np.flatnonzero(before.eligible[0]).tolist()

    def _eligible(self, able: range | list[int]) -> list[str] | None:
        return None if len(able) == len(self._with(()).agents) else [str(index) for index in able]

    def _with(self, able: range | list[int] | tuple[()]) -> Orchestrator:
        """The router, after adding these agents."""
        if self._router is None:
            self._router = Orchestrator.from_settings(self._settings, [self._agent(index) for index in able])
        elif len(able) > 0:
            known = set(self._router.agents)
            for index in able:
                if str(index) not in known:
                    self._router.add_agent(self._agent(index))
        return self._router

    def _agent(self, index: int) -> Agent:
        price = math.nan if self._price is None else self._price[index]
        return Agent(str(index), price=price if math.isfinite(price) else None)

    def _task(self, before: RoundContext, able: range | list[int]) -> Task:
        features = tuple(before.inputs[0].tolist()) if self._context and before.inputs is not None else ()
        encoded = "" if not features or self._settings.text is None else str(self._settings.text)
        reference = None
        if self._compares_points and before.reference is not None and np.isfinite(before.reference[0]).all():
            reference = Cloud(before.reference[0][None])
        claims: dict[str, float] = {}
        if self._claims and before.claims is not None:
            stated = before.claims[0]
            claims = {str(index): float(stated[index]) for index in able if math.isfinite(stated[index])}
        return Task(str(before.t), features=features, reference=reference, claims=claims, encoded=encoded)

    def _output(self, after: RoundOutcome) -> Measure | None:
        alignment = self._settings.alignment
        if not isinstance(alignment, Alignment):
            return None
        if self._compares_points:
            return None if after.output is None else Cloud(after.output)
        if alignment.reference.source != "accepted" or after.probs is None or not np.isfinite(after.probs).all():
            return None
        return Labels(after.probs[0])

    @property
    def _compares_points(self) -> bool:
        alignment = self._settings.alignment
        return isinstance(alignment, Alignment) and alignment.reference.source == "task"
