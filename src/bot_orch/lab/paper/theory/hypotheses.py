"""Assumptions and definitions of the theorem: the rate (A5) in Algorithm 1 and at item 4, phi, Azuma's inequality."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.stats import gamma

from bot_orch.lab.environments.synthetic.episodes import episodes as episodes_of
from bot_orch.lab.environments.synthetic.settings import COMMON, ENVIRONMENTS
from bot_orch.lab.environments.triage import PAPER_SPLIT, episodes, load_triage, paper_alignment
from bot_orch.lab.harness.experiment import Payload, Results, Scale, Unit
from bot_orch.lab.harness.figures import series
from bot_orch.lab.harness.simulate import simulate
from bot_orch.lab.paper.theory.convergence import CASE, limits, recursion
from bot_orch.lab.paper.theory.items import Claim, Measurement, Steps, log_axes, loglog_slope, panels, theory_item, view
from bot_orch.lab.paper.theory.regret import CASES, exponential_weights
from bot_orch.numerics.choice import softmax
from bot_orch.numerics.estimators import EMA, MeanReward, NoHistory
from bot_orch.numerics.schedules import Constant, Power, Schedule
from bot_orch.policies.bot import Bot
from bot_orch.rng import derive_keys, generator

#: Inverse temperatures of Algorithm 1 in triage: the one that reproduces the tables, and (A5) from the same start.
RATES: dict[str, Schedule] = {"eta = 5": Constant(5.0), "eta = 5 t^-1/2 (A5)": Power(5.0, -0.5)}
#: Step sizes t^-a.
EXPONENTS = (0.5, 0.6, 0.75, 1.0)
_LAMBDA, _LAST = 3.0, 10
_HORIZONS = (1_000, 3_162, 10_000, 31_623)
_NEAR = 0.01


def units(scale: Scale) -> list[Unit]:
    """Triage in both conditions; frailty and censoring; step sizes; the definitions of phi; conditional means."""
    horizons = [h for h in _HORIZONS if h <= (3_162 if scale.quick else 31_623)]
    base = {"seeds": scale.n_seeds(10), "horizons": horizons}
    triage = [
        Unit(f"rate/{condition}", {"kind": "rate", "condition": condition, "seeds": scale.n_seeds(30)})
        for condition in ("iid", "noniid")
    ]
    return triage + [Unit(kind, {**base, "kind": kind}) for kind in ("frailty", "censoring", "steps", "phi", "azuma")]


def run(params: Mapping[str, Any]) -> Payload:
    """Run one unit."""
    kinds = {"rate": _rate, "frailty": _frailty, "censoring": _censoring, "steps": _steps, "phi": _phi, "azuma": _azuma}
    return kinds[params["kind"]](params)


def claims(results: Results) -> list[Claim]:
    """(A3), (A4), (A5) in Algorithm 1, (A5) at item 4, phi, and the two uses of Azuma's inequality."""
    return [
        _claim_frailty(results["frailty"]),
        _claim_censoring(results["censoring"]),
        _claim_rate(results),
        _claim_steps(results["steps"]),
        _claim_phi(results["phi"]),
        *_claim_azuma(results),
    ]


def measures(results: Results) -> list[Measurement]:
    """Net utility and distance from the uniform policy; sums of steps; weights; deviations."""
    found = []
    for condition in ("iid", "noniid"):
        for name, part in results[f"rate/{condition}"]["rates"].items():
            found.append(Measurement(f"triage-{condition}", name, part, lambda_=_LAMBDA))
    for a, part in results["steps"]["exponents"].items():
        values = {"sum_of_squares": part["squares"][-1:], "regret_per_root": part["per_root"][-1]}
        found.append(Measurement("theory-steps", f"t^-{a}", values))
    return found + [
        Measurement("theory-phi", name, {f"weight_{i}": [v] for i, v in enumerate(results["phi"][name])})
        for name in ("pi", "phi")
    ]


def _frailty(params: Mapping[str, Any]) -> Payload:  # noqa: ARG001  (nothing is drawn)
    """E exp(s theta) of the gamma frailty, integrated over longer ranges, for s up to 1 / variance and on."""
    variance, ends = COMMON.frailty_variance, (20.0, 40.0, 80.0)
    law = gamma(1.0 / variance, scale=variance)

    def moment(s: float, end: float) -> float:
        return float(quad(lambda x: np.exp(s * x) * law.pdf(x), 0.0, end, limit=200)[0])

    rates = [share / variance for share in (0.5, 0.9, 1.1)]
    return {"variance": variance, "moments": {f"{s:g}": [moment(s, end) for end in ends] for s in rates}}


