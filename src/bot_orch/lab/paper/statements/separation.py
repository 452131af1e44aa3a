"""Whether BOT-Orch is ahead early and stays ahead."""

from __future__ import annotations

from bot_orch.lab.paper.statements.evidence import Evidence, Judgement, judged, z_score
from bot_orch.lab.paper.statements.runs import ID, MARKS

__all__ = ["separates"]

_LAMBDA = {"no-ot": 0.0, "random": 2.0, "ucb1": 2.0}


def separates(e: Evidence) -> Judgement:
    """Ahead of every baseline by two standard errors at a quarter of the rounds, and by more at the end."""
    parts, said = [], []
    for condition in ("triage-iid", "triage-noniid"):
        leads = []
        for mark in MARKS:
            metric = "net_utility" if mark == MARKS[-1] else f"net_utility_{mark}"
            bot = e.get(ID, condition, "bot-orch", metric=metric, lambda_=3.0)
            others = [e.get(ID, condition, m, metric=metric, lambda_=value) for m, value in _LAMBDA.items()]
            closest = min(others, key=lambda other: bot.mean - other.mean)
            leads.append((bot.mean - closest.mean, z_score(bot, closest)))
        parts += [leads[0][1] > 2.0, leads[-1][0] > leads[0][0]]
        shown = ", ".join(f"{mark}: {lead:+.1f} (z {z:.1f})" for mark, (lead, z) in zip(MARKS, leads, strict=True))
        said.append(f"{condition} {shown}")
    return Judgement(judged(parts), f"Lead over the closest baseline by round: {'; '.join(said)}.")
