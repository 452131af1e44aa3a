"""Rounds that may ask several agents, on matrices with data about answers: ``bot-orch arena SET --attempts K``.

Every round goes through :class:`bot_orch.Orchestrator`. What an answer tells (``signal``, ``check``, ``answer``) and
what it cost is shown of agents that were asked on that row, and the reward of the delivered answer alone. The second
half of the rounds is reported, for every entrant the same rows.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats, Ints
from bot_orch.core.constraints import Objective
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.core.warm import Evaluations
from bot_orch.errors import InvalidInputError
from bot_orch.files import write_atomically
from bot_orch.lab.arena.league import mean_std
from bot_orch.lab.environments.matrix.find import dataset_name, load_matrix
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.types import Answer, Outcome, Task

_ARRAYS = ("signal", "answer", "check")
_LEVELS = np.arange(0.0, 1.0, 0.05)  # quantiles of a chain's threshold


@dataclass(frozen=True, slots=True, eq=False)
class AnswerSide:
    """A matrix with data about answers; NaN or -1 where missing. ``labels``: at most one of two answers is right."""

    matrix: Matrix
    cost: Floats
    signal: Floats
    answer: Ints
    check: Floats
    labels: bool


@dataclass(slots=True, eq=False)
class RowAnswers:
    """The answers to one task. An agent must be asked, and paid, before its answer or reward is visible."""

    side: AnswerSide
    row: int
    asked: list[int] = field(default_factory=list)

    def ask(self, agent: int, decision: str = "") -> Answer:
        """The answer of an agent."""
        if agent in self.asked:
            raise RuntimeError(f"agent {agent} was asked on this row")
        self.asked.append(agent)
        side, at = self.side, (self.row, agent)
        known = int(side.answer[at])
        name = "label" if side.labels else "key"
        key: dict[str, Any] = {name: known if known >= 0 else -1 - agent} if (side.answer >= 0).any() else {}
        return Answer(
            side.matrix.agents[agent],
            decision,
            signal=None if math.isnan(side.signal[at]) else float(np.clip(side.signal[at], 0.0, 1.0)),
            check=None if side.check[at] < 0.0 else float(side.check[at]),
            cost_usd=float(side.cost[at]),
            **key,
        )

    def deliver(self, agent: int) -> float:
        """The reward of the answer of an agent that was asked."""
        if agent not in self.asked:
            raise RuntimeError(f"agent {agent} was not asked on this row")
        return float(self.side.matrix.reward[self.row, agent])

    @property
    def paid_usd(self) -> float:
        """Dollars of all answers."""
        return float(self.side.cost[self.row, self.asked].sum())


def has_answers(path: Path) -> bool:
    """Whether a file contains data about answers."""
    if path.suffix != ".npz":
        return False
    with np.load(path, allow_pickle=False) as archive:
        return any(name in archive.files for name in _ARRAYS)


def read_answers(path: Path, *, truthful: bool = False) -> AnswerSide:
    """The answer data of a set; with ``truthful``, the check is whether the reward is at least one half."""
    if path.suffix != ".npz":
        remedy = "save the arrays reward, signal, answer and check together with numpy.savez"
        raise InvalidInputError(path.name, "is no .npz file, which several attempts need", remedy)
    matrix = load_matrix(path)
    shape = matrix.reward.shape
    with np.load(path, allow_pickle=False) as archive:
        found = {name: np.asarray(archive[name]) for name in (*_ARRAYS, "label") if name in archive.files}
    for name in _ARRAYS:
        if name in found and found[name].shape != shape:
            raise InvalidInputError(f"{path.name}: {name}", f"has shape {found[name].shape}", f"give it {shape}")

    def cells(name: str, absent: float) -> npt.NDArray[Any]:
        values = found.get(name, np.full(shape, absent))
        if name == "answer" and values.dtype.kind in "US":  # equal texts are equal answers
            values = np.unique(values, return_inverse=True)[1].reshape(shape)
        try:
            return np.asarray(values, dtype=float)
        except ValueError as error:
            raise InvalidInputError(f"{path.name}: {name}", "holds texts", "give it numbers") from error

    check = np.where(matrix.reward >= 0.5, 1.0, 0.0) if truthful else cells("check", -1.0)
    cost = np.zeros(shape) if matrix.cost_usd is None else np.nan_to_num(matrix.cost_usd)
    answer = cells("answer", -1.0).astype(int)
    return AnswerSide(matrix, cost, cells("signal", math.nan), answer, check, "label" in found)


def play_round(router: Orchestrator, row: RowAnswers, task: Task, attempts: int) -> float:
    """Play one round of a router; returns its reward, which it learns."""
    place = {name: index for index, name in enumerate(router.agents)}
    seen: tuple[Answer, ...] = ()
    while True:
        decision = router.decide(task, seen=seen, attempts=attempts)
        agent = place[decision.agent]
        if decision.action == "accept":
            break
        seen = (*seen, row.ask(agent, decision.id))
        if attempts == 1:
            break
    reward = row.deliver(agent)
    paid = seen[0].cost_usd if attempts == 1 else None
    router.observe(decision.id, Outcome.completed(reward, cost_usd=paid))
    return reward


#: Rows of one entrant: reward, dollars and agents asked, (rounds, 3).
_Rows = Floats
_Entrant = Callable[[AnswerSide, Ints, int], _Rows]


def _routed(
    side: AnswerSide, rows: Ints, seed: int, *, weight: float, attempts: int, evaluated: Ints | None = None
) -> _Rows:
    """``auto``, after a warm start from the ``evaluated`` rows if there are any."""
    router = Orchestrator(side.matrix.agents, seed=seed, objective=Objective(usd=weight), ids="derived")
    if evaluated is not None and len(evaluated):
        router.learn_from(_evaluations(side, evaluated))
    found = np.empty((len(rows), 3))
    for t, row in enumerate(rows.tolist()):
        shown = RowAnswers(side, row)
        features = () if side.matrix.features is None else tuple(side.matrix.features[row].tolist())
        reward = play_round(router, shown, Task(features=features), attempts)
        found[t] = reward, shown.paid_usd, len(shown.asked)
    return found


def _evaluations(side: AnswerSide, rows: Ints) -> Evaluations:
    """All outcomes and answers of some rows, as a router sees them one by one."""
    answer = side.answer[rows].astype(float)
    unknown = -1.0 - np.arange(answer.shape[1])  # an unknown answer equals no other one
    answers = {"signal": np.clip(side.signal[rows], 0.0, 1.0), "cost_usd": side.cost[rows]}
    answers["check"] = np.where(side.check[rows] < 0.0, np.nan, side.check[rows])
    if (side.answer >= 0).any():
        answers["label" if side.labels else "key"] = np.where(answer < 0.0, unknown, answer)
    features = None if side.matrix.features is None else side.matrix.features[rows]
    return Evaluations(tuple(side.matrix.agents), side.matrix.reward[rows], features, answers=answers)


def _best_single(side: AnswerSide, rows: Ints, _: int, *, weight: float) -> _Rows:
    agent = int(np.nanmean(side.matrix.reward - weight * side.cost, axis=0).argmax())
    return np.stack([side.matrix.reward[rows, agent], side.cost[rows, agent], np.ones(len(rows))], axis=1)


def _oracle(side: AnswerSide, rows: Ints, _: int, *, weight: float) -> _Rows:
    best = np.nan_to_num(side.matrix.reward[rows] - weight * side.cost[rows], nan=-9.0).argmax(axis=1)
    return np.stack([side.matrix.reward[rows, best], side.cost[rows, best], np.ones(len(rows))], axis=1)


def _chain(side: AnswerSide, rows: Ints, _: int, *, weight: float, hindsight: bool) -> _Rows:
    """The best two-step chain with a threshold on the first signal or check, fitted to all outcomes of some rows."""
    half = len(rows) // 2
    fit = rows[half:] if hindsight else rows[:half]
    sure = np.where(np.isnan(side.signal), 0.5, side.signal) + 2.0 * np.maximum(side.check, 0.0)
    best, value = (0, 0, -math.inf), -math.inf
    for i in range(len(side.matrix.agents)):
        for threshold in (-math.inf, *np.quantile(sure[fit, i], _LEVELS)):
            for j in range(len(side.matrix.agents)):
                net = _chained(side, fit, (i, j, float(threshold)), sure) @ np.array([1.0, -weight, 0.0])
                if net.mean() > value:
                    best, value = (i, j, float(threshold)), net.mean()
    return _chained(side, rows, best, sure)


def _chained(side: AnswerSide, rows: Ints, chain: tuple[int, int, float], sure: Floats) -> _Rows:
    i, j, threshold = chain
    goes_on = (sure[rows, i] <= threshold) & (i != j)
    reward = np.where(goes_on, side.matrix.reward[rows, j], side.matrix.reward[rows, i])
    cost = side.cost[rows, i] + goes_on * side.cost[rows, j]
    return np.stack([reward, cost, 1.0 + goes_on], axis=1)


def _vote(side: AnswerSide, rows: Ints, _: int) -> _Rows:
    """The majority of all agents; ties go to the answer of the agent with the largest mean reward."""
    strength = np.nanmean(side.matrix.reward, axis=0)
    equal = side.answer[rows][:, :, None] == side.answer[rows][:, None, :]
    votes = np.where(side.answer[rows] >= 0, equal.sum(axis=2), 0) + 1e-3 * strength
    chosen = votes.argmax(axis=1)
    reward = side.matrix.reward[rows, chosen]
    return np.stack([reward, side.cost[rows].sum(axis=1), np.full(len(rows), float(votes.shape[1]))], axis=1)


def _entrants(side: AnswerSide, weight: float, attempts: int, evaluated: Ints) -> dict[str, _Entrant]:
    routed = partial(_routed, weight=weight)
    found: dict[str, _Entrant] = {f"auto, {attempts} attempts": partial(routed, attempts=attempts)}
    if len(evaluated):
        found[f"auto, {attempts}, warm start"] = partial(routed, attempts=attempts, evaluated=evaluated)
    found |= {
        "auto, 1 attempt": partial(routed, attempts=1),
        "best single (hindsight)": partial(_best_single, weight=weight),
        "chain (hindsight)": partial(_chain, weight=weight, hindsight=True),
        "chain (first half)": partial(_chain, weight=weight, hindsight=False),
        "oracle": partial(_oracle, weight=weight),
    }
    return found | ({"vote of all": _vote} if (side.answer >= 0).any() else {})


def _hull(side: AnswerSide, rows: Ints, dollars: float) -> float:
    """Mean reward of the best mix of two fixed agents that costs ``dollars`` a task."""
    points = sorted(zip(side.cost[rows].mean(axis=0), np.nanmean(side.matrix.reward[rows], axis=0), strict=True))
    best = max((reward for cost, reward in points if cost <= dollars), default=math.nan)
    for cost, reward in points:
        for cost2, reward2 in points:
            if cost <= dollars < cost2:
                best = max(best, reward + (reward2 - reward) * (dollars - cost) / (cost2 - cost))
    return float(best)


def run_answers(
    paths: Sequence[Path],
    out: Path,
    *,
    attempts: int,
    weight: float,
    seeds: int,
    rounds: int | None,
    truthful: bool,
    evaluated: int,
    prices: Mapping[str, float],
    tell: Callable[[str], None],
) -> Path:
    """Play every set and write ``arena.csv`` and ``verdict.json``; returns the path of the table.

    ``prices`` are dollars per answer of agents, in place of those of the sets.

    The first ``evaluated`` rows of every order are played by nobody: one entrant begins with all their outcomes.
    """
    table, verdict = io.StringIO(), []
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(("dataset", "policy", "metric", "mean", "std", "seeds"))
    for path in paths:
        side = _priced(read_answers(path, truthful=truthful), prices)
        results = play_all(side, attempts=attempts, weight=weight, seeds=seeds, rounds=rounds, evaluated=evaluated)
        for line in _lines(dataset_name(path), results, writer):
            tell(line)
        verdict.append(_verdict(dataset_name(path), results, attempts))
        tell(f"{verdict[-1]['text']}\n")
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "verdict.json", json.dumps({"verdicts": verdict}, indent=1).encode())
    write_atomically(out / "arena.csv", table.getvalue().encode())
    return out / "arena.csv"


def _priced(side: AnswerSide, prices: Mapping[str, float]) -> AnswerSide:
    """The set with other dollars per answer of some agents."""
    cost, agents = side.cost.copy(), list(side.matrix.agents)
    for name, usd in prices.items():
        if name not in agents:
            problem = f"names {name!r}, which is no agent of {side.matrix.name}"
            raise InvalidInputError("--price", problem, f"choose from {', '.join(agents)}")
        cost[:, agents.index(name)] = usd
    return replace(side, cost=cost)


#: By entrant: reward, dollars, agents asked and net reward over the second half of the rounds, (seeds, 4).
_Results = Mapping[str, Floats]


def play_all(
    side: AnswerSide, *, attempts: int, weight: float, seeds: int, rounds: int | None, evaluated: int = 0
) -> _Results:
    """Every entrant on the same rows of every order."""
    playable, found = np.flatnonzero(np.isfinite(side.matrix.reward).all(axis=1)), dict[str, list[Floats]]()
    if evaluated > len(playable) - 2:
        remedy = f"pass less than {len(playable) - 1}"
        raise InvalidInputError("--warm-start", f"leaves no two of {len(playable)} rows to play", remedy)
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(playable)
        rows = order[evaluated : evaluated + (rounds or len(playable))]
        half = len(rows) // 2
        for name, play in _entrants(side, weight, attempts, order[:evaluated]).items():
            mean = play(side, rows, seed)[half:].mean(axis=0)
            found.setdefault(name, []).append(np.append(mean, mean[0] - weight * mean[1]))
        own = found[f"auto, {attempts} attempts"][-1]
        hull = _hull(side, rows[half:], float(own[1]))
        found.setdefault("hull at its cost", []).append(np.array([hull, own[1], 1.0, hull - weight * own[1]]))
    return {name: np.stack(values) for name, values in found.items()}


def _lines(dataset: str, results: _Results, writer: Any) -> list[str]:
    lines = [f"{dataset:<26}{'reward':>9}{'dollars':>12}{'asked':>7}{'net':>9}"]
    for name, values in results.items():
        mean = values.mean(axis=0)
        lines.append(f"  {name:<24}{mean[0]:>9.4f}{mean[1]:>12.3g}{mean[2]:>7.2f}{mean[3]:>9.4f}")
        for metric, column in zip(("reward", "cost_usd", "asked", "net"), values.T, strict=True):
            m, std, n = mean_std(column.tolist())
            writer.writerow((dataset, name, metric, f"{m:.10g}", f"{std:.10g}", n))
    return lines


def _verdict(dataset: str, results: _Results, attempts: int) -> dict[str, Any]:
    """Paired differences to single choice by the same policy, with 95 % intervals."""
    found: dict[str, Any] = {"dataset": dataset}
    ours, single = results[f"auto, {attempts} attempts"], results["auto, 1 attempt"]
    for column, metric in ((0, "reward"), (1, "dollars"), (3, "net")):
        difference = ours[:, column] - single[:, column]
        spread = 1.96 * difference.std(ddof=1) / math.sqrt(len(difference)) if len(difference) > 1 else math.nan
        found[metric] = [float(difference.mean()), float(spread)]
    (r, rs), (d, ds), (n, ns) = found["reward"], found["dollars"], found["net"]
    found["text"] = (
        f"{dataset}: {attempts} attempts against one: reward {r:+.4f} +- {rs:.4f}, dollars {d:+.3g} +- {ds:.2g}, "
        f"net {n:+.4f} +- {ns:.4f}"
    )
    return found