def _claim_frailty(payload: Payload) -> Claim:
    """Judge a moment as finite if a longer range adds nothing."""
    finite = {s: ends[2] < 1.01 * ends[1] for s, ends in payload["moments"].items()}
    told = ", ".join(f"s = {s}: {'finite' if known else 'grows without end'}" for s, known in finite.items())
    return Claim(
        "A3",
        f"A gamma frailty of variance {payload['variance']:g} has E exp(s theta) for s below 1 / variance only "
        f"({told}). "
        "Near 0 they exist, and no proof uses more: R = delta S(T)^theta is bounded whatever theta is.",
        printed=all(finite.values()),
        mended=any(finite.values()),
    )


def _censoring(params: Mapping[str, Any]) -> Payload:
    """Correlation of deadlines with completion times given task and frailty, where tasks differ and where not."""
    runs = episodes_of(ENVIRONMENTS["iid-g"], range(params["seeds"]))
    hazard = -np.log(runs.drawn.latent)  # of the completion time, given task and frailty
    deadline = np.broadcast_to(np.log(runs.drawn.cutoff)[..., None], hazard.shape)
    given = [
        float(np.corrcoef(np.log(hazard[:, s].ravel()), deadline[:, s].ravel())[0, 1]) for s in range(params["seeds"])
    ]
    shown = runs.event.mean(axis=(0, 2)).tolist()
    return {"correlation": given, "completed": shown}


def _claim_censoring(payload: Payload) -> Claim:
    values = np.array(payload["correlation"])
    z = float(values.mean() / (values.std(ddof=1) / math.sqrt(values.size)))
    return Claim(
        "A4",
        f"In the synthetic environments a task has one deadline, drawn apart from its agents' times: their correlation "
        f"given task and frailty is {values.mean():+.4f} (z {z:+.1f}), with {np.mean(payload['completed']):.0%} of the "
        "tasks completed. Triage has no censoring. A caller who gives up on slow answers would break it.",
        printed=abs(z) < 3.0,
    )


def _rate(params: Mapping[str, Any]) -> Payload:
    seeds, condition = params["seeds"], params["condition"]
    cases = episodes(load_triage(PAPER_SPLIT), condition, np.arange(seeds))
    keys = derive_keys(["triage-draw", condition], range(seeds))
    history = NoHistory() if condition == "iid" else MeanReward()
    utility = cases.stream.reward - _LAMBDA * cases.stream.alignment
    rates: dict[str, Any] = {}
    paths: dict[str, list[float]] = {}
    for name, eta in RATES.items():
        source = paper_alignment(cases)
        trace = simulate(
            Bot(eta, EMA(0.9, history)), cases.stream, keys, lambda_=_LAMBDA, source=source, keep_propensities=True
        )
        away = np.abs(np.asarray(trace.propensities)[..., 0] - 0.5)
        rates[name] = {
            "net_utility": trace.pick(utility).sum(axis=0).tolist(),
            "from_uniform": away[-_LAST:].mean(axis=0).tolist(),
        }
        paths[name] = away.mean(axis=1).tolist()
    return {"rates": rates, "paths": paths}


def _claim_rate(results: Results) -> Claim:
    told, kept = [], []
    for condition in ("iid", "noniid"):
        rates = results[f"rate/{condition}"]["rates"]
        constant, decreasing = (np.asarray(rates[name]["net_utility"]) for name in RATES)
        error = math.hypot(constant.std(ddof=1), decreasing.std(ddof=1)) / math.sqrt(constant.size)
        away = [float(np.mean(rates[name]["from_uniform"])) for name in RATES]
        kept.append(bool(decreasing.mean() >= constant.mean() - 2.0 * error))
        told.append(
            f"{condition}: net utility {decreasing.mean():.1f} instead of {constant.mean():.1f}, mean distance of the "
            f"propensity from 1/2 in the last {_LAST} rounds {away[1]:.2f} instead of {away[0]:.2f}"
        )
    return Claim(
        "A5 in Algorithm 1",
        "eta_t is a step size in item 1 and an inverse temperature in Algorithm 1. There eta_t = O(t^-1/2) flattens "
        f"the softmax towards the uniform policy. Triage, from the same eta_1 = 5: {'; '.join(told)}. "
        "The tables were not made under (A5).",
        printed=all(kept),
    )


