"""Sentences about the synthetic tables."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from bot_orch.lab.paper.statements.evidence import Evidence, Finding, Judgement, Measured, judged, z_score

IID, NONIID = ("iid-g", "iid-m"), ("noniid-bb", "noniid-ps", "noniid-sd")
ALL = IID + NONIID
BASELINES = ("no-ot", "random", "ucb1")
LAMBDAS = (0.0, 0.5, 1.0, 1.25, 1.5, 1.75, 2.0, 3.0, 5.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0)
_PANELS = ("synthetic-iid", "synthetic-noniid")
_SIGN = {"net_utility": 1.0, "event_rate": 1.0, "oracle_regret": -1.0, "mean_observed_time": -1.0}
_STATED_TOP = 10.0  # the largest lambda of the grid that the text lists


def _of(e: Evidence, environment: str, method: str, *, metric: str) -> Measured:
    """Look up a number of the main tables, at the only lambda that they have for the method."""
    used = next((key[3] for key in e.cells if key[:3] == ("synthetic", environment, method)), 0.0)
    return e.get("synthetic", environment, method, metric=metric, lambda_=used)


def best_everywhere(e: Evidence, metrics: tuple[str, ...]) -> Judgement:
    """BOT-Orch has the best mean of the four methods in every environment."""
    lost = []
    for metric in metrics:
        for name in ALL:
            bot = _SIGN[metric] * _of(e, name, "bot-orch", metric=metric).mean
            lost += [f"{name} {b}" for b in BASELINES if _SIGN[metric] * _of(e, name, b, metric=metric).mean >= bot]
    count = len(metrics) * len(ALL)
    finding = Finding.FAILS if lost else Finding.HOLDS
    return Judgement(finding, f"Best in all {count}." if not lost else f"Not ahead of {', '.join(lost)}.")


def outperforms(e: Evidence, metrics: tuple[str, ...]) -> Judgement:
    """BOT-Orch is ahead of every baseline by more than two standard errors."""
    scores = [
        _SIGN[metric] * z_score(_of(e, name, "bot-orch", metric=metric), _of(e, name, b, metric=metric))
        for metric in metrics
        for name in ALL
        for b in BASELINES
    ]
    clear = sum(z > 2.0 for z in scores)
    return Judgement(judged(z > 2.0 for z in scores), f"z &gt; 2 in {clear} of {len(scores)} comparisons.")


def pronounced(e: Evidence) -> Judgement:
    """The share of No-OT's regret that BOT-Orch removes is larger in the non-IID environments, beyond its error."""
    iid, noniid = ([_removed(e, name) for name in names] for names in (IID, NONIID))
    gap = float(np.mean([r[0] for r in noniid]) - np.mean([r[0] for r in iid]))
    error = math.hypot(*(r[1] / len(noniid) for r in noniid), *(r[1] / len(iid) for r in iid))
    finding = Finding.HOLDS if gap > 2.0 * error else Finding.PARTLY if gap > 0.0 else Finding.FAILS
    shown = ", ".join(f"{name} {share:.0%}" for name, (share, _) in zip(ALL, iid + noniid, strict=True))
    return Judgement(finding, f"Regret removed against No-OT: {shown}; non-IID minus IID {gap:+.3f} ± {error:.3f}.")


def _removed(e: Evidence, name: str) -> tuple[float, float]:
    bot, no = _of(e, name, "bot-orch", metric="oracle_regret"), _of(e, name, "no-ot", metric="oracle_regret")
    ratio = bot.mean / no.mean
    return 1.0 - ratio, ratio * math.hypot(bot.error / bot.mean, no.error / no.mean)


def low_under_shift(e: Evidence) -> Judgement:
    """Regret relative to Random under variance changes and drift is at most that in the IID environments."""
    regret = {n: [_of(e, n, m, metric="oracle_regret").mean for m in ("bot-orch", "random")] for n in ALL}
    share = {n: bot / random for n, (bot, random) in regret.items()}
    worst = max(share[name] for name in IID)
    parts = [share[name] <= worst * 1.02 for name in ("noniid-ps", "noniid-sd")]  # two percent: their error
    return Judgement(judged(parts), "BOT-Orch / Random: " + ", ".join(f"{n} {v:.3f}" for n, v in share.items()) + ".")


def lower_bound(e: Evidence) -> Judgement:
    """No method of a row has less net utility than Random; in part if it has, within the error."""
    scores = {
        f"{m} in {n}": z_score(_of(e, n, m, metric="net_utility"), _of(e, n, "random", metric="net_utility"))
        for n in ALL
        for m in ("bot-orch", "no-ot", "ucb1")
    }
    return below_random(scores)


