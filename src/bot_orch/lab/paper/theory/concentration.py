"""The concentration lemma: R = delta * S(T)^theta has a sub-Gaussian tail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.lab.harness.experiment import Payload, Results, Scale, Unit
from bot_orch.lab.harness.figures import series
from bot_orch.lab.paper.theory.items import Claim, Measurement, Steps, log_axes, panels, theory_item, view
from bot_orch.rng import generator
from bot_orch.survival import Exponential, GammaFrailty, LogNormal, SurvivalModel, Weibull, survival_reward, tail_check

#: Survival model, variance of the frailty, and cutoff after which a task is censored.
MODELS: dict[str, tuple[SurvivalModel, float, float]] = {
    "exponential": (Exponential(1.0), 0.5, 3.0),
    "weibull": (Weibull(1.0, 2.0), 1.0, 1.0),
    "log-normal": (LogNormal(0.0, 1.0), 2.0, 2.0),
}

_COIN = "all or nothing"
_EPSILON = np.linspace(0.05, 1.0, 20)
_AVERAGED = 25
#: Kinds of samples, each with the number of rewards that an average is of.
_AVERAGES = {"single": 1, "independent": _AVERAGED, "shared": _AVERAGED, "frail single": 1, "frail shared": _AVERAGED}


def rewards(
    name: str, rng: np.random.Generator, shape: tuple[int, int], *, shared: bool, frail: bool = False
) -> Floats:
    """Rewards with one frailty each, or one per row. T follows S, as in the paper's listings.

    ``frail``: T follows S^theta, as the frailty model of the text says. Then S(T)^theta is uniform whatever theta is,
    and frailty is felt through censoring alone.

    ``all or nothing`` earns 1 or 0 with equal chance (S(T) near 1, every second task censored): the lemma's worst case.
    """
    if name == _COIN:
        return (rng.random(shape) < 0.5).astype(float)
    model, variance, cutoff_s = MODELS[name]
    theta = GammaFrailty(variance).sample(rng.random((shape[0], 1) if shared else shape))
    hazard = rng.standard_exponential(shape)
    t = model.time_at(hazard / theta if frail else hazard)
    return survival_reward(model.survival(t), t <= cutoff_s, theta)


def curvature(s: Floats, m: float) -> Floats:
    """psi''(s) of the proof for a reward with mean m."""
    return m * (1.0 - m) * np.exp(s) / (1.0 - m + m * np.exp(s)) ** 2


def units(scale: Scale) -> list[Unit]:
    """One unit per survival model."""
    base = {"seeds": scale.n_seeds(20), "draws": 400 if scale.quick else 4_000}
    return [Unit(name, {**base, "model": name}) for name in (*MODELS, _COIN)]


def run(params: Mapping[str, Any]) -> Payload:
    """Tails of one reward and of averages of 25, the moment bound, all against the lemma; excess per seed."""
    name, shape = params["model"], (params["draws"], _AVERAGED)
    found: dict[str, list[float]] = {kind: [] for kind in (*_AVERAGES, "moment")}
    tails: dict[str, list[list[float]]] = {kind: [] for kind in _AVERAGES}
    ceiling = 2.0 * np.exp(-2.0 * _EPSILON**2)
    for seed in range(params["seeds"]):
        alone = rewards(name, generator("theory", "concentration", name, seed), shape, shared=False)
        together = rewards(name, generator("theory", "concentration", name, seed, "shared"), shape, shared=True)
        frail = rewards(name, generator("theory", "concentration", name, seed, "frail"), shape, shared=True, frail=True)
        samples = (alone.ravel(), alone.mean(axis=1), together.mean(axis=1), frail[:, 0], frail.mean(axis=1))
        for (kind, n), sample in zip(_AVERAGES.items(), samples, strict=True):
            check = tail_check(sample, _EPSILON / np.sqrt(n))
            found[kind].append(float(np.max(check.empirical - ceiling - check.slack)))
            tails[kind].append(check.empirical.tolist())
        found["moment"].append(_moment_excess(alone.ravel()))
    mean_tails = {kind: np.mean(values, axis=0).tolist() for kind, values in tails.items()}
    return {"excess": found, "tails": mean_tails, "epsilon": _EPSILON.tolist()}


def claims(results: Results) -> list[Claim]:
    """The lemma, a step of its proof, and its consequence for averages."""
    worst = {kind: max(max(p["excess"][kind]) for p in results.values()) for kind in (*_AVERAGES, "moment")}
    s, gap, top = np.linspace(-8.0, 8.0, 321), 0.0, 0.0
    for m in (0.05, 0.2, 0.5, 0.8, 0.95):
        gap = max(gap, float(np.max(np.abs(curvature(s, m) - 0.25 / np.cosh(s / 2.0) ** 2))))
        top = max(top, float(curvature(s, m).max()))
    return [
        Claim(
            "concentration lemma",
            f"For no survival model does a tail exceed 2 exp(-2 e^2) (largest excess {worst['single']:.3f}), and "
            f"log E exp(s (R - E R)) never exceeds s^2/8. For a single reward the bound says little: it is above 1 "
            "for e below 0.589.",
            printed=worst["single"] <= 0.0 and worst["moment"] <= 1e-12,
        ),
        Claim(
            "a step of its proof",
            f"psi''(s) = 1/(4 cosh^2(s/2)) is right for mean 1/2 only (off by up to {gap:.3f} elsewhere), but psi'' is "
            f"at most {top:.2f} for every mean, which is all the proof needs.",
            printed=gap <= 1e-9,
            mended=top <= 0.25 + 1e-12,
        ),
        Claim(
            f"averages of {_AVERAGED} rewards",
            f"Rewards of one task share its frailty; their average exceeds 2 exp(-2 n e^2) by up to "
            f"{worst['shared']:.3f} beyond chance. With their own frailties it does not ({worst['independent']:.3f}).",
            printed=worst["shared"] <= 0.0,
            mended=worst["independent"] <= 0.0,
        ),
        Claim(
            "the lemma with T from S^theta",
            f"The text draws T from S^theta, the listings from S. With S^theta too no tail exceeds the bound (largest "
            f"excess {worst['frail single']:.3f}); S(T)^theta is then uniform whatever theta is.",
            printed=worst["frail single"] <= 0.0,
        ),
        Claim(
            f"averages of {_AVERAGED} rewards with T from S^theta",
            f"Frailty is then felt through censoring alone, and a shared one moves the average of {_AVERAGED} rewards "
            f"by as much as the bound allows plus {worst['frail shared']:.3f} (above 0 breaks it).",
            printed=worst["frail shared"] <= 0.0,
            mended=worst["independent"] <= 0.0,
        ),
    ]


def measures(results: Results) -> list[Measurement]:
    """Largest excess over the bound; at most zero where the bound holds."""
    return [
        Measurement("theory-concentration", name, {f"excess_{kind}": values for kind, values in p["excess"].items()})
        for name, p in results.items()
    ]


def _moment_excess(sample: Floats) -> float:
    s = np.linspace(-20.0, 20.0, 41)
    x = (sample - sample.mean())[: 4 * 10**4]
    x = x - x.mean()
    return float(max(np.log(np.mean(np.exp(v * x))) - v * v / 8.0 for v in s))


def draw_concentration(results: Results) -> Any:
    """Tails and the bound: one reward, averages of independent rewards, averages that share a frailty."""
    figure, axes = panels(3, 11.5, 3.1, sharey=True)
    titles = {
        "single": "One reward",
        "independent": "Average of 25, own frailties",
        "shared": "Average of 25, one frailty",
    }
    for axis, (kind, title) in zip(axes, titles.items(), strict=True):
        for index, (name, payload) in enumerate(results.items()):
            e = np.array(payload["epsilon"])
            tail = np.array(payload["tails"][kind])
            shown = tail > 0
            axis.plot(e[shown], tail[shown], label=name, **series(index))
        axis.plot(e, 2.0 * np.exp(-2.0 * e**2), color="black", linestyle=":", label="2 exp(-2 e^2)")
        log_axes(axis, x=False)
        axis.set(
            ylim=(1e-4, 3.0), xlabel="deviation e" if kind == "single" else "sqrt(n) times deviation, e", title=title
        )
    axes[0].set_ylabel("P(|R - E R| > e)")
    axes[0].legend(loc="lower left")
    return figure


EXPERIMENT = theory_item(
    id="theory-concentration",
    title="Lemma: concentration of the survival reward",
    about="R = delta S(T)^theta is said to satisfy P(|R - E R| &gt; e) &le; 2 exp(-2 e^2). Three survival models with "
    "gamma frailty and censoring, and the extreme case of a reward that is 0 or 1.",
    steps=Steps(units, run, claims, measures, draw_concentration),
    tables=[
        view("Largest excess of a tail over the bound: one reward", "excess_single"),
        view("... average of 25 with their own frailties", "excess_independent"),
        view("... average of 25 with one frailty", "excess_shared"),
    ],
    caption="Empirical tails and the bound. For averages of n the deviation is multiplied by sqrt(n), so that one "
    "bound serves all panels.",
    order=43,
)
