"""Run experiments into a folder: results append to a file, an interrupted run resumes where it stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bot_orch._version import __version__
from bot_orch.errors import ResultsExistError
from bot_orch.files import write_atomically
from bot_orch.lab.harness.engines import Engine, Job, make_engine, run_local
from bot_orch.lab.harness.experiment import Experiment, Results, Scale, Unit, discover
from bot_orch.lab.harness.frame import machine_facts, run_time
from bot_orch.lab.harness.report import Section, write_report
from bot_orch.lab.harness.tables import to_csv

#: Called with (done, total, what) as work goes on.
Progress = Callable[[int, int, str], None]
_LOG, _SETTINGS, _TABLES = "results.jsonl", "settings.json", "tables.csv"


@dataclass(frozen=True, slots=True)
class Plan:
    """Experiments to run, their scale, and the output folder."""

    experiments: Sequence[Experiment]
    out: Path
    scale: Scale
    _: KW_ONLY
    jobs: int = 1
    force: bool = False
    command: str = ""
    engine: str = "local"
    address: str | None = None

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, dict[str, Any]]]:
        """Run jobs on the selected engine."""
        return make_engine(self.engine, self.jobs, self.address)(jobs)

    def settings(self) -> dict[str, Any]:
        """Parameters that determine the results, written with them."""
        ids = [experiment.id for experiment in self.experiments]
        return {"experiments": ids, "scale": asdict(self.scale), "version": __version__}


def reproduce(plan: Plan, progress: Progress) -> Path:
    """Run missing units, then write tables, figures and the report; returns the report's path."""
    begun_s = time.perf_counter()
    open_folder(plan.out, plan.settings(), force=plan.force)
    jobs = [(experiment.id, unit) for experiment in plan.experiments for unit in experiment.units(plan.scale)]
    before = len(read_log(plan.out))
    done = run_missing(plan.out, jobs, plan.run, progress=progress)
    _draw(plan, progress)
    sections = _concluded([_section(plan, experiment, done) for experiment in plan.experiments])
    rows = [row for section in sections for row in section.rows]
    spent = run_time(time.perf_counter() - begun_s, units=len(jobs), earlier=before, processes=plan.jobs)
    report = write_report(plan.out, sections, {**_facts(plan), "Run time": spent})
    write_atomically(plan.out / _TABLES, to_csv(rows).encode())  # last: its presence means the run is complete
    return report


def open_folder(out: Path, wanted: Mapping[str, Any], *, force: bool = False, table: str = _TABLES) -> None:
    """Prepare ``out`` for a run with these settings; refuses to overwrite a finished run or to mix two.

    ``table`` is the file whose presence means that a run is complete.
    """
    settings, tables = out / _SETTINGS, out / table
    if force:
        for name in (_LOG, _SETTINGS, table):
            (out / name).unlink(missing_ok=True)
    if tables.exists():
        raise ResultsExistError(f"{tables} exists; pass --force to overwrite it, or another --out")
    if settings.exists() and _read_settings(settings) != wanted:
        raise ResultsExistError(
            f"{out} holds an unfinished run with other settings; pass --force to discard it, or another --out"
        )
    write_atomically(settings, json.dumps(wanted, indent=1).encode())


def _read_settings(path: Path) -> Any:
    """The settings of the run in this folder; empty if the file is damaged."""
    try:
        return json.loads(path.read_bytes())
    except ValueError:
        return None


def run_missing(
    out: Path, jobs: Sequence[Job], run: Engine, *, progress: Progress
) -> dict[tuple[str, str], dict[str, Any]]:
    """Run the jobs missing from the folder's log, appending each as it finishes; returns every payload by job."""
    log = out / _LOG
    done = _payloads(_lines(log))
    missing = [job for job in jobs if (job[0], job[1].key) not in done]
    finished = len(jobs) - len(missing)
    progress(finished, len(jobs), "resuming" if finished else "starting")
    with log.open("a") as file:
        for (name, unit), payload in run(missing):
            line = {"experiment": name, "unit": unit.key, "payload": payload}
            file.write(json.dumps(line) + "\n")
            file.flush()
            done[name, unit.key] = json.loads(json.dumps(payload))
            finished += 1
            progress(finished, len(jobs), f"{name} {unit.key}")
    return done


def read_log(out: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Payloads in the folder of a run by (experiment, unit), of a run under way too; the folder is not changed."""
    log = out / _LOG
    return _payloads(log.read_text().splitlines()) if log.exists() else {}


def _payloads(lines: Iterable[str]) -> dict[tuple[str, str], dict[str, Any]]:
    done = {}
    for line in lines:
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


def _draw(plan: Plan, progress: Progress) -> None:
    """Draw every experiment's figures, several experiments at a time."""
    scale = asdict(plan.scale)
    jobs = [
        (f"{__name__}:draw_figures", Unit(e.id, {"experiment": e.id, "out": str(plan.out), "scale": scale}))
        for e in plan.experiments
    ]
    for count, ((_, unit), _) in enumerate(run_local(jobs, plan.jobs), start=1):
        progress(count, len(jobs), f"figures of {unit.key}")


def draw_figures(params: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the figures of one experiment from the folder's log."""
    from bot_orch.lab.harness.figures import save_figure  # matplotlib, only when figures are drawn

    out, experiment = Path(params["out"]), discover()[params["experiment"]]
    results = _results(experiment, Scale(**params["scale"]), read_log(out))
    for view in experiment.figures(results):
        save_figure(view.draw, out / "figures" / view.name)
    return {}


def _section(plan: Plan, experiment: Experiment, done: dict[tuple[str, str], dict[str, Any]]) -> Section:
    results = _results(experiment, plan.scale, done)
    saved = []
    for view in experiment.figures(results):
        stem = plan.out / "figures" / view.name
        saved.append((view, (stem.with_suffix(".png"), stem.with_suffix(".svg"))))
    return Section(
        experiment, experiment.rows(results), experiment.tables, figures=saved, notes=experiment.notes(results)
    )


def _concluded(sections: Sequence[Section]) -> list[Section]:
    """The sections, extended by conclusions from the rows of all of them."""
    rows = [row for section in sections for row in section.rows]
    found = []
    for section in sections:
        more, notes = section.experiment.conclude(rows) if section.experiment.conclude else ([], [])
        found.append(replace(section, rows=[*section.rows, *more], notes=[*section.notes, *notes]))
    return found


def _results(experiment: Experiment, scale: Scale, done: dict[tuple[str, str], dict[str, Any]]) -> Results:
    return {unit.key: done[experiment.id, unit.key] for unit in experiment.units(scale)}


def _facts(plan: Plan) -> dict[str, str]:
    seeds, full = plan.scale.n_seeds(), Scale().n_seeds()
    small = f"{seeds} seeds in the paper's tables, where a full run has {full}"
    return {
        **({"Preview": small} if plan.scale.quick or seeds < full else {}),
        "Command": plan.command,
        **machine_facts(),
        "Rounds": "few" if plan.scale.quick else "as published",
        "Seeds": f"{seeds} in the paper's tables, which have 30 and 5",
    }
