"""The verdict: the best policy against what is done now, with intervals, in numbers and in words."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from bot_orch.files import write_atomically
from bot_orch.lab.arena.comparison import ArenaVerdict, GainInterval, WarmStartGain
from bot_orch.lab.arena.league import Results
from bot_orch.lab.arena.now import NOW
from bot_orch.lab.arena.registry import BEST_SINGLE
from bot_orch.lab.arena.warm import FEWEST
from bot_orch.lab.arena.wording import words

__all__ = ["FEWEST", "difference", "pays_from", "verdicts", "write_verdicts"]

_CONFIDENCE = 0.95
_WITHIN = 1.02  # of the budget: pacing is exact only in the long run
FILE = "verdict.json"


def verdicts(results: Results, baseline: str | None = None) -> list[ArenaVerdict]:
    """A verdict per data set and order that has a policy beside the baseline (by default the row ``now``)."""
    places = dict.fromkeys((dataset, order) for dataset, order, _ in results)
    found = (_verdict(results, dataset, order, baseline=baseline or NOW) for dataset, order in places)
    return [each for each in found if each is not None]


def write_verdicts(out: Path, found: Sequence[ArenaVerdict]) -> Path:
    """``verdict.json``, for scripts: a list under ``verdicts``; what is unknown is null."""
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
    """Number of tasks, as far as there are no more than groups."""
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
    """Mean per task of two payloads and the paired difference, with an interval for ``compared`` comparisons at once.

    The variance is that over groups of tasks plus that over seeds (Student's t, Bonferroni), so that the interval is
    for other tasks and another order, and holds for whichever of the policies was chosen.
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
    """The round after which the running total of ``mine`` is never below that of ``theirs``; None if it ends below."""
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
