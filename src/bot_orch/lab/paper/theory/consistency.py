"""Item 5: which estimates of the rewards converge."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.lab.environments.stream import Stream
from bot_orch.lab.harness.experiment import Payload, Results, Scale, Unit
from bot_orch.lab.harness.figures import series
from bot_orch.lab.harness.simulate import simulate
from bot_orch.lab.paper.theory.items import Claim, Measurement, Steps, log_axes, loglog_slope, panels, theory_item, view
from bot_orch.policies.ucb1 import UCB1
from bot_orch.rng import derive_keys, generator

MEANS = np.array([0.3, 0.45, 0.6])
ALPHA, BETA = 0.9, 0.05
_HORIZONS = (100, 316, 1_000, 3_162, 10_000, 31_623)
_BANDIT_HORIZONS = (30, 100, 300, 1_000, 3_000)


def ema_spread(p: float, alpha: float = ALPHA) -> float:
    """Asymptotic standard deviation of a moving average of Bernoulli(p) rewards.

    Examples
    --------
    >>> round(ema_spread(0.6), 4)
    0.1124
    """
    return math.sqrt(p * (1.0 - p) * (1.0 - alpha) / (1.0 + alpha))


def history_factor(alpha: float = ALPHA, beta: float = BETA) -> float:
    """Asymptotic bias factor of Algorithm 2 with f = beta * mean of past rewards: 1 + beta / (1 - alpha)."""
    return 1.0 + beta / (1.0 - alpha)


def ema_paths(reward: Floats, *, beta: float = 0.0, alpha: float = ALPHA) -> Floats:
    """rhat_t of Algorithm 1 (beta = 0) or 2 after every round, ``(T, ..., M)``, with every reward observed."""
    before = np.arange(len(reward)).reshape(-1, *[1] * (reward.ndim - 1))
    path: Floats = (1.0 - alpha) * reward
    if beta:
        path += beta * (np.cumsum(reward, axis=0) - reward) / np.maximum(before, 1)
    for t in range(1, len(path)):
        path[t] += alpha * path[t - 1]
    return path


def units(scale: Scale) -> list[Unit]:
    """Full information i.i.d. and history-dependent; bandit feedback under two policies."""
    last = 3_162 if scale.quick else _HORIZONS[-1]
    seeds = scale.n_seeds(50, 30)
    base = {"horizons": [h for h in _HORIZONS if h <= last], "seeds": seeds}
    rounds = 1_000 if scale.quick else 3_000
    many = {"seeds": (20 if scale.quick else 40) * seeds, "horizons": [h for h in _BANDIT_HORIZONS if h <= rounds]}
    kinds = [Unit(kind, {**base, "kind": kind}) for kind in ("iid", "history")]
    return kinds + [Unit(f"bandit/{kind}", {**many, "kind": kind}) for kind in ("ucb1", "greedy")]


def run(params: Mapping[str, Any]) -> Payload:
    """Errors per horizon and seed."""
    kind, horizons, seeds = params["kind"], params["horizons"], params["seeds"]
    if kind == "iid":
        return {"horizons": horizons, **_iid(np.array(horizons), seeds)}
    if kind == "history":
        return {"horizons": horizons, **_history(np.array(horizons), seeds)}
    return {"horizons": horizons, **bandit_means(kind, horizons, seeds)}


def bandit_means(kind: str, horizons: list[int], seeds: int) -> dict[str, Any]:
    """Empirical means of the rewards of chosen agents: bias and largest error, per horizon.

    ``greedy`` tries every agent once and then follows the larger mean; ``ucb1`` keeps choosing every agent.
    """
    policy = UCB1(scale=1.0 if kind == "ucb1" else 0.0)
    last, m = max(horizons), MEANS.size
    reward = (generator("theory", "bandit-means", kind).random((last, seeds, m)) < MEANS).astype(float)
    stream = Stream(reward, np.broadcast_to(0.0, reward.shape))
    agent = simulate(policy, stream, derive_keys(["theory", "bandit-means", kind], range(seeds))).agent
    chosen = agent[..., None] == np.arange(m)
    bias, error = [], []
    for horizon in horizons:
        n = chosen[:horizon].sum(axis=0)
        mean = np.where(chosen[:horizon], reward[:horizon], 0.0).sum(axis=0) / np.maximum(n, 1)
        off = np.where(n > 0, mean - MEANS, np.nan)
        bias.append([[float(np.nanmean(column)), float(np.nanstd(column))] for column in off.T])
        error.append(np.nanmax(np.abs(off), axis=1).tolist())
    return {"bias": bias, "error": error, "seeds": seeds}


def measures(results: Results) -> list[Measurement]:
    """Largest error over agents at the last horizon; spread and level of the moving averages."""
    iid, history = results["iid"], results["history"]
    found = [
        Measurement("theory-iid", "empirical mean", {"error": iid["mean_error"][-1]}),
        Measurement("theory-iid", "ema (Algorithm 1)", {"error": iid["ema_error"][-1], "level": iid["ema_level"]}),
        Measurement(
            "theory-iid", "ema + history (Algorithm 2)", {"error": iid["alg2_error"][-1], "level": iid["alg2_level"]}
        ),
        Measurement("theory-history", "empirical mean", {"error": history["tracking_error"][-1]}),
    ]
    return found + [
        Measurement("theory-bandit", f"mean of the chosen, {kind}", {"error": results[f"bandit/{kind}"]["error"][-1]})
        for kind in ("ucb1", "greedy")
    ]


def _iid(horizons: Any, seeds: int) -> dict[str, Any]:
    rounds = int(horizons[-1])
    draws = [generator("theory", "consistency", seed).random((rounds, MEANS.size)) for seed in range(seeds)]
    reward = (np.stack(draws, axis=1) < MEANS).astype(float)
    paths = {
        "mean": np.cumsum(reward, axis=0) / np.arange(1, rounds + 1)[:, None, None],
        "ema": ema_paths(reward),
        "alg2": ema_paths(reward, beta=BETA),
    }
    found: dict[str, Any] = {"example": [path[:1_000:5, 0, -1].tolist() for path in paths.values()]}
    for name, path in paths.items():
        found[f"{name}_error"] = np.abs(path[horizons - 1] - MEANS).max(axis=-1).tolist()
        late = path[rounds // 2 :, :, -1]
        found[f"{name}_level"], found[f"{name}_spread"] = late.mean(axis=0).tolist(), late.std(axis=0).tolist()
    return found


def _history(horizons: Any, seeds: int) -> dict[str, Any]:
    """Rewards whose probability depends on the last reward and on a mean that oscillates ever more slowly."""
    last, m = int(horizons[-1]), MEANS.size
    u = generator("theory", "history").random((last, seeds, m))
    swing = 0.5 + 0.3 * np.sin(2.0 * np.log(np.arange(1, last + 1)))
    phase = np.array([1.0, -1.0, 0.5])
    before, total, predicted = np.full((seeds, m), 0.5), np.zeros((seeds, m)), np.zeros((seeds, m))
    error, mean = [], []
    marks = {int(h) for h in horizons}
    for t in range(last):
        p = 0.5 + phase * (swing[t] - 0.5) + 0.15 * (before - 0.5)
        before = (u[t] < p).astype(float)
        total += before
        predicted += p
        if t + 1 in marks:
            error.append(np.abs((total - predicted) / (t + 1)).max(axis=1).tolist())
            mean.append(float(total[:, 0].mean() / (t + 1)))
    return {"tracking_error": error, "mean": mean}


#: An error vanishes when its log-log slope lies, interval included, below this; the rate of a mean is -0.5.
_VANISHES = -0.35
#: Two numbers agree when they differ by no more than this share.
_AGREE = 0.05


def claims(results: Results) -> list[Claim]:
    """The item for the mean it defines, for the estimates the algorithms keep, and for bandit feedback."""
    return [_mean(results), _algorithm_1(results), _algorithm_2(results), _bandit(results)]


def _mean(results: Results) -> Claim:
    iid, history = results["iid"], results["history"]
    rate = loglog_slope(iid["horizons"], iid["mean_error"])
    tracking = loglog_slope(history["horizons"], history["tracking_error"])
    swing = max(history["mean"]) - min(history["mean"])
    return Claim(
        "item 5, empirical mean",
        f"Full information: the largest error over agents falls with slope {rate}, to "
        f"{np.mean(iid['mean_error'][-1]):.4f} at t = {iid['horizons'][-1]:,}. With rewards that depend on their "
        f"history the distance to the averaged conditional mean falls with slope {tracking}, while the mean itself "
        f"goes on swinging over a range of {swing:.2f}: it tracks, it need not converge.",
        printed=rate.high < _VANISHES and tracking.high < _VANISHES,
    )


def _algorithm_1(results: Results) -> Claim:
    iid = results["iid"]
    slope = loglog_slope(iid["horizons"], iid["ema_error"])
    spread, formula = float(np.mean(iid["ema_spread"])), ema_spread(float(MEANS[-1]))
    constant = " as the formula says" if abs(spread / formula - 1.0) < _AGREE else ", unlike the formula"
    return Claim(
        "the estimate of Algorithm 1",
        f"A moving average with alpha = {ALPHA:g} does not converge: slope {slope}. Its standard deviation stays at "
        f"{spread:.4f}{constant}, sigma sqrt((1 - alpha)/(1 + alpha)) = {formula:.4f}.",
        printed=slope.high < _VANISHES,
    )


def _algorithm_2(results: Results) -> Claim:
    level = float(np.mean(results["iid"]["alg2_level"]))
    told = history_factor() * float(MEANS[-1])
    return Claim(
        "the estimate of Algorithm 2",
        f"With f = {BETA:g} times the mean of past rewards it settles around {level:.3f} for a true mean of "
        f"{MEANS[-1]:g}: biased by the factor 1 + beta/(1 - alpha) = {history_factor():g} (predicted {told:.3f}).",
        printed=abs(level / MEANS[-1] - 1.0) < _AGREE,
    )


def _bandit(results: Results) -> Claim:
    ucb, greedy = results["bandit/ucb1"], results["bandit/greedy"]
    rate, stuck = (loglog_slope(p["horizons"], p["error"]) for p in (ucb, greedy))
    first, last = ucb["bias"][0], ucb["bias"][-1]
    reach = 2.0 / math.sqrt(ucb["seeds"])
    negative = all(mean + reach * std < 0.0 for mean, std in first)
    sign = "biased downwards" if negative else "not clearly biased"
    return Claim(
        "empirical mean of the chosen agent, bandit feedback",
        f"The item takes every reward as seen. When only the chosen agent's is, the mean under UCB1 is {sign} at first "
        f"({_told(first)} at t = {ucb['horizons'][0]}, {_told(last)} at {ucb['horizons'][-1]:,}) and its error "
        f"vanishes, slowly, because every agent keeps being asked (slope {rate}). Under a greedy rule it does not "
        f"(slope {stuck}): an agent dropped after bad luck is never measured again. "
        "Add: every agent is chosen infinitely often.",
        printed=rate.high < 0.0 and stuck.high < -0.1,
        mended=rate.high < 0.0,
    )


def _told(bias: list[list[float]]) -> str:
    return ", ".join(f"{mean:+.3f}" for mean, _ in bias)


def draw_consistency(results: Results) -> Any:
    """Errors over time, one path of every estimate, and the bias under bandit feedback."""
    figure, axes = panels(3, 12.4, 3.2, gap_in=0.8)
    _errors(axes[0], results)
    _paths(axes[1], results)
    _bias(axes[2], results)
    return figure


def _errors(axis: Any, results: Results) -> None:
    iid, history = results["iid"], results["history"]
    lines = [
        (iid, "ema_error", "moving average (Algorithm 1)"),
        (iid, "alg2_error", "with history term (Algorithm 2)"),
        (iid, "mean_error", "empirical mean"),
        (history, "tracking_error", "mean, history-dependent rewards"),
    ]
    for index, (payload, field, label) in enumerate(lines):
        axis.plot(payload["horizons"], [np.mean(v) for v in payload[field]], label=label, **series(index))
    t = np.array(iid["horizons"], dtype=float)
    axis.plot(t, 0.9 / np.sqrt(t), color="black", linestyle=":", label="t^-1/2")
    log_axes(axis)
    axis.set(xlabel="rounds", ylabel="largest error over agents", title="Full information")
    axis.legend(fontsize=7)


def _paths(axis: Any, results: Results) -> None:
    truth, spread = float(MEANS[-1]), ema_spread(float(MEANS[-1]))
    labels = ("empirical mean", "Algorithm 1", "Algorithm 2")
    looks = (("black", "-", 1.6), ("#1a4fa0", "-", 0.8), ("#c62828", "--", 0.9))
    for path, label, (color, line, width) in zip(results["iid"]["example"], labels, looks, strict=True):
        axis.plot(5 * np.arange(len(path)) + 1, path, color=color, linestyle=line, linewidth=width, label=label)
    axis.axhspan(truth - spread, truth + spread, color="#1a4fa0", alpha=0.15, linewidth=0)
    axis.axhline(truth * history_factor(), color="#c62828", linestyle=":", linewidth=1)
    axis.set(ylim=(0.0, 1.4), xlabel="rounds", title=f"One agent, true mean {truth:g}")
    axis.legend(fontsize=7, loc="lower right")


def _bias(axis: Any, results: Results) -> None:
    lines = [(kind, i) for kind in ("ucb1", "greedy") for i in (0, len(MEANS) - 1)]
    for index, (kind, i) in enumerate(lines):
        payload, label = results[f"bandit/{kind}"], f"{kind}, agent with mean {MEANS[i]:g}"
        axis.plot(payload["horizons"], np.array(payload["bias"])[:, i, 0], label=label, **series(index))
    axis.axhline(0.0, color="black", linewidth=0.8)
    log_axes(axis, y=False)
    axis.set(xlabel="rounds", ylabel="mean of the chosen - true mean", title="Bandit feedback: bias")
    axis.legend(fontsize=7)


EXPERIMENT = theory_item(
    id="theory-consistency",
    title="Theorem, item 5: consistency of the estimates",
    about="The empirical mean of all rewards is said to converge to the averaged conditional mean, for all agents at "
    "once. The algorithms use the same symbol for a moving average, and see only the chosen agent.",
    steps=Steps(units, run, claims, measures, draw_consistency),
    tables=[
        view("Largest error over agents at the last round", "error", digits=4),
        view("Level of the estimate of a mean of 0.6, second half of the run", "level"),
    ],
    caption="Left: largest error over agents. Middle: one path per estimate; band: sigma sqrt((1-alpha)/(1+alpha)), "
    "dotted: 1.5 times the mean. Right: bias of the mean of chosen rewards.",
    order=47,
)
