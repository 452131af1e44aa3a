"""Code shared by the items of the theorem: verdicts, growth rates, panels, and building of experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.lab.harness.experiment import Experiment, FigureView, Payload, Results, Scale, Unit
from bot_orch.lab.harness.figures import new_figure
from bot_orch.lab.harness.tables import ResultRow, TableView, by_method, rows_from_seeds
from bot_orch.rng import generator


class Verdict(Enum):
    """The three verdicts; ``tables.csv`` contains the value."""

    HOLDS = 1.0
    CORRECTED = 0.5
    FAILS = 0.0

    @property
    def words(self) -> str:
        """The verdict in words."""
        return {1.0: "holds", 0.5: "holds with a correction", 0.0: "fails as stated"}[self.value]


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement, one sentence with the numbers that decided it, and the two tests that give its verdict.

    Attributes
    ----------
    printed
        Whether the runs agree with the statement as printed, wherever its assumptions are met.
    mended
        Whether they agree once a hypothesis, a constant or a definition is put right and the conclusion is kept.

    Examples
    --------
    >>> Claim("item 0", "Why.", printed=False, mended=True).verdict.words
    'holds with a correction'
    """

    name: str
    why: str
    _: KW_ONLY
    printed: bool
    mended: bool = False

    @property
    def verdict(self) -> Verdict:
        """The verdict from the two tests."""
        if self.printed:
            return Verdict.HOLDS
        return Verdict.CORRECTED if self.mended else Verdict.FAILS


@dataclass(frozen=True, slots=True)
class Slope:
    """A fitted exponent and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def loglog_slope(x: npt.ArrayLike, values: npt.ArrayLike, resamples: int = 1000) -> Slope:
    """Least-squares slope of log mean(values) on log x; the interval is a bootstrap over seeds.

    Parameters
    ----------
    x
        Horizons, ``(n,)``.
    values
        ``(n, seeds)``. Means that are not positive count as 1e-12, so that a vanished quantity shows as one.

    Examples
    --------
    >>> str(loglog_slope([1, 10, 100], [[2, 4], [20, 40], [200, 400]]))
    '1.00 [1.00, 1.00]'
    """
    v = np.atleast_2d(np.asarray(values, dtype=float))
    centred = np.log(np.asarray(x, dtype=float))
    centred -= centred.mean()

    def fit(mean: Floats) -> Floats:
        fitted: Floats = centred @ np.log(np.maximum(mean, 1e-12)) / (centred @ centred)
        return fitted

    picks = generator("theory", "bootstrap").integers(v.shape[1], size=(v.shape[1], resamples))
    low, high = np.quantile(fit(v[:, picks].mean(axis=1)), [0.025, 0.975])
    return Slope(float(fit(v.mean(axis=1))), float(low), float(high))


_LEFT_IN, _RIGHT_IN, _BOTTOM_IN, _TOP_IN = 0.65, 0.12, 0.5, 0.35


def panels(
    columns: int, width: float, height: float, *, gap_in: float | None = None, **options: Any
) -> tuple[Any, Any]:
    """A figure with one row of axes and fixed margins; automatic margins would draw everything twice."""
    figure, axes = new_figure(1, columns, width, height, **options)
    figure.set_layout_engine("tight")  # on the way to none: a constrained layout would refuse fixed margins
    figure.set_layout_engine("none")
    if gap_in is None:
        gap_in = 0.2 if options.get("sharey") else 0.65
    inner_in = (width - _LEFT_IN - _RIGHT_IN - (columns - 1) * gap_in) / columns
    figure.subplots_adjust(
        left=_LEFT_IN / width,
        right=1.0 - _RIGHT_IN / width,
        bottom=_BOTTOM_IN / height,
        top=1.0 - _TOP_IN / height,
        wspace=gap_in / inner_in,
    )
    return figure, axes[0]


def log_axes(axis: Any, *, x: bool = True, y: bool = True) -> None:
    """Make the named axes logarithmic, without minor ticks."""
    for wanted, scale, ticks in ((x, axis.set_xscale, axis.xaxis), (y, axis.set_yscale, axis.yaxis)):
        if wanted:
            scale("log")
            ticks.minorticks_off()


@dataclass(frozen=True, slots=True)
class Measurement:
    """Measurements of a method in an environment: values over seeds by metric."""

    environment: str
    method: str
    metrics: Mapping[str, Sequence[float]]
    _: KW_ONLY
    lambda_: float = 0.0


class Steps(NamedTuple):
    """The functions of an item, in the order of their use."""

    units: Callable[[Scale], Sequence[Unit]]
    run: Callable[[Mapping[str, Any]], Payload]
    claims: Callable[[Results], list[Claim]]
    measures: Callable[[Results], list[Measurement]]
    draw: Callable[[Results], Any]


def view(title: str, metric: str, *, digits: int = 3, note: str = "") -> TableView:
    """A table of one metric."""
    return by_method(title, metric, "theory", note=note, digits=digits)


def theory_item(
    *,
    id: str,  # noqa: A002
    title: str,
    about: str,
    steps: Steps,
    tables: Sequence[TableView],
    caption: str,
    order: int,
    source: str | None = None,
) -> Experiment:
    """An experiment whose verdicts come from its claims; its figure is named after its id.

    ``source`` is what of the paper it runs; left out, what stands before the colon of the title.
    """

    def rows(results: Results) -> list[ResultRow]:
        judged = [Measurement(id, claim.name, {"verdict": [claim.verdict.value]}) for claim in steps.claims(results)]
        return [
            row
            for m in (*judged, *steps.measures(results))
            for row in rows_from_seeds(
                id, m.environment, "theory", method=m.method, lambda_=m.lambda_, metrics=m.metrics, compare=False
            )
        ]

    def notes(results: Results) -> list[str]:
        return [f"<b>{claim.name}: {claim.verdict.words}.</b> {claim.why}" for claim in steps.claims(results)]

    verdicts = view(
        "Verdicts", "verdict", digits=1, note="1 = holds, 0.5 = holds with a correction, 0 = fails as stated."
    )
    return Experiment(
        id=id,
        title=title,
        about=about,
        units=steps.units,
        run=steps.run,
        rows=rows,
        tables=[replace(each, experiment=id) for each in (verdicts, *tables)],
        figures=lambda results: [FigureView(id, caption, partial(steps.draw, results))],
        notes=notes,
        source=(title.split(":")[0] if ":" in title else "") if source is None else source,
        order=order,
    )
