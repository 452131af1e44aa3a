"""Eligible agents: hard rules, the kill switch, sticky sessions, budgets and circuit breakers.

All of them narrow the set from which the policy draws, so the propensities stay exact and every decision can be derived
again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from bot_orch.agents.admission import Refusal
from bot_orch.agents.capabilities import Needs
from bot_orch.agents.guard import Guard
from bot_orch.agents.kinds.human import HumanRunner
from bot_orch.errors import UnknownAgentError
from bot_orch.log.ledger import Ledger
from bot_orch.service.config import BudgetConfig, RouterConfig, RuleConfig
from bot_orch.service.problems import Problem
from bot_orch.service.routing.requests import RequestSize

_NO_BUDGET = BudgetConfig()
_NO_SIZE, _NO_NEEDS = RequestSize(), Needs()
_OVER_BUDGET = "over budget"
_SLACK_USD = 1e-9  # rounding of sums
_SLICES = 5
_SHORTEST_S = 60.0  # spending is known by the minute
_BUDGET_S, _REFUSAL_S = 60, 1  # spending leaves the window by the minute


class RoutingConstraints(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Constraints of a request, and the facts that rules depend on.

    Parameters
    ----------
    kind
        The task's kind, which rules are written for.
    eligible
        Agents the request allows; ``None`` for all.
    session
        Requests of one session stay with one agent for a while.
    size
        For the expected price: characters of the input, images, limit of the output.
    tried
        Agents that have failed at this task already.
    calls
        Whether the service calls the agent itself, so that its concurrency limit counts.
    token
        Name of the caller's token: the decision is shown to it.
    tags
        Tags of the token and of the request, for reports of spending.
    unseen
        Whether the answer is not served but compared: who answers is the router's choice alone.
    needs
        What the request needs of an agent; those that lack it are excluded.
    chat
        Whether a client waits for the answer at the gateway: people are asked only if the settings or the request say
        so.
    made_by
        The agent whose tool calls this request has the results of: it stays with that one.
    spent_usd
        What the round has spent so far.
    continuing
        Agents that can continue the answer the client has begun to get; the others would begin again.
    """

    kind: str = ""
    eligible: tuple[str, ...] | None = None
    session: str | None = None
    size: RequestSize = _NO_SIZE
    tried: tuple[str, ...] = ()
    calls: bool = False
    token: str = ""
    tags: tuple[str, ...] = ()
    unseen: bool = False
    needs: Needs = _NO_NEEDS
    made_by: str | None = None
    chat: bool = False
    spent_usd: float = 0.0
    continuing: tuple[str, ...] = ()


@dataclass(slots=True)
class Eligibility:
    """Eligible agents, excluded agents with reasons, and the rule that decides among the eligible ones."""

    left: list[str]
    excluded: dict[str, str] = field(default_factory=dict)
    by: str = "policy"

    def drop(self, names: Collection[str], why: str) -> None:
        """Exclude agents."""
        if not names:
            return
        for name in self.left:
            if name in names:
                self.excluded[name] = why
        self.left = [name for name in self.left if name not in names]

    def keep(self, names: Collection[str], why: str) -> None:
        """Exclude all other agents."""
        self.drop([name for name in self.left if name not in names], why)

    def eligible(self, agents: tuple[str, ...]) -> tuple[str, ...] | None:
        """The eligible agents for the orchestrator; ``None`` for all."""
        return None if len(self.left) == len(agents) else tuple(self.left)


def narrow(
    constraints: RoutingConstraints,
    settings: RouterConfig,
    ledger: Ledger,
    *,
    guards: Mapping[str, Guard],
    now_us: int,
) -> Eligibility:
    """Apply all rules; raises a :class:`Problem` if no agent is left."""
    agents = ledger.router.agents
    found = Eligibility(list(agents))
    switch = ledger.kill_switch
    if constraints.chat and switch is None:
        _drop_people(found, constraints, settings, guards=guards)
    if constraints.needs != _NO_NEEDS:
        _drop_unable(found, constraints, guards)
    if constraints.eligible is not None:
        for name in constraints.eligible:
            if name not in agents:
                raise UnknownAgentError("eligible", f"{name!r} is not an agent", f"choose from {', '.join(agents)}")
    if constraints.tried:  # before sessions, which must not stay with an agent that has failed
        found.drop(constraints.tried, "already tried")
    if switch is not None and switch in agents:
        found.keep([switch], "kill switch")
        found.by = "kill switch"
    else:
        _narrow(found, constraints, settings, ledger=ledger, guards=guards, now_us=now_us)
    if any(name in constraints.continuing for name in found.left):
        found.keep(constraints.continuing, "cannot continue the answer")
    return _not_empty(found, guards)


