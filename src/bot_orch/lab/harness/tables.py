"""Results in long form: one row per number, with the published value, and counts of agreement.

Our runs have more seeds than the paper's, so they give the law of what the paper's number of seeds would show. A cell
is *inside* if the published mean lies in the 95 % interval of a mean over the published number of seeds, computed from
our mean and standard deviation: 95 % of the cells of a perfect reproduction do, whatever the paper printed after the
plus-minus sign. Its spread is met if it lies in the 95 % interval of a standard deviation over as many seeds. z is the
difference over its standard error, the paper's own error counted.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache, partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Literal

import numpy as np
from scipy.special import chdtri, stdtrit

COLUMNS = (
    *("experiment", "environment", "protocol", "method", "lambda", "metric"),
    *("mean", "std", "ci95", "seeds", "paper_mean", "paper_spread"),
    *("paper_error", "z", "basis"),
)

#: How a number of ours stands to the published one: nothing was set by it (``prediction``), a parameter was fitted to
#: it (``fitted``), a reading of the paper was selected because it reproduces it (``selected``), another table of the
#: paper contradicts it (``contradicted``), or it was measured on other data and is not counted (``elsewhere``).
Basis = Literal["prediction", "fitted", "selected", "contradicted", "elsewhere"]


_ROUNDED = 5e-4  # accuracies are printed to three digits


@dataclass(frozen=True, slots=True)
class Published:
    """A published number: its mean, and the value after the plus-minus sign.

    ``spread_is`` says what that is: the standard deviation over seeds (``sd``) or the half width of a 95 % confidence
    interval of the mean (``ci95``). The paper calls both a 95 % CI; the claims ledger computes which is which.
    """

    mean: float
    spread: float
    _: KW_ONLY
    seeds: int = 1
    spread_is: Literal["sd", "ci95"] = "sd"

    @property
    def error(self) -> float:
        """Standard error of the published mean; not a number for a single seed.

        Examples
        --------
        >>> round(Published(1.0, 3.0, seeds=9).error, 6)
        1.0
        """
        if self.seeds < 2:
            return math.nan
        if self.spread_is == "sd":
            return self.spread / math.sqrt(self.seeds)
        return self.spread / float(stdtrit(self.seeds - 1, 0.975))


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One result: a metric of a method in an environment under a protocol."""

    experiment: str
    environment: str
    protocol: str
    _: KW_ONLY
    method: str
    lambda_: float
    metric: str
    mean: float
    std: float
    seeds: int
    paper: Published | None = None
    basis: Basis = "prediction"
    range: tuple[float, float] | None = None  # smallest and largest value, where the table shows them

    @property
    def ci95(self) -> float:
        """Half width of the 95 % confidence interval of the mean (Student t)."""
        if self.seeds < 2:
            return math.nan
        return float(stdtrit(self.seeds - 1, 0.975)) * self.std / math.sqrt(self.seeds)

    @property
    def predicted(self) -> tuple[float, float] | None:
        """95 % interval of a mean over the paper's number of seeds; None without a published value.

        Examples
        --------
        >>> names = {"method": "m", "lambda_": 0.0, "metric": "x"}
        >>> row = ResultRow("e", "e", "p", **names, mean=1.0, std=2.0, seeds=401, paper=Published(0.0, 1.0, seeds=4))
        >>> [round(end, 2) for end in row.predicted]
        [-0.98, 2.98]
        """
        if self.paper is None or self.seeds < 2:
            return None
        reach = float(stdtrit(self.seeds - 1, 0.975)) * self.std * math.sqrt(1 / self.seeds + 1 / self.paper.seeds)
        return self.mean - reach, self.mean + reach

    @property
    def inside(self) -> bool | None:
        """Whether the published mean lies in that interval, up to rounding; None without one."""
        if self.paper is None or self.predicted is None:
            return None
        low, high = self.predicted
        return low - _ROUNDED <= self.paper.mean <= high + _ROUNDED

    @property
    def spread_inside(self) -> bool | None:
        """Whether the published spread is consistent with as many seeds of ours; None without one."""
        if self.paper is None or self.seeds < 2 or self.paper.seeds < 2 or self.std == 0.0:
            return None
        n = self.paper.seeds - 1
        ratio = n * self.paper.error**2 * self.paper.seeds / self.std**2
        return bool(chdtri(n, 0.975) <= ratio <= chdtri(n, 0.025))

    @property
    def z(self) -> float | None:
        """Difference of the means over its standard error, counting both errors; None without a published value."""
        if self.paper is None or self.seeds < 2 or self.basis == "elsewhere":
            return None
        error = math.hypot(self.std / math.sqrt(self.seeds), self.paper.error)
        return (self.mean - self.paper.mean) / error if error > 0.0 else None

    def cells(self) -> list[str]:
        """The row as text, in the columns of ``tables.csv``."""
        paper = ("", "") if self.paper is None else (_text(self.paper.mean), _text(self.paper.spread))
        numbers = [_text(self.mean), _text(self.std), _text(self.ci95)]
        names = [self.experiment, self.environment, self.protocol, self.method, _text(self.lambda_), self.metric]
        z = "" if self.z is None else _text(self.z)
        judged = ("", "", "") if self.paper is None else (_text(self.paper.error), z, self.basis)
        return [*names, *numbers, str(self.seeds), *paper, *judged]


