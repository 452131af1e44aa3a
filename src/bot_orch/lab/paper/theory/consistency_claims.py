"""The verdicts on item 5."""

from __future__ import annotations

import math

import numpy as np

from bot_orch.lab.harness.experiment import Results
from bot_orch.lab.paper.theory.consistency import ALPHA, BETA, MEANS, ema_spread, history_factor
from bot_orch.lab.paper.theory.slopes import loglog_slope
from bot_orch.lab.paper.theory.verdicts import TheoremClaim, judge

__all__ = ["claims"]

#: An error vanishes when its log-log slope lies, interval included, below this; the rate of a mean is -0.5.
_VANISHES = -0.35
#: Two numbers agree when they differ by no more than this share.
_AGREE = 0.05


def claims(results: Results) -> list[TheoremClaim]:
    """The item for the mean it defines, for the estimates the algorithms keep, and for bandit feedback."""
    return [_mean(results), _algorithm_1(results), _algorithm_2(results), _bandit(results)]


def _mean(results: Results) -> TheoremClaim:
    iid, history = results["iid"], results["history"]
    rate = loglog_slope(iid["horizons"], iid["mean_error"])
    tracking = loglog_slope(history["horizons"], history["tracking_error"])
    swing = max(history["mean"]) - min(history["mean"])
    return TheoremClaim(
        "item 5, empirical mean",
        judge(printed=rate.high < _VANISHES and tracking.high < _VANISHES),
        f"Full information: the largest error over agents falls with slope {rate}, to "
        f"{np.mean(iid['mean_error'][-1]):.4f} at t = {iid['horizons'][-1]:,}. With rewards that depend on their "
        f"history the distance to the averaged conditional mean falls with slope {tracking}, while the mean itself "
        f"goes on swinging over a range of {swing:.2f}: it tracks, it need not converge.",
    )


def _algorithm_1(results: Results) -> TheoremClaim:
    iid = results["iid"]
    slope = loglog_slope(iid["horizons"], iid["ema_error"])
    spread, formula = float(np.mean(iid["ema_spread"])), ema_spread(float(MEANS[-1]))
    constant = " as the formula says" if abs(spread / formula - 1.0) < _AGREE else ", unlike the formula"
    return TheoremClaim(
        "the estimate of Algorithm 1",
        judge(printed=slope.high < _VANISHES),
        f"A moving average with alpha = {ALPHA:g} does not converge: slope {slope}. Its standard deviation stays at "
        f"{spread:.4f}{constant}, sigma sqrt((1 - alpha)/(1 + alpha)) = {formula:.4f}.",
    )


def _algorithm_2(results: Results) -> TheoremClaim:
    level = float(np.mean(results["iid"]["alg2_level"]))
    told = history_factor() * float(MEANS[-1])
    return TheoremClaim(
        "the estimate of Algorithm 2",
        judge(printed=abs(level / MEANS[-1] - 1.0) < _AGREE),
        f"With f = {BETA:g} times the mean of past rewards it settles around {level:.3f} for a true mean of "
        f"{MEANS[-1]:g}: biased by the factor 1 + beta/(1 - alpha) = {history_factor():g} (predicted {told:.3f}).",
    )


def _bandit(results: Results) -> TheoremClaim:
    ucb, greedy = results["bandit/ucb1"], results["bandit/greedy"]
    rate, stuck = (loglog_slope(p["horizons"], p["error"]) for p in (ucb, greedy))
    first, last = ucb["bias"][0], ucb["bias"][-1]
    reach = 2.0 / math.sqrt(ucb["seeds"])
    negative = all(mean + reach * std < 0.0 for mean, std in first)
    sign = "biased downwards" if negative else "not clearly biased"
    return TheoremClaim(
        "empirical mean of the chosen agent, bandit feedback",
        judge(printed=rate.high < 0.0 and stuck.high < -0.1, mended=rate.high < 0.0),
        f"The item takes every reward as seen. When only the chosen agent's is, the mean under UCB1 is {sign} at first "
        f"({_told(first)} at t = {ucb['horizons'][0]}, {_told(last)} at {ucb['horizons'][-1]:,}) and its error "
        f"vanishes, slowly, because every agent keeps being asked (slope {rate}). Under a greedy rule it does not "
        f"(slope {stuck}): an agent dropped after bad luck is never measured again. "
        "Add: every agent is chosen infinitely often.",
    )


def _told(bias: list[list[float]]) -> str:
    return ", ".join(f"{mean:+.3f}" for mean, _ in bias)
