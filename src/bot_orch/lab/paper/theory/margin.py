"""Item 3 and its lemma: how often noise in the alignment costs reverses the order of two agents."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from bot_orch.lab.harness.experiment import Payload, Results, Scale, Unit
from bot_orch.lab.paper.theory.items import Claim, Measurement, Steps, log_axes, panels, theory_item, view
from bot_orch.rng import generator

#: The margin of item 3 in units of sigma.
THRESHOLD = math.sqrt(2.0 * math.log(2.0))
#: The margin from which the proof's own tail bound gives 1/4.
PROVEN = 2.0 * math.sqrt(math.log(2.0))
LAMBDAS = (0.5, 1.0, 3.0, 10.0)
_SIGMA = 0.4
_GRID = (0.0, 0.4, 0.8, THRESHOLD, PROVEN, 2.0, 2.5, 3.0)
_DEFICITS = (-0.5, 0.0, 0.1, 0.2, 0.5, 1.0, 2.0)


def misordering(margin: float, deficit: float = 0.0) -> float:
    """P(r_i - lambda W~_i < r_j - lambda W~_j) in closed form.

    Parameters
    ----------
    margin
        (w_j - w_i) / sigma.
    deficit
        (r_j - r_i) / (lambda * sigma).

    Examples
    --------
    >>> round(misordering(THRESHOLD), 4)
    0.2025
    """
    return float(ndtr((deficit - margin) / math.sqrt(2.0)))


def tail_bound(margin: float) -> float:
    """The proof's bound exp(-margin^2 / 4) / 2.

    Examples
    --------
    >>> round(tail_bound(THRESHOLD), 4)
    0.3536
    """
    return 0.5 * math.exp(-(margin**2) / 4.0)


def margin_units(scale: Scale) -> list[Unit]:
    """Margins with equal rewards, the threshold with unequal rewards, and the margin with its sign turned."""
    base = _base(scale)
    grid = [Unit(f"margin/{m:.3f}", {**base, "margin": m}) for m in _GRID]
    turned = [Unit("sign/-1", {**base, "margin": -THRESHOLD})]
    return [*grid, *turned, *(Unit(f"deficit/{d:g}", {**base, "margin": THRESHOLD, "deficit": d}) for d in _DEFICITS)]


def lemma_units(scale: Scale) -> list[Unit]:
    """Units for the lemma's threshold, which scales only the margin by lambda, and for one that scales both."""
    base = _base(scale)
    printed = [Unit(f"printed/{v:g}", {**base, "margin": THRESHOLD / v, "lambda": v}) for v in LAMBDAS]
    return printed + [Unit(f"scaled/{v:g}", {**base, "margin": THRESHOLD, "lambda": v}) for v in LAMBDAS]


def run(params: Mapping[str, Any]) -> Payload:
    """The share of misordered draws, per seed."""
    margin, deficit, lambda_ = params["margin"], params.get("deficit", 0.0), params.get("lambda", 1.0)
    w = np.array([0.3, 0.3 + margin * _SIGMA])
    r = np.array([0.5, 0.5 + deficit * lambda_ * _SIGMA])
    shares = []
    for seed in range(params["seeds"]):
        rng = generator("theory", "margin", f"{margin:.6f}/{deficit:g}/{lambda_:g}", seed)
        utility = r - lambda_ * (w + _SIGMA * rng.standard_normal((params["draws"], 2)))
        shares.append(float(np.mean(utility[:, 0] < utility[:, 1])))
    return {"misordered": shares, "margin": margin, "deficit": deficit, "exact": misordering(margin, deficit)}


def margin_claims(results: Results) -> list[Claim]:
    """Item 3 read literally, with its two unwritten hypotheses, and its proof."""
    beyond = {k: p for k, p in results.items() if abs(p["margin"]) >= THRESHOLD - 1e-9}
    given = {k: p for k, p in beyond.items() if p["margin"] > 0.0 and p["deficit"] <= 0.0}
    at = results[f"margin/{THRESHOLD:.3f}"]
    unequal = results["deficit/0.5"]
    limit = THRESHOLD + math.sqrt(2.0) * float(ndtri(0.25))
    item = Claim(
        "item 3",
        f"With equal rewards and w_i below w_j the share misordered at the threshold is {_mean(at):.4f} "
        f"(exactly {at['exact']:.4f}), below 1/4. Read literally it fails twice: |Delta| admits the opposite sign, "
        f"where the share is {_mean(results['sign/-1']):.3f}, and rewards may differ: with r_j - r_i = 0.5 lambda "
        f"sigma it is {_mean(unequal):.3f} (1/4 is passed at {limit:.3f} lambda sigma). "
        "Add: w_i below w_j and r_i at least r_j.",
        printed=_all_below(beyond),
        mended=_all_below(given),
    )
    proof = Claim(
        "its proof",
        f"The tail bound gives {tail_bound(THRESHOLD):.3f} at sigma sqrt(2 ln 2), not 1/4; it reaches 1/4 at "
        f"2 sigma sqrt(ln 2) = {PROVEN:.3f} sigma. The exact probability proves the item.",
        printed=tail_bound(THRESHOLD) <= 0.25,
        mended=tail_bound(PROVEN) <= 0.25 + 1e-12,
    )
    return [item, proof]


