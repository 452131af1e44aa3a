"""Run a policy over a stream for all seeds at once, and score it by the paper's metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats, Ints
from bot_orch.core import pipeline
from bot_orch.core.alignment import GivenDistances
from bot_orch.core.engine import Details, Engine, Observation
from bot_orch.core.settings import Settings
from bot_orch.lab.environments.stream import AlignmentSource, GivenAlignment, NoAlignment, Stream
from bot_orch.lab.environments.synthetic.episodes import SyntheticEpisodes
from bot_orch.lab.environments.synthetic.settings import COMMON
from bot_orch.lab.environments.triage import HUMAN, TriageEpisodes
from bot_orch.policies.base import Policy
from bot_orch.rng import uniform

#: ``bandit``: choose, see the chosen agent's reward, learn. ``full``: choose, see every agent's reward, learn.
#: ``printed``: the order of the paper's listings, which learn every agent's reward of this round and then choose.
FeedbackMode = Literal["bandit", "full", "printed"]


@dataclass(frozen=True, slots=True)
class Trace:
    """The agents chosen, ``(T, seeds)``, and their propensities, ``(T, seeds, M)``."""

    agent: Ints
    propensities: Floats | None

    def pick(self, values: Floats) -> Floats:
        """The chosen agent's entry of a ``(T, seeds, M)`` array, as ``(T, seeds)``."""
        chosen: Floats = np.take_along_axis(values, self.agent[..., None], axis=-1)[..., 0]
        return chosen


def simulate(
    policy: Policy,
    stream: Stream,
    keys: npt.NDArray[np.uint64],
    *,
    lambda_: float = 0.0,
    source: AlignmentSource | None = None,
    feedback: FeedbackMode = "bandit",
    keep_propensities: bool = False,
) -> Trace:
    """Play every round of ``stream``.

    Parameters
    ----------
    keys
        One random key per seed; seed b draws from its own stream whatever the batch.
    lambda_
        Weight of alignment in the score; ignored by a policy that does not use alignment.
    source
        The alignment the policy sees. The stream's own by default.

    Examples
    --------
    >>> from bot_orch.policies.registry import make_policy
    >>> from bot_orch.rng import derive_keys
    >>> stream = Stream(np.full((50, 2, 2), [0.1, 0.9]), np.zeros((50, 2, 2)))
    >>> trace = simulate(make_policy("ucb1"), stream, derive_keys(["example"], range(2)))
    >>> bool((trace.agent == 1).mean() > 0.6)
    True
    """
    use = lambda_ > 0.0 and policy.uses_alignment
    shape = (stream.seeds, stream.agents)
    source = source or (GivenAlignment(stream.alignment) if use else NoAlignment(shape))
    engine = Engine(
        Settings(
            policy,
            lambda_=lambda_,
            n_features=0 if stream.context is None else stream.context.shape[-1],
            floor=0.0,
            alignment=GivenDistances(units="native"),
        )
    )
    parts = engine.start(shape[1], shape[:1])
    agents = np.empty((stream.rounds, stream.seeds), dtype=np.int64)
    kept = np.empty(stream.reward.shape) if keep_propensities else None
    nothing, first_entries = np.zeros(shape), np.arange(0, shape[0] * shape[1], shape[1])
    for t in range(stream.rounds):
        rewards: Floats = stream.reward[t]
        context = None if stream.context is None else stream.context[t]
        claims = None if stream.claims is None else stream.claims[t]
        distance = source.at(t) if use else None
        observed = Observation(t + 1, nothing, context, distance=distance, claims=claims, free=True)
        if feedback == "printed":  # learn every reward of this round before the choice
            first = engine.prepare(parts, observed, np.zeros(stream.seeds)).drawn
            engine.learn(parts, (), pipeline.full_feedback(first, rewards), learned=Details())
        drawn = engine.prepare(parts, observed, uniform(keys, t)).drawn
        agents[t] = drawn.agent
        if kept is not None:
            kept[t] = drawn.propensities
        if feedback == "bandit":
            earned = rewards.ravel().take(first_entries + drawn.agent)
            engine.learn(parts, (), pipeline.bandit_feedback(drawn, earned), learned=Details())
            source.learn(t, drawn.agent, earned)
        elif feedback == "full":
            engine.learn(parts, (), pipeline.full_feedback(drawn, rewards), learned=Details())
    return Trace(agents, kept)


def utility(runs: SyntheticEpisodes) -> Floats:
    """R - lambda * W of every agent, with the common lambda and without noise."""
    u: Floats = runs.stream.reward - COMMON.score_lambda * runs.stream.alignment
    return u


def scores(runs: SyntheticEpisodes, trace: Trace) -> dict[str, list[float]]:
    """The paper's metrics, one value per seed."""
    u = utility(runs)
    earned, best = trace.pick(u), u.max(axis=-1)
    return {
        "alignment_cost": trace.pick(runs.stream.alignment).sum(axis=0).tolist(),
        "net_utility": earned.sum(axis=0).tolist(),
        "oracle_regret": (best - earned).sum(axis=0).tolist(),
        "event_rate": trace.pick(runs.event.astype(float)).mean(axis=0).tolist(),
        "mean_observed_time": trace.pick(runs.time_s).mean(axis=0).tolist(),
        "best_agent_rate": (earned == best).mean(axis=0).tolist(),
    }


def triage_scores(cases: TriageEpisodes, trace: Trace, score_lambda: float) -> dict[str, list[float]]:
    """The paper's metrics, one value per seed."""
    utility = cases.stream.reward - score_lambda * cases.stream.alignment
    earned, human = trace.pick(utility), trace.agent == HUMAN
    shifted = cases.shifted
    return {
        "net_utility": earned.sum(axis=0).tolist(),
        "oracle_regret": (utility.max(axis=-1) - earned).sum(axis=0).tolist(),
        "team_accuracy": trace.pick(cases.stream.reward).mean(axis=0).tolist(),
        "alignment_cost": trace.pick(cases.stream.alignment).sum(axis=0).tolist(),
        "escalation_rate": human.mean(axis=0).tolist(),
        "escalation_rate_shifted": ((human & shifted).sum(axis=0) / shifted.sum(axis=0)).tolist(),
        "escalation_rate_in_distribution": ((human & ~shifted).sum(axis=0) / (~shifted).sum(axis=0)).tolist(),
    }
