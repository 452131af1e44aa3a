"""Preference by policies: does the better aligned of two equally rewarded agents get the larger probability?

Item 2 and the proposition compare utilities. A policy does not know them: it sees estimates, noise and its own choices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bot_orch.lab.environments.stream import GivenAlignment, Stream
from bot_orch.lab.harness.experiment import Payload, Results, Scale, Unit
from bot_orch.lab.harness.figures import series
from bot_orch.lab.harness.simulate import FeedbackMode, simulate
from bot_orch.lab.paper.theory.items import Claim, Measurement, Steps, panels, theory_item, view
from bot_orch.lab.paper.theory.weights import ExponentialWeights
from bot_orch.numerics.schedules import Power
from bot_orch.policies.base import Policy
from bot_orch.policies.bot import algorithm_1, algorithm_2
from bot_orch.rng import derive_keys, generator

#: How much better aligned the first agent is; both earn a coin of chance 1/2.
GAPS = (0.05, 0.2)
POLICIES: dict[str, tuple[Policy, FeedbackMode]] = {
    "Algorithm 1": (algorithm_1(), "bandit"),
    "Algorithm 2": (algorithm_2(), "bandit"),
    "weights of item 1": (ExponentialWeights(Power(1.0, -0.5)), "full"),
    "weights of item 1, bandit": (ExponentialWeights(Power(1.0, -0.5)), "bandit"),
}

_NOISE, _LAMBDA = 0.1, 1.0


def units(scale: Scale) -> list[Unit]:
    """One unit per policy and gap."""
    base = {"seeds": scale.n_seeds(600, 400), "rounds": 300 if scale.quick else 1_000}
    return [Unit(f"{name}/{gap:g}", {**base, "policy": name, "gap": gap}) for name in POLICIES for gap in GAPS]


def run(params: Mapping[str, Any]) -> Payload:
    """Per seed: share of rounds in which the better aligned agent has the larger probability, and its mean."""
    seeds, rounds, gap = params["seeds"], params["rounds"], params["gap"]
    policy, feedback = POLICIES[params["policy"]]
    rng = generator("theory", "preference", f"{gap:g}")
    reward = (rng.random((rounds, seeds, 2)) < 0.5).astype(float)
    w = np.broadcast_to([0.2, 0.2 + gap], reward.shape)
    seen = w + _NOISE * (2.0 * rng.random(reward.shape) - 1.0)
    keys = derive_keys(["theory", "preference", params["policy"]], range(seeds))
    trace = simulate(
        policy,
        Stream(reward, seen),
        keys,
        lambda_=_LAMBDA,
        source=GivenAlignment(seen),
        feedback=feedback,
        keep_propensities=True,
    )
    first = np.asarray(trace.propensities)[..., 0]
    return {
        "rounds_preferred": (first > 0.5).mean(axis=0).tolist(),
        "mean_probability": first.mean(axis=0).tolist(),
        "path": first.mean(axis=1).tolist(),
    }


def claims(results: Results) -> list[Claim]:
    """One claim per policy: every round as printed; the expected probability as the correction."""
    return [_claim(name, {gap: results[f"{name}/{gap:g}"] for gap in GAPS}) for name in POLICIES]


def measures(results: Results) -> list[Measurement]:
    """Shares of rounds and runs, and mean probabilities."""
    found = []
    for key, p in results.items():
        name, gap = key.rsplit("/", 1)
        metrics = {
            "rounds_preferred": p["rounds_preferred"],
            "mean_probability": p["mean_probability"],
            "runs_preferred": [float(value > 0.5) for value in p["mean_probability"]],
        }
        found.append(Measurement(f"gap {gap}", name, metrics, lambda_=_LAMBDA))
    return found


def _claim(name: str, parts: Mapping[float, Payload]) -> Claim:
    rounds = {gap: float(np.mean(p["rounds_preferred"])) for gap, p in parts.items()}
    runs = {gap: float(np.mean(np.array(p["mean_probability"]) > 0.5)) for gap, p in parts.items()}
    mean = {gap: _mean_and_error(p["mean_probability"]) for gap, p in parts.items()}
    told = "; ".join(
        f"gap {gap:g}: in {rounds[gap]:.0%} of the rounds, on average over the rounds in {runs[gap]:.0%} of the runs, "
        f"mean {mean[gap][0]:.3f} ± {mean[gap][1]:.3f}"
        for gap in parts
    )
    return Claim(
        f"preference by policy, {name}",
        f"Equal rewards, one agent better aligned. It has the larger probability, {told}.",
        printed=min(rounds.values()) == 1.0,
        mended=all(m > 0.5 + 2.0 * e for m, e in mean.values()),
    )


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    v = np.asarray(values)
    return float(v.mean()), float(v.std(ddof=1) / np.sqrt(v.size)) if v.size > 1 else np.inf


def draw_preference(results: Results) -> Any:
    """Mean probability of the better aligned agent over time."""
    figure, axes = panels(len(GAPS), 9.0, 3.0, sharey=True)
    for axis, gap in zip(axes, GAPS, strict=True):
        for index, name in enumerate(POLICIES):
            axis.plot(results[f"{name}/{gap:g}"]["path"], label=name, **series(index, marker=""))
        axis.axhline(0.5, color="black", linewidth=0.8)
        axis.set(xlabel="round", title=f"better aligned by {gap:g}")
    axes[0].set_ylabel("mean probability of the better aligned agent")
    axes[0].legend()
    return figure


EXPERIMENT = theory_item(
    id="theory-preference",
    title="Preference by policies, not only by utilities",
    about="The abstract says that the method provably prefers, among agents with identical mean rewards, the better "
    "aligned one. Item 2 orders utilities; a policy orders agents by what it has seen, so the claim can hold in "
    "expectation only. Here the probabilities of the policies are compared: two agents with equal "
    "rewards, one better aligned by 0.05 or 0.2, lambda = 1, bounded noise on the alignment.",
    steps=Steps(units, run, claims, measures, draw_preference),
    tables=[
        view("Share of rounds in which the better aligned agent is preferred", "rounds_preferred"),
        view("Share of runs, on average over the rounds", "runs_preferred"),
    ],
    caption="Mean probability of the better aligned agent, over seeds.",
    order=49,
    source="Abstract",
)
