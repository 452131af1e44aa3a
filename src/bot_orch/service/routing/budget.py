"""The budget: the agents that a request can afford, and the amount to reserve for the chosen one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from bot_orch.agents.guard import Guard
from bot_orch.log.ledger import Ledger
from bot_orch.service.config import BudgetConfig
from bot_orch.service.routing.requests import RequestSize

__all__ = ["Affordable", "affordable", "expected_usd"]

_SLACK_USD = 1e-9  # rounding of sums
_SLICES = 5
_SHORTEST_S = 60.0  # spending is known by the minute


@dataclass(frozen=True, slots=True)
class Affordable:
    """Agents to exclude, with the reason; ``cheapest`` is set if the budget leaves only the cheapest one,
    ``beside`` whether people are eligible too.
    """

    excluded: dict[str, str]
    cheapest: bool = False
    beside: bool = False


def expected_usd(names: Iterable[str], guards: Mapping[str, Guard], size: RequestSize) -> dict[str, float]:
    """Expected price of a request by agent."""
    usage = size.usage()
    return {name: guards[name].price.cost(usage) if name in guards else 0.0 for name in names}


def affordable(
    budget: BudgetConfig, costs: Mapping[str, float], ledger: Ledger, *, now_us: int, people: Collection[str] = ()
) -> Affordable:
    """Agents that the budget allows, given their expected prices.

    The remaining budget excludes dollars spent and dollars reserved for calls in progress. ``people`` are never the
    cheapest remaining agent, whatever they cost: they would get all the traffic. They stay eligible too.
    """
    excluded: dict[str, str] = {}
    if budget.per_request_usd is not None:
        most = budget.per_request_usd + _SLACK_USD
        excluded = {name: "over budget of a request" for name, cost in costs.items() if cost > most}
    left = {name: cost for name, cost in costs.items() if name not in excluded}
    if budget.window_usd is None or not left:
        return Affordable(excluded)
    window_usd = _left(ledger, now_us, budget.window_usd, window_s=budget.window_s)
    over = [name for name, cost in left.items() if cost > window_usd]
    free = {name for name in left if name in people and name not in over}
    if free and len(free) < len(left):
        rest = {name: cost for name, cost in costs.items() if name not in free}
        return replace(affordable(budget, rest, ledger, now_us=now_us), beside=bool(free))
    least = min(left.values())
    if len(over) == len(left) and budget.on_exhausted == "cheapest":
        dear = {name: "over budget" for name, cost in left.items() if cost > least}
        return Affordable({**excluded, **dear}, cheapest=True)
    excluded.update(dict.fromkeys(over, "over budget"))
    if budget.pace and len(over) < len(left) and not _in_pace(budget, budget.window_usd, ledger, now_us=now_us):
        dear = {name: "over the pace of the budget" for name, cost in left.items() if cost > least}
        return Affordable({**dear, **excluded}, cheapest=True)
    return Affordable(excluded)


def _in_pace(budget: BudgetConfig, window_usd: float, ledger: Ledger, *, now_us: int) -> bool:
    """Whether spending is on pace: half of the budget is left, or the last fifth of the window used under a tenth.

    The first half is for bursts: an hour of work in the morning is not slowed down because the day is long.
    """
    half = window_usd / 2.0
    if _left(ledger, now_us, half, window_s=budget.window_s) > _SLACK_USD:
        return True
    slice_s = min(max(budget.window_s / _SLICES, _SHORTEST_S), budget.window_s)
    return _left(ledger, now_us, half * slice_s / budget.window_s, window_s=slice_s) > _SLACK_USD


def _left(ledger: Ledger, now_us: int, usd: float, *, window_s: float) -> float:
    used = ledger.spending.recent(now_us, window_s) + ledger.reserved.within(now_us, window_s)
    return max(usd - used, 0.0) + _SLACK_USD
