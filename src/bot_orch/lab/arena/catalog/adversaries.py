"""Cheats that look different, and cheats that do not: lambda, audits, and both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bot_orch.arrays import Bools, Floats
from bot_orch.lab.arena.adversaries import AIM, CASES, METHODS, PLAYED, draw_adversaries, ratio
from bot_orch.lab.arena.catalog.gaming import honest_only
from bot_orch.lab.environments.gaming import gaming_matrix
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.experiment import Experiment, FigureView, Results, Scale, Unit
from bot_orch.lab.harness.players import PolicyPlayer, play
from bot_orch.lab.harness.tables import ResultRow, TableView, rows_from_seeds
from bot_orch.policies.auto import Auto

_FIRST, _PER_MATRIX = 10, 5  # seeds 0 to 9 are those that the priors were set on; every five share a matrix
_FLOOR = 0.02  # the default of an orchestrator
_QUICK_TASKS = 200


def _units(scale: Scale) -> list[Unit]:
    cases = list(CASES)[4:6] if scale.quick else list(CASES)
    common = {"seeds": scale.n_seeds(20, quick=2), "tasks": _QUICK_TASKS if scale.quick else None}
    return [Unit(f"{case}/{name}", {"case": case, "method": name, **common}) for case in cases for name in METHODS]


def _run(params: Mapping[str, Any]) -> dict[str, Any]:
    seeds = list(range(_FIRST, _FIRST + params["seeds"]))
    found: dict[str, list[float]] = {"true_reward": [], "cheats": []}
    for block in sorted({seed // _PER_MATRIX for seed in seeds}):
        mine = [seed for seed in seeds if seed // _PER_MATRIX == block]
        for name, values in _block(params, block, mine).items():
            found[name] += values.tolist()
    return found


def _block(params: Mapping[str, Any], block: int, seeds: list[int]) -> dict[str, Floats]:
    """True rewards and shares of cheats of the seeds that share a matrix."""
    case = CASES[params["case"]]
    settings = case.settings if params["tasks"] is None else replace(case.settings, tasks=params["tasks"])
    matrix = gaming_matrix(settings, seed=block, name=f"adversaries-{block}")
    if params["method"] in PLAYED and PLAYED[params["method"]].honest_only:
        matrix = honest_only(matrix)
    scored = slice(settings.tasks // 2 if case.late else 0, None)
    truth = np.zeros((0,)) if matrix.true_reward is None else matrix.true_reward
    if params["method"] not in PLAYED:
        return _baseline(matrix, truth[scored], params["method"], seeds=len(seeds))
    method = PLAYED[params["method"]]
    replay = Replay(matrix, "given", settings.tasks, seeds=seeds, audit_rate=method.audit_rate)
    agent = play(PolicyPlayer(Auto(), replay.setup, method.lambda_, floor=_FLOOR), replay).agent[scored]
    return {
        "true_reward": truth[replay.rows[scored], agent].mean(axis=0),
        "cheats": _is_cheat(matrix)[agent].mean(axis=0),
    }


def _baseline(matrix: Matrix, truth: Floats, name: str, *, seeds: int) -> dict[str, Floats]:
    cheat = _is_cheat(matrix)
    value = truth.mean() if name == "random" else truth[:, ~cheat].mean(axis=0).max()
    share = cheat.mean() if name == "random" else 0.0
    return {"true_reward": np.full(seeds, value), "cheats": np.full(seeds, share)}


def _is_cheat(matrix: Matrix) -> Bools:
    return np.array([name.startswith("cheat") for name in matrix.agents])


def _rows(results: Results) -> list[ResultRow]:
    rows = []
    for key, payload in results.items():
        case, name = key.rsplit("/", 1)
        metrics = {**payload, "of_honest_only": ratio(results, case, name).tolist()}
        rows += rows_from_seeds(
            "arena-adversaries", case, "bandit", method=name, lambda_=0.0, metrics=metrics, compare=False
        )
    return rows


def _notes(results: Results) -> list[str]:
    cases = [case for case in CASES if f"{case}/honest only" in results]
    worst = {name: min((float(ratio(results, case, name).mean()), case) for case in cases) for name in PLAYED}
    least = ", ".join(f"{name} {value:.2f} ({case})" for name, (value, case) in worst.items() if name != "honest only")
    below = [case for case in cases if ratio(results, case, "audits, lambda auto").mean() < AIM]
    told = f"below {AIM:g} in: {', '.join(below)}" if below else f"at least {AIM:g} in every case"
    return [f"Smallest share of *honest only*: {least}. Audits with lambda auto are {told}."]


EXPERIMENT = Experiment(
    id="arena-adversaries",
    title="Adversaries, alignment and audits",
    about="Cheats win the judge above every honest agent. Lambda auto compares outputs with references; audits tell "
    "the truth about a random tenth of the rounds, and the judge's bias per agent is subtracted. The policy is auto "
    "with the default floor, 1000 tasks. Honest only: the same without the cheats and without guards. Sleepers are "
    "scored from the round in which they turn. Four matrices, five seeds each; the priors of the bias were set on "
    "other matrices and seeds.",
    units=_units,
    run=_run,
    rows=_rows,
    tables=lambda: [
        TableView("True reward, relative to honest only", "of_honest_only", "bandit", digits=3),
        TableView("True reward", "true_reward", "bandit", digits=3),
        TableView("Share of cheats", "cheats", "bandit", digits=3),
    ],
    figures=lambda results: [
        FigureView(
            "adversaries",
            "True reward relative to that among the honest agents alone; bars are two standard errors over seeds.",
            partial(draw_adversaries, results),
        )
    ],
    notes=_notes,
    order=61,
    default=False,
)