@dataclass(frozen=True, slots=True)
class TableView:
    """Layout of a subset of the rows in the report.

    ``down`` is what changes from line to line, ``across`` what changes from column to column: ``environment``,
    ``method`` or ``lambda``. ``lines`` and ``columns`` pick and order them; empty means all.
    """

    title: str
    metric: str
    protocol: str
    _: KW_ONLY
    down: str = "environment"
    across: str = "method"
    columns: Sequence[str] = ()
    lines: Sequence[str] = ()
    note: str = ""
    experiment: str | None = None
    digits: int = 2


#: Layouts that several pages share.
by_method = partial(TableView, down="method", across="environment")
by_lambda = partial(TableView, down="lambda", across="environment")


def rows_from_seeds(
    experiment: str,
    environment: str,
    protocol: str,
    *,
    method: str,
    lambda_: float = 0.0,
    metrics: Mapping[str, Sequence[float]],
    compare: bool = True,
    basis: Mapping[str, Basis] | None = None,
) -> list[ResultRow]:
    """One row per metric from its values over seeds; ``compare`` looks up the published number.

    ``basis`` names, by metric, how the number stands to the published one; a prediction where it says nothing.
    """
    rows = []
    for metric, values in metrics.items():
        v = np.asarray(values, dtype=float)
        row = ResultRow(
            experiment,
            environment,
            protocol,
            method=method,
            lambda_=lambda_,
            metric=metric,
            mean=float(v.mean()),
            std=float(v.std(ddof=1)) if v.size > 1 else 0.0,
            seeds=v.size,
            paper=published(experiment, environment, method, lambda_=lambda_, metric=metric) if compare else None,
            basis=(basis or {}).get(metric, "prediction"),
        )
        rows.append(row)
    return rows


def published(experiment: str, environment: str, method: str, *, lambda_: float, metric: str) -> Published | None:
    """The paper's number, if it prints one."""
    return all_published().get((experiment, environment, method, float(lambda_), metric))


def to_csv(rows: Iterable[ResultRow]) -> str:
    """``tables.csv``: the header and one line per row."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(row.cells() for row in rows)
    return text.getvalue()


@lru_cache(maxsize=1)
def all_published() -> Mapping[tuple[str, str, str, float, str], Published]:
    """Every ``published.csv``: numbers by experiment, environment, method, lambda and metric."""
    found = {}
    for file in _files_named("published.csv", files("bot_orch.lab")):
        for line in csv.DictReader(file.read_text().splitlines()):
            key = (line["experiment"], line["environment"], line["method"], float(line["lambda"]), line["metric"])
            spread_is: Literal["sd", "ci95"] = "ci95" if line["spread_is"] == "ci95" else "sd"
            found[key] = Published(
                float(line["mean"]), float(line["spread"]), seeds=int(line["seeds"]), spread_is=spread_is
            )
    return found


def _files_named(name: str, folder: Traversable) -> Iterator[Traversable]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _files_named(name, entry)
        elif entry.name == name:
            yield entry


def _text(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.10g}"


#: A cell whose z score exceeds this is counted as off.
LIMIT = 2.0
_NAMES: dict[Basis, str] = {
    "prediction": "Predicted",
    "fitted": "Fitted",
    "selected": "Used to select a reading",
    "contradicted": "Contradicted by the paper's other tables",
}


@dataclass(frozen=True, slots=True)
class Agreement:
    """Published numbers: how many, how many inside, how many off by z, and how many spreads are met of how many."""

    cells: int
    inside: int
    beyond: int
    _: KW_ONLY
    spreads: int
    of_spreads: int

    @property
    def word(self) -> str:
        """``reproduced`` from 90 % inside on, ``in part`` from 60 %, else ``not reproduced``."""
        share = self.inside / self.cells if self.cells else 0.0
        return "reproduced" if share >= 0.9 else "in part" if share >= 0.6 else "not reproduced"


def agreement(rows: Iterable[ResultRow], basis: Basis | None = None) -> Agreement:
    """Count matched published numbers: all that no other table contradicts, or those of one basis."""
    apart = ("elsewhere", "contradicted") if basis is None else ("elsewhere",)
    counted = [row for row in rows if row.paper is not None and row.basis not in apart]
    chosen = [row for row in counted if basis in (None, row.basis)]
    spreads = [row.spread_inside for row in chosen if row.spread_inside is not None]
    return Agreement(
        len(chosen),
        sum(bool(row.inside) for row in chosen),
        sum(row.z is not None and abs(row.z) > LIMIT for row in chosen),
        spreads=sum(spreads),
        of_spreads=len(spreads),
    )


def agreement_words(rows: Sequence[ResultRow]) -> list[str]:
    """One sentence per basis; empty without published numbers."""
    said = []
    for basis, name in _NAMES.items():
        found = agreement(rows, basis)
        if found.cells:
            said.append(
                f"{name}: |z| &gt; {LIMIT:g} in {found.beyond} of {found.cells}; {found.inside} means and "
                f"{found.spreads} of {found.of_spreads} spreads inside"
            )
    return said
