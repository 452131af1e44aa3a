"""The paper's metrics of a run, shared by the experiments that score synthetic and triage runs."""

from __future__ import annotations

from bot_orch.arrays import Floats
from bot_orch.lab.environments.synthetic.episodes import SyntheticEpisodes
from bot_orch.lab.environments.synthetic.settings import COMMON
from bot_orch.lab.environments.triage import HUMAN, TriageEpisodes
from bot_orch.lab.harness.simulate import Trace

__all__ = ["scores", "triage_scores", "utility"]


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
