"""Deferral by claims under the deployable protocol: policies beside a fixed threshold on the classifier's confidence.

A policy that escalates more patients gets more right, so accuracies are compared at equal escalation: the threshold
is set, the same for all splits, so that the rule escalates as large a share as the policy did on average. Between two
thresholds the rule takes each of them with some probability. Differences are paired by split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import stdtrit

from bot_orch.arrays import Floats
from bot_orch.lab.environments.triage import HUMAN, TriageCondition, episodes, load_triage, stated_claims
from bot_orch.lab.harness.simulate import simulate
from bot_orch.policies.base import Policy
from bot_orch.rng import derive_keys

__all__ = ["SPLITS", "THRESHOLD", "Deferral", "PairedDifference", "paired", "play_splits", "table", "threshold_rule"]

#: The splits of the data, none of which was chosen.
SPLITS: tuple[int, ...] = tuple(range(40))
THRESHOLD = 0.9
_GRID = np.concatenate([[0.0], np.linspace(0.5, 0.99, 50), 1.0 - np.geomspace(0.009, 1e-6, 40), [1.1]])


@dataclass(frozen=True, slots=True, eq=False)
class Deferral:
    """Accuracy and share of patients escalated, one value per split, each a mean over seeds."""

    accuracy: Floats
    escalation: Floats


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A mean of paired differences and half the width of its 95 % interval (Student t)."""

    mean: float
    half_width: float


def play_splits(
    policy: Policy,
    splits: Sequence[int] = SPLITS,
    *,
    seeds: int = 30,
    condition: TriageCondition = "noniid",
    claims: bool = True,
) -> Deferral:
    """Play every split with every seed; ``claims`` False hides the classifier's confidence from the policy."""
    keys = derive_keys(["triage-draw", condition], range(seeds))
    accuracy, escalation = [], []
    for split in splits:
        data = load_triage(split)
        cases = episodes(data, condition, np.arange(seeds))
        stream = replace(cases.stream, claims=stated_claims(data, cases)) if claims else cases.stream
        trace = simulate(policy, stream, keys)
        accuracy.append(float(trace.pick(stream.reward).mean()))
        escalation.append(float((trace.agent == HUMAN).mean()))
    return Deferral(np.array(accuracy), np.array(escalation))


def threshold_rule(
    splits: Sequence[int] = SPLITS,
    *,
    seeds: int = 30,
    condition: TriageCondition = "noniid",
    threshold: float = THRESHOLD,
    escalation: float | None = None,
) -> Deferral:
    """Escalate if the classifier's calibrated confidence is below a threshold: a given one, or for a mean escalation.

    Examples
    --------
    >>> rule = threshold_rule(range(2), seeds=2, escalation=0.3)
    >>> float(rule.escalation.mean().round(6))
    0.3
    """
    grid = _GRID if escalation is not None else np.array([threshold])
    found = _rules(tuple(splits), seeds, condition, tuple(grid.tolist()))
    if escalation is None:
        return Deferral(found.accuracy[0], found.escalation[0])
    shares = found.escalation.mean(axis=1)
    upper = int(np.clip(np.searchsorted(shares, escalation), 1, len(shares) - 1))
    lower = upper - 1
    gap = shares[upper] - shares[lower]
    w = float(np.clip((escalation - shares[lower]) / gap, 0.0, 1.0)) if gap > 0.0 else 0.0
    mixed = ((1.0 - w) * values[lower] + w * values[upper] for values in (found.accuracy, found.escalation))
    return Deferral(*mixed)


def paired(ours: Floats, theirs: Floats) -> PairedDifference:
    """Mean difference of two lists of equal length with its 95 % interval."""
    d = ours - theirs
    if d.size < 2:
        return PairedDifference(float(d.mean()), float("nan"))
    return PairedDifference(float(d.mean()), float(stdtrit(d.size - 1, 0.975) * d.std(ddof=1) / np.sqrt(d.size)))


def table(
    policies: Mapping[str, Policy],
    splits: Sequence[int] = SPLITS,
    *,
    seeds: int = 30,
    condition: TriageCondition = "noniid",
) -> str:
    """A text table of the policies and of the fixed threshold."""
    head = f"{'policy':<24}{'accuracy':>17}{'escalated':>11}{'minus threshold at equal escalation':>38}"
    shown = {f"confidence < {THRESHOLD:g}": threshold_rule(splits, seeds=seeds, condition=condition)}
    shown |= {name: play_splits(each, splits, seeds=seeds, condition=condition) for name, each in policies.items()}
    lines = [f"{len(splits)} splits, {seeds} seeds, {condition}; +- one standard error; [95 % interval]", head]
    for name, found in shown.items():
        rule = threshold_rule(splits, seeds=seeds, condition=condition, escalation=float(found.escalation.mean()))
        d = paired(found.accuracy, rule.accuracy)
        error = found.accuracy.std(ddof=1) / np.sqrt(len(splits)) if len(splits) > 1 else float("nan")
        interval = f"{d.mean:+.4f} [{d.mean - d.half_width:+.4f}, {d.mean + d.half_width:+.4f}]"
        lines.append(
            f"{name:<24}{found.accuracy.mean():>9.4f} +- {error:.4f}{found.escalation.mean():>10.1%}{interval:>38}"
        )
    return "\n".join(lines)


@lru_cache(maxsize=8)
def _rules(splits: tuple[int, ...], seeds: int, condition: TriageCondition, grid: tuple[float, ...]) -> Deferral:
    """Accuracy and escalation of every threshold, (thresholds, splits)."""
    accuracy, escalation = np.empty((len(grid), len(splits))), np.empty((len(grid), len(splits)))
    for column, split in enumerate(splits):
        data = load_triage(split)
        cases = episodes(data, condition, np.arange(seeds))
        claim, reward = stated_claims(data, cases)[..., 0], cases.stream.reward
        for row, threshold in enumerate(grid):
            human = claim < threshold
            accuracy[row, column] = np.where(human, reward[..., 1], reward[..., 0]).mean()
            escalation[row, column] = human.mean()
    return Deferral(accuracy, escalation)
