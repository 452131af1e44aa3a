"""Run experiments into a folder: results append to a file, an interrupted run goes on where it stopped."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from bot_orch._version import __version__
from bot_orch.errors import ResultsExistError
from bot_orch.experiments.engines import Job, run_local
from bot_orch.experiments.experiment import Experiment, Scale
from bot_orch.experiments.report import Section, write_report
from bot_orch.experiments.tables import to_csv
from bot_orch.files import write_atomically

__all__ = ["Plan", "Progress", "reproduce"]

#: Called with (done, total, what) as work goes on.
Progress = Callable[[int, int, str], None]
_LOG, _SETTINGS, _TABLES = "results.jsonl", "settings.json", "tables.csv"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run, at which scale, where to."""

    experiments: Sequence[Experiment]
    out: Path
    scale: Scale
    jobs: int = 1
    force: bool = False
    command: str = ""

    def settings(self) -> dict[str, Any]:
        """What determines the results, written beside them."""
        ids = [experiment.id for experiment in self.experiments]
        return {"experiments": ids, "scale": asdict(self.scale), "version": __version__}


def reproduce(plan: Plan, progress: Progress) -> Path:
    """Run what is missing, then write tables, figures and the report; returns the report's path."""
    _prepare(plan)
    jobs = [(experiment.id, unit) for experiment in plan.experiments for unit in experiment.units(plan.scale)]
    done = _run_missing(plan, jobs, progress)
    sections = [_section(plan, experiment, done, progress) for experiment in plan.experiments]
    rows = [row for section in sections for row in section.rows]
    report = write_report(plan.out, sections, _facts(plan))
    write_atomically(plan.out / _TABLES, to_csv(rows).encode())  # last: its presence means the run is complete
    return report


def _prepare(plan: Plan) -> None:
    settings, tables = plan.out / _SETTINGS, plan.out / _TABLES
    if plan.force:
        for name in (_LOG, _SETTINGS, _TABLES):
            (plan.out / name).unlink(missing_ok=True)
    if tables.exists():
        raise ResultsExistError(f"{tables} exists; pass --force to overwrite it, or another --out")
    if settings.exists() and json.loads(settings.read_text()) != plan.settings():
        raise ResultsExistError(
            f"{plan.out} holds an unfinished run with other settings; pass --force to discard it, or another --out"
        )
    write_atomically(settings, json.dumps(plan.settings(), indent=1).encode())


def _run_missing(plan: Plan, jobs: Sequence[Job], progress: Progress) -> dict[tuple[str, str], dict[str, Any]]:
    log = plan.out / _LOG
    done = _read_log(log)
    missing = [job for job in jobs if (job[0], job[1].key) not in done]
    finished = len(jobs) - len(missing)
    progress(finished, len(jobs), "resuming" if finished else "starting")
    with log.open("a") as file:
        for (name, unit), payload in run_local(missing, plan.jobs):
            line = {"experiment": name, "unit": unit.key, "payload": payload}
            file.write(json.dumps(line) + "\n")
            file.flush()
            done[name, unit.key] = json.loads(json.dumps(payload))
            finished += 1
            progress(finished, len(jobs), f"{name} {unit.key}")
    return done


def _read_log(log: Path) -> dict[tuple[str, str], dict[str, Any]]:
    done = {}
    for line in _lines(log):
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue  # the run was cut off while writing this line: the unit runs again
        done[entry["experiment"], entry["unit"]] = entry["payload"]
    return done


def _lines(log: Path) -> Iterable[str]:
    if not log.exists():
        return []
    text = log.read_text()
    if text and not text.endswith("\n"):
        text = text[: text.rfind("\n") + 1]
        log.write_text(text)
    return text.splitlines()


def _section(
    plan: Plan, experiment: Experiment, done: dict[tuple[str, str], dict[str, Any]], progress: Progress
) -> Section:
    from bot_orch.experiments.figures import save_figure  # matplotlib, only when figures are drawn

    results = {unit.key: done[experiment.id, unit.key] for unit in experiment.units(plan.scale)}
    views = experiment.figures(results)
    saved = []
    for index, view in enumerate(views):
        progress(index, len(views), f"drawing {view.name}")
        saved.append((view, save_figure(view.draw, plan.out / "figures" / view.name)))
    return Section(experiment, experiment.rows(results), experiment.tables(), saved, experiment.notes(results))


def _facts(plan: Plan) -> dict[str, str]:
    return {
        "Command": plan.command,
        "BOT-Orch": __version__,
        "Python": platform.python_version(),
        "NumPy / SciPy": f"{np.__version__} / {scipy.__version__}",
        "Platform": f"{sys.platform}, {os.cpu_count()} cores",
        "Scale": "quick" if plan.scale.quick else "as published",
        "Seeds": "as published" if plan.scale.seeds is None else str(plan.scale.seeds),
    }
