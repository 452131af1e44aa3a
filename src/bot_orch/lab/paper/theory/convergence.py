"""Item 4: limits of the softmax recursion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.lab.harness.experiment import Payload, Results, Scale, Unit
from bot_orch.lab.harness.figures import series
from bot_orch.lab.paper.theory.items import Claim, Measurement, Steps, log_axes, panels, theory_item, view
from bot_orch.numerics.choice import softmax
from bot_orch.rng import generator


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks of a few kinds: their chances, and per kind and agent the chance of reward 1 and the alignment cost."""

    chance: Floats
    reward: Floats
    alignment: Floats
    _: KW_ONLY
    lambda_: float

    def draw(self, rng: np.random.Generator, rounds: int) -> tuple[Floats, Floats]:
        """Realised utilities R - lambda * W and their means given the task, both ``(rounds, M)``."""
        x = rng.choice(self.chance.size, size=rounds, p=self.chance)
        realised = (rng.random((rounds, self.reward.shape[1])) < self.reward[x]).astype(float)
        return realised - self.lambda_ * self.alignment[x], (self.reward - self.lambda_ * self.alignment)[x]


CASE = Tasks(
    np.array([0.5, 0.5]),
    np.array([[0.6, 0.5, 0.4], [0.6, 0.5, 0.4]]),
    np.array([[0.0, 0.4, 0.3], [0.8, 0.2, 0.3]]),
    lambda_=3.0,
)

#: What enters the softmax: the realised utilities (the proof), their means given the task (the statement), or the
#: running mean of the realised utilities.
KINDS = ("realised", "conditional", "running mean")
_HORIZONS = (100, 316, 1_000, 3_162, 10_000, 31_623, 100_000)
#: A recursion has reached a point when its mean is this near; limits that differ by more are distinct.
_NEAR = 0.004


def limits(tasks: Tasks) -> dict[str, list[float]]:
    """The three candidate limits, exactly: softmax of the mean, mean softmax of the task's mean, mean softmax."""
    u = tasks.reward - tasks.lambda_ * tasks.alignment
    m = u.shape[1]
    outcomes = np.array(np.meshgrid(*[[0.0, 1.0]] * m, indexing="ij")).reshape(m, -1).T
    realised = np.zeros(m)
    for chance, r, w in zip(tasks.chance, tasks.reward, tasks.alignment, strict=True):
        p = np.prod(np.where(outcomes == 1.0, r, 1.0 - r), axis=1)
        realised += chance * (p @ softmax(outcomes - tasks.lambda_ * w))
    return {
        "softmax of the mean": softmax(tasks.chance @ u).tolist(),
        "mean softmax, given the task": (tasks.chance @ softmax(u)).tolist(),
        "mean softmax": realised.tolist(),
    }


def recursion(target: Floats) -> Floats:
    """phi_t for every t, from the uniform vector, with steps 1 / (t + 1): a running mean, so no loop is needed."""
    t = np.arange(1, len(target) + 1)[:, None]
    path: Floats = (1.0 / target.shape[1] + np.cumsum(target, axis=0)) / (t + 1)
    return path


def units(scale: Scale) -> list[Unit]:
    """One unit per kind of recursion."""
    horizons = [h for h in _HORIZONS if h <= (10_000 if scale.quick else 100_000)]
    return [Unit(kind, {"kind": kind, "seeds": scale.n_seeds(20), "horizons": horizons}) for kind in KINDS]


def run(params: Mapping[str, Any]) -> Payload:
    """Weights at every horizon, per seed: ``(horizons, seeds, M)``."""
    horizons = np.array(params["horizons"])
    paths = []
    for seed in range(params["seeds"]):
        realised, conditional = CASE.draw(generator("theory", "convergence", seed), int(horizons[-1]))
        t = np.arange(1, len(realised) + 1)[:, None]
        entering = {
            "realised": realised,
            "conditional": conditional,
            "running mean": np.cumsum(realised, axis=0) / t,
        }[params["kind"]]
        paths.append(recursion(softmax(entering))[horizons - 1])
    return {"horizons": params["horizons"], "phi": np.stack(paths, axis=1).tolist(), "limits": limits(CASE)}