def below_random(scores: Mapping[str, float]) -> Judgement:
    """Fails if a z score against Random is below -2, holds if none is negative."""
    below = {name: z for name, z in scores.items() if z < 0.0}
    shown = ", ".join(f"{name} (z {z:+.1f})" for name, z in below.items()) or "nobody"
    finding = Finding.HOLDS if not below else Finding.FAILS if min(below.values()) < -2.0 else Finding.PARTLY
    return Judgement(finding, f"Below Random: {shown}.")


def one_oracle(e: Evidence) -> Judgement:
    """Net utility plus regret is the oracle's net utility, hence the same for every method of a row."""
    spread = {}
    for name in ALL:
        methods = ("bot-orch", *BASELINES)
        pairs = [[_of(e, name, m, metric=metric).mean for metric in ("net_utility", "oracle_regret")] for m in methods]
        sums = [net + regret for net, regret in pairs]
        spread[name] = max(sums) - min(sums)
    off = {name: gap for name, gap in spread.items() if gap > 0.02}  # four printed numbers, rounded to 0.01
    shown = ", ".join(f"{name} differ by {gap:.2f}" for name, gap in off.items()) or "equal up to rounding"
    return Judgement(Finding.FAILS if off else Finding.HOLDS, f"Sums over the four methods: {shown}.")


def _panel(e: Evidence, panel: str, lambda_: float) -> Measured:
    return e.get("synthetic-lambda", panel, "bot-orch", metric="net_utility", lambda_=lambda_)


def diminishing(e: Evidence) -> Judgement:
    """Net utility gained per unit of lambda falls from 0-1 over 1-3 to 3-15, and is positive at first."""
    parts, said = [], []
    for panel in _PANELS:
        at = {value: _panel(e, panel, value).mean for value in (0.0, 1.0, 3.0, 15.0)}
        gains = [at[1.0] - at[0.0], (at[3.0] - at[1.0]) / 2.0, (at[15.0] - at[3.0]) / 12.0]
        parts.append(gains[0] > gains[1] > gains[2] and gains[0] > 0.0)
        said.append(f"{panel} {gains[0]:.1f}, {gains[1]:.1f}, {gains[2]:.2f}")
    return Judgement(judged(parts), f"Gain per unit of lambda on 0-1, 1-3, 3-15: {'; '.join(said)}.")


def optimum_13(e: Evidence) -> Judgement:
    """Lambda 13 has the largest mean of the two panels; holds in part if other values are indistinguishable from it."""
    mean = {value: float(np.mean([_panel(e, panel, value).mean for panel in _PANELS])) for value in LAMBDAS}
    best = max(mean, key=lambda value: mean[value])
    tied = [v for v in LAMBDAS if v != 13.0 and _tied(e, v)]
    gap = min(mean[13.0] - mean[12.0], mean[13.0] - mean[14.0])
    finding = Finding.FAILS if best != 13.0 else Finding.PARTLY if tied else Finding.HOLDS
    errors = " and ".join(f"{_panel(e, panel, 13.0).error:.1f}" for panel in _PANELS)
    return Judgement(
        finding,
        f"Largest at {best:g}; 13 is ahead of its neighbours by {gap:.2f} against standard errors of {errors}. Not "
        f"distinguishable from it (|z| &lt; 2 in both panels): {', '.join(f'{v:g}' for v in tied) or 'none'}.",
    )


def _tied(e: Evidence, value: float) -> bool:
    return all(abs(z_score(_panel(e, panel, 13.0), _panel(e, panel, value))) < 2.0 for panel in _PANELS)


def stated_grid(e: Evidence) -> Judgement:
    """The selected lambda is on the grid that the text lists."""
    grid = sorted({key[3] for key in e.cells if key[:3] == ("synthetic-lambda", "synthetic-iid", "bot-orch")})
    beyond = [f"{value:g}" for value in grid if value > _STATED_TOP]
    said = f"The text lists values up to {_STATED_TOP:g}; the table has {', '.join(beyond) or 'no other'} too."
    return Judgement(Finding.FAILS if beyond else Finding.HOLDS, said)


def sanity(e: Evidence) -> Judgement:
    """Lambda 0 is No-OT, in both panels and all metrics."""
    gap = max(
        abs(
            e.get("synthetic-lambda", p, "bot-orch", metric=m).mean
            - e.get("synthetic-lambda", p, "no-ot", metric=m).mean
        )
        for p in _PANELS
        for m in ("net_utility", "oracle_regret", "best_agent_rate")
    )
    return Judgement(Finding.HOLDS if gap < 5e-4 else Finding.FAILS, f"Largest difference {gap:.3f}.")
