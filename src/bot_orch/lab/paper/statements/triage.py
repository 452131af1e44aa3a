"""Sentences about the triage tables."""

from __future__ import annotations

import math
from collections.abc import Mapping

from bot_orch.lab.paper.statements.evidence import Evidence, Finding, Judgement, Measured, judged, z_score
from bot_orch.lab.paper.statements.synthetic import below_random

#: Printed accuracies: of the AI and of the person, in distribution and shifted.
ACCURACY = {"ai": (0.982, 0.807), "person": (0.880, 0.947)}
CONDITIONS = ("triage-iid", "triage-noniid")
_BASELINES = ("no-ot", "random", "ucb1")
_ROUNDS = 114


def _of(e: Evidence, condition: str, method: str, *, metric: str) -> Measured:
    return e.get("triage", condition, method, metric=metric, lambda_=3.0 if method == "bot-orch" else 0.0)


def best_in_both(e: Evidence) -> Judgement:
    """Most net utility and least regret in both conditions, by more than two standard errors."""
    scores = []
    for condition in CONDITIONS:
        for metric, sign in (("net_utility", 1.0), ("oracle_regret", -1.0)):
            bot = _of(e, condition, "bot-orch", metric=metric)
            scores += [sign * z_score(bot, _of(e, condition, b, metric=metric)) for b in _BASELINES]
    return Judgement(judged(z > 2.0 for z in scores), f"Smallest z of {len(scores)} comparisons: {min(scores):.1f}.")


def gain_iid(e: Evidence) -> Judgement:
    """Net utility + 5.5 over No-OT, and an alignment cost ten times smaller."""
    bot, no = (_of(e, "triage-iid", m, metric="net_utility") for m in ("bot-orch", "no-ot"))
    gain, error = bot.mean - no.mean, math.hypot(bot.error, no.error)
    cost = {m: _of(e, "triage-iid", m, metric="alignment_cost").mean for m in ("bot-orch", "no-ot")}
    factor = cost["no-ot"] / cost["bot-orch"]
    parts = [abs(gain - 5.5) <= max(0.05, 2.0 * error), factor >= 10.0]
    common = gain + 3.0 * cost["no-ot"]
    return Judgement(
        judged(parts),
        f"Gain {gain:+.2f} ± {error:.2f}, scored with lambda 3 and 0; with 3 for both {common:+.1f}. Cost smaller by a "
        f"factor {factor:.1f}.",
    )


def gain_larger(e: Evidence) -> Judgement:
    """The gain over No-OT is larger in the non-IID condition."""
    gains, errors = [], []
    for condition in CONDITIONS:
        bot, no = (_of(e, condition, m, metric="net_utility") for m in ("bot-orch", "no-ot"))
        gains.append(bot.mean - no.mean)
        errors.append(math.hypot(bot.error, no.error))
    gap, error = gains[1] - gains[0], math.hypot(*errors)
    finding = Finding.HOLDS if gap > 2.0 * error else Finding.PARTLY if gap > 0.0 else Finding.FAILS
    return Judgement(finding, f"{gains[0]:+.2f} and {gains[1]:+.2f}; difference {gap:+.2f} ± {error:.2f}.")


def ot_drives(e: Evidence) -> Judgement:
    """Without alignment, regret and alignment cost are larger."""
    scores = [
        z_score(_of(e, c, "no-ot", metric=metric), _of(e, c, "bot-orch", metric=metric))
        for c in CONDITIONS
        for metric in ("oracle_regret", "alignment_cost")
    ]
    return Judgement(judged(z > 2.0 for z in scores), f"z from {min(scores):.0f} to {max(scores):.0f}.")


def _shares(e: Evidence, condition: str, method: str) -> tuple[float, float]:
    """Escalated in distribution and shifted; half of the patients are shifted."""
    overall = _of(e, condition, method, metric="escalation_rate").mean
    shifted = _of(e, condition, method, metric="escalation_rate_shifted").mean
    return 2.0 * overall - shifted, shifted


def targeted(e: Evidence) -> Judgement:
    """Fewer patients escalated than any baseline, and more of the shifted than of the others."""
    parts, said = [], []
    for condition in CONDITIONS:
        plain, shifted = _shares(e, condition, "bot-orch")
        mine = _of(e, condition, "bot-orch", metric="escalation_rate").mean
        fewer = all(mine < _of(e, condition, b, metric="escalation_rate").mean for b in _BASELINES)
        parts += [fewer, shifted > plain]
        said.append(f"{condition} {mine:.3f} overall, {plain:.3f} in distribution, {shifted:.3f} shifted")
    return Judgement(judged(parts), "; ".join(said) + ".")


