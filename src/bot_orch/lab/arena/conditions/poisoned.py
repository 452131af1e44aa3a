"""Agents that fool the judge: ``poisoned``.

The agents of the file are honest: the judge sees what they are worth. Each is given outputs near the tasks' references,
the better the agent the nearer; cheats are added, with outputs as :mod:`bot_orch.lab.environments.gaming` makes them.
The judge puts a cheat half-way between the best honest agent and 1; it is worth 0.05, or as much as the agent it
imitates. Scores use the truth; learners see it in a tenth of the rounds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.lab.environments.gaming import GamingSettings, gaming_matrix
from bot_orch.lab.environments.replay.staged import Stage

#: Which cheats come: constant output; the prompt handed back; the outputs of the weakest honest agent; the best agent
#: in the first half, then a constant; and as many constants as there are honest agents (at most 20), all alike.
CHEATS: dict[str, tuple[str, ...]] = {
    "constant": ("constant",),
    "copy": ("copy",),
    "imitate": ("weak",),
    "sleeper": ("sleeper",),
    "collusion": ("collude",),
}
_AUDITED = 0.1
_WORTH = 0.05
_MOST = 20


def poisoned(stage: Stage, rng: np.random.Generator, *, kind: str) -> Stage:
    """The stage with cheats of one kind as additional agents."""
    honest, cheats = stage.matrix.n_agents, CHEATS[kind]
    if kind == "collusion":
        cheats *= min(honest, _MOST)
    made = gaming_matrix(
        GamingSettings(tasks=stage.rounds, agents=honest + len(cheats), cheats=cheats, features=0),
        seed=int(rng.integers(2**31)),
    )
    judged, worth = _cheats(stage, kind, len(cheats), rng=rng)
    place = np.empty(honest, dtype=np.int64)
    place[stage.ranking] = np.arange(honest)  # the better an agent, the nearer its outputs
    assert made.output_embed is not None  # noqa: S101
    outputs = made.output_embed[:, [*place, *range(honest, honest + len(cheats))]]
    truth = np.concatenate([stage.matrix.reward, worth], axis=1)
    changed: dict[str, Any] = {
        "agents": (*stage.matrix.agents, *made.agents[honest:]),
        "reward": np.concatenate([stage.matrix.reward, judged], axis=1),
        "true_reward": truth,
        "output_embed": outputs,
        "reference_embed": made.reference_embed,
        "output_probs": None,
        "runtime": None,
        "runtime_only": False,
        "claims": _padded(stage.matrix.claims, len(cheats), missing=True),
        "elapsed_s": _padded(stage.matrix.elapsed_s, len(cheats)),
        "cost_usd": _padded(stage.matrix.cost_usd, len(cheats)),
        "trials": _with_trials(stage.matrix.trials, judged),
    }
    matrix = replace(stage.matrix, **changed)
    phases = (stage.rounds // 2,) if kind == "sleeper" else ()
    return replace(stage, matrix=matrix, truth=truth, audit_rate=_AUDITED, phases=phases)


def _cheats(stage: Stage, kind: str, count: int, *, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The judge's rewards and the true values of the cheats, ``(rounds, count)`` each."""
    best, worst = stage.matrix.reward[:, stage.ranking[0]], stage.matrix.reward[:, stage.ranking[-1]]
    level = 0.5 * (1.0 + float(np.nanmean(best)))
    shape = (stage.rounds, count)
    judged = np.clip(level + 0.05 * rng.normal(size=shape), 0.0, 1.0)
    worth = np.full(shape, _WORTH)
    if kind == "imitate":
        worth[:] = np.where(np.isfinite(worst), worst, np.nanmean(worst))[:, None]
    if kind == "sleeper":
        half = stage.rounds // 2
        worth[:half] = np.where(np.isfinite(best), best, np.nanmean(best))[:half, None]
        judged[:half] = worth[:half]
    return judged, worth


def _padded(values: Floats | None, count: int, *, missing: bool = False) -> Floats | None:
    """Append columns for the cheats: copies of a typical agent, or unknown."""
    if values is None:
        return None
    column = np.full((len(values), 1), np.nan if missing else np.nanmean(values))
    return np.concatenate([values, np.repeat(column, count, axis=1)], axis=1)


def _with_trials(trials: Floats | None, judged: Floats) -> Floats | None:
    if trials is None:
        return None
    return np.concatenate([trials, np.repeat(judged[:, :, None], trials.shape[2], axis=2)], axis=1)
