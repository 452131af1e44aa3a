"""Triage without the label: learners compared with fixed deferral rules at equal escalation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy.special import stdtrit

from bot_orch.arrays import Arrays, Field, Floats, Schema
from bot_orch.lab.environments.triage import (
    HUMAN,
    PAPER_SPLIT,
    DeployableAlignment,
    TriageCondition,
    TriageData,
    TriageEpisodes,
    episodes,
    load_triage,
    stated_claims,
)
from bot_orch.lab.harness.experiment import Experiment, Results, Scale, Unit
from bot_orch.lab.harness.players import ClaimThreshold
from bot_orch.lab.harness.simulate import simulate
from bot_orch.lab.harness.tables import ResultRow, by_method, rows_from_seeds
from bot_orch.lab.paper.triage.play import CONDITIONS, entrant
from bot_orch.numerics.choice import argmax_ties
from bot_orch.policies.base import Choice, Feedback, Policy, Situation, no_exploration
from bot_orch.policies.registry import make_policy
from bot_orch.rng import derive_keys

#: Rules that anybody would try first; the others of the table learn more than a threshold.
RULES = ("claim-threshold", "threshold-online", "always-ai", "always-person", "told-of-shift")


@dataclass(frozen=True, slots=True)
class LearnedThreshold(Policy):
    """A threshold on a claim, learned from observed answers: trust the claim if it beats the others' accuracy.

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
        """Add the deviations of the observed answers from expectation."""
        plain = self._plain(feedback.claims, state["answers"].shape)
        state["answers"] += feedback.observed
        state["surprise"] += np.where(feedback.observed, feedback.reward - plain, 0.0)

    def _plain(self, claims: Floats | None, shape: tuple[int, ...]) -> Floats:
        given = np.full(shape, np.nan) if claims is None else claims
        return np.where(np.isnan(given), self.prior, given)


def play_rule(name: str, split: int, *, seeds: int, condition: TriageCondition) -> tuple[Floats, Floats]:
    """Accuracy and escalation rate of one entrant on one split, one value per seed."""
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
    if name == "threshold-online":
        return LearnedThreshold(), 0.0
    if name in RULES:
        return ClaimThreshold(), 0.0
    if name.startswith("bot-orch"):
        chosen = entrant("bot-orch", condition, "deployable")
        return chosen.policy, 0.0 if name.endswith("-lambda-0") else chosen.lambda_
    return make_policy(name.removesuffix("-no-claims")), 0.0


def _claims(name: str, data: TriageData, cases: TriageEpisodes) -> Floats | None:
    """The claims shown to the policy: the classifier's confidence, none, or for a fixed rule 0 where it escalates."""
    never = np.zeros_like(cases.shifted)
    escalates = {"told-of-shift": cases.shifted, "always-ai": never, "always-person": ~never}
    if name in escalates:
        sure = np.where(escalates[name], 0.0, 1.0)
        return np.stack([sure, np.full_like(sure, np.nan)], axis=-1)
    return None if name.endswith("-no-claims") else stated_claims(data, cases)


#: The splits of the data, none of which was chosen.
SPLITS: tuple[int, ...] = tuple(range(40))
THRESHOLD = 0.9
_GRID = np.concatenate([[0.0], np.linspace(0.5, 0.99, 50), 1.0 - np.geomspace(0.009, 1e-6, 40), [1.1]])


@dataclass(frozen=True, slots=True, eq=False)
class Deferral:
    """Accuracy and escalation rate, one value per split, each a mean over seeds."""

    accuracy: Floats
    escalation: Floats


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A mean of paired differences and half the width of its 95 % interval (Student t)."""

    mean: float
    half_width: float


def threshold_rule(
    splits: Sequence[int] = SPLITS,
    *,
    seeds: int = 30,
    condition: TriageCondition = "noniid",
    threshold: float = THRESHOLD,
    escalation: float | None = None,
) -> Deferral:
    """Escalate below a threshold on calibrated confidence: a given one, or one with a given mean escalation.

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
    half = stdtrit(d.size - 1, 0.975) * d.std(ddof=1) / np.sqrt(d.size) if d.size > 1 else np.nan
    return PairedDifference(float(d.mean()), float(half))


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