def _is_person(guard: Guard | None) -> bool:
    return guard is not None and isinstance(guard.runner, HumanRunner)


def _drop_people(
    found: Eligibility, constraints: RoutingConstraints, settings: RouterConfig, *, guards: Mapping[str, Guard]
) -> None:
    """Exclude people from a chat, because its client times out long before they answer.

    People stay if they are set to take chats, or if the request or a rule names them; all stay if no other agent does.
    """
    named = {*(constraints.eligible or ())}
    for rule in settings.rules:
        if rule.kind is None or rule.kind == constraints.kind:
            named |= {*(rule.allow or ()), rule.pin or ""}
    people = [
        name
        for name in found.left
        if (guard := guards.get(name)) and isinstance(guard.runner, HumanRunner) and not guard.runner.chats
    ]
    if len(people) < len(found.left):
        found.drop([name for name in people if name not in named], "a person, for tasks only")


def _drop_unable(found: Eligibility, constraints: RoutingConstraints, guards: Mapping[str, Guard]) -> None:
    """Exclude agents that cannot serve the request; raises a :class:`Problem` if no allowed agent can."""
    asked = set(found.left if constraints.eligible is None else constraints.eligible)
    lacks: dict[str, str] = {}
    for name in found.left:
        missing = guards[name].capabilities.missing(constraints.needs) if name in guards else None
        if missing is not None:
            lacks[name] = missing
    if asked and asked <= lacks.keys():
        what = " or ".join(sorted({lacks[name] for name in asked}))
        message = f"no agent can serve this request, for lack of {what}; change it, or what agents lack"
        raise Problem(400, "missing_capability", message, details={"missing": {name: lacks[name] for name in asked}})
    for name, missing in lacks.items():
        found.drop([name], f"cannot: {missing}")


def _not_empty(found: Eligibility, guards: Mapping[str, Guard]) -> Eligibility:
    if not found.left:
        message = "no agent may take this task now; details.excluded says why for each"
        wait_s = _retry_after_s(found, guards)
        headers = {"retry-after": str(wait_s)}
        if _OVER_BUDGET in found.excluded.values():
            message += "; raise router.budget.window_usd, or set router.budget.on_exhausted to cheapest"
            if wait_s >= _BUDGET_S:
                headers["x-should-retry"] = "false"  # official clients would wait for minutes, in vain
        excluded = {
            name: guards[name].reason if why == Refusal.CIRCUIT and name in guards else why
            for name, why in found.excluded.items()
        }
        raise Problem(503, "no_agent", message, headers=headers, details={"excluded": excluded})
    return found


def _retry_after_s(found: Eligibility, guards: Mapping[str, Guard]) -> int:
    """Seconds until the first excluded agent may accept a task again, as far as known."""
    least_s = {_OVER_BUDGET: _BUDGET_S} | {str(each): _REFUSAL_S for each in Refusal}
    waits = [
        max(least_s[why], guards[name].retry_in_s if name in guards else 0.0)
        for name, why in found.excluded.items()
        if why in least_s
    ]
    return math.ceil(min(waits, default=_REFUSAL_S))


def _narrow(
    found: Eligibility,
    constraints: RoutingConstraints,
    settings: RouterConfig,
    *,
    ledger: Ledger,
    guards: Mapping[str, Guard],
    now_us: int,
) -> None:
    if constraints.eligible is not None:
        found.keep(constraints.eligible, "not requested")
    if settings.observe is not None and not constraints.unseen:
        _observe(found, constraints, settings.observe.baseline)
    found.drop(ledger.rollout.drained, "draining")
    for rule in settings.rules:
        if rule.kind is None or rule.kind == constraints.kind:
            _apply(found, rule)
    _admit(found, guards, calls=constraints.calls)
    if settings.budget != _NO_BUDGET:
        costs = expected_usd(found.left, guards, constraints.size)
        people = [name for name in found.left if _is_person(guards.get(name))]
        spent_usd = constraints.spent_usd
        can = _affordable(settings.budget, costs, ledger, now_us=now_us, people=people, spent_usd=spent_usd)
        for name, why in can.excluded.items():
            found.drop([name], why)
        if can.cheapest and not can.beside:
            found.by = "budget"
    if constraints.made_by in found.left:
        found.keep([constraints.made_by], "tool loop")
        found.by = "tool loop"
    elif constraints.session is not None and settings.sticky_s > 0:
        agent, time_us = ledger.sessions.get(constraints.session, ("", 0))
        if agent in found.left and now_us - time_us <= settings.sticky_s * 1e6:
            found.keep([agent], "sticky session")
            found.by = "sticky"
    if constraints.unseen:
        found.by = "shadow"


