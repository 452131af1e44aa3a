"""Put a theory experiment together: units, claims, measured rows, one figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

from bot_orch.lab.harness.experiment import Experiment, FigureView, Payload, Results, Scale, Unit
from bot_orch.lab.harness.tables import ResultRow, TableView, rows_from_seeds
from bot_orch.lab.paper.theory.verdicts import TheoremClaim, claim_notes, claim_rows

__all__ = ["Measurement", "theory_experiment", "view"]


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured for a method in an environment: values over seeds by metric."""

    environment: str
    method: str
    metrics: Mapping[str, Sequence[float]]
    _: KW_ONLY
    lambda_: float = 0.0


def view(title: str, metric: str, experiment: str, *, digits: int = 3, note: str = "") -> TableView:
    """A table of one metric, methods down and environments across."""
    return TableView(
        title, metric, "theory", down="method", across="environment", note=note, experiment=experiment, digits=digits
    )


def theory_experiment(
    *,
    id: str,  # noqa: A002
    title: str,
    about: str,
    units: Callable[[Scale], Sequence[Unit]],
    run: Callable[[Mapping[str, Any]], Payload],
    claims: Callable[[Results], list[TheoremClaim]],
    measures: Callable[[Results], list[Measurement]],
    tables: Sequence[TableView],
    draw: Callable[[Results], Any],
    caption: str,
    order: int,
    source: str | None = None,
) -> Experiment:
    """An experiment whose verdicts come from ``claims`` and whose figure bears its id.

    ``source`` is what of the paper it runs; left out, what stands before the colon of the title.
    """

    def rows(results: Results) -> list[ResultRow]:
        found = claim_rows(id, claims(results))
        for m in measures(results):
            metrics = {name: list(values) for name, values in m.metrics.items()}
            found += rows_from_seeds(
                id, m.environment, "theory", method=m.method, lambda_=m.lambda_, metrics=metrics, compare=False
            )
        return found

    verdicts = view(
        "Verdicts", "verdict", id, digits=1, note="1 = holds, 0.5 = holds with a correction, 0 = fails as stated."
    )
    return Experiment(
        id=id,
        title=title,
        about=about,
        units=units,
        run=run,
        rows=rows,
        tables=lambda: [verdicts, *tables],
        figures=lambda results: [FigureView(id, caption, partial(draw, results))],
        notes=lambda results: claim_notes(claims(results)),
        source=(title.split(":")[0] if ":" in title else "") if source is None else source,
        order=order,
    )
