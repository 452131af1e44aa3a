"""Draws the pictures of transport.md: ``python docs/concepts/transport_pictures.py``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import betainc, betaincinv, ndtri

from bot_orch import transport as tr
from bot_orch.rng import derive_keys, generator
from bot_orch.transport.quantiles import cosine_levels

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from _lockin import lockin_shares

HERE = Path(__file__).parent / "img"
AGENT, REFERENCE, MOVE = "#c2571a", "#1f5f8b", "#9a9a9a"
LEVELS = (np.arange(4000) + 0.5) / 4000


def canvas(columns: int = 1, width: float = 5.6, height: float = 3.2) -> tuple[Any, Any]:
    """A small figure without clutter."""
    figure, axes = plt.subplots(1, columns, figsize=(width, height), layout="constrained")
    for axis in np.atleast_1d(axes):
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save(figure: Any, name: str) -> None:
    """Write a picture."""
    figure.savefig(HERE / f"transport_{name}.png", dpi=110)
    plt.close(figure)


def scores() -> None:
    """Area between two distribution functions."""
    figure, axis = canvas()
    x = np.linspace(0, 1, 400)
    f, g = betainc(2, 5, x), betainc(5, 2, x)
    geometry = tr.Scores()
    w = tr.distance(geometry, tr.Samples(betaincinv(2, 5, LEVELS)), tr.Samples(betaincinv(5, 2, LEVELS)))
    axis.fill_between(x, f, g, color=MOVE, alpha=0.35, label=f"area = W1 = {w:.3f}")
    axis.plot(x, f, color=AGENT, label="agent")
    axis.plot(x, g, color=REFERENCE, label="reference")
    axis.set(
        xlabel="score", ylabel="share of outcomes at or below", title="Scores: area between distribution functions"
    )
    axis.legend(frameon=False, loc="upper left")
    save(figure, "scores")


def scalars() -> None:
    """Quantile functions and their cells."""
    figure, axis = canvas()
    q, r = np.exp(0.8 * ndtri(LEVELS)), 1.5 + 0.5 * ndtri(LEVELS)
    cells = 16
    geometry = tr.Scalars(cells=cells)
    borders = cosine_levels(cells)
    for x, color, name in ((q, AGENT, "agent"), (r, REFERENCE, "reference")):
        means = geometry.embed(tr.Samples(x)) / geometry.scale
        axis.plot(LEVELS, x, color=color, alpha=0.35)
        axis.stairs(means, borders, color=color, baseline=None, label=name)
    w = [tr.distance(tr.Scalars(order=p), tr.Samples(q), tr.Samples(r)) for p in (1, 2)]
    axis.set(
        ylim=(-0.5, 7),
        xlabel="level",
        ylabel="quantile",
        title=f"Scalars: cell means, W1 = {w[0]:.2f}, W2 = {w[1]:.2f}",
    )
    axis.legend(frameon=False, loc="upper left")
    save(figure, "scalars")


def labels() -> None:
    """The same two distributions under three costs."""
    figure, axes = canvas(2, 7.2)
    p, q = np.array([0.6, 0.3, 0.1, 0.0]), np.array([0.1, 0.1, 0.3, 0.5])
    places = np.arange(4)
    axes[0].bar(places - 0.2, p, 0.4, color=AGENT, label="agent")
    axes[0].bar(places + 0.2, q, 0.4, color=REFERENCE, label="reference")
    axes[0].set(xticks=places, xlabel="label", ylabel="probability", title="Two label distributions")
    axes[0].legend(frameon=False)
    geometries = {
        "0-1": tr.ZeroOneLabels(4),
        "ordered": tr.OrderedLabels((0.0, 1.0, 2.0, 3.0)),
        "tree {01}{23}": tr.TreeLabels((4, 4, 5, 5, 6, 6, -1), (0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 0.0)),
    }
    values = []
    for geometry in geometries.values():
        pad = np.zeros(geometry.n_labels - 4)
        values.append(tr.distance(geometry, tr.Labels([*p, *pad]), tr.Labels([*q, *pad])))
    bars = axes[1].barh(list(geometries), values, color=MOVE)
    axes[1].bar_label(bars, fmt="%.2f", padding=3)
    axes[1].set(xlim=(0, 2.3), title="their distance, by ground cost")
    save(figure, "labels")


def sliced() -> None:
    """Projections of two clouds."""
    figure, axes = canvas(2, 7.2)
    rng = generator("picture sliced")
    x = rng.normal(size=(60, 2)) @ np.array([[1.0, 0.6], [0.0, 0.5]])
    y = rng.normal(size=(60, 2)) * 0.6 + [2.0, 1.0]
    geometry = tr.Sliced(dimension=2)
    for cloud, color in ((x, AGENT), (y, REFERENCE)):
        axes[0].scatter(*cloud.T, s=10, color=color)
    for k in range(0, 32, 4):
        u = geometry.frame[:, k] * 4
        axes[0].plot([-u[0], u[0]], [-u[1], u[1]], color=MOVE, lw=0.7, zorder=0)
    axes[0].set(aspect="equal", xlim=(-3.5, 4), ylim=(-3.5, 4), title="every 4th of 32 directions")
    a, b = (geometry.embed(tr.Cloud(cloud)).reshape(32, -1) / geometry.scale for cloud in (x, y))
    axes[1].stairs(a[4], cosine_levels(16), baseline=None, color=AGENT, label="agent")
    axes[1].stairs(b[4], cosine_levels(16), baseline=None, color=REFERENCE, label="reference")
    w = tr.distance(geometry, tr.Cloud(x), tr.Cloud(y))
    exact = tr.distance(tr.CostCloud(2, 60, order=2), tr.Cloud(x), tr.Cloud(y))
    axes[1].set(xlabel="level", ylabel="projection", title=f"one direction; all: {w:.2f} <= W2 = {exact:.2f}")
    axes[1].legend(frameon=False)
    save(figure, "sliced")


def bures() -> None:
    """Two Gaussians as ellipses."""
    figure, axis = canvas()
    circle = np.stack([np.cos(t := np.linspace(0, 2 * np.pi, 200)), np.sin(t)])
    a = tr.Gaussian([0.0, 0.0], [[1.0, 0.7], [0.7, 1.0]])
    b = tr.Gaussian([3.0, 0.5], [[0.4, -0.2], [-0.2, 1.2]])
    for gaussian, color, name in ((a, AGENT, "agent"), (b, REFERENCE, "reference")):
        root = np.linalg.cholesky(gaussian.covariance)
        for radius in (1.0, 2.0):
            axis.plot(
                *(gaussian.mean[:, None] + radius * root @ circle), color=color, label=name if radius == 1 else None
            )
    w, mean = tr.distance(tr.Bures(2), a, b), float(np.linalg.norm(b.mean - a.mean))
    axis.annotate("", b.mean, a.mean, arrowprops={"arrowstyle": "->", "color": MOVE})
    axis.set(aspect="equal", title=f"Gaussians: means {mean:.2f} apart, W2 = {w:.2f}")
    axis.legend(frameon=False, loc="upper left")
    save(figure, "bures")


def cloud() -> None:
    """The optimal assignment between two small clouds."""
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    figure, axis = canvas()
    rng = generator("picture cloud")
    x, y = rng.normal(size=(12, 2)), rng.normal(size=(12, 2)) + np.array([2.0, 0.5])
    i, j = linear_sum_assignment(cdist(x, y))
    for a, b in zip(x[i], y[j], strict=True):
        axis.plot([a[0], b[0]], [a[1], b[1]], color=MOVE, lw=0.8, zorder=0)
    axis.scatter(*x.T, color=AGENT, s=18, label="agent")
    axis.scatter(*y.T, color=REFERENCE, s=18, label="reference")
    w = tr.distance(tr.CostCloud(2), tr.Cloud(x), tr.Cloud(y))
    axis.set(title=f"Any cost, small clouds: mean length of the lines = W1 = {w:.2f}")
    axis.legend(frameon=False)
    save(figure, "cloud")


def barycenters() -> None:
    """W1 and W2 barycenters and the mixture of three distributions."""
    figure, axis = canvas()
    samples = [betaincinv(20, 80, LEVELS), betaincinv(30, 70, LEVELS), betaincinv(90, 10, LEVELS)]
    bins = np.linspace(0, 1, 81)
    for x in samples:
        axis.hist(x, bins, density=True, color=MOVE, alpha=0.35)
    for order, color in ((1, AGENT), (2, REFERENCE)):
        geometry = tr.Scalars(order=order, cells=512)
        center = tr.barycenter(geometry, np.stack([geometry.embed(tr.Samples(x)) for x in samples])) / geometry.scale
        dense = np.interp(LEVELS, 0.5 * (cosine_levels(512)[1:] + cosine_levels(512)[:-1]), center)
        axis.hist(dense, bins, density=True, histtype="step", color=color, lw=1.6, label=f"W{order} barycenter")
    axis.hist(np.concatenate(samples), bins, density=True, histtype="step", color="black", ls=":", label="mixture")
    axis.set(xlabel="outcome", ylabel="density", title="Three task distributions (grey) and their averages")
    axis.legend(frameon=False)
    save(figure, "barycenters")


def uncertainty() -> None:
    """Plug-in, lower and upper distances of an agent that matches the reference, and of one that does not."""
    figure, axes = canvas(2, 7.2)
    geometry = tr.Scores()
    reference = geometry.embed(tr.Samples(LEVELS))
    n = np.arange(1, 301)
    for axis, scale, title in ((axes[0], 1.0, "a perfect agent"), (axes[1], 0.6, "an agent 0.2 away")):
        outcomes = generator("picture uncertainty").random(300) * scale
        profiles = np.cumsum(geometry.features(outcomes), axis=0) / n[:, None]
        found = tr.confidence(geometry, profiles, reference, n.astype(float))
        axis.fill_between(n, found.lower, found.upper, color=MOVE, alpha=0.35, label="lower to upper")
        axis.plot(n, found.value, color=AGENT, label="plug-in")
        axis.plot(n, found.lower, color=REFERENCE, label="lower")
        axis.axhline(0.5 * (1.0 - scale), color="black", ls=":", lw=1, label="truth")
        axis.set(ylim=(-0.02, 0.6), xlabel="outcomes seen", title=title)
    axes[0].set(ylabel="W1 to the reference")
    axes[1].legend(frameon=False)
    save(figure, "uncertainty")


def lockin() -> None:
    """Largest share among six identical agents, against lambda."""
    figure, axis = canvas()
    keys = derive_keys(["picture lock-in"], range(60))
    lambdas = [5.0, 10.0, 20.0, 50.0, 100.0]
    for which, color in (("plug_in", AGENT), ("debiased", MOVE), ("lower", REFERENCE)):
        shares = [lockin_shares(value, 1000, keys, which).max(axis=1).mean() for value in lambdas]
        axis.plot(lambdas, shares, "o-", color=color, label=which.replace("_", "-"))
    axis.axhline(1 / 6, color="black", ls=":", lw=1, label="1/6")
    axis.set(
        xscale="log", ylim=(0, 1.03), xlabel="lambda", ylabel="largest share", title="Six identical agents, 1000 rounds"
    )
    axis.set_xticks(lambdas, [f"{value:.0f}" for value in lambdas])
    axis.legend(frameon=False)
    save(figure, "lockin")


def main() -> None:
    """Draw everything."""
    HERE.mkdir(exist_ok=True)
    for draw in (scores, scalars, labels, sliced, bures, cloud, barycenters, uncertainty, lockin):
        draw()


if __name__ == "__main__":
    main()