#: What is compared with the threshold; ``auto`` sees the classifier's confidence as a claim.
LEARNERS = ("threshold-online", "bot-orch", "thompson-beta", "auto", "auto-no-claims")
_Metrics = Mapping[str, Sequence[float]]


def in_words(difference: PairedDifference) -> str:
    """Whether the interval lies above, below or around zero, in words.

    Examples
    --------
    >>> in_words(PairedDifference(0.01, 0.004)), in_words(PairedDifference(0.01, 0.02))
    ('adds accuracy', 'shows no difference')
    """
    if difference.mean - difference.half_width > 0.0:
        return "adds accuracy"
    if difference.mean + difference.half_width < 0.0:
        return "loses accuracy"
    return "shows no difference"


def plainly(found: Mapping[str, Mapping[str, _Metrics]]) -> str:
    """One sentence over all conditions: learners that beat a fixed threshold at equal escalation."""
    ahead = [
        f"{name} ({condition})"
        for condition, methods in found.items()
        for name in LEARNERS
        if in_words(_above_threshold(methods[name])) == "adds accuracy"
    ]
    said = f"{', '.join(ahead)} {'adds' if len(ahead) == 1 else 'add'}" if ahead else "nothing that learns adds"
    return (
        f"<b>Plainly:</b> at equal escalation, {said} accuracy to a fixed threshold on the classifier's confidence. "
        f"Tried: {', '.join(LEARNERS)}, in {' and '.join(found)}."
    )


def worth_notes(condition: str, found: Mapping[str, _Metrics]) -> list[str]:
    """Three sentences for one condition: rules, learning, alignment; differences are paired by split."""
    best = max(found, key=lambda name: float(np.mean(found[name]["team_accuracy"])))
    learned = [_equal(name, found[name]) for name in ("threshold-online", "auto") if name in found]
    bot = found["bot-orch"]
    off = paired(_array(bot), _array(found["bot-orch-lambda-0"]))
    return [
        f"<b>Rules, {condition}.</b> Escalating below a calibrated confidence of 0.9 is right on "
        f"{_share(found['claim-threshold'])}; BOT-Orch on {_share(bot)}; <code>auto</code> with claims on "
        f"{_share(found['auto'])}, without on {_share(found['auto-no-claims'])}. The most accurate of all is {best}.",
        f"<b>Learning, {condition}</b>, against a fixed threshold that escalates as many: " + "; ".join(learned) + ".",
        f"<b>Alignment, {condition}.</b> To BOT-Orch, alignment {in_words(off)} ({_interval(off)} over the same policy "
        f"with lambda = 0). Against a threshold that escalates as many: {_equal('bot-orch', bot)}. The alignment here "
        "is built from the same confidence as the threshold, and from the drift of the inputs.",
    ]


def _above_threshold(metrics: _Metrics) -> PairedDifference:
    above = np.asarray(metrics["above_threshold"], dtype=float)
    return paired(above, np.zeros_like(above))


def _equal(name: str, metrics: _Metrics) -> str:
    difference = _above_threshold(metrics)
    return f"{name} {in_words(difference)} ({_interval(difference)})"


def _share(metrics: _Metrics) -> str:
    return f"{np.mean(metrics['team_accuracy']):.4f} at {np.mean(metrics['escalation_rate']):.1%} escalated"


def _interval(d: PairedDifference) -> str:
    return f"{d.mean:+.4f} [{d.mean - d.half_width:+.4f}, {d.mean + d.half_width:+.4f}]"


def _array(metrics: _Metrics) -> Floats:
    return np.asarray(metrics["team_accuracy"], dtype=float)


_LEARNERS = ("bot-orch", "bot-orch-lambda-0", "thompson-beta", "auto", "auto-no-claims")
_METHODS = (*RULES, *_LEARNERS)
_SEEDS, _OTHERS = 30, 20


