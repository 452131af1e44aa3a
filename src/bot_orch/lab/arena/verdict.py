"""The verdict: the best policy against the current practice, with intervals, in numbers and words."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from bot_orch.files import write_atomically
from bot_orch.lab.arena.league import Results
from bot_orch.lab.arena.registry import BEST_SINGLE, NOW
from bot_orch.lab.arena.warm import FEWEST


@dataclass(frozen=True, slots=True)
class GainInterval:
    """Means per task of two policies, and their paired difference with an interval."""

    policy: float
    baseline: float
    difference: float
    _: KW_ONLY
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 or -1 where the interval excludes zero, else 0."""
        return int(self.low > 0.0) - int(self.high < 0.0)


@dataclass(frozen=True, slots=True)
class WarmStartGain:
    """The default router, taught half of the tasks, on the other half, against the best single agent of the first.

    ``agent`` is that one, in most of the orders if they differ; ``differences`` are by metric.
    """

    taught: int
    played: int
    seeds: int
    _: KW_ONLY
    agent: str
    metric: str
    differences: dict[str, GainInterval]


@dataclass(frozen=True, slots=True)
class ArenaVerdict:
    """Verdict on one data set in one order.

    Attributes
    ----------
    policy, baseline
        The best of ``compared`` policies by ``metric``, and what it is compared with (``agent`` if that is an agent).
    outcome
        ``better``, ``worse``, ``no difference``, ``cheaper`` (no difference in reward, fewer dollars), ``trade``
        (less reward for fewer dollars), ``within budget`` (which the baseline exceeds) or ``too few tasks``.
    differences
        By metric: ``reward``, and ``cost_usd`` and ``net`` where they are known.
    pays_from
        The round from which the running total of ``metric`` stays above the baseline's; None if it never does.
    best_single, mix
        Reward of the best single agent, and of the best fixed mix at the policy's own cost; both in hindsight.
    warm
        The same question for a user who holds the table; None where it was not asked (runtimes, budgets, fewer than 40
        tasks).
    replaced
        Tasks that ``agent`` has no value for, and all tasks: a random other agent stands for it there.
    policies
        The same comparison for every policy: differences by metric.
    """

    dataset: str
    order: str
    policy: str
    _: KW_ONLY
    baseline: str
    agent: str | None
    why: str
    metric: str
    compared: int
    outcome: str
    rounds: int
    seeds: int
    differences: dict[str, GainInterval]
    pays_from: int | None
    best_single: float
    mix: float | None
    net_weight: float | None
    budget_usd: float | None
    warm: WarmStartGain | None = None
    replaced: tuple[int, int] = (0, 0)
    policies: dict[str, dict[str, GainInterval]] = field(default_factory=dict)
    text: str = ""


_CONFIDENCE = 0.95
_WITHIN = 1.02  # of the budget: pacing is exact only in the long run
FILE = "verdict.json"


def verdicts(results: Results, baseline: str | None = None) -> list[ArenaVerdict]:
    """A verdict per data set and order that has a policy other than the baseline (by default the row ``now``)."""
    places = dict.fromkeys((dataset, order) for dataset, order, _ in results)
    found = (_verdict(results, dataset, order, baseline=baseline or NOW) for dataset, order in places)
    return [each for each in found if each is not None]


def write_verdicts(out: Path, found: Sequence[ArenaVerdict]) -> Path:
    """Write ``verdict.json`` for scripts: a list under ``verdicts``; unknown values are null."""
    document = {"confidence": _CONFIDENCE, "verdicts": [_plain(asdict(each)) for each in found]}
    write_atomically(out / FILE, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())
    return out / FILE


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _verdict(results: Results, dataset: str, order: str, *, baseline: str) -> ArenaVerdict | None:
    here = {policy: payload for (name, turn, policy), payload in results.items() if (name, turn) == (dataset, order)}
    base = here.get(baseline)
    rivals = {name: each for name, each in here.items() if each["kind"] != "baseline" and name != baseline}
    if base is None or "groups" not in base or not rivals or any("groups" not in each for each in rivals.values()):
        return None
    metric = "net" if "net" in base["groups"] else "reward"
    budget = here.get("hull", {}).get("budget_usd")
    every = {
        name: {key: difference(each, base, key, compared=len(rivals)) for key in base["groups"]}
        for name, each in rivals.items()
    }
    kept = [name for name in rivals if budget is None or every[name]["cost_usd"].policy <= _WITHIN * budget]
    best = max(kept or rivals, key=lambda name: every[name][metric].policy)
    mine = every[best]
    verdict = ArenaVerdict(
        dataset,
        order,
        best,
        baseline=baseline,
        agent=base.get("agent"),
        why=base.get("why", "named by --baseline"),
        metric=metric,
        compared=len(rivals),
        outcome=_outcome(mine, metric, budget) if _tasks(base) >= FEWEST else "too few tasks",
        rounds=int(base["rounds"]),
        seeds=len(base["metrics"]["reward"]),
        differences=mine,
        pays_from=pays_from(rivals[best], base, metric),
        best_single=float(np.mean(here[BEST_SINGLE]["metrics"]["reward"])) if BEST_SINGLE in here else math.nan,
        mix=_mix(here, mine),
        warm=_warm(here.get(BEST_SINGLE, {}).get("warm")),
        net_weight=base.get("net_weight"),
        budget_usd=budget,
        replaced=tuple(base.get("replaced", (0, 0))),
        policies=every,
    )
    return replace(verdict, text=words(verdict))


