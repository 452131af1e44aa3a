"""Agents that game the judge: who refuses them, and what lambda it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.lab.arena.registry import discover_entrants
from bot_orch.lab.environments.gaming import GamingSettings, gaming_matrix
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.experiment import Experiment, Results, Scale, Unit
from bot_orch.lab.harness.players import play
from bot_orch.lab.harness.tables import ResultRow, TableView, rows_from_seeds

ALL = ("constant", "copy", "length")
#: Reverse: the more an honest agent is worth, the more freely it words its answers.
CASES: dict[str, tuple[GamingSettings, bool]] = {
    "5 agents, constant": (GamingSettings(agents=5, cheats=("constant",)), False),
    "5 agents, copy": (GamingSettings(agents=5, cheats=("copy",)), False),
    "5 agents, length": (GamingSettings(agents=5, cheats=("length",)), False),
    "5 agents, 3 cheats": (GamingSettings(agents=5, cheats=ALL), False),
    "20 agents, 3 cheats": (GamingSettings(agents=20, cheats=ALL), False),
    "60 agents, constant": (GamingSettings(tasks=2000, agents=60), False),
    "60 agents, 5 cheats": (GamingSettings(tasks=2000, agents=60, cheats=(*ALL, "copy", "length")), False),
    "10 agents, noisy, constant": (GamingSettings(agents=10, noise=1.0), False),
    "10 agents, no cheat": (GamingSettings(agents=10, cheats=()), False),
    "8 agents, no cheat, reverse": (GamingSettings(agents=8, cheats=(), noise=0.5), True),
}
METHODS = {
    "auto": "auto",
    "lambda 0": "auto-no-alignment",
    "lambda 0.1": "auto-lambda-0.1",
    "lambda 0.3": "auto-lambda-0.3",
    "lambda 1": "auto-lambda-1",
    "lambda 3": "auto-lambda-3",
    "thompson": "thompson-beta",
    "honest only": "auto-no-alignment",
}


def _units(scale: Scale) -> list[Unit]:
    cases = list(CASES)[:2] if scale.quick else list(CASES)
    seeds = scale.n_seeds(20, quick=2)
    return [
        Unit(f"{case}/{name}", {"case": case, "method": name, "seeds": seeds}) for case in cases for name in METHODS
    ]


def _run(params: Mapping[str, Any]) -> dict[str, Any]:
    settings, reverse = CASES[params["case"]]
    matrix = gaming_matrix(settings, seed=1)
    if reverse:
        matrix = replace(matrix, reward=matrix.reward[:, ::-1], true_reward=_truth(matrix)[:, ::-1])
    if params["method"] == "honest only":
        matrix = honest_only(matrix)
    replay = Replay(matrix, "shuffled", settings.tasks, seeds=range(params["seeds"]))
    agent = play(discover_entrants()[METHODS[params["method"]]].build(replay.setup), replay).agent
    cheat = np.array([name.startswith("cheat") for name in matrix.agents])
    late = cheat[agent[20 * settings.agents :]].mean(axis=0)
    return {"true_reward": _truth(matrix)[replay.rows, agent].mean(axis=0).tolist(), "late_cheats": late.tolist()}


def honest_only(matrix: Matrix) -> Matrix:
    """The same tasks without the cheats."""
    keep = [i for i, name in enumerate(matrix.agents) if name.startswith("honest")]
    columns = ("reward", "true_reward", "output_embed")
    return replace(
        matrix,
        agents=tuple(matrix.agents[i] for i in keep),
        **{name: getattr(matrix, name)[:, keep] for name in columns},
    )


def _truth(matrix: Matrix) -> Floats:
    assert matrix.true_reward is not None  # noqa: S101  (gaming matrices have it)
    return matrix.true_reward


def _rows(results: Results) -> list[ResultRow]:
    rows = []
    for key, payload in results.items():
        case, name = key.split("/")
        rows += rows_from_seeds(
            "arena-gaming", case, "bandit", method=name, lambda_=0.0, metrics=dict(payload), compare=False
        )
    return rows


EXPERIMENT = Experiment(
    id="arena-gaming",
    title="Agents that game the judge",
    about="The policy auto with lambda calibrating itself, with fixed values of lambda and without alignment, where "
    "cheats win the judge above every honest agent with outputs far from the reference. The last column is auto "
    "without alignment among the honest agents alone.",
    units=_units,
    run=_run,
    rows=_rows,
    tables=lambda: [
        TableView("True reward", "true_reward", "bandit", digits=3),
        TableView("Share of cheats after 20 rounds per agent", "late_cheats", "bandit", digits=4),
    ],
    order=60,
    default=False,
)
