"""Run the arena into a folder: results append to a file, an interrupted run resumes where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bot_orch._version import __version__
from bot_orch.core.completion.patience import PatienceRule
from bot_orch.core.settings import Settings
from bot_orch.errors import BotOrchError, InvalidInputError, MissingExtraError
from bot_orch.files import write_atomically
from bot_orch.lab.arena.conditions.catalog import CONDITIONS, PLAIN
from bot_orch.lab.arena.conditions.play import applies, rounds_under, score_staged, staged
from bot_orch.lab.arena.league import Results, csv_text, stage_name
from bot_orch.lab.arena.registry import (
    BASELINES,
    BEST_SINGLE,
    BUDGET_BASELINES,
    NOW,
    Entrant,
    discover_entrants,
    entrant,
    find_entrants,
)
from bot_orch.lab.arena.verdict import verdicts, write_verdicts
from bot_orch.lab.arena.warm import warm_start
from bot_orch.lab.environments.matrix.check import known_mean
from bot_orch.lab.environments.matrix.find import dataset_name, fingerprint, load_matrix
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Order, Replay, Setup
from bot_orch.lab.harness.attempts import attempt_readers, play_attempts_of
from bot_orch.lab.harness.engines import make_engine
from bot_orch.lab.harness.experiment import Unit
from bot_orch.lab.harness.figures import new_figure
from bot_orch.lab.harness.players import Player, play
from bot_orch.lab.harness.replay_metrics import (
    agents_on_plane,
    baseline,
    baseline_readers,
    budget_baseline,
    chosen,
    fixed_agent,
    score,
    scored,
)
from bot_orch.lab.harness.runner import Progress, open_folder, run_missing
from bot_orch.rng import derive_keys

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
    floor: float = Settings.floor

    @property
    def baseline_policy(self) -> str | None:
        """The policy or computed baseline to compare with; None for an agent, the row ``now``."""
        return self._baseline()[0]

    @property
    def entrants(self) -> list[str]:
        """The policies, and the one they are compared with."""
        name = self.baseline_policy
        return list(dict.fromkeys([*self.policies, *([] if name is None else find_entrants([name]))]))

    def notes(self) -> list[str]:
        """Sets on which an option has no effect; raises an error if it has none on all sets."""
        left_out = [
            f"{path.name}: has no text, so the condition {name} is not played there"
            for path in self.paths
            for name in self.conditions
            if not applies(name, load_matrix(path))
        ]
        return [*self._baseline()[1], *_options_without_effect(self), *left_out]

    def _baseline(self) -> tuple[str | None, list[str]]:
        """The policy or computed baseline that ``baseline`` names, None for an agent; and notes."""
        wanted = self.baseline
        if wanted is None:
            return None, []
        without = [path for path in self.paths if wanted not in load_matrix(path).agents]
        if len(without) < len(self.paths):
            return None, [f"{p.name}: has no agent {wanted!r}; compared with the default baseline" for p in without]
        if wanted in BASELINES or wanted in discover_entrants() or (self.budget_usd and wanted in BUDGET_BASELINES):
            return wanted, []
        known = load_matrix(self.paths[0]).agents
        few = ", ".join(known[:6]) + (", ..." if len(known) > 6 else "")
        remedy = f"name an agent ({few}) or a policy of bot-orch arena --list-policies"
        raise InvalidInputError("--baseline", f"no agent and no policy {wanted!r}", remedy)

    def settings(self) -> dict[str, Any]:
        """Parameters that determine the results of a unit, written with them. Names of policies may be added later."""
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
            for under in ({} if name == PLAIN else {"condition": name} for name in self._conditions(path))
            for policy in (*self._baselines(now=not under), *self.entrants)
        ]

    def _conditions(self, path: Path) -> list[str]:
        return [name for name in self.conditions if name == PLAIN or applies(name, load_matrix(path))]

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
            "floor": self.floor,
            **{name: value for name, value in wanted.items() if value},
        }


def current_agent(matrix: Matrix, wanted: str | None) -> tuple[str, str]:
    """Return the agent that is assumed to take every task today, and the reason.

    This is the agent that the user names. Without a name it is the most expensive agent where
    dollars are known, since sending everything to the largest is what a router replaces; else the agent with the
    highest mean reward, the strongest that a table without dollars speaks for.

    Examples
    --------
    >>> toy = Matrix("toy", ("small", "large"), np.ones((1, 2)), cost_usd=np.array([[1.0, 3.0]]))
    >>> current_agent(toy, None)
    ('large', 'the most expensive agent')
    >>> current_agent(Matrix("toy", ("small", "large"), np.array([[0.5, 1.0]])), None)
    ('large', 'the agent with the highest mean reward')
    >>> current_agent(toy, "small")
    ('small', 'named by --baseline')
    """
    if wanted is not None and wanted in matrix.agents:
        return wanted, "named by --baseline"
    if matrix.cost_usd is not None:
        usd = known_mean(np.where(matrix.eligible, matrix.cost_usd, np.nan))
        if np.nanmax(usd, initial=-np.inf) > np.nanmin(usd, initial=np.inf):
            return matrix.agents[int(np.nanargmax(usd))], "the most expensive agent"
    reward = known_mean(np.where(matrix.eligible, matrix.reward, np.nan))
    return matrix.agents[int(np.nanargmax(reward))], "the agent with the highest mean reward"


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
            found = score_staged(_building(unit, entrant(name)), under, CONDITIONS[condition].attack)
            return {**found, "kind": entrant(name).kind}
        replay = under.scored()
    if name == NOW:
        agent, why = current_agent(matrix, unit.get("baseline"))
        found = scored(replay, fixed_agent(replay, matrix.agents.index(agent)))
        takes = matrix.eligible[np.unique(replay.rows), matrix.agents.index(agent)]
        gaps = {} if takes.all() else {"replaced": [int((~takes).sum()), len(takes)]}
        return {**found, "kind": "baseline", "agent": agent, "why": why, **gaps}
    if name in BUDGET_BASELINES:
        found = {**scored(replay, budget_baseline(replay, name, unit["budget_usd"])), "kind": "baseline"}
        return {
            **found,
            "budget_usd": unit["budget_usd"],
        }
    if name in BASELINES:
        found = scored(replay, baseline(replay, name), own=baseline_readers(replay, name))
        if name == BEST_SINGLE and condition == PLAIN and not unit.keys() & {"attempts", "budget_usd"}:
            found["warm"] = warm_start(replay, unit.get("floor", Settings.floor))
        return {**found, "kind": "baseline", **(agents_on_plane(replay) if name == "random" else {})}
    playing = entrant(name)
    if unit.get("attempts", 1) > 1:
        return {**_attempted(unit, replay, playing), "kind": playing.kind}
    player = _building(unit, playing)(replay.setup)
    trace = play(player, replay)
    found = scored(replay, chosen(replay, trace.agent), feature_time=player.uses_features)
    return {**found, "kind": playing.kind}


def _building(unit: Mapping[str, Any], playing: Entrant) -> Callable[[Setup], Player]:
    """How an entrant is made for a replay, with the floor of the run."""
    return lambda setup: playing.build(replace(setup, floor=unit.get("floor", 0.0)))


def _attempted(unit: Mapping[str, Any], replay: Replay, playing: Entrant) -> dict[str, Any]:
    """Score rounds with several attempts; shares count first attempts. No verdict: its sums assume one attempt."""
    settings = {"signal": unit["signal"]}
    trace = play_attempts_of(
        replay, _building(unit, playing), unit["attempts"], rule=unit["patience"], settings=settings
    )
    return score(replay, chosen(replay, trace.agent), own=attempt_readers(replay, trace))


def run_arena(plan: ArenaPlan, progress: Progress) -> Path:
    """Run missing units, write the page, ``verdict.json`` and ``arena.csv``; returns the page's path.

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
    """Whether the extra for figures is installed."""
    try:
        new_figure(1, 1, 1, 1)
    except MissingExtraError:
        return False
    return True


