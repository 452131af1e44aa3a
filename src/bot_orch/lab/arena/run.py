"""Run the arena into a folder: results append to a file, an interrupted run resumes where it stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from bot_orch._version import __version__
from bot_orch.core.completion.patience import PatienceRule
from bot_orch.errors import BotOrchError, InvalidInputError, MissingExtraError
from bot_orch.files import write_atomically
from bot_orch.lab.arena.conditions.catalog import PLAIN
from bot_orch.lab.arena.conditions.play import rounds_under, score_staged, staged
from bot_orch.lab.arena.league import Results, csv_text, stage_name
from bot_orch.lab.arena.now import NOW, baseline_policy, current_agent
from bot_orch.lab.arena.registry import BASELINES, BEST_SINGLE, BUDGET_BASELINES, Entrant, discover_entrants
from bot_orch.lab.arena.verdict import verdicts, write_verdicts
from bot_orch.lab.arena.wanted import options_without_effect
from bot_orch.lab.arena.warm import warm_start
from bot_orch.lab.environments.matrix.find import dataset_name, fingerprint, load_matrix
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Order, Replay, Setup
from bot_orch.lab.harness.attempts import attempt_readers, play_attempts_of
from bot_orch.lab.harness.engines import make_engine
from bot_orch.lab.harness.experiment import Unit
from bot_orch.lab.harness.figures import new_figure
from bot_orch.lab.harness.paired import agents_on_plane, fixed_agent, scored
from bot_orch.lab.harness.players import play
from bot_orch.lab.harness.replay_metrics import (
    baseline,
    baseline_readers,
    budget_baseline,
    chosen,
    score,
)
from bot_orch.lab.harness.runner import Progress, open_folder, run_missing
from bot_orch.rng import derive_keys

__all__ = ["ArenaPlan", "can_draw", "run_arena", "run_one"]

_TABLE = "arena.csv"


@dataclass(frozen=True, slots=True)
class ArenaPlan:
    """Data sets, entrants, seeds, rounds and output folder of a run.

    ``rounds`` None means every task once, and never more than ``at_most`` rounds if that is given.
    """

    paths: Sequence[Path]
    policies: Sequence[str]
    out: Path
    _: KW_ONLY
    seeds: int = 20
    rounds: int | None = None
    at_most: int | None = None
    attempts: int = 1
    patience: PatienceRule = "learned"
    orders: Sequence[Order] = ("shuffled",)
    signal: str = "log-uniform"
    jobs: int = 1
    shares: bool = False
    force: bool = False
    command: str = ""
    engine: str = "local"
    address: str | None = None
    latency_target_s: float | None = None
    cost_weight: float = 0.0
    budget_usd: float | None = None
    conditions: Sequence[str] = (PLAIN,)
    baseline: str | None = None

    @property
    def baseline_policy(self) -> str | None:
        """The policy or computed baseline that others are compared with; None for an agent, the row ``now``."""
        return baseline_policy(self.paths, self.baseline, budget=bool(self.budget_usd))[0]

    def settings(self) -> dict[str, Any]:
        """What determines the results of a unit, written beside them. Names of policies may be added later."""
        return {
            "datasets": {dataset_name(path): fingerprint(path) for path in self.paths},
            **self._common(),
            "version": __version__,
        }

    def units(self) -> list[dict[str, Any]]:
        """Every (data set, order, condition, policy), baselines first."""
        common = self._common()
        return [
            {"path": str(path), "dataset": dataset_name(path), "order": order, "policy": policy, **common, **under}
            for path in self.paths
            for order in self.orders
            for under in ({} if name == PLAIN else {"condition": name} for name in self.conditions)
            for policy in (*self._baselines(now=not under), *self.policies)
        ]

    def _baselines(self, *, now: bool) -> list[str]:
        budget = BUDGET_BASELINES if self.budget_usd else ()
        return [*BASELINES, *budget, *([NOW] if now and self.baseline_policy is None else [])]

    def _common(self) -> dict[str, Any]:
        wanted = {
            "at_most": self.at_most,
            "attempts": self.attempts if self.attempts > 1 else None,
            "patience": self.patience if self.attempts > 1 else None,
            "latency_target_s": self.latency_target_s,
            "cost_weight": self.cost_weight,
            "budget_usd": self.budget_usd,
            "baseline": self.baseline if self.baseline_policy is None else None,
        }
        return {
            "seeds": self.seeds,
            "rounds": self.rounds,
            "signal": self.signal,
            **{name: value for name, value in wanted.items() if value},
        }


def run_one(unit: Mapping[str, Any]) -> dict[str, Any]:
    """Replay one policy over one data set in one order; returns metrics over seeds, shares and the curve."""
    matrix = load_matrix(Path(unit["path"]))
    rounds = unit["rounds"] or len(matrix.playable)
    rounds = min(rounds, unit.get("at_most") or rounds)
    options: dict[str, Any] = {
        "signal": unit["signal"],
        "latency_target_s": unit.get("latency_target_s"),
        "cost_weight": unit.get("cost_weight", 0.0),
        "budget_usd": unit.get("budget_usd"),
    }
    name, condition = unit["policy"], unit.get("condition", PLAIN)
    replay: Replay
    if condition == PLAIN:
        replay = Replay(matrix, unit["order"], rounds, seeds=range(unit["seeds"]), **options)
    else:
        rounds = rounds_under(condition, unit["rounds"], rounds)
        under = staged(matrix, condition, unit["order"], rounds=rounds, seeds=unit["seeds"], **options)
        if name not in BASELINES and name not in BUDGET_BASELINES:
            entrant = discover_entrants()[name]
            return {**score_staged(entrant.build, under), "kind": entrant.kind}
        replay = under.scored()
    if name == NOW:
        agent, why = current_agent(matrix, unit.get("baseline"))
        found = scored(replay, fixed_agent(replay, matrix.agents.index(agent)))
        return {**found, "kind": "baseline", "agent": agent, "why": why}
    if name in BUDGET_BASELINES:
        found = {**scored(replay, budget_baseline(replay, name, unit["budget_usd"])), "kind": "baseline"}
        return {
            **found,
            "budget_usd": unit["budget_usd"],
        }
    if name in BASELINES:
        found = scored(replay, baseline(replay, name), own=baseline_readers(replay, name))
        if name == BEST_SINGLE and condition == PLAIN and not unit.keys() & {"attempts", "budget_usd"}:
            found["warm"] = warm_start(replay)
        return {**found, "kind": "baseline", **(agents_on_plane(replay) if name == "random" else {})}
    entrant = discover_entrants()[name]
    if unit.get("attempts", 1) > 1:
        return {**_attempted(unit, replay, entrant), "kind": entrant.kind}
    player = entrant.build(replay.setup)
    trace = play(player, replay)
    found = scored(replay, chosen(replay, trace.agent), feature_time=player.uses_features)
    return {**found, "kind": entrant.kind}


def _attempted(unit: Mapping[str, Any], replay: Replay, entrant: Entrant) -> dict[str, Any]:
    """Score rounds of several attempts; shares are those of the first ones. No verdict: its sums are of one attempt."""
    settings = {"signal": unit["signal"]}
    trace = play_attempts_of(replay, entrant.build, unit["attempts"], rule=unit["patience"], settings=settings)
    return score(replay, chosen(replay, trace.agent), own=attempt_readers(replay, trace))


def run_arena(plan: ArenaPlan, progress: Progress) -> Path:
    """Run what is missing, write the page, ``verdict.json`` and then ``arena.csv``; returns the page's path.

    Without the extra that draws figures there is no page, and the path is that of ``arena.csv``.
    """
    _preflight(plan)
    wanted = json.loads(json.dumps(plan.settings()))
    open_folder(plan.out, wanted, force=plan.force, table=_TABLE)
    results = _run_missing(plan, progress)
    found = verdicts(results, plan.baseline_policy)
    page = None
    if can_draw():
        from bot_orch.lab.arena.page import write_page  # draws figures: matplotlib, only here

        page = write_page(plan.out, results, plan.command, verdicts=found, progress=progress)
    write_verdicts(plan.out, found)
    # last: its presence means the run is complete
    write_atomically(plan.out / _TABLE, csv_text(results, shares=plan.shares).encode())
    return page or plan.out / _TABLE


def can_draw() -> bool:
    """Whether the extra that draws figures is installed."""
    try:
        new_figure(1, 1, 1, 1)
    except MissingExtraError:
        return False
    return True


def _preflight(plan: ArenaPlan) -> None:
    """Fail before the first unit: unreadable files, missing libraries."""
    options_without_effect(
        plan.paths,
        budget_usd=plan.budget_usd,
        cost_weight=plan.cost_weight,
        latency_target_s=plan.latency_target_s,
        signal=plan.signal,
    )
    if plan.attempts > 1 and set(plan.conditions) != {PLAIN}:
        raise InvalidInputError("--conditions", "is given beside --attempts", "pass one of them")
    for path in plan.paths if plan.attempts > 1 else ():
        _check_attempts(plan, load_matrix(path))
    setup = Setup(2, 1, 1, keys=derive_keys(["preflight"], [0]), inputs=1)
    entrants = discover_entrants()
    for name in plan.policies:
        entrants[name].build(setup)


def _check_attempts(plan: ArenaPlan, matrix: Matrix) -> None:
    if matrix.runtime is None or not matrix.runtime_only:
        remedy = "pass sets with time_s, event and cutoff_s and no reward"
        raise InvalidInputError("--attempts", f"{matrix.name} has no runtimes to learn from", remedy)
    if plan.latency_target_s or plan.cost_weight or plan.budget_usd:
        raise InvalidInputError("--attempts", "is not combined with targets, weights or budgets", "leave these out")


def _run_missing(plan: ArenaPlan, progress: Progress) -> Results:
    """Run the units that the folder's log does not hold, on the engine asked for."""
    jobs = [(f"{__name__}:run_one", Unit(" ".join(_key(unit)), unit)) for unit in plan.units()]
    engine = make_engine(plan.engine, plan.jobs, plan.address)

    def tell(done: int, total: int, what: str) -> None:
        progress(done, total, what.removeprefix(f"{__name__}:run_one "))

    try:
        results = run_missing(plan.out, jobs, engine, progress=tell)
    except BrokenProcessPool as error:
        remedy = "run the same command again to go on, with fewer --jobs if memory is short"
        raise BotOrchError(f"--jobs: a worker process was killed; {remedy}") from error
    return {_key(job[1].params): results[job[0], job[1].key] for job in jobs}


def _key(unit: Mapping[str, Any]) -> tuple[str, str, str]:
    return unit["dataset"], stage_name(unit["order"], unit.get("condition", PLAIN)), unit["policy"]
