"""Write imported decisions to a log, and report what can be concluded from them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.core.events import IMPORTED, Configured, DecisionMade, Event, FeedbackGiven, TaskRecord
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.errors import InvalidInputError, MissingFileError
from bot_orch.evaluation.importing.reading import SOURCES, ForeignDecision, ImportOptions, ImportPlace, read_decisions
from bot_orch.evaluation.tables import imported_decision
from bot_orch.log.events import encode_event
from bot_orch.log.log import Log, Row
from bot_orch.types import Outcome, Task

_MOST_AGENTS, _MOST_FEATURES = 200, 2000


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """Summary of an import: number of decisions, agents, rewards and propensities."""

    decisions: int
    agents: tuple[str, ...]
    rewards: int
    _: KW_ONLY
    propensities: int
    ignored: tuple[str, ...] = ()


def import_log(path: Path, source: str, log: Log, *, options: ImportOptions | None = None) -> ImportSummary:
    """Read a file of another router and append it to an empty log.

    Parameters
    ----------
    path, source
        The file, and its format: one of :data:`bot_orch.evaluation.importing.reading.SOURCES`.
    log
        Where to write; committed at the end.
    options
        Columns and range of rewards.
    """
    if source not in SOURCES:
        raise InvalidInputError("--from", f"is {source!r}", f"choose one of {', '.join(SOURCES)}")
    if not path.is_file():
        raise MissingFileError("FILE", f"{path} is no file", "pass the file to import")
    if log.last()[0]:
        raise InvalidInputError("--out", "holds events already", "name a new log")
    given, ignored = options or ImportOptions(), dict[str, None]()
    decisions = list(read_decisions(path, source, given, ignored))
    if not decisions:
        raise InvalidInputError(str(path.name), "holds no decision", f"pass a file of {source} with decisions")
    if all(each.time_us is not None for each in decisions):
        decisions.sort(key=lambda each: each.time_us or 0)
    agents = _agents(path.name, decisions, given)
    rows, known = _rows(decisions, agents, given)
    log.append(rows)
    log.commit()
    rewarded = sum(each.reward is not None for each in decisions)
    return ImportSummary(len(decisions), agents, rewarded, propensities=known, ignored=tuple(ignored))


def _agents(file: str, decisions: list[ForeignDecision], options: ImportOptions) -> tuple[str, ...]:
    names = dict.fromkeys(options.agents)
    for each in decisions:
        names.update(dict.fromkeys((*(each.propensities or ()), *each.eligible, each.agent)))
    if len(names) > _MOST_AGENTS:
        problem, remedy = f"has {len(names)} different values", "name the column of the agents: --map agent=COLUMN"
        raise InvalidInputError(f"{file}: agent", problem, remedy)
    return tuple(names)


def _rows(decisions: list[ForeignDecision], agents: tuple[str, ...], options: ImportOptions) -> tuple[list[Row], int]:
    rows: list[Row] = []

    def add(event: Event, ref: str, time_us: int) -> None:
        later = max(time_us, rows[-1].time_us + 1 if rows else 1)
        rows.append(Row(len(rows) + 1, later, event.kind, ref, encode_event(event, ref)))

    add(Configured(Orchestrator(agents, ids="derived").to_json(), engine=IMPORTED), "", (decisions[0].time_us or 1) - 1)
    vectors, ids, known = _vectors(decisions), _ids(decisions), 0
    for number, (each, id_, features) in enumerate(zip(decisions, ids, vectors, strict=True)):
        p = _propensities(each, agents, options)
        known += bool(np.isfinite(p).all())
        add(_made(each, id_, agents, p=p, features=features, number=number), id_, each.time_us or 0)
        if (feedback := _feedback(each, id_, number)) is not None:
            add(feedback, id_, each.time_us or 0)
    return rows, known


def _ids(decisions: list[ForeignDecision]) -> list[str]:
    """Ids from the file, or row numbers; an error names the second use of an id."""
    seen: dict[str, ImportPlace] = {}
    for each in decisions:
        id_ = each.decision_id or f"row-{each.place.row}"
        if id_ in seen:
            raise each.place.error("id", f"{id_[:60]!r} is that of row {seen[id_].row}", "write each decision once")
        seen[id_] = each.place
    return list(seen)


def _vectors(decisions: list[ForeignDecision]) -> list[tuple[float, ...]]:
    """Feature vectors of equal length; named features get one column each, in order of first occurrence."""
    names = dict.fromkeys(name for each in decisions if isinstance(each.features, dict) for name in each.features)
    if len(names) > _MOST_FEATURES:
        problem = f"{len(names)} different features, at most {_MOST_FEATURES}"
        raise decisions[0].place.error("features", problem, "hash them, or leave out those of single items")
    found, width = [], None
    for each in decisions:
        if isinstance(each.features, dict):
            vector = tuple(each.features.get(name, 0.0) for name in names)
        else:
            vector = each.features
        if width is not None and len(vector) != width:
            remedy = "write the same features in every row"
            raise each.place.error("features", f"{len(vector)} numbers, {width} in the row before", remedy)
        width = len(vector)
        found.append(vector)
    return found


def _propensities(each: ForeignDecision, agents: tuple[str, ...], options: ImportOptions) -> Floats:
    """One propensity per agent, NaN if unknown. The remainder of a single one is spread over the other agents."""
    allowed = each.eligible or agents
    if each.propensities:
        p = np.array([each.propensities.get(name, 0.0) for name in agents])
        if abs(p.sum() - 1.0) > 1e-3:
            raise each.place.error("propensities", f"add up to {p.sum():.4f}", "write numbers that add up to 1")
    elif each.propensity is not None:
        others = [name for name in allowed if name != each.agent]
        rest = (1.0 - each.propensity) / max(1, len(others))
        p = np.array([each.propensity if name == each.agent else rest * (name in others) for name in agents])
    elif options.assume_uniform:
        p = np.array([float(name in allowed) for name in agents]) / len(allowed)
    else:
        return np.full(len(agents), np.nan)
    if not p[agents.index(each.agent)] > 0.0:
        raise each.place.error("propensity", f"of {each.agent!r} is 0", "write the probability it was chosen with")
    return np.asarray(p, dtype=float)


def _made(
    each: ForeignDecision, id_: str, agents: tuple[str, ...], *, p: Floats, features: tuple[float, ...], number: int
) -> DecisionMade:
    try:
        task = Task(each.task_id or id_, each.kind, None, features)
    except InvalidInputError as error:
        raise each.place.error(error.field, error.problem, error.remedy) from None
    eligible = each.eligible or tuple(name for name, value in zip(agents, p.tolist(), strict=True) if value > 0.0)
    asked = TaskRecord(task.id, task.kind)
    by = each.by or "policy"
    return imported_decision(id_, asked, each.agent, agents, p, eligible, features, number, by=by)


def _feedback(each: ForeignDecision, id_: str, number: int) -> FeedbackGiven | None:
    """The outcome event, if the row contains one."""
    reason = None if each.completed else each.reason or "failed"
    if each.completed and each.reward is None and each.elapsed_s is None:
        return None
    try:
        Outcome(each.completed, each.reward, each.elapsed_s, reason, None, each.cost_usd)
    except InvalidInputError as error:
        raise each.place.error(error.field.removeprefix("outcome."), error.problem, error.remedy) from None
    return FeedbackGiven(
        f"import-{number}",
        id_,
        "noted" if each.reward is None else "learned",
        each.reward,
        each.elapsed_s,
        each.completed,
        reason,
        cost_usd=each.cost_usd,
    )
