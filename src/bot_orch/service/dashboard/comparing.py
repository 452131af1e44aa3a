"""A line of the dashboard about a test of two policies."""

from __future__ import annotations

from bot_orch.policies.registry import policy_name
from bot_orch.service.routing.comparison import ArmSums, Comparison
from bot_orch.service.web.pages import Safe, html

__all__ = ["comparison_part"]


def comparison_part(found: Comparison | None) -> Safe:
    """Mean rewards of both arms and their difference; empty without a test."""
    if found is None:
        return Safe("")
    a, b = _arm(found.arms["a"]), _arm(found.arms["b"])
    difference = found.difference()
    told = "not known yet"
    if difference is not None:
        told = f"{difference[0]:+.3f}, 95 % interval {difference[1]:+.3f} to {difference[2]:+.3f}"
    return html(
        '<p class="note" id="ab">A/B: <b>{one}</b> {a} · <b>{other}</b> {b} · difference {told}</p>',
        one=policy_name(found.test.a),
        other=policy_name(found.test.b),
        a=a,
        b=b,
        told=told,
    )


def _arm(sums: ArmSums) -> str:
    mean = "–" if sums.mean is None else f"{sums.mean:.3f}"
    return f"{mean} ({sums.rewards} rewards)"
