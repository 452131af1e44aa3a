"""What learning and alignment are worth in the deployable triage, in words that the numbers choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.lab.paper.triage.deferral import PairedDifference, paired

__all__ = ["LEARNERS", "in_words", "plainly", "worth_notes"]

#: What is compared with the threshold; ``auto`` sees the classifier's confidence as a claim.
LEARNERS = ("threshold-online", "bot-orch", "thompson-beta", "auto", "auto-no-claims")
_Metrics = Mapping[str, Sequence[float]]


def in_words(difference: PairedDifference) -> str:
    """Whether the interval lies above, below or around zero.

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
    """One sentence over all conditions: which learners beat a fixed threshold that escalates as many."""
    ahead = [
        f"{name} ({condition})"
        for condition, methods in found.items()
        for name in LEARNERS
        if in_words(_above(methods[name])) == "adds accuracy"
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


def _above(metrics: _Metrics) -> PairedDifference:
    above = np.asarray(metrics["above_threshold"], dtype=float)
    return paired(above, np.zeros_like(above))


def _equal(name: str, metrics: _Metrics) -> str:
    difference = _above(metrics)
    return f"{name} {in_words(difference)} ({_interval(difference)})"


def _share(metrics: _Metrics) -> str:
    return f"{np.mean(metrics['team_accuracy']):.4f} at {np.mean(metrics['escalation_rate']):.1%} escalated"


def _interval(d: PairedDifference) -> str:
    return f"{d.mean:+.4f} [{d.mean - d.half_width:+.4f}, {d.mean + d.half_width:+.4f}]"


def _array(metrics: _Metrics) -> Floats:
    return np.asarray(metrics["team_accuracy"], dtype=float)