def _steps(params: Mapping[str, Any]) -> Payload:
    case, horizons = CASES["gaps"], np.array(params["horizons"])
    t = np.arange(1, int(horizons[-1]) + 1)
    found = {}
    for a in EXPONENTS:
        eta = np.power(t, -a, dtype=np.float64)
        regret = np.empty((len(horizons), params["seeds"]))
        for seed in range(params["seeds"]):
            u = case.draw(seed, int(horizons[-1])).utility(case.lambda_)
            lost = u - (exponential_weights(u, eta, lazy=False) * u).sum(axis=1, keepdims=True)
            regret[:, seed] = np.cumsum(lost, axis=0)[horizons - 1].max(axis=1)
        squares = np.cumsum(eta**2)[horizons - 1]
        per_root = (regret / np.sqrt(horizons)[:, None]).tolist()
        found[f"{a:g}"] = {"squares": squares.tolist(), "regret": regret.tolist(), "per_root": per_root}
    return {"exponents": found, "horizons": horizons.tolist()}


def _claim_steps(payload: Payload) -> Claim:
    """Sum of t^-2a is finite iff 2a > 1; the proof's ln M / eta_T = ln M T^a is O(sqrt T) iff a is at most 1/2."""
    parts, last = payload["exponents"], payload["horizons"][-1]
    both = [a for a in EXPONENTS if 2.0 * a > 1.0 and a <= 0.5]
    half, whole = parts["0.5"], parts["1"]
    slope = loglog_slope(payload["horizons"], whole["regret"])
    return Claim(
        "A5 with item 4",
        f"Item 1 needs eta_t of the order t^-1/2, item 4 a finite sum of squares; no exponent gives both. For t^-1/2 "
        f"the sum of squares is {half['squares'][-1]:.1f} at T = {last:,} and grows like ln T; for 1/t it is "
        f"{whole['squares'][-1]:.2f}, but the regret of item 1 on gaps then grows with slope {slope}. "
        "Two step sizes are needed, as the appendix writes (gamma_t).",
        printed=bool(both),
        mended=half["squares"][-1] > half["squares"][0] + 1.0 and whole["squares"][-1] < 1.65,
    )


def _phi(params: Mapping[str, Any]) -> Payload:
    last, pi, phi = params["horizons"][-1], np.zeros(3), np.zeros(3)
    eta = np.arange(1, last + 1) ** -0.5
    for seed in range(params["seeds"]):
        u, _ = CASE.draw(generator("theory", "phi", seed), last)
        pi += exponential_weights(u, eta, lazy=False)[-1] / params["seeds"]
        phi += recursion(softmax(u))[-1] / params["seeds"]
    return {"pi": pi.tolist(), "phi": phi.tolist(), "limit": limits(CASE)["mean softmax"]}


def _claim_phi(payload: Payload) -> Claim:
    pi, phi, limit = (np.array(payload[name]) for name in ("pi", "phi", "limit"))
    apart = 0.5 * float(np.abs(pi - phi).sum())
    best = int(np.argmax(CASE.chance @ (CASE.reward - CASE.lambda_ * CASE.alignment)))
    own = pi[best] > 1.0 - _NEAR and float(np.abs(phi - limit).max()) < _NEAR
    return Claim(
        "phi_t := pi_t",
        f"The theorem sets phi_t := pi_t, item 1 defines pi_t by exponential weights, item 4 phi_t by a recursion. On "
        f"one stream they end at {_vector(pi)} and {_vector(phi)}, {apart:.2f} apart in total variation: the first "
        "goes to the best fixed agent, the second to a mean of softmaxes. They are two procedures and need two "
        "names; the regret of item 1 says nothing of item 4's policy.",
        printed=apart < _NEAR,
        mended=bool(own),
    )