def lemma_claims(results: Results) -> list[Claim]:
    """The lemma as printed, and with the noise scaled like the margin."""
    printed = {k: p for k, p in results.items() if k.startswith("printed/")}
    scaled = {k: p for k, p in results.items() if k.startswith("scaled/")}
    told = ", ".join(f"{_mean(p):.3f} at lambda = {k.split('/')[1]}" for k, p in printed.items())
    level = float(np.mean([_mean(p) for p in scaled.values()]))
    return [
        Claim(
            "margin lemma",
            f"The lemma multiplies the margin by lambda but not the noise. At its threshold, "
            f"lambda (w_j - w_i) = sigma sqrt(2 ln 2), the share misordered is {told}; it promises at most 1/4. "
            f"Scaled together lambda cancels: {level:.3f} at every lambda.",
            printed=_all_below(printed),
            mended=_all_below(scaled),
        )
    ]


def measures(results: Results, environment: str = "theory-margin") -> list[Measurement]:
    """Measured shares and the closed form; those of the lemma by the lambda that their keys end with."""
    lemma = environment == "theory-margin-lemma"
    return [
        Measurement(
            environment,
            key,
            {"misordered": p["misordered"], "exact": [p["exact"]]},
            lambda_=float(key.split("/")[1]) if lemma else 1.0,
        )
        for key, p in results.items()
    ]


def _base(scale: Scale) -> dict[str, Any]:
    return {"seeds": scale.n_seeds(20), "draws": 5_000 if scale.quick else 40_000}


def _mean(payload: Payload) -> float:
    return float(np.mean(payload["misordered"]))


def _all_below(payloads: Mapping[str, Payload], level: float = 0.25) -> bool:
    return all(_mean(p) < level for p in payloads.values())


def draw_margin(results: Results) -> Any:
    """Share misordered against the margin, and against how much less the better aligned agent earns."""
    figure, axes = panels(2, 9.5, 3.1, sharey=True)
    x = np.linspace(0.0, 3.0, 200)
    axes[0].plot(x, [misordering(v) for v in x], color="#1a4fa0", label="exact")
    axes[0].plot(x, [tail_bound(v) for v in x], color="#c62828", linestyle="--", label="the proof's tail bound")
    _dots(axes[0], results, "margin/", field="margin")
    axes[0].axvline(THRESHOLD, color="black", linestyle="-.", linewidth=0.9, label="threshold sqrt(2 ln 2)")
    axes[0].set(xlabel="(w_j - w_i) / sigma", title="Equal rewards")
    d = np.linspace(-0.5, 2.0, 200)
    axes[1].plot(d, [misordering(THRESHOLD, v) for v in d], color="#1a4fa0", label="exact")
    _dots(axes[1], results, "deficit/", field="deficit")
    axes[1].set(xlabel="(r_j - r_i) / (lambda sigma)", title="Unequal rewards, margin at the threshold")
    for axis in axes:
        axis.axhline(0.25, color="black", linestyle=":", label="1/4")
        axis.legend()
    axes[0].set_ylabel("share misordered")
    return figure


def draw_lemma(results: Results) -> Any:
    """Share misordered at the lemma's threshold and at the scaled one, by lambda."""
    figure, axes = panels(1, 6.0, 3.0)
    axis = axes[0]
    looks = {"printed": ("#c62828", "--", "s", "lambda (w_j - w_i) = sigma sqrt(2 ln 2), as printed")}
    looks["scaled"] = ("#1a4fa0", "-", "o", "w_j - w_i = sigma sqrt(2 ln 2), noise scaled too")
    for kind, (color, line, marker, label) in looks.items():
        values = [np.mean(results[f"{kind}/{v:g}"]["misordered"]) for v in LAMBDAS]
        axis.plot(LAMBDAS, values, color=color, linestyle=line, marker=marker, label=label)
    axis.axhline(0.25, color="black", linestyle=":", label="1/4, what the lemma promises")
    log_axes(axis, y=False)
    axis.set_xticks(LAMBDAS, [f"{v:g}" for v in LAMBDAS])
    axis.set(ylim=(0.0, 0.55), xlabel="lambda", ylabel="share misordered")
    axis.legend(loc="lower right", fontsize=7)
    return figure


def _dots(axis: Any, results: Results, start: str, *, field: str) -> None:
    shown = [p for key, p in results.items() if key.startswith(start)]
    y = [float(np.mean(p["misordered"])) for p in shown]
    axis.plot(
        [p[field] for p in shown], y, color="black", linestyle="none", marker="o", markersize=4, label="simulated"
    )


EXPERIMENT = theory_item(
    id="theory-margin",
    title="Theorem, item 3: margin robustness",
    about="With Gaussian noise on the alignment costs and |w_j - w_i| &gt; sigma sqrt(2 ln 2), two agents are said to "
    "be misordered with probability below 1/4.",
    steps=Steps(margin_units, run, margin_claims, measures, draw_margin),
    tables=[
        view(
            "Share misordered", "misordered", digits=4, note="margin/x: x sigma; deficit/x: r_j - r_i = x lambda sigma"
        ),
        view("The same, exactly", "exact", digits=4),
    ],
    caption="Share of misordered draws against the margin (left) and against the reward the better aligned agent lacks "
    "(right).",
    order=44,
)

LEMMA = theory_item(
    id="theory-margin-lemma",
    title="Lemma: margin robustness",
    about="The appendix states item 3 with the margin multiplied by lambda, Delta = lambda (w_j - w_i), and the noise "
    "not. printed: Delta = sigma sqrt(2 ln 2). scaled: w_j - w_i = sigma sqrt(2 ln 2).",
    steps=Steps(lemma_units, run, lemma_claims, partial(measures, environment="theory-margin-lemma"), draw_lemma),
    tables=[view("Share misordered at the threshold", "misordered", digits=4)],
    caption="Share of misordered draws at the lemma's threshold, by lambda.",
    order=45,
)