def _preflight(plan: ArenaPlan) -> None:
    """Fail before the first unit: unreadable files, missing libraries."""
    plan.notes()
    if plan.attempts > 1 and set(plan.conditions) != {PLAIN}:
        raise InvalidInputError("--conditions", "is given beside --attempts", "pass one of them")
    for path in plan.paths if plan.attempts > 1 else ():
        _check_attempts(plan, load_matrix(path))
    setup = Setup(2, 1, 1, keys=derive_keys(["preflight"], [0]), inputs=1)
    for name in plan.entrants:
        entrant(name).build(setup)


def _options_without_effect(plan: ArenaPlan) -> list[str]:
    """Notes on options without an effect; a budget needs dollars in every set, as its baselines use them."""
    notes = [
        f"{path.name}: has rewards, so --signal does nothing there"
        for path in plan.paths
        if plan.signal != "log-uniform" and not load_matrix(path).runtime_only
    ]
    for option, value, what in (
        ("--budget", plan.budget_usd, "cost_usd"),
        ("--cost-weight", plan.cost_weight, "cost_usd"),
        ("--latency-target", plan.latency_target_s, "seconds"),
    ):
        lacking = [path.name for path in plan.paths if value and not _has(path, what)]
        if lacking and (option == "--budget" or len(lacking) == len(plan.paths)):
            column = "cost" if what == "cost_usd" else "seconds"
            remedy = f"add a column {column} (array {'cost_usd' if column == 'cost' else 'latency_s'}), or leave it out"
            raise InvalidInputError(option, f"{lacking[0]} has no {what}", remedy)
        notes += [f"{name}: has no {what}, so {option} does nothing there" for name in lacking]
    return notes


def _has(path: Path, what: str) -> bool:
    matrix = load_matrix(path)
    return (matrix.cost_usd if what == "cost_usd" else matrix.elapsed_s) is not None


def _check_attempts(plan: ArenaPlan, matrix: Matrix) -> None:
    if matrix.runtime is None or not matrix.runtime_only:
        remedy = "pass .npz files with signal, answer or check, or with time_s, event and cutoff_s and no reward"
        raise InvalidInputError("--attempts", f"{matrix.name} has no answers and no runtimes to learn from", remedy)
    if plan.latency_target_s or plan.cost_weight or plan.budget_usd:
        raise InvalidInputError("--attempts", "is not combined with targets, weights or budgets", "leave these out")


def _run_missing(plan: ArenaPlan, progress: Progress) -> Results:
    """Run the units missing from the folder's log on the selected engine."""
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