def targeted_more(e: Evidence) -> Judgement:
    """Shifted over in-distribution escalation is higher than of every baseline."""
    parts, said = [], []
    for condition in CONDITIONS:
        ratio = {m: (lambda s: s[1] / s[0])(_shares(e, condition, m)) for m in ("bot-orch", *_BASELINES)}
        parts.append(all(ratio["bot-orch"] > ratio[b] for b in _BASELINES))
        said.append(f"{condition} " + ", ".join(f"{m} {r:.2f}" for m, r in ratio.items()))
    return Judgement(judged(parts), "Shifted over in distribution: " + "; ".join(said) + ".")


def adapts(e: Evidence) -> Judgement:
    """Escalation rises after the shift, beyond its error."""
    overall, shifted = (
        _of(e, "triage-noniid", "bot-orch", metric=metric) for metric in ("escalation_rate", "escalation_rate_shifted")
    )
    rise, error = 2.0 * (shifted.mean - overall.mean), 2.0 * math.hypot(overall.error, shifted.error)
    finding = Finding.HOLDS if rise > 2.0 * error else Finding.PARTLY if rise > 0.0 else Finding.FAILS
    return Judgement(finding, f"Rise {rise:+.3f} ± {error:.3f}.")


def bimodal(e: Evidence) -> Judgement:
    """No-OT's escalation is nearly always 0 or 1: its deviation is near the largest possible for its mean."""
    parts, said = [], []
    for condition in CONDITIONS:
        cell = _of(e, condition, "no-ot", metric="escalation_rate")
        share = cell.sd / math.sqrt(cell.mean * (1.0 - cell.mean))
        parts.append(share > 0.9)
        said.append(f"{condition} {share:.2f}")
    return Judgement(judged(parts), f"Standard deviation over the largest possible one: {', '.join(said)}.")


def random_flat(e: Evidence) -> Judgement:
    """Random escalates half of the patients."""
    scores = []
    for condition in CONDITIONS:
        cell = _of(e, condition, "random", metric="escalation_rate")
        scores.append(abs(cell.mean - 0.5) / cell.error)
    return Judgement(judged(z < 2.0 for z in scores), f"|z| against 0.5: {', '.join(f'{z:.1f}' for z in scores)}.")


def ucb_less_precise(e: Evidence) -> Judgement:
    """UCB1 escalates more of the shifted patients than before, and more patients overall than BOT-Orch."""
    plain, shifted = _shares(e, "triage-noniid", "ucb1")
    more = _of(e, "triage-noniid", "ucb1", metric="escalation_rate").mean
    mine = _of(e, "triage-noniid", "bot-orch", metric="escalation_rate").mean
    said = f"UCB1 {plain:.3f} in distribution, {shifted:.3f} shifted, {more:.3f} overall; BOT-Orch {mine:.3f}."
    return Judgement(judged([shifted > plain, more > mine]), said)


def lower_bound(e: Evidence) -> Judgement:
    """No method is below Random in net utility or accuracy; holds in part if it is, within the error."""
    return below_random(
        {
            f"{m} in {c}, {metric.replace('_', ' ')}": z_score(
                _of(e, c, m, metric=metric), _of(e, c, "random", metric=metric)
            )
            for c in CONDITIONS
            for metric in ("net_utility", "team_accuracy")
            for m in ("bot-orch", "no-ot", "ucb1")
        }
    )


def identical_metrics(e: Evidence) -> Judgement:
    """The lambda that net utility was scored with, recomputed from reward, cost and net, is the same for all."""
    used = {}
    for m in ("bot-orch", *_BASELINES):
        lambdas = []
        for c in CONDITIONS:
            reward = _ROUNDS * _of(e, c, m, metric="team_accuracy").mean
            net, cost = (_of(e, c, m, metric=metric).mean for metric in ("net_utility", "alignment_cost"))
            lambdas.append((reward - net) / cost)
        used[m] = lambdas[1]  # non-IID: in the other condition the printed accuracy contradicts the ablation table
    same = max(used.values()) - min(used.values()) < 0.5
    shown = ", ".join(f"{m} {value:.1f}" for m, value in used.items())
    return Judgement(Finding.HOLDS if same else Finding.FAILS, f"(reward - net) / alignment cost: {shown}.")


def same_stream(e: Evidence) -> Judgement:
    """Methods scored alike (Random and UCB1) have one oracle: net utility plus regret is the same."""
    gaps = []
    for c in CONDITIONS:
        both = ("random", "ucb1")
        sums = [_of(e, c, m, metric="net_utility").mean + _of(e, c, m, metric="oracle_regret").mean for m in both]
        gaps.append(abs(sums[0] - sums[1]))
    return Judgement(
        judged(gap < 0.03 for gap in gaps),  # four printed numbers, rounded to 0.01
        f"Net utility + regret of Random and UCB1 differ by {gaps[0]:.2f} (IID) and {gaps[1]:.2f} (non-IID).",
    )