def _azuma(params: Mapping[str, Any]) -> Payload:
    case, horizons = CASES["coins"], np.array(params["horizons"])
    fixed, oracle = np.empty((2, len(horizons), params["seeds"]))
    for seed in range(params["seeds"]):
        rounds = case.draw(seed, int(horizons[-1]))
        u = rounds.utility(case.lambda_)
        fixed[:, seed] = np.abs(np.cumsum(u - rounds.expected, axis=0))[horizons - 1].max(axis=1)
        oracle[:, seed] = np.cumsum(u.max(axis=1) - rounds.expected.max(axis=1))[horizons - 1]
    return {"horizons": horizons.tolist(), "fixed": fixed.tolist(), "oracle": oracle.tolist()}


def _claim_azuma(results: Results) -> list[Claim]:
    p = results["azuma"]
    fixed, oracle = (loglog_slope(p["horizons"], p[name]) for name in ("fixed", "oracle"))
    ratio = {name: _over_azuma(p["horizons"], p[name]) for name in ("fixed", "oracle")}
    share = float(np.mean(p["oracle"][-1])) / p["horizons"][-1]
    return [
        Claim(
            "Azuma, one agent",
            f"Realised and conditional utilities of any one agent differ by a martingale: the largest deviation over "
            f"agents is {ratio['fixed']:.2f} of Azuma's bound (slope {fixed}). Increments must be "
            "bounded, which Gaussian noise on W is not.",
            printed=ratio["fixed"] <= 1.0,
        ),
        Claim(
            "Azuma, the oracle of the experiments",
            f"The experiments count regret to max_i U_t(i) of realised utilities. That is not a martingale away from "
            f"max_i E[U_t(i) | x_t]: with six equal agents the difference is {share:.2f} T, slope {oracle}. A bound on "
            "the regret of the theorem is no bound on the regret of the tables.",
            printed=ratio["oracle"] <= 1.0,
        ),
    ]


def _over_azuma(horizons: list[int], values: list[list[float]]) -> float:
    """Largest deviation relative to the Azuma-Hoeffding bound at probability 0.99 over agents, seeds and horizons."""
    case = CASES["coins"]
    tries = 2.0 * case.agents * len(horizons) * len(values[0]) / 0.01
    allowed = case.width * np.sqrt(np.array(horizons) * math.log(tries) / 2.0)
    return float((np.array(values).max(axis=1) / allowed).max())


def _vector(values: Any) -> str:
    return "(" + ", ".join(f"{v:.3f}" for v in values) + ")"


def draw_hypotheses(results: Results) -> Any:
    """Distance from the uniform policy in triage; sums of squared steps."""
    figure, axes = panels(2, 9.0, 3.0)
    for index, name in enumerate(RATES):
        axes[0].plot(results["rate/iid"]["paths"][name], label=name, **series(index, marker=""))
    axes[0].set(xlabel="round (triage, i.i.d.)", ylabel="mean |propensity - 1/2|")
    axes[0].legend()
    steps = results["steps"]
    for index, a in enumerate(EXPONENTS):
        squares = steps["exponents"][f"{a:g}"]["squares"]
        axes[1].plot(steps["horizons"], squares, label=f"t^-{a:g}", **series(index))
    log_axes(axes[1], y=False)
    axes[1].set(xlabel="rounds", ylabel="sum of squared steps")
    axes[1].legend()
    return figure


EXPERIMENT = theory_item(
    id="theory-hypotheses",
    title="Hypotheses and definitions",
    about="(A3) asks for exponential moments of the frailty, (A4) for censoring that does not depend on the "
    "completion time. "
    "(A5) says eta_t = O(t^-1/2); the symbol is a step size in items 1 and 4 and an inverse temperature in the "
    "algorithms. phi is defined twice. The proof of item 1 passes from realised to conditional utilities by Azuma's "
    "inequality.",
    steps=Steps(units, run, claims, measures, draw_hypotheses),
    tables=[
        view("Net utility of Algorithms 1 and 2 in triage, paper protocol", "net_utility", digits=1),
        view("Distance of the propensity from 1/2, last ten rounds", "from_uniform"),
        view("Sum of squared steps at the last round", "sum_of_squares", digits=2),
    ],
    caption="Left: distance of Algorithm 1's propensity from the uniform policy. Right: sums of squared steps t^-a; "
    "item 4 needs one that stays bounded, item 1 a = 1/2.",
    order=39,
    source="Assumptions 3 to 5, items 1 and 4",
)
