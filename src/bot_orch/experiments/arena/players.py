"""Who plays: anything that chooses and learns, for all seeds at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from bot_orch.arrays import Arrays, Floats, Ints, allocate
from bot_orch.core import pipeline
from bot_orch.environments.replay import After, Before, Replay, Setup
from bot_orch.policies.base import Policy, Situation

__all__ = ["Guide", "Pick", "Player", "PolicyPlayer", "Trace", "play"]


@dataclass(frozen=True, slots=True, eq=False)
class Pick:
    """An agent per seed, and the probabilities ``(seeds, M)`` it was drawn from where they are known."""

    agent: Ints
    propensities: Floats | None = None


class Player(ABC):
    """One entrant in one replay."""

    @abstractmethod
    def choose(self, before: Before, u: Floats) -> Pick:
        """Choose an eligible agent for every seed; ``u`` in [0, 1) is one random number per seed."""

    @abstractmethod
    def learn(self, before: Before, after: After) -> None:
        """Learn from what the chosen agents showed."""


class Guide(ABC):
    """Gives a policy its penalty, lambda * W + cost, and learns from outputs, costs and times."""

    @abstractmethod
    def penalty(self, before: Before) -> Floats:
        """``(seeds, M)``, known before the choice."""

    def learn(self, before: Before, after: After) -> None:  # noqa: B027
        """What the chosen agents showed. The default learns nothing."""


class PolicyPlayer(Player):
    """A policy of :mod:`bot_orch.policies`, through the same ``decide`` and ``apply`` as the live router."""

    def __init__(self, policy: Policy, setup: Setup, guide: Guide | None = None, *, context: bool = True) -> None:
        self._policy, self._guide = policy, guide if policy.uses_alignment else None
        self._context = context and setup.features > 0
        features = setup.features if self._context else 0
        self.state: Arrays = allocate(policy.schema(features), (setup.seeds,), setup.agents)
        self._nothing = np.zeros((setup.seeds, setup.agents))
        self._drawn: pipeline.Drawn | None = None

    def choose(self, before: Before, u: Floats) -> Pick:
        """``pipeline.decide``."""
        penalty = self._nothing if self._guide is None else self._guide.penalty(before)
        situation = Situation(before.t, penalty, before.eligible, before.context if self._context else None)
        self._drawn = pipeline.decide(self._policy, self.state, situation, u)
        return Pick(self._drawn.agent, self._drawn.propensities)

    def learn(self, before: Before, after: After) -> None:
        """``pipeline.apply``, then the guide."""
        assert self._drawn is not None  # noqa: S101  (choose comes first)
        pipeline.apply(self._policy, self.state, pipeline.bandit_feedback(self._drawn, after.reward))
        if self._guide is not None:
            self._guide.learn(before, after)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Who was chosen, ``(rounds, seeds)``; what was learned from it; with which probabilities, if kept."""

    agent: Ints
    learned: Floats
    propensities: Floats | None = None


def play(player: Player, replay: Replay, *, keep_propensities: bool = False) -> Trace:
    """Every round: look, choose, see the chosen cell, learn.

    Examples
    --------
    >>> from bot_orch.environments.matrix import Matrix
    >>> from bot_orch.policies.registry import make_policy
    >>> replay = Replay(Matrix("toy", ("a", "b"), np.tile([0.1, 0.9], (200, 1))), seeds=range(3))
    >>> trace = play(PolicyPlayer(make_policy("thompson-beta"), replay.setup), replay)
    >>> bool(trace.agent.mean() > 0.8)
    True
    """
    shape = (replay.rounds, len(replay.seeds))
    agents, learned = np.empty(shape, dtype=np.int64), np.empty(shape)
    kept = np.full((*shape, replay.matrix.n_agents), np.nan) if keep_propensities else None
    for t in range(replay.rounds):
        before = replay.before(t)
        pick = player.choose(before, replay.draws(t))
        after = replay.after(t, pick.agent)
        player.learn(before, after)
        agents[t], learned[t] = pick.agent, after.reward
        if kept is not None and pick.propensities is not None:
            kept[t] = pick.propensities
    return Trace(agents, learned, kept)
