"""Play rounds with several attempts: abandon an agent after a patience and ask another within the same deadline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bot_orch.arrays import Bools, Floats, Ints
from bot_orch.core.completion.patience import PatienceRule
from bot_orch.lab.environments.replay.attempts import AttemptReplay
from bot_orch.lab.environments.replay.bandit import Replay, RoundContext, Setup
from bot_orch.lab.harness.players import Player
from bot_orch.lab.harness.replay_metrics import Reader


@dataclass(frozen=True, slots=True, eq=False)
class AttemptTrace:
    """Rounds of attempts, ``(rounds, seeds)``: first agents, seconds and whether completed, of the round as a whole.

    ``tried`` are the agents asked, ``(rounds, seeds, attempts)``, -1 where none was.
    """

    agent: Ints
    spent_s: Floats
    completed: Bools
    tried: Ints


def play_attempts(player: Player, replay: AttemptReplay, rule: PatienceRule = "learned") -> AttemptTrace:
    """Play every round of one seed."""
    n, k = replay.rounds, replay.attempts
    tried, spent, completed = np.full((n, 1, k), -1), np.empty((n, 1)), np.zeros((n, 1), dtype=bool)
    for t in range(n):
        before: RoundContext | None = replay.before(t)
        while before is not None and replay.left_s > 0.0:
            u = replay.later_draws(t) if replay.asked else replay.draws(t)
            agent = int(player.choose(before, u).agent[0])
            share = 1.0 if replay.last else player.patience(before, agent, deadline_s=replay.left_s, rule=rule)
            tried[t, 0, replay.asked] = agent
            player.learn(before, replay.attempt(agent, watched_s=share * replay.left_s))
            before = replay.again()
        spent[t], completed[t] = replay.spent_s, replay.completed
    return AttemptTrace(np.maximum(tried[..., 0], 0), spent, completed, tried)


def play_attempts_of(
    replay: Replay,
    build: Callable[[Setup], Player],
    attempts: int,
    *,
    rule: PatienceRule = "learned",
    settings: Mapping[str, Any] | None = None,
) -> AttemptTrace:
    """Play the rounds of ``replay`` with attempts, seed by seed; ``settings`` are passed to its replays."""
    traces = []
    for seed in replay.seeds:
        given = {"seed": seed, "attempts": attempts, **(settings or {})}
        probe = build(Replay(replay.matrix, replay.order, 1, seeds=[seed], **(settings or {})).setup)
        single = AttemptReplay(replay.matrix, replay.order, replay.rounds, feature_time=probe.uses_features, **given)
        traces.append(play_attempts(build(single.setup), single, rule))
    parts = ([getattr(trace, name) for trace in traces] for name in ("agent", "spent_s", "completed", "tried"))
    return AttemptTrace(*(np.concatenate(part, axis=1) for part in parts))


def attempt_readers(replay: Replay, trace: AttemptTrace) -> dict[str, Reader]:
    """Readers of the metrics that belong to a round as a whole; costs add up over its attempts."""
    runtime = replay.matrix.runtime
    assert runtime is not None  # noqa: S101 - attempts need runtimes
    cutoff_s = runtime.cutoff_s[replay.rows, 0]
    done = trace.completed.astype(float)
    reward = done * np.clip(1.0 - np.log1p(trace.spent_s) / np.log1p(cutoff_s), 0.0, 1.0)
    par10 = np.where(trace.completed, trace.spent_s, 10.0 * cutoff_s)

    def summed(values: Floats) -> Floats:
        cells = values[replay.rows[..., None], np.maximum(trace.tried, 0)]
        return np.asarray(np.where(trace.tried >= 0, cells, 0.0).sum(axis=-1))

    return {
        "reward": lambda _: reward,
        "solved": lambda _: done,
        "par10": lambda _: par10,
        "mean_observed_time": lambda _: np.minimum(trace.spent_s, cutoff_s),
        "cost_usd": summed,
        "attempts": lambda _: (trace.tried >= 0).sum(axis=-1).astype(float),
    }
