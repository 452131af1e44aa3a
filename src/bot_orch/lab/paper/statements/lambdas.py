"""Sentences about the triage lambda ablation.

In that table net utility is R - lambda W with the lambda of the line, so lines are not scored alike. Reward and cost
can be recovered: R = 114 times the accuracy, W = (R - net) / lambda; then every line can be scored with one lambda.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from bot_orch.lab.paper.statements.evidence import Evidence, Finding, Judgement, Measured, judged, z_score

LAMBDAS = (0.0, 0.5, 1.0, 1.25, 1.5, 1.75, 2.0, 3.0, 5.0, 10.0)
IID, NONIID = "triage-iid", "triage-noniid"
_SMALL = (0.5, 1.0, 1.25)
_ROUNDS = 114
_SCORE = 3.0  # the common lambda; any other positive one gives the same order


def _of(e: Evidence, condition: str, value: float, *, metric: str = "net_utility") -> Measured:
    return e.get("triage-lambda", condition, "bot-orch", metric=metric, lambda_=value)


def rescored(e: Evidence, condition: str, value: float, *, score: float = _SCORE) -> float:
    """Net utility of a line under a common lambda."""
    reward = _ROUNDS * _of(e, condition, value, metric="team_accuracy").mean
    if value == 0.0:  # the line says nothing about W; the main table does
        cost = e.get("triage", condition, "no-ot", metric="alignment_cost").mean
    else:
        cost = (reward - _of(e, condition, value).mean) / value
    return reward - score * cost


def _curve(e: Evidence, condition: str, values: Sequence[float] = LAMBDAS) -> list[float]:
    return [_of(e, condition, value).mean for value in values]


def monotone_iid(e: Evidence) -> Judgement:
    """IID net utility rises at every step from 0 to 5 and falls at 10."""
    up = LAMBDAS[:-1]
    curve = _curve(e, IID)
    falls = [
        f"{a:g} to {b:g} ({y - x:+.2f})" for a, b, x, y in zip(up, up[1:], curve, curve[1:], strict=False) if y <= x
    ]
    finding = Finding.FAILS if falls or curve[-1] >= curve[-2] else Finding.HOLDS
    return Judgement(
        finding, f"Falls between 0 and 5: {', '.join(falls) or 'none'}; 5 to 10 {curve[-1] - curve[-2]:+.2f}."
    )


def three_and_five(e: Evidence) -> Judgement:
    """Lambda 3 and 5 are indistinguishable in IID."""
    a, b = _of(e, IID, 3.0), _of(e, IID, 5.0)
    z = z_score(b, a)
    finding = Finding.HOLDS if abs(z) < 2.0 else Finding.FAILS
    return Judgement(finding, f"Difference {b.mean - a.mean:+.2f}, z {z:+.1f}.")


def dip(e: Evidence) -> Judgement:
    """Non-IID, lambda 0.5, 1 and 1.25: less net utility than No-OT, beyond the error."""
    none = _of(e, NONIID, 0.0)
    scores = [z_score(_of(e, NONIID, value), none) for value in _SMALL]
    said = ", ".join(f"{value:g} {z:+.1f}" for value, z in zip(_SMALL, scores, strict=True))
    return Judgement(judged(z < -2.0 for z in scores), f"z against No-OT: {said}.")


def disuse(e: Evidence) -> Judgement:
    """The dip comes from the routing: it remains when all lines are scored alike, and without f.

    The printed evidence has no runs without f; then only the first part is judged.
    """
    none = rescored(e, NONIID, 0.0)
    alike = {value: rescored(e, NONIID, value) - none for value in _SMALL}
    parts = [min(alike.values()) < 0.0]
    said = f"Scored with lambda = {_SCORE:g} throughout: " + ", ".join(f"{v:g} {d:+.1f}" for v, d in alike.items())
    try:
        plain = [e.get("claims", NONIID, "without f", metric="net_utility", lambda_=v).mean for v in (0.0, *_SMALL)]
    except LookupError:
        return Judgement(judged(parts), f"{said} against No-OT.")
    depth, without = min(_curve(e, NONIID, _SMALL)) - _of(e, NONIID, 0.0).mean, min(plain[1:]) - plain[0]
    parts.append(without < 0.5 * depth)
    return Judgement(
        judged(parts),
        f"{said} against No-OT. Own scores: depth {depth:+.1f} with f, {without:+.1f} without, disuse in both.",
    )


def fails_to_redirect(e: Evidence) -> Judgement:
    """At small lambda fewer shifted patients are escalated than at 3."""
    share = {v: _of(e, NONIID, v, metric="escalation_rate_shifted").mean for v in (*_SMALL, 3.0)}
    parts = [share[value] < share[3.0] for value in _SMALL]
    return Judgement(
        judged(parts), "Shifted patients escalated: " + ", ".join(f"{v:g} {s:.3f}" for v, s in share.items()) + "."
    )


def recovers(e: Evidence) -> Judgement:
    """Non-IID net utility rises from 1.5 to 3 at every step, and is above No-OT there."""
    curve = _curve(e, NONIID, (1.5, 1.75, 2.0, 3.0))
    parts = [y > x for x, y in pairwise(curve)] + [curve[0] > _of(e, NONIID, 0.0).mean]
    return Judgement(judged(parts), ", ".join(f"{v:.2f}" for v in curve) + ".")


def peak(e: Evidence) -> Judgement:
    """The largest net utility is at 3 in both conditions."""
    best = {c: LAMBDAS[max(range(len(LAMBDAS)), key=_curve(e, c).__getitem__)] for c in (IID, NONIID)}
    said = ", ".join(f"{c} at {v:g}" for c, v in best.items())
    return Judgement(judged(v == 3.0 for v in best.values()), f"Largest: {said}.")


def joint_optimum(e: Evidence) -> Judgement:
    """Lambda 3 is the best choice when every line is scored alike."""
    best, said = [], []
    for c in (IID, NONIID):
        alike = {value: rescored(e, c, value) for value in LAMBDAS}
        best.append(max(alike, key=lambda value: alike[value]))
        said.append(f"{c} largest at {best[-1]:g} ({alike[best[-1]]:.1f}; at 3 {alike[3.0]:.1f})")
    return Judgement(
        judged(value == 3.0 for value in best),
        f"The score contains the lambda that is chosen. Scored with {_SCORE:g} throughout: {'; '.join(said)}.",
    )


def falls_at_ten(e: Evidence) -> Judgement:
    """Net utility at 10 is below that at 3 when both are scored alike."""
    gaps = {c: rescored(e, c, 10.0) - rescored(e, c, 3.0) for c in (IID, NONIID)}
    own = {c: _of(e, c, 10.0).mean - _of(e, c, 3.0).mean for c in (IID, NONIID)}
    said = "; ".join(f"{c} {own[c]:+.2f} by own scores, {gaps[c]:+.2f} scored alike" for c in gaps)
    return Judgement(
        judged([all(v < 0 for v in own.values()), all(v < 0 for v in gaps.values())]), f"10 minus 3: {said}."
    )


def collapse(e: Evidence) -> Judgement:
    """The standard deviation falls from about 5.5 at lambda 2 to about 0.7 at 10 in the non-IID condition."""
    two, ten = (_of(e, NONIID, value).sd for value in (2.0, 10.0))
    return Judgement(Finding.HOLDS if two > 3.0 * ten else Finding.FAILS, f"{two:.2f} at 2, {ten:.2f} at 10.")


def pooled(e: Evidence) -> Judgement:
    """The gap between 3 and 5 is below their pooled standard deviation, which is 1.73."""
    a, b = _of(e, IID, 3.0), _of(e, IID, 5.0)
    root, mean = math.sqrt((a.sd**2 + b.sd**2) / 2.0), (a.sd + b.sd) / 2.0
    parts = [abs(a.mean - b.mean) < root, abs(root - 1.73) < 0.01]
    return Judgement(judged(parts), f"Pooled {root:.2f}; the mean of the two deviations is {mean:.2f}.")


def variance_three(e: Evidence) -> Judgement:
    """The variance at 3 is a third of that at 2."""
    factors = [(_of(e, c, 2.0).sd / _of(e, c, 3.0).sd) ** 2 for c in (IID, NONIID)]
    said = f"Variance smaller by {factors[0]:.1f} (IID) and {factors[1]:.1f} (non-IID); deviation by "
    said += " and ".join(f"{math.sqrt(f):.1f}" for f in factors)
    return Judgement(judged(abs(f - 3.0) < 0.5 for f in factors), f"{said}.")


def meaningful(e: Evidence) -> Judgement:
    """Lambda 3 gains 1.42 over 2 in the non-IID condition, beyond the error."""
    a, b = _of(e, NONIID, 3.0), _of(e, NONIID, 2.0)
    gain, z = a.mean - b.mean, z_score(a, b)
    return Judgement(judged([gain > 0.0, z > 2.0]), f"Gain {gain:+.2f}, z {z:+.1f}.")


def sanity(e: Evidence) -> Judgement:
    """Lambda 0 is No-OT."""
    gap = max(
        abs(_of(e, c, 0.0, metric=m).mean - e.get("triage", c, "no-ot", metric=m).mean)
        for c in (IID, NONIID)
        for m in ("net_utility", "oracle_regret", "team_accuracy")
    )
    return Judgement(Finding.HOLDS if gap < 5e-4 else Finding.FAILS, f"Largest difference {gap:.3f}.")


def cost_falls(e: Evidence) -> Judgement:
    """Alignment cost, recovered from reward and net utility, falls with every step of lambda, up to rounding."""
    parts, said = [], []
    for c in (IID, NONIID):
        cost = [(rescored(e, c, v, score=0.0) - rescored(e, c, v, score=1.0)) for v in LAMBDAS]
        slack = [0.0005 * _ROUNDS / v if v else 0.0 for v in LAMBDAS]
        pairs = zip(cost, cost[1:], slack[1:], strict=False)
        parts.append(all(y <= x + s for x, y, s in pairs))
        said.append(f"{c} " + " ".join(f"{w:.2f}" for w in cost))
    return Judgement(judged(parts), "; ".join(said) + ".")