def _units(scale: Scale) -> list[Unit]:
    splits, seeds = ((0, 1, PAPER_SPLIT) if scale.quick else SPLITS), scale.n_seeds(_SEEDS)
    return [
        Unit(f"{condition}/{name}/{split}", {"condition": condition, "method": name, "split": split, "seeds": seeds})
        for split in splits
        for condition in CONDITIONS
        for name in _METHODS
    ]


def _run(params: Mapping[str, Any]) -> dict[str, Any]:
    accuracy, escalation = play_rule(
        params["method"], params["split"], seeds=params["seeds"], condition=params["condition"]
    )
    return {"team_accuracy": accuracy.tolist(), "escalation_rate": escalation.tolist(), "seeds": params["seeds"]}


def _rows(results: Results) -> list[ResultRow]:
    rows = []
    for condition in CONDITIONS:
        for name in _METHODS:
            by_split = _by_split(results, condition, name)
            others = {split: payload for split, payload in by_split.items() if split != PAPER_SPLIT and split < _OTHERS}
            one = {PAPER_SPLIT: by_split[PAPER_SPLIT]}
            sets = {
                f"triage-{condition}": _over_splits(condition, by_split),
                f"triage-{condition}, twenty": _over_splits(condition, others),
                f"triage-{condition}, the paper's": _over_splits(condition, one, by_seed=True),
            }
            for environment, metrics in sets.items():
                rows += rows_from_seeds(
                    "triage-claims", environment, "deployable", method=name, metrics=metrics, compare=False
                )
    return rows


def _by_split(results: Results, condition: str, name: str) -> dict[int, dict[str, Any]]:
    start = f"{condition}/{name}/"
    return {int(key.removeprefix(start)): payload for key, payload in results.items() if key.startswith(start)}


def _over_splits(
    condition: TriageCondition, by_split: Mapping[int, Mapping[str, Any]], *, by_seed: bool = False
) -> dict[str, list[float]]:
    """One value per split, each a mean over seeds; with ``by_seed`` one value per seed of the only split."""
    parts = list(by_split.values())
    accuracy, escalation = (
        np.array(parts[0][name] if by_seed else [np.mean(each[name]) for each in parts])
        for name in ("team_accuracy", "escalation_rate")
    )
    share = float(np.mean(escalation))
    rule = threshold_rule(list(by_split), seeds=parts[0]["seeds"], condition=condition, escalation=share)
    return {
        "team_accuracy": accuracy.tolist(),
        "escalation_rate": escalation.tolist(),
        "above_threshold": (accuracy - rule.accuracy).tolist(),
    }


def _notes(results: Results) -> list[str]:
    found: dict[str, dict[str, dict[str, list[float]]]] = {
        condition: {name: _over_splits(condition, _by_split(results, condition, name)) for name in _METHODS}
        for condition in reversed(CONDITIONS)
    }
    return [plainly(found), *(note for condition in found for note in worth_notes(condition, found[condition]))]


_TITLES = {
    "team_accuracy": "Team accuracy",
    "escalation_rate": "Escalation rate",
    "above_threshold": "Accuracy above a threshold at equal escalation",
}
_TABLES = [
    by_method(
        f"{title}, {condition}",
        metric,
        "deployable",
        columns=[f"triage-{condition}{which}" for which in (", the paper's", ", twenty", "")],
        lines=_METHODS,
        digits=4,
    )
    for condition in reversed(CONDITIONS)
    for metric, title in _TITLES.items()
]


EXPERIMENT = Experiment(
    id="triage-claims",
    title="Triage without the label: rules that need no learning",
    about="The deployable protocol on the paper's split, on twenty others, and on splits 0 to 39, the paper's among "
    "them. The classifier states how sure it is of its label before the choice. Rules: escalate if that calibrated "
    "confidence is below 0.9 (claim-threshold), the same with a threshold learned online, always the AI, always the "
    "person, and the person on shifted patients (told-of-shift; no router is told). The last table of each condition "
    "is accuracy minus that of the threshold, the same on all splits, that escalates as many patients. On the paper's "
    "split spread and count are over seeds, elsewhere over splits.",
    units=_units,
    run=_run,
    rows=_rows,
    tables=_TABLES,
    notes=_notes,
    order=13,
)