def one_accuracy(e: Evidence) -> Judgement:
    """BOT-Orch has the same accuracy in the main table and for the same run in the ablation table."""
    parts, said = [], []
    for c in CONDITIONS:
        main = _of(e, c, "bot-orch", metric="team_accuracy").mean
        again = e.get("triage-lambda", c, "bot-orch", metric="team_accuracy", lambda_=3.0).mean
        parts.append(abs(main - again) < 5e-4)
        said.append(f"{c} {main:.3f} and {again:.3f}")
    return Judgement(judged(parts), "; ".join(said) + ".")


def escalation_fits_cost(e: Evidence) -> Judgement:
    """The cost of escalated patients alone is at most the printed alignment cost."""
    parts, said = [], []
    plain_cost, shifted_cost = (1.0 - p for p in ACCURACY["person"])
    for c in CONDITIONS:
        plain, shifted = _shares(e, c, "bot-orch")
        least = _ROUNDS / 2 * (plain * plain_cost + shifted * shifted_cost)
        cost = _of(e, c, "bot-orch", metric="alignment_cost")
        parts.append(least <= cost.mean + 2.0 * cost.error)
        said.append(f"{c}: escalations alone cost {least:.2f}, all that was paid is {cost.mean:.2f}")
    return Judgement(judged(parts), "; ".join(said) + ".")


def accuracies(e: Evidence) -> Judgement:
    """Random's accuracy and alignment cost follow from the four accuracies."""
    right = sum(sum(pair) for pair in ACCURACY.values()) / 4.0
    scores = []
    for c in CONDITIONS:
        accuracy, cost = (_of(e, c, "random", metric=metric) for metric in ("team_accuracy", "alignment_cost"))
        scores += [(accuracy.mean - right) / accuracy.error, (cost.mean - _ROUNDS * (1.0 - right)) / cost.error]
    return Judgement(
        judged(abs(z) < 2.0 for z in scores),
        f"Expected of Random: {right:.4f}, cost {_ROUNDS * (1.0 - right):.2f}; z of both, IID and non-IID: "
        f"{', '.join(f'{z:+.1f}' for z in scores)}.",
    )


def complementarity(_: Evidence, accuracy: Mapping[str, tuple[float, float]] = ACCURACY) -> Judgement:
    """The printed distances are one minus the printed accuracies, and each agent is better on one half."""
    ai, person = accuracy["ai"], accuracy["person"]
    quoted = [(1 - ai[1], 0.193), (1 - person[1], 0.053), (person[1] - ai[1], 0.140), (1 - ai[0], 0.018)]
    quoted.append((1 - person[0], 0.120))
    parts = [abs(found - said) < 5e-4 for found, said in quoted] + [person[1] > ai[1], ai[0] > person[0]]
    return Judgement(judged(parts), f"{sum(parts)} of {len(parts)} statements are arithmetic of the four accuracies.")


def dominance(_: Evidence, accuracy: Mapping[str, tuple[float, float]] = ACCURACY) -> Judgement:
    """The person has the lower cost on each shifted patient, and expected rewards are equal, as item 2 requires."""
    share, gap = 1.0 - accuracy["ai"][1], accuracy["person"][1] - accuracy["ai"][1]
    return Judgement(
        judged([share == 1.0, gap == 0.0]),
        f"W(AI) is 0 or 1 patient by patient: the person's cost is lower on {share:.1%} of the shifted patients, those "
        f"the AI misreads. Expected rewards differ by {gap:.3f}; item 2 is about equal ones.",
    )


def bandit_feedback(e: Evidence) -> Judgement:
    """Accuracy is at most that of the better agent in each half, a choice that already requires knowing the shift."""
    best = (max(ACCURACY[a][0] for a in ACCURACY) + max(ACCURACY[a][1] for a in ACCURACY)) / 2.0
    scores = []
    for c in CONDITIONS:
        cell = e.get("triage-lambda", c, "bot-orch", metric="team_accuracy", lambda_=3.0)
        scores.append((cell.mean - best) / cell.error)
    return Judgement(
        judged(z < 2.0 for z in scores),
        f"W(AI) = 1 - R(AI) is used before the choice, so the router sees the AI's reward unasked. The better agent of "
        f"each half is right on {best:.4f}; BOT-Orch is above by z = {scores[0]:.0f} and {scores[1]:.0f}.",
    )
