"""Calibration: coverage of 90 % intervals of distances on a declared grid, and alarms of a drift monitor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.rng import generator
from bot_orch.transport.drift import DriftMonitor
from bot_orch.transport.geometries.base import Geometry, distance
from bot_orch.transport.geometries.bures import Bures
from bot_orch.transport.geometries.labels import LabelGeometry, OrderedLabels, TreeLabels, ZeroOneLabels
from bot_orch.transport.geometries.scalars import Scalars
from bot_orch.transport.geometries.scores import Scores
from bot_orch.transport.geometries.sliced import Sliced
from bot_orch.transport.measures import Cloud, Labels, Samples
from bot_orch.transport.uncertainty import Distances, confidence
from bot_orch.types import Measure

__all__ = ["SIZES", "CoverageCell", "DriftStudy", "coverage", "coverage_grid", "drift_study"]

SIZES = (20, 100, 400)
_LEVELS = (np.arange(2000) + 0.5) / 2000
Interval = Callable[[Geometry, Floats, Floats, Floats], Distances]


@dataclass(frozen=True, eq=False)
class CoverageCell:
    """One case: n outcomes drawn from ``profile`` are compared with ``reference``."""

    name: str
    geometry: Geometry
    profile: Measure
    _: KW_ONLY
    reference: Measure
    n: int


def coverage(cell: CoverageCell, repeats: int = 500, interval: Interval = confidence) -> float:
    """The share of repetitions in which [lower, upper] holds the true distance."""
    geometry = cell.geometry
    truth = distance(geometry, cell.profile, cell.reference)
    rng = generator("coverage", cell.name, cell.n)
    outcomes, weights = _support(geometry, cell.profile)
    embeddings = geometry.embed_outcomes(outcomes[rng.choice(len(weights), size=(repeats, cell.n), p=weights)])
    found = interval(geometry, embeddings, geometry.embed(cell.reference), np.full(repeats, float(cell.n)))
    slack = 1e-9
    return float(((found.lower <= truth + slack) & (truth <= found.upper + slack)).mean())


def coverage_grid() -> Iterator[CoverageCell]:
    """The declared grid: distributions x references x sample sizes x geometries."""
    for n in SIZES:
        for name, geometry, profile, reference in (*_scores(), *_scalars(), *_labels(), *_clouds()):
            yield CoverageCell(name, geometry, profile, reference=reference, n=n)


def _support(geometry: Geometry, profile: Measure) -> tuple[Floats, Floats]:
    outcomes, weights = geometry.outcomes_of(profile)
    if isinstance(geometry, LabelGeometry):
        return np.eye(geometry.n_labels), outcomes[0]
    return outcomes, weights


Case = tuple[str, Geometry, Measure, Measure]


def _scores() -> Iterator[Case]:
    from scipy.special import betaincinv

    profiles = {
        "uniform": Samples(_LEVELS),
        "beta(2,5)": Samples(betaincinv(2.0, 5.0, _LEVELS)),
        "arcsine": Samples(np.sin(0.5 * np.pi * _LEVELS) ** 2),
        "bernoulli(0.7)": Samples([0.0, 1.0], [0.3, 0.7]),
        "bernoulli(0.05)": Samples([0.0, 1.0], [0.95, 0.05]),
    }
    references = {"uniform": profiles["uniform"], "beta(2,5)": profiles["beta(2,5)"], "always 1": Samples([1.0])}
    for a, profile in profiles.items():
        for b, reference in references.items():
            yield f"scores {a} to {b}", Scores(), profile, reference


def _scalars() -> Iterator[Case]:
    from scipy.special import ndtri

    normal = ndtri(_LEVELS)
    profiles = {
        "normal": normal,
        "exponential": -np.log1p(-_LEVELS),
        "lognormal": np.exp(normal),
        "two normals": np.concatenate([normal - 3.0, normal + 3.0]),
    }
    for order in (1, 2):
        for name, x in profiles.items():
            for change, y in (("itself", x), ("shifted", x + 0.5), ("scaled", 1.5 * x)):
                yield f"scalars W{order} {name} to {change}", Scalars(order=order), Samples(x), Samples(y)


def _labels() -> Iterator[Case]:
    geometries = (
        ZeroOneLabels(5),
        OrderedLabels((0.0, 1.0, 2.0, 3.0, 4.0)),
        TreeLabels((-1, 0, 0, 1, 1), (0.0, 1.0, 1.0, 0.5, 0.5)),
    )
    for geometry in geometries:
        for first in (0.2, 0.6, 0.95):
            p = np.array([first, *[(1.0 - first) / 4] * 4])
            for name, r in (("itself", p), ("uniform", np.full(5, 0.2)), ("one label", np.eye(5)[0])):
                yield f"{geometry.name} {first} to {name}", geometry, Labels(p), Labels(r)


def _clouds() -> Iterator[Case]:
    for d in (2, 8):
        z = generator("coverage cloud", d).normal(size=(4000, d))
        turn = np.linalg.qr(generator("coverage turn", d).normal(size=(d, d)))[0]
        for name, x in (("round", z), ("flat", (z / np.arange(1.0, d + 1.0)) @ turn)):
            for change, y in (("itself", x), ("shifted", x + np.eye(d)[0]), ("scaled", 1.5 * x)):
                for geometry in (Sliced(dimension=d, order=1), Sliced(dimension=d, order=2), Bures(d, clouds=True)):
                    tag = f"{geometry.name} W{geometry.order} R^{d} {name} to {change}"
                    yield tag, geometry, Cloud(x), Cloud(y)


@dataclass(frozen=True, slots=True)
class DriftStudy:
    """Performance of a drift monitor on simulated streams.

    Attributes
    ----------
    false_alarms
        Alarms before the change, per test.
    detected
        Share of streams with an alarm after the change.
    delay
        Median number of outcomes from the change to the first alarm after it, where there was one.
    """

    tests: int
    false_alarms: float
    detected: float
    delay: float


def drift_study(monitor: DriftMonitor, streams: Floats, change: int) -> DriftStudy:
    """Evaluate a monitor on streams ``(S, T) + outcome_shape`` whose distribution changes at time ``change``."""
    seeds, horizon = streams.shape[:2]
    state = monitor.start(1, (seeds,))
    alarms = np.stack([monitor.update(state, streams[:, t], agent=0) for t in range(change)])
    tests = int(state["tests"].sum())
    first = np.full(seeds, -1)
    for t in range(change, horizon):
        rings = monitor.update(state, streams[:, t], agent=0)
        first = np.where((first < 0) & rings, t + 1 - change, first)
    found = first[first > 0]
    return DriftStudy(
        tests=tests,
        false_alarms=float(alarms.sum() / max(tests, 1)),
        detected=float(found.size / seeds),
        delay=float(np.median(found)) if found.size else float("nan"),
    )