def _observe(found: Eligibility, constraints: RoutingConstraints, baseline: str) -> None:
    """Keep the baseline, unless the request names agents or the baseline cannot be asked."""
    if constraints.eligible is None and baseline in found.left:
        found.keep([baseline], "observing")
    if constraints.eligible is not None or baseline in found.left:
        found.by = "observe"


def _apply(found: Eligibility, rule: RuleConfig) -> None:
    if rule.pin is not None:
        found.keep([rule.pin], "pinned elsewhere")
        found.by = "pin"
    if rule.allow is not None:
        found.keep(rule.allow, "not allowed by a rule")
    found.drop(rule.deny, "denied by a rule")


def _admit(found: Eligibility, guards: Mapping[str, Guard], *, calls: bool) -> None:
    """Exclude agents whose guard would refuse the call; an agent with a bounded queue may be waited for.

    Without ``calls`` somebody else makes the call, and only the circuit breaker counts.
    """
    for name in tuple(found.left):
        guard = guards.get(name)
        refusal = None if guard is None else guard.refusal
        if refusal is not None and (calls or refusal is Refusal.CIRCUIT):
            found.drop([name], str(refusal))


@dataclass(frozen=True, slots=True)
class _Affordable:
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


def _affordable(
    budget: BudgetConfig,
    costs: Mapping[str, float],
    ledger: Ledger,
    *,
    now_us: int,
    people: Collection[str] = (),
    spent_usd: float = 0.0,
) -> _Affordable:
    """Agents that the budget allows, given their expected prices.

    The remaining budget excludes dollars spent and dollars reserved for calls in progress. ``people`` are never the
    cheapest remaining agent, whatever they cost: they would get all the traffic. They stay eligible too.
    """
    excluded: dict[str, str] = {}
    if budget.per_request_usd is not None:
        most = budget.per_request_usd - spent_usd + _SLACK_USD
        excluded = {name: "over budget of a request" for name, cost in costs.items() if cost > most}
    left = {name: cost for name, cost in costs.items() if name not in excluded}
    if budget.window_usd is None or budget.on_exhausted == "warn" or not left:
        return _Affordable(excluded)
    window_usd = _left(ledger, now_us, budget.window_usd, window_s=budget.window_s)
    over = [name for name, cost in left.items() if cost > window_usd]
    free = {name for name in left if name in people and name not in over}
    if free and len(free) < len(left):
        rest = {name: cost for name, cost in costs.items() if name not in free}
        return replace(_affordable(budget, rest, ledger, now_us=now_us, spent_usd=spent_usd), beside=bool(free))
    least = min(left.values())
    if len(over) == len(left) and budget.on_exhausted == "cheapest":
        dear = {name: "over budget" for name, cost in left.items() if cost > least}
        return _Affordable({**excluded, **dear}, cheapest=True)
    excluded.update(dict.fromkeys(over, "over budget"))
    if budget.pace and len(over) < len(left) and not _in_pace(budget, budget.window_usd, ledger, now_us=now_us):
        dear = {name: "over the pace of the budget" for name, cost in left.items() if cost > least}
        return _Affordable({**dear, **excluded}, cheapest=True)
    return _Affordable(excluded)


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """Dollars spent of a window's budget; ``decides``: ``pace`` or ``exhausted`` while it narrows the choice."""

    limit_usd: float
    window_s: float
    spent_usd: float
    decides: str = ""


def budget_use(budget: BudgetConfig, ledger: Ledger, guards: Mapping[str, Guard], now_us: int) -> BudgetUse | None:
    """How much of the window is used, and whether that decides about requests of usual size; None without a limit."""
    limit = budget.window_usd
    if limit is None:
        return None
    spent = ledger.spending.recent(now_us, budget.window_s)
    costs = expected_usd(guards, guards, _NO_SIZE)
    people = [name for name, guard in guards.items() if _is_person(guard)]
    window = msgspec.structs.replace(budget, per_request_usd=None)
    can = _affordable(window, costs, ledger, now_us=now_us, people=people)
    why = set(can.excluded.values())
    used_up = spent >= limit or (_OVER_BUDGET in why and len(can.excluded) >= len(costs) - 1)
    decides = "exhausted" if used_up else "pace" if can.cheapest else ""
    return BudgetUse(limit, budget.window_s, spent, decides)


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