def _warm(found: dict[str, Any] | None) -> WarmStartGain | None:
    if not found:
        return None
    ours, theirs = found["policy"], found["single"]
    gains = {metric: difference(ours, theirs, metric) for metric in ours["groups"]}
    about = {name: found[name] for name in ("taught", "played", "seeds", "agent", "metric")}
    return WarmStartGain(**about, differences=gains)


def _tasks(base: dict[str, Any]) -> int:
    """Number of tasks, at most the number of groups."""
    return sum(n > 0 for n in base["groups"]["reward"]["n"])


def _outcome(mine: dict[str, GainInterval], metric: str, budget: float | None) -> str:
    if budget is not None and mine["cost_usd"].policy <= _WITHIN * budget < mine["cost_usd"].baseline:
        return "within budget"
    sign, cheaper = mine[metric].sign, "cost_usd" in mine and mine["cost_usd"].sign < 0
    if sign > 0:
        return "better"
    if metric == "reward" and cheaper:
        return "trade" if sign < 0 else "cheaper"
    return "worse" if sign < 0 else "no difference"


def difference(mine: dict[str, Any], theirs: dict[str, Any], metric: str, *, compared: int = 1) -> GainInterval:
    """Mean per task of two payloads and their paired difference, with an interval for ``compared`` comparisons.

    The variance is that over groups of tasks plus that over seeds (Student's t, Bonferroni), so that the interval is
    for other tasks and another order, and holds for any choice among the policies.
    """
    a, b = mine["groups"][metric], theirs["groups"][metric]
    (n, total), (m, other) = ((np.array(each["n"], float), np.array(each["sum"], float)) for each in (a, b))
    one, two = total.sum() / n.sum(), other.sum() / m.sum()
    rest = (total - one * n) / n.sum() - (other - two * m) / m.sum()
    groups = int(((n > 0) | (m > 0)).sum())
    ours, others = (np.array(each["metrics"].get(metric, [0.0]), float) for each in (mine, theirs))
    gap = ours - others
    over_seeds = gap.var(ddof=1) / len(gap) if len(gap) > 1 else 0.0
    if groups < 2:
        return GainInterval(float(one), float(two), float(one - two), low=math.nan, high=math.nan)
    error = math.sqrt(groups / (groups - 1) * float((rest**2).sum()) + float(np.nan_to_num(over_seeds)))
    reach = error * float(stats.t.ppf(1.0 - (1.0 - _CONFIDENCE) / 2.0 / compared, groups - 1))
    centre = float(one - two)
    return GainInterval(float(one), float(two), centre, low=centre - reach, high=centre + reach)


def pays_from(mine: dict[str, Any], theirs: dict[str, Any], metric: str) -> int | None:
    """The round from which the cumulative ``mine`` is never below ``theirs``; None if it ends below."""
    ahead = np.array(mine["totals"][metric]) - np.array(theirs["totals"][metric])
    at = mine["totals"]["round"]
    behind = np.flatnonzero(ahead < -1e-9)
    if not len(behind):
        return 1
    return None if behind[-1] == len(at) - 1 else int(at[behind[-1] + 1])


def _mix(here: dict[str, dict[str, Any]], mine: dict[str, GainInterval]) -> float | None:
    """The reward on the hull of fixed agents at the policy's own cost."""
    fixed = here.get("random", {}).get("fixed")
    if fixed is None or "cost_usd" not in mine:
        return None
    cost, reward = zip(*fixed["hull"], strict=True)
    return float(np.interp(mine["cost_usd"].policy, cost, reward))


def words(verdict: ArenaVerdict) -> str:
    """A few sentences: the recommendation, then the numbers behind it."""
    parts = [f"{verdict.dataset} ({verdict.order} order): {_advice(verdict)}"]
    if verdict.replaced[0]:
        gaps, tasks = verdict.replaced
        parts.append(f"In {gaps} of {tasks} tasks {verdict.agent} has no value: a random other agent stands for it.")
    parts += [_gain(name, verdict.differences[name]) for name in ("reward", "cost_usd") if name in verdict.differences]
    if "net" in verdict.differences:
        shown = verdict.differences["net"]
        parts.append(f"Net reward, a dollar counted as {verdict.net_weight:.4g}: {_numbers(shown, '.4f')}.")
    parts += [*_exchange(verdict), *_payback(verdict), *_yardsticks(verdict), _basis(verdict)]
    return " ".join(parts)


