"""Who may be chosen at all: hard rules, the kill switch, sticky sessions, budgets and circuit breakers.

All of them work by narrowing the set the policy draws from, so the propensities stay exact and every decision can be
derived again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from bot_orch.agents.base import Usage
from bot_orch.agents.guard import Guard
from bot_orch.errors import UnknownAgentError
from bot_orch.eventlog.ledger import Ledger
from bot_orch.service.config import BudgetConfig, RouterConfig, RuleConfig
from bot_orch.service.problems import Problem

__all__ = ["Choice", "Wish", "narrow"]

_NO_BUDGET = BudgetConfig()
_EXPECTED_OUTPUT_TOKENS = 500
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Wish:
    """What a request asks for."""

    kind: str = ""
    eligible: tuple[str, ...] | None = None
    session: str | None = None
    text_length: int = 0
    max_tokens: int | None = None
    tried: Collection[str] = ()
    calls: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether only circuits can leave somebody out."""
        return self.eligible is None and self.session is None and not self.tried


@dataclass(slots=True)
class Choice:
    """Who is left, who is not and why, and what decides among those left."""

    left: list[str]
    excluded: dict[str, str] = field(default_factory=dict)
    by: str = "policy"

    def drop(self, names: Collection[str], why: str) -> None:
        """Leave agents out."""
        if not names:
            return
        for name in self.left:
            if name in names:
                self.excluded[name] = why
        self.left = [name for name in self.left if name not in names]

    def keep(self, names: Collection[str], why: str) -> None:
        """Leave all others out."""
        self.drop([name for name in self.left if name not in names], why)

    def eligible(self, agents: tuple[str, ...]) -> tuple[str, ...] | None:
        """What the orchestrator is told; ``None`` for everybody."""
        return None if len(self.left) == len(agents) else tuple(self.left)


def narrow(settings: RouterConfig, ledger: Ledger, guards: Mapping[str, Guard], wish: Wish, now_us: int) -> Choice:
    """Apply every rule; raises if nobody is left."""
    agents = ledger.router.agents
    choice = Choice(list(agents))
    switch = ledger.kill_switch or settings.kill_switch
    if wish.is_plain and switch is None and not settings.rules and settings.budget == _NO_BUDGET:
        choice.drop(_unavailable(agents, guards, calls=wish.calls), "circuit open or busy")
        return _somebody(choice)
    if wish.eligible is not None:
        for name in wish.eligible:
            if name not in agents:
                raise UnknownAgentError("eligible", f"{name!r} is not an agent", f"choose from {', '.join(agents)}")
    if switch is not None and switch in agents:
        choice.keep([switch], "kill switch")
        choice.by = "kill switch"
    else:
        _narrow(choice, settings, ledger, guards, wish, now_us)
    if wish.tried:
        choice.drop(wish.tried, "already tried")
    return _somebody(choice)


def _somebody(choice: Choice) -> Choice:
    if not choice.left:
        raise Problem(503, "no_agent", "no agent may take this task now", details={"excluded": choice.excluded})
    return choice


def _narrow(
    choice: Choice,
    settings: RouterConfig,
    ledger: Ledger,
    guards: Mapping[str, Guard],
    wish: Wish,
    now_us: int,
) -> None:
    if wish.eligible is not None:
        choice.keep(wish.eligible, "not requested")
    for rule in settings.rules:
        if rule.kind is None or rule.kind == wish.kind:
            _apply(choice, rule)
    if guards:
        choice.drop(_unavailable(choice.left, guards, calls=wish.calls), "circuit open or busy")
    _within_budget(choice, settings, ledger, guards, wish, now_us)
    if wish.session is not None and settings.sticky_s > 0:
        agent, time_us = ledger.sessions.get(wish.session, ("", 0))
        if agent in choice.left and now_us - time_us <= settings.sticky_s * 1e6:
            choice.keep([agent], "sticky session")
            choice.by = "sticky"


def _apply(choice: Choice, rule: RuleConfig) -> None:
    if rule.pin is not None:
        choice.keep([rule.pin], "pinned elsewhere")
        choice.by = "pin"
    if rule.allow is not None:
        choice.keep(rule.allow, "not allowed by a rule")
    choice.drop(rule.deny, "denied by a rule")


def _unavailable(names: Collection[str], guards: Mapping[str, Guard], *, calls: bool) -> list[str]:
    """Agents whose breaker is open; where this service makes the call, also those without a free place."""
    return [
        name
        for name in names
        if (guard := guards.get(name)) is not None and not (guard.available if calls else guard.breaker.ready())
    ]


def _within_budget(
    choice: Choice, settings: RouterConfig, ledger: Ledger, guards: Mapping[str, Guard], wish: Wish, now_us: int
) -> None:
    budget = settings.budget
    if budget.per_request_usd is None and budget.window_usd is None:
        return
    left = float("inf") if budget.per_request_usd is None else budget.per_request_usd
    if budget.window_usd is not None:
        left = min(left, budget.window_usd - ledger.spending.within(now_us, budget.window_s))
    tokens = Usage(wish.text_length // _CHARACTERS_PER_TOKEN, wish.max_tokens or _EXPECTED_OUTPUT_TOKENS)
    costs = {name: guards[name].price.cost(tokens) if name in guards else 0.0 for name in choice.left}
    choice.drop([name for name, cost in costs.items() if cost > max(left, 0.0)], "over budget")