def claims(results: Results) -> list[Claim]:
    """Item 4: the limit it names, and the limit of its proof."""
    named = results["realised"]["limits"]
    mean = {kind: np.mean(p["phi"][-1], axis=0) for kind, p in results.items()}
    printed = np.array(named["softmax of the mean"])
    away = {kind: float(np.abs(mean[kind] - printed).max()) for kind in mean}
    near = max(
        float(np.abs(mean["realised"] - named["mean softmax"]).max()),
        float(np.abs(mean["conditional"] - named["mean softmax, given the task"]).max()),
    )
    settled = max(float(np.std(p["phi"][-1], axis=0).max()) for p in results.values())
    return [
        Claim(
            "item 4",
            f"It converges, but not to softmax(E r - lambda E w) = {_vector(printed)}. On realised utilities it "
            f"reaches {_vector(mean['realised'])}, and E softmax(R - lambda W) = {_vector(named['mean softmax'])}; on "
            f"means given the task {_vector(mean['conditional'])}, and E softmax(r(x) - lambda w(x)) = "
            f"{_vector(named['mean softmax, given the task'])}, as the appendix derives.",
            printed=max(away["realised"], away["conditional"]) < _NEAR,
            mended=near < _NEAR and settled < 2.0 * _NEAR,
        ),
        Claim(
            "recursion on running means",
            f"The printed limit is reached by a recursion that averages before the softmax: "
            f"{_vector(mean['running mean'])}.",
            printed=away["running mean"] < _NEAR,
        ),
    ]


def measures(results: Results) -> list[Measurement]:
    """Weights of every agent at the end, over seeds, and the exact limits."""
    found = [
        Measurement(
            "theory-convergence", kind, {f"phi_{i}": phi for i, phi in enumerate(zip(*p["phi"][-1], strict=True))}
        )
        for kind, p in results.items()
    ]
    exact = results["realised"]["limits"]
    return found + [
        Measurement("theory-convergence", f"exact: {name}", {f"phi_{i}": [v] for i, v in enumerate(point)})
        for name, point in exact.items()
    ]


def _vector(values: Any) -> str:
    return "(" + ", ".join(f"{v:.4f}" for v in values) + ")"


def draw_convergence(results: Results) -> Any:
    """Distance of every recursion to each of the three candidate limits."""
    figure, axes = panels(3, 11.5, 3.1, sharey=True)
    titles = {
        "realised": "Softmax of realised utilities",
        "conditional": "Softmax of means given the task",
        "running mean": "Softmax of running means",
    }
    for axis, (kind, title) in zip(axes, titles.items(), strict=True):
        payload = results[kind]
        mean = np.array(payload["phi"]).mean(axis=1)
        for index, (name, limit) in enumerate(payload["limits"].items()):
            away = np.abs(mean - np.array(limit)).max(axis=1)
            axis.plot(payload["horizons"], away, label=name, **series(index))
        log_axes(axis)
        axis.set(xlabel="rounds", title=title)
    axes[0].set_ylabel("largest distance of the mean phi to ...")
    axes[0].legend(loc="lower left")
    return figure


EXPERIMENT = theory_item(
    id="theory-convergence",
    title="Theorem, item 4: convergence of the weights",
    about="phi moves a step of 1/(t+1) towards a softmax; it is said to converge to the softmax of the mean utilities. "
    "Three agents, two kinds of task, Bernoulli rewards, lambda = 3; all candidate limits are computed exactly.",
    steps=Steps(units, run, claims, measures, draw_convergence),
    tables=[view(f"Weight of agent {i + 1} at the end", f"phi_{i}", digits=4) for i in range(3)],
    caption="Distance of the mean weights to three candidate limits; a line that keeps falling has found its limit.",
    order=46,
)
