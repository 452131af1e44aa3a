"""The proposition: a Wasserstein cost is L-Lipschitz in its reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.lab.harness.experiment import Payload, Results, Scale, Unit
from bot_orch.lab.harness.figures import series
from bot_orch.lab.paper.theory.items import Claim, Measurement, Steps, log_axes, panels, theory_item, view
from bot_orch.rng import generator
from bot_orch.transport.label_distance import label_distance

Cost = Callable[[Floats, Floats], Floats]


_POINTS = 10
_SCALES = (1e-3, 1e-2, 1e-1, 1.0)


def _distance(x: Floats, y: Floats) -> Floats:
    gap = x[:, None] - y[None]
    distance: Floats = np.sqrt(np.sum(gap * gap, axis=-1))
    return distance


#: Ground costs on the unit square with a Lipschitz constant in the first argument. The last two have none: they are
#: what happens without assumption (A1), measured against L = 1.
COSTS: dict[str, tuple[Cost, float]] = {
    "truncated metric": (lambda x, y: 2.0 * np.minimum(_distance(x, y), 0.5), 2.0),
    "squared distance": (lambda x, y: _distance(x, y) ** 2, 2.0 * np.sqrt(2.0)),
    "one-sided": (lambda x, y: 1.5 * np.maximum(x[:, None, 0] - y[None, :, 0], 0.0), 1.5),
    "zero-one": (lambda x, y: (_distance(x, y) > 0.0).astype(float), 1.0),
    "root of distance": (lambda x, y: np.sqrt(_distance(x, y)), 1.0),
}

LIPSCHITZ = ("truncated metric", "squared distance", "one-sided")


def transport_cost(x: Floats, y: Floats, cost: Cost = _distance) -> float:
    """Min over couplings of the mean cost between two clouds of equally many, equally weighted points: exact.

    Examples
    --------
    >>> transport_cost(np.zeros((2, 2)), np.array([[0.0, 1.0], [0.0, 3.0]]))
    2.0
    """
    from scipy.optimize import linear_sum_assignment  # slow to import

    c = cost(x, y)
    return float(c[linear_sum_assignment(c)].mean())


def units(scale: Scale) -> list[Unit]:
    """One unit per ground cost, and one for the root W_2."""
    base = {"seeds": scale.n_seeds(20), "instances": 8 if scale.quick else 30}
    return [Unit(name, {**base, "cost": name}) for name in (*COSTS, "root W_2")]


def run(params: Mapping[str, Any]) -> Payload:
    """The largest ratio per seed and per size of the move, and broken preferences."""
    worst, preference, points = [], [], []
    for seed in range(params["seeds"]):
        found = [_instance(params["cost"], seed, at) for at in range(params["instances"])]
        worst.append(max(ratio for ratio, _, _ in found))
        preference.append(float(np.mean([broken for _, _, broken in found])))
        points += [(moved, ratio) for ratio, moved, _ in found]
    by_scale = [[s, max(ratio for moved, ratio in points if moved == s)] for s in _SCALES]
    return {"ratio": worst, "preference_broken": preference, "by_scale": by_scale, "root": _root_example()}


def claims(results: Results) -> list[Claim]:
    """Part (i), part (ii), and the root of a transport cost."""
    ratio = max(max(results[name]["ratio"]) for name in LIPSCHITZ)
    without = {name: max(results[name]["ratio"]) for name in COSTS if name not in LIPSCHITZ}
    broken = max(max(payload["preference_broken"]) for payload in results.values())
    root = results["root W_2"]
    told = " and ".join(f"{value:.0f} for the {name} cost" for name, value in without.items())
    return [
        Claim(
            "proposition (i)",
            f"The largest |W_c(nu, mu) - W_c(nu', mu)| / (L W_1(nu, nu')) over random measures is {ratio:.3f}; "
            f"the cost need not be a metric. Without a Lipschitz cost (A1) the ratio reaches {told}.",
            printed=ratio <= 1.0 + 1e-9,
        ),
        Claim(
            "proposition (ii)",
            f"Preferences by utility and by transport cost disagree in {broken:.0%} of the pairs with equal rewards.",
            printed=broken == 0.0,
        ),
        Claim(
            "read for W_2, the root of the cost",
            f"Moving mass e away from the profile changes W_2 by sqrt(e) and W_1 by e: ratio "
            f"{max(root['root']['printed']):.0f} at e = {min(root['root']['mass']):g}, without bound as e goes to 0. "
            f"The triangle inequality holds instead: |W_2(nu, mu) - W_2(nu', mu)| is at most {max(root['ratio']):.3f} "
            "of W_2(nu, nu').",
            printed=max(root["root"]["printed"]) <= 1.0 + 1e-9,
            mended=max(root["ratio"]) <= 1.0 + 1e-9,
        ),
    ]


def measures(results: Results) -> list[Measurement]:
    """Largest ratios and broken preferences."""
    names = ("ratio", "preference_broken")
    return [Measurement("theory-stability", kind, {n: p[n] for n in names}) for kind, p in results.items()]


def _instance(name: str, seed: int, at: int) -> tuple[float, float, bool]:
    rng = generator("theory", "stability", seed, at)
    nu, mu, other = rng.random((3, _POINTS, 2))
    scale = _SCALES[at % len(_SCALES)]
    moved = np.clip(nu + scale * (rng.random(nu.shape) - 0.5), 0.0, 1.0)
    if at // len(_SCALES) % 2:  # references that share points with the profile, where a cost without (A1) is steepest
        mu = nu
    if name == "root W_2":
        w = [
            np.sqrt(transport_cost(x, y, COSTS["squared distance"][0])) for x, y in ((nu, mu), (moved, mu), (nu, moved))
        ]
        return abs(w[0] - w[1]) / w[2], scale, False
    cost, lipschitz = COSTS[name]
    aligned, shifted, rival = (
        transport_cost(nu, mu, cost),
        transport_cost(moved, mu, cost),
        transport_cost(nu, other, cost),
    )
    lambda_, reward = 3.0 * rng.random() + 0.1, rng.random()
    broken = (aligned < rival) != (reward - lambda_ * aligned > reward - lambda_ * rival)
    distance = transport_cost(nu, moved)
    return abs(aligned - shifted) / (lipschitz * distance), scale, broken


def _root_example() -> dict[str, list[float]]:
    """A point mass at 0, with mass e of the reference moved to 1; squared distance has L = 2 on [0, 1]."""
    distance = np.array([[0.0, 1.0], [1.0, 0.0]])
    profile, mass = np.array([1.0, 0.0]), [10.0**-k for k in range(5)]
    ratios = []
    for e in mass:
        moved = np.array([1.0 - e, e])
        w2, w1 = label_distance(moved, profile, distance**2) ** 0.5, label_distance(moved, profile, distance)
        ratios.append(w2 / (2.0 * w1))
    return {"mass": mass, "printed": ratios}


def draw_stability(results: Results) -> Any:
    """Ratios with Lipschitz costs, without, and for the root W_2."""
    figure, axes = panels(2, 9.5, 3.1)
    for index, (name, payload) in enumerate((k, v) for k, v in results.items() if k != "root W_2"):
        moved, ratio = np.array(payload["by_scale"]).T
        label = name if name in LIPSCHITZ else f"{name} (no L)"
        line = "-" if name in LIPSCHITZ else "--"
        axes[0].plot(moved, ratio, label=label, **series(index, linestyle=line))
    axes[0].set(
        xlabel="size of the move from nu to nu'",
        ylabel="largest |W_c - W_c'| / (L W_1)",
        title="Costs with and without (A1)",
    )
    root = results["root W_2"]["root"]
    axes[1].plot(
        root["mass"], root["printed"], color="#c62828", linestyle="--", marker="s", label="|W_2 - W_2'| / (L W_1)"
    )
    axes[1].axhline(max(results["root W_2"]["ratio"]), color="#1a4fa0", label="largest |W_2 - W_2'| / W_2(nu, nu')")
    axes[1].set(xlabel="mass moved, e", title="The root W_2 is not Lipschitz in W_1")
    for axis in axes:
        axis.axhline(1.0, color="black", linestyle=":", label="bound")
        log_axes(axis)
        axis.legend(fontsize=7)
    return figure


EXPERIMENT = theory_item(
    id="theory-stability",
    title="Proposition: stability under a moving reference",
    about="The alignment cost is said to move by at most L W_1(nu, nu') when the reference moves from nu to nu'. "
    "Clouds of ten points in the unit square, exact transport, references moved by 0.001 to 1; three costs that "
    "are Lipschitz and two that are not, and the root W_2.",
    steps=Steps(units, run, claims, measures, draw_stability),
    tables=[view("Largest change over L W_1(nu, nu'); for W_2 over W_2(nu, nu')", "ratio")],
    caption="Change of the alignment cost over its bound. Dotted: the bound. Left: random references; right: mass e of "
    "the reference moved away from the profile.",
    order=42,
)
