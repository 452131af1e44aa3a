"""Item 2: with equal expected rewards the better aligned agent has the larger utility."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.lab.harness.experiment import Payload, Results, Scale, Unit
from bot_orch.lab.paper.theory.items import Claim, Measurement, Steps, panels, theory_item, view
from bot_orch.rng import generator

_STEP = 1.0 / 1024.0  # numbers on this grid multiply and subtract without rounding, so every comparison is exact


def units(scale: Scale) -> list[Unit]:
    """Equal rewards, unequal rewards, and lambda = 0."""
    base = {"seeds": scale.n_seeds(20), "instances": 2_000 if scale.quick else 20_000}
    return [Unit(name, {**base, "kind": name}) for name in ("equal-rewards", "unequal-rewards", "lambda-0")]


def run(params: Mapping[str, Any]) -> Payload:
    """Violation rates of the strict inequality and the equivalence, per seed, and a few instances to draw."""
    kind, n = params["kind"], params["instances"]
    strict, equivalence = [], []
    points: list[list[float]] = []
    for seed in range(params["seeds"]):
        rng = generator("theory", "structure", kind, seed)
        lambda_ = np.zeros(n) if kind == "lambda-0" else _grid(rng, n, 8.0) + _STEP
        w = np.stack([_grid(rng, n, 2.0), _grid(rng, n, 2.0)])
        w[1, : n // 10] = w[0, : n // 10]  # ties, so that the equivalence is tried at equality too
        r = np.repeat(_grid(rng, n, 1.0)[None], 2, axis=0)
        if kind == "unequal-rewards":
            r[1] = _grid(rng, n, 1.0)
        u = r - lambda_ * w
        better, higher = w[0] < w[1], u[0] > u[1]
        strict.append(float(np.mean(~higher[better])))
        equivalence.append(float(np.mean(better != higher)))
        if seed == 0:
            points = np.stack([lambda_ * (w[1] - w[0]), u[0] - u[1]])[:, -300:].tolist()
    return {"strict_broken": strict, "equivalence_broken": equivalence, "points": points}


def claims(results: Results) -> list[Claim]:
    """Item 2, the statement and its equivalence form."""
    equal, other, zero = (results[name] for name in ("equal-rewards", "unequal-rewards", "lambda-0"))
    broken = max(*equal["strict_broken"], *equal["equivalence_broken"])
    return [
        Claim(
            "item 2",
            f"With equal rewards and lambda above 0 the strict inequality is broken in "
            f"{max(equal['strict_broken']):.0%} and the equivalence in {max(equal['equivalence_broken']):.0%} of the "
            "instances (exact arithmetic). Both hypotheses are needed: with independent rewards the better aligned "
            f"agent is not ahead in {np.mean(other['strict_broken']):.1%}, with lambda = 0 in "
            f"{np.mean(zero['strict_broken']):.0%}.",
            printed=broken == 0.0,
        )
    ]


def measures(results: Results) -> list[Measurement]:
    """Shares of broken instances."""
    names = ("strict_broken", "equivalence_broken")
    return [Measurement("theory-structure", kind, {n: p[n] for n in names}) for kind, p in results.items()]


def _grid(rng: np.random.Generator, n: int, top: float) -> Floats:
    values: Floats = rng.integers(int(top / _STEP), size=n).astype(np.float64) * _STEP
    return values


def draw_structure(results: Results) -> Any:
    """The utility gap against lambda times the alignment gap."""
    figure, axes = panels(2, 8.5, 3.0, sharey=True)
    titles = {"equal-rewards": "Equal rewards", "unequal-rewards": "Independent rewards"}
    for axis, (kind, title) in zip(axes, titles.items(), strict=True):
        x, y = np.array(results[kind]["points"])
        wrong = (x > 0) & (y <= 0)
        axis.scatter(x[~wrong], y[~wrong], s=9, color="#1a4fa0", marker="o", label="order as stated")
        axis.scatter(x[wrong], y[wrong], s=22, color="#c62828", marker="x", label="better aligned, not ahead")
        axis.axhline(0.0, color="black", linewidth=0.7)
        axis.axvline(0.0, color="black", linewidth=0.7)
        axis.set(xlim=(-6, 6), ylim=(-6, 6), xlabel="lambda (w_j - w_i)", title=title)
    axes[0].set_ylabel("utility of i - utility of j")
    axes[1].legend(loc="upper left")
    return figure


EXPERIMENT = theory_item(
    id="theory-structure",
    title="Theorem, item 2: structural optimality",
    about="With equal expected rewards the agent with the smaller alignment cost is said to have the larger utility. "
    "Random instances on a grid on which floating-point arithmetic is exact, a tenth of them ties.",
    steps=Steps(units, run, claims, measures, draw_structure),
    tables=[
        view("Share of instances that break the strict inequality", "strict_broken"),
        view("Share of instances that break the equivalence", "equivalence_broken"),
    ],
    caption="Difference of utilities against lambda times the difference of alignment costs.",
    order=41,
)
