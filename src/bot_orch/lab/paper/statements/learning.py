"""Sentences about what learning does, judged by BOT-Orch beside itself with reward estimates that stay at zero."""

from __future__ import annotations

from bot_orch.lab.paper.statements.evidence import Evidence, Finding, Judgement, judged, z_score
from bot_orch.lab.paper.statements.runs import ID, LARGE

__all__ = ["adaptation", "both_contribute", "ignores_history"]

_CONDITIONS = ("triage-iid", "triage-noniid")


def _worth(e: Evidence, condition: str, value: float) -> tuple[float, float]:
    """What learning adds to net utility, and its z score."""
    learned, frozen = (e.get(ID, condition, m, metric="net_utility", lambda_=value) for m in ("bot-orch", "frozen"))
    return learned.mean - frozen.mean, z_score(learned, frozen)


def _said(e: Evidence) -> str:
    parts = []
    for condition in _CONDITIONS:
        shown = ", ".join("{:g} {:+.2f} (z {:+.1f})".format(v, *_worth(e, condition, v)) for v in LARGE)
        parts.append(f"{condition} {shown}")
    return f"Net utility with learning minus without, by lambda: {'; '.join(parts)}."


def ignores_history(e: Evidence) -> Judgement:
    """At lambda 5 and 10 learning makes no difference beyond the error."""
    scores = [_worth(e, condition, value)[1] for condition in _CONDITIONS for value in LARGE[1:]]
    return Judgement(judged(abs(z) < 2.0 for z in scores), _said(e))


def both_contribute(e: Evidence) -> Judgement:
    """At lambda 3 learning adds net utility beyond the error, at 5 and 10 it does not."""
    parts = [_worth(e, condition, LARGE[0])[1] > 2.0 for condition in _CONDITIONS]
    later = [_worth(e, condition, value)[1] > 2.0 for condition in _CONDITIONS for value in LARGE[1:]]
    finding = Finding.FAILS if not any(parts) else judged([*parts, not any(later)])
    return Judgement(finding, _said(e))


def adaptation(e: Evidence) -> Judgement:
    """Escalation rises more after the shift than it does without any learning."""
    learned, frozen = (
        e.get(ID, "triage-noniid", m, metric="escalation_rise", lambda_=LARGE[0]) for m in ("bot-orch", "frozen")
    )
    z = z_score(learned, frozen)
    finding = Finding.HOLDS if z > 2.0 else Finding.FAILS
    return Judgement(finding, f"Rise {learned.mean:+.3f} with learning, {frozen.mean:+.3f} without; z {z:+.1f}.")
