"""Run a user's grid into a folder: tables.csv, summary.txt and a figure; an interrupted run resumes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from bot_orch._version import __version__
from bot_orch.errors import MissingExtraError
from bot_orch.files import write_atomically
from bot_orch.lab.harness.engines import Engine
from bot_orch.lab.harness.runner import Progress, open_folder, run_missing
from bot_orch.lab.harness.tables import ResultRow, rows_from_seeds, to_csv
from bot_orch.lab.sweep.environments import Trial, environments
from bot_orch.lab.sweep.results import draw_sweep, summary
from bot_orch.lab.sweep.spec import Sweep, build

_RUN = f"{__name__}:run_cell"


@dataclass(frozen=True, slots=True)
class Written:
    """Files written by a sweep; ``figure`` is None without a plotting library."""

    tables: Path
    summary: Path
    figure: Path | None
    _: KW_ONLY
    text: str


def run_cell(params: Mapping[str, Any]) -> dict[str, Any]:
    """Run one block of seeds of one cell; returns every metric per seed."""
    first, last = params["seeds"]
    trial = Trial(range(first, last), params["rounds"], lambda_=params["lambda"], score_lambda=params["score_lambda"])
    policy = build(params["policy"], params["policy_settings"])
    environment = environments()[params["environment"]]
    return {"metrics": environment.play(policy, params["environment_settings"], trial)}


def run_sweep(sweep: Sweep, out: Path, engine: Engine, *, progress: Progress, force: bool = False) -> Written:
    """Run missing units, then write the summary, the figure and the table."""
    sweep.check()
    open_folder(out, json.loads(json.dumps({"sweep": sweep.settings(), "version": __version__})), force=force)
    units = [(cell, sweep.units(cell)) for cell in sweep.cells()]
    done = run_missing(out, [(_RUN, unit) for _, blocks in units for unit in blocks], engine, progress=progress)
    rows: list[ResultRow] = []
    for cell, blocks in units:
        metrics = _joined([done[_RUN, unit.key]["metrics"] for unit in blocks])
        rows += rows_from_seeds(
            sweep.name,
            cell.place.label,
            cell.place.protocol,
            method=cell.entrant.label,
            lambda_=cell.lambda_,
            metrics=metrics,
            compare=False,
        )
    text = summary(sweep, rows)
    write_atomically(out / "summary.txt", text.encode())
    figure = _draw(sweep, rows, out)
    write_atomically(out / "tables.csv", to_csv(rows).encode())  # last: its presence means the run is complete
    return Written(out / "tables.csv", out / "summary.txt", figure, text=text)


def _joined(blocks: Sequence[Mapping[str, list[float]]]) -> dict[str, list[float]]:
    """The values of all blocks concatenated, in order of seeds."""
    return {metric: [value for block in blocks for value in block[metric]] for metric in blocks[0]}


def _draw(sweep: Sweep, rows: Sequence[ResultRow], out: Path) -> Path | None:
    from bot_orch.lab.harness.figures import save_figure

    try:
        png, _ = save_figure(lambda: draw_sweep(sweep, rows), out / "figures" / "sweep")
    except MissingExtraError:
        return None  # numbers do not need a plotting library
    return png
