"""Readings of the paper: what each changes, and how well it reproduces the tables, as z scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from bot_orch.lab.environments.stream import GivenAlignment
from bot_orch.lab.environments.synthetic.episodes import NoiseForm, with_noise
from bot_orch.lab.environments.synthetic.episodes import episodes as synthetic_episodes
from bot_orch.lab.environments.synthetic.settings import ABLATION, COMMON, ENVIRONMENTS, SETTINGS
from bot_orch.lab.environments.triage import PAPER_SPLIT, TriageCondition, episodes, load_triage, paper_alignment
from bot_orch.lab.harness.experiment import Experiment, Results, Scale, Unit
from bot_orch.lab.harness.simulate import FeedbackMode, scores, simulate, triage_scores
from bot_orch.lab.harness.tables import ResultRow, by_method, rows_from_seeds
from bot_orch.numerics.estimators import EMA, History, LastReward, MeanReward, NoHistory
from bot_orch.numerics.schedules import Constant
from bot_orch.policies.base import Policy
from bot_orch.policies.bot import Bot
from bot_orch.policies.no_ot import NoOT
from bot_orch.rng import derive_keys

#: The published tables by the experiment that reproduces them.
TABLES = ("triage", "triage-lambda", "synthetic", "synthetic-lambda")
SHIPPED = "as shipped"
_TRIAGE_ETA = 5.0


@dataclass(frozen=True, slots=True)
class Reading:
    """A choice for everything that the paper leaves open; eta None is the shipped value of the table."""

    order: FeedbackMode = "bandit"
    history: History = MeanReward()  # noqa: RUF009  (frozen)
    _: KW_ONLY
    eta: float | None = None
    noise: NoiseForm = "additive"
    level: float = COMMON.noise
    lambda_: float = COMMON.lambda_


#: All readings that were run for the section; the first is the shipped one.
READINGS: dict[str, Reading] = {
    SHIPPED: Reading(),
    "learn first, as listed": Reading("printed"),
    "all rewards seen, after the choice": Reading("full"),
    "f = 0": Reading(history=NoHistory()),
    "f = 0.05 last reward": Reading(history=LastReward()),
    "f = 0.02 mean reward": Reading(history=MeanReward(0.02)),
    "f = 0.1 mean reward": Reading(history=MeanReward(0.1)),
    "eta = 1.5": Reading(eta=1.5),
    "eta = 5": Reading(eta=5.0),
    "lambda = 1": Reading(lambda_=1.0),
    "lambda = 3": Reading(lambda_=3.0),
    "eta = 5, lambda = 1": Reading(eta=5.0, lambda_=1.0),
    "noise 1.25": Reading(level=1.25),
    "noise 2.5": Reading(level=2.5),
    "noise 0.36 of the distance": Reading(noise="relative", level=0.36),
    "noise per agent, 0.4 of its mean distance": Reading(noise="agent", level=0.4),
}


def eta_of(reading: Reading, table: str) -> float:
    """The inverse temperature of a reading in a table."""
    if reading.eta is not None:
        return reading.eta
    return _TRIAGE_ETA if table.startswith("triage") else COMMON.eta


def tables_of(name: str) -> list[str]:
    """Tables that a reading can change; all for the shipped one."""
    reading, shipped = READINGS[name], READINGS[SHIPPED]
    if name == SHIPPED:
        return list(TABLES)
    return [table for table in TABLES if _key(reading, table) != _key(shipped, table)]


def policy(reading: Reading, table: str, *, iid: bool, aligned: bool) -> Policy:
    """BOT-Orch, or No-OT: Algorithm 1 for i.i.d. tasks, Algorithm 2 for the others."""
    estimator = EMA(COMMON.alpha, NoHistory() if iid else reading.history)
    eta = Constant(eta_of(reading, table))
    return Bot(eta, estimator) if aligned else NoOT(eta, estimator)


def _key(reading: Reading, table: str) -> tuple[object, ...]:
    """The parts of a reading that a table depends on: triage has no noise, and ablations set lambda themselves."""
    learns = (reading.order, reading.history, eta_of(reading, table))
    noise = () if table.startswith("triage") else (reading.noise, reading.level)
    return (*learns, *noise, *((reading.lambda_,) if table == "synthetic" else ()))


_CONDITIONS: tuple[TriageCondition, ...] = ("iid", "noniid")
_TRIAGE_LAMBDA = 3.0
_TRIAGE_LAMBDAS = (0.0, 0.5, 1.0, 1.25, 1.5, 1.75, 2.0, 3.0, 5.0, 10.0)
_ABLATION_LAMBDAS = (0.0, 0.5, 1.0, 2.0, 5.0, 13.0)
Played = tuple[str, str, float, dict[str, list[float]]]  # environment, method, lambda, values over seeds by metric


def run_reading(params: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluate one reading on one table: z scores, and the net utility of BOT-Orch as in the main tables."""
    reading, table = READINGS[params["reading"]], params["table"]
    play = _triage if table.startswith("triage") else _synthetic
    z: list[float] = []
    cells: list[str] = []
    net: dict[str, list[float]] = {}
    for environment, method, lambda_, metrics in play(reading, table, params["seeds"]):
        found = rows_from_seeds(table, environment, "paper", method=method, lambda_=lambda_, metrics=metrics)
        for row in found:
            if row.z is not None:
                z.append(row.z)
                cells.append(f"{row.metric} of {method} in {environment}")
        if method == "bot-orch" and table in ("triage", "synthetic"):
            net[environment] = metrics["net_utility"]
    return {"z": z, "cells": cells, "net": net}