def _advice(v: ArenaVerdict) -> str:
    now = _now(v)
    chosen = f"{v.policy}, the best of {v.compared} policies," if v.compared > 1 else v.policy
    if v.outcome == "too few tasks":
        return f"too few tasks to decide: keep {now}, and evaluate 20 tasks at least."
    if v.outcome == "better":
        return f"use {v.policy} instead of {now}."
    if v.outcome == "within budget":
        return f"use {chosen.rstrip(',')}: {now} exceeds the budget of {v.budget_usd:.3g} dollars per task."
    if v.outcome == "cheaper":
        return f"use {v.policy} instead of {now} to save money, if it may cost up to {_loss(v)}."
    if v.outcome == "trade":
        return f"{chosen} earns less reward than {now} and costs less."
    if v.outcome == "worse":
        return f"keep {now}: {chosen} earns less."
    return f"keep {now}: no difference found between it and {chosen.rstrip(',')}."


def _loss(v: ArenaVerdict) -> str:
    """The most reward that the interval leaves possible to lose."""
    reward = v.differences["reward"]
    share = f" ({-100.0 * reward.low / reward.baseline:.0f} %)" if reward.baseline > 0.0 else ""
    return f"{-reward.low:.4f} of reward per task{share}"


def _now(v: ArenaVerdict) -> str:
    return v.baseline if v.agent is None else f"sending everything to {v.agent}"


def _gain(name: str, d: GainInterval) -> str:
    if name == "reward":
        if math.isnan(d.low):
            return f"Reward per task: {d.policy:.4f} against {d.baseline:.4f}; too few tasks for an interval."
        none = "no difference found, " if d.sign == 0 else ""
        return f"Reward per task: {none}{_numbers(d, '.4f')}."
    share = f", {100.0 * d.difference / d.baseline:+.0f} %" if d.baseline > 0.0 else ""
    none = "no difference found, " if d.sign == 0 and not math.isnan(d.low) else ""
    return f"Dollars per task: {none}{_numbers(d, '.3g')}{share}."


def _numbers(d: GainInterval, form: str) -> str:
    sign = f"+{form}"
    ends = "" if math.isnan(d.low) else f" [{d.low:{sign}}, {d.high:{sign}}]"
    return f"{d.policy:{form}} against {d.baseline:{form}}, {d.difference:{sign}}{ends}"


def _exchange(v: ArenaVerdict) -> list[str]:
    """The value of a dollar at which reward and dollars balance, if they point in opposite directions."""
    if v.metric == "net" or "cost_usd" not in v.differences:
        return []
    reward, usd = v.differences["reward"], v.differences["cost_usd"]
    if reward.sign * usd.sign != 1:
        return []
    rate, side = reward.difference / usd.difference, "less" if usd.sign > 0 else "more"
    return [f"That pays if a dollar is worth {side} than {rate:.3g} reward (--cost-weight says what it is worth)."]


def _payback(v: ArenaVerdict) -> list[str]:
    """From which round on it pays, where a difference was found."""
    what = "net reward" if v.metric == "net" else "reward"
    if v.differences[v.metric].sign == 0:
        return []
    if v.pays_from is None:
        return [f"Its total {what} is behind after all {v.rounds} rounds."]
    if v.pays_from == 1:
        return [f"Its total {what} is never behind in {v.rounds} rounds."]
    return [f"Its total {what} is ahead for good from round {v.pays_from} of {v.rounds} on."]


def _yardsticks(v: ArenaVerdict) -> list[str]:
    found = []
    if math.isfinite(v.best_single):
        found.append(f"In hindsight, the best single agent earns {v.best_single:.4f}")
        if v.mix is not None:
            more = ", more than this policy" if v.mix > v.differences["reward"].policy else ""
            found[-1] += f", the best fixed mix of agents at the same cost {v.mix:.4f}{more}"
        found[-1] += "."
    if v.warm is not None:
        found.append(_warm_words(v.warm))
    if v.budget_usd is not None and v.differences["cost_usd"].policy > 1.02 * v.budget_usd:
        found.append(f"No policy kept the budget of {v.budget_usd:.3g} dollars per task.")
    return found


def _warm_words(w: WarmStartGain) -> str:
    """The recommendation for a user with the table: a warm start on half of it."""
    gain, what = w.differences[w.metric], "net reward" if w.metric == "net" else "reward"
    advice = {1: "use it", -1: f"keep {w.agent}", 0: "no difference found"}[gain.sign]
    return (
        f"You hold the table: with a warm start (learn_from) on {w.taught} of these tasks, auto against {w.agent}, the "
        f"best single agent of them, on the other {w.played}: {what} {_numbers(gain, '.4f')} over {w.seeds} seeds; "
        f"{advice}."
    )


def _basis(v: ArenaVerdict) -> str:
    default = "" if v.why == "named by --baseline" else f" Compared with {v.why}; --baseline names another."
    several = f", together for {v.compared} policies" if v.compared > 1 else ""
    return f"Brackets: 95 % intervals over tasks and {v.seeds} seeds{several}.{default}"