def _triage(reading: Reading, table: str, seeds: int) -> Iterator[Played]:
    data = load_triage(PAPER_SPLIT)
    for condition in _CONDITIONS:
        cases, keys = episodes(data, condition, np.arange(seeds)), derive_keys(["triage-draw", condition], range(seeds))
        runs = [("bot-orch", _TRIAGE_LAMBDA), ("no-ot", 0.0)]
        if table == "triage-lambda":
            runs = [("bot-orch", value) for value in _TRIAGE_LAMBDAS]
        for method, lambda_ in runs:
            chosen = policy(reading, table, iid=condition == "iid", aligned=method == "bot-orch")
            source = paper_alignment(cases)
            trace = simulate(chosen, cases.stream, keys, lambda_=lambda_, source=source, feedback=reading.order)
            yield f"triage-{condition}", method, lambda_, triage_scores(cases, trace, lambda_)


def _synthetic(reading: Reading, table: str, seeds: int) -> Iterator[Played]:
    for name in ENVIRONMENTS if table == "synthetic" else ABLATION:
        setting = SETTINGS[name]
        runs = synthetic_episodes(setting, range(seeds))
        seen = with_noise(runs.stream.alignment, runs.drawn.noise, reading.level, form=reading.noise)
        keys = derive_keys(["synthetic-draw", name], range(seeds))
        wanted = [("bot-orch", value) for value in _ABLATION_LAMBDAS]
        if table == "synthetic":
            wanted = [("bot-orch", reading.lambda_), ("no-ot", 0.0)]
        for method, lambda_ in wanted:
            chosen = policy(reading, table, iid=setting.iid, aligned=method == "bot-orch")
            trace = simulate(
                chosen, runs.stream, keys, lambda_=lambda_, source=GivenAlignment(seen), feedback=reading.order
            )
            printed = READINGS["as shipped"].lambda_ if table == "synthetic" and method == "bot-orch" else lambda_
            yield name, method, printed, scores(runs, trace)


_SEEDS = {"triage": 30, "triage-lambda": 30, "synthetic": 20, "synthetic-lambda": 20}
#: A reading is level with the best of a table if its rms is at most this many times as large.
_LEVEL = 1.1


def _units(scale: Scale) -> list[Unit]:
    return [
        Unit(f"{name}/{table}", {"reading": name, "table": table, "seeds": scale.n_seeds(_SEEDS[table])})
        for name in READINGS
        for table in tables_of(name)
    ]


def _rows(results: Results) -> list[ResultRow]:
    rows = []
    for key, payload in results.items():
        name, table = key.rsplit("/", 1)
        z = np.array(payload["z"])
        found = {
            "rms_z": [_rms(payload["z"])],
            "beyond_two": [float((np.abs(z) > 2.0).sum())],
            "cells": [float(z.size)],
        }
        rows += _row(table, name, found)
        for environment, values in payload["net"].items():
            rows += _row(environment, name, {"net_utility": values})
    return rows


def _row(environment: str, name: str, metrics: dict[str, list[float]]) -> list[ResultRow]:
    return rows_from_seeds("readings", environment, "paper", method=name, metrics=metrics, compare=False)


def _notes(results: Results) -> list[str]:
    rms = {tuple(key.rsplit("/", 1)): _rms(payload["z"]) for key, payload in results.items()}
    said = []
    for table in TABLES:
        here = {name: value for (name, at), value in rms.items() if at == table}
        best = min(here, key=lambda name: here[name])
        level = sorted((n for n in here if here[n] <= _LEVEL * here[best]), key=lambda name: here[name])
        said.append(f"<b>{table}</b>: {', '.join(f'{n} ({here[n]:.2f})' for n in level)}; shipped {here[SHIPPED]:.2f}")
    return [
        f"Readings nearest to each table, rms of z in brackets (all within {_LEVEL - 1:.0%} of the best): "
        + "; ".join(said)
        + ".",
        f"Largest z of the shipped reading: {_largest(results)}.",
        f"{len(READINGS)} readings were run, {len(results)} pairs of a reading and a table. Each changes the shipped "
        "one in what it names; an empty cell means that the table does not depend on it. What is open in the synthetic "
        "tables was decided on the ablation alone, by a rule (<code>python benchmarks/calibrate.py --noise</code>).",
    ]


def _largest(results: Results) -> str:
    told = []
    for table in TABLES:
        payload = results[f"{SHIPPED}/{table}"]
        at = int(np.argmax(np.abs(payload["z"])))
        told.append(f"{table} {payload['z'][at]:+.1f} ({payload['cells'][at]})")
    return "; ".join(told)


def _rms(z: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(z))))


_TABLES = [
    *(
        by_method(title, metric, "paper", columns=TABLES, digits=digits)
        for title, metric, digits in (
            ("Rms of z by reading and table", "rms_z", 2),
            ("Cells with |z| > 2", "beyond_two", 0),
            ("Cells compared: those of BOT-Orch and No-OT", "cells", 0),
        )
    ),
    by_method(
        "Net utility of BOT-Orch in triage",
        "net_utility",
        "paper",
        columns=("triage-iid", "triage-noniid"),
        note="The paper prints 108.84 and 110.61.",
    ),
]

EXPERIMENT = Experiment(
    id="readings",
    title="Which reading reproduces which table",
    about="What the paper leaves open, or states in two ways: the order of learning and choosing, the history term f "
    "and its weight, eta, lambda, the noise on alignment. Each reading is run with the same engine against every "
    "published table that depends on it. z is the difference to the published mean over its standard error, with both "
    "errors; a perfect reproduction has an rms of about 1.",
    units=_units,
    run=run_reading,
    rows=_rows,
    tables=_TABLES,
    notes=_notes,
    why="The readings that were not shipped, and how far each is from the published numbers.",
    order=26,
)
