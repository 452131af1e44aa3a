"""Converts the objective from the configuration's units to the engine's weights and limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from bot_orch.agents.base import Usage
from bot_orch.agents.limits import Price
from bot_orch.core.constraints import (
    Budget,
    Capacity,
    Constraint,
    Deadline,
    FirstToken,
    Objective,
    Quality,
    constraint_from_spec,
)
from bot_orch.core.guarantee import Guarantee
from bot_orch.errors import InvalidInputError
from bot_orch.service.config import Config, RouterConfig, SubjectToConfig

TENTH, LEAST = 0.1, 0.02  # reward that a weight of dollars should move at least, and below which it is idle
#: What a call is taken to use until calls were paid.
TYPICAL = Usage(500, 500)


def wanted_weights(settings: RouterConfig) -> Objective:
    """The weights of quality, dollars and seconds."""
    return Objective.from_spec(settings.objective)


def wanted_constraints(settings: RouterConfig) -> tuple[Constraint, ...]:
    """The limits under ``constraints`` and ``subject_to``.

    Examples
    --------
    >>> wanted_constraints(RouterConfig(minimise="usd", subject_to=SubjectToConfig(quality_within=0.02, p95_seconds=8)))
    (Quality(within=0.02), Deadline(seconds=8.0, late=0.05))
    """
    return (*(constraint_from_spec(each) for each in settings.constraints), *_limits(settings.subject_to))


def wanted_guarantee(settings: RouterConfig) -> Guarantee | None:
    """The configured quality guarantee; None without one."""
    try:
        return Guarantee.from_spec(settings.guarantee) if settings.guarantee else None
    except InvalidInputError as error:
        raise InvalidInputError(f"config.router.{error.field}", error.problem, error.remedy) from error


def baseline_of(settings: RouterConfig, prices: Mapping[str, Price]) -> str | None:
    """The agent that dollars are compared with: that of the guarantee or of ``observe``, else the dearest agent.

    None if no agent is dearer than another one.

    Examples
    --------
    >>> baseline_of(RouterConfig(), {"small": Price(per_call_usd=0.001), "large": Price(per_call_usd=0.03)})
    'large'
    """
    named = settings.guarantee.get("baseline") or (settings.observe and settings.observe.baseline)
    if named is not None:
        return str(named)
    usual = {name: typical_price(price) for name, price in prices.items()}
    dearest = max(usual, key=usual.__getitem__, default=None)
    return dearest if dearest is not None and usual[dearest] > min(usual.values()) else None


def idle_prices(config: Config) -> tuple[str, str] | None:
    """A setting that seems to save dollars but has no effect, with the remedy; None if there is none."""
    priced = any(each.price for each in config.agents)
    saves = any(isinstance(each, Quality) for each in wanted_constraints(config.router))
    if saves and not priced:
        problem = "router.subject_to.quality_within: no agent has a price, so all cost the same"
        return problem, "give agents a price, or remove it"
    if priced and len(config.agents) > 1 and not _counts_dollars(config.router):
        weight = f"router.objective: {{usd: {dollar_weight(_prices(config)):g}}}"
        remedy = f"write {weight}, or router.minimise: usd with subject_to: {{quality_within: 0.02}}"
        return "agents.price: breaks ties between equal agents alone", remedy
    return None


def unpriced(config: Config) -> list[str]:
    """Models without a price under a limit of dollars: what they cost is not counted."""
    budget = config.router.budget
    callers = [each.limits for each in config.tokens]
    limits = [budget.per_request_usd, budget.window_usd, config.router.subject_to.usd_per_task]
    limits += [each.usd_per_day for each in callers if each is not None]
    if all(each is None for each in limits):
        return []
    return [each.id for each in config.agents if each.kind in ("openai", "anthropic") and not each.price]


def typical_price(price: Price) -> float:
    """Dollars of a call with 500 tokens read and as many written."""
    return price.cost(TYPICAL)


def dollar_weight(prices: Sequence[float]) -> float:
    """A weight at which the dearest agent has to earn a tenth more reward than the cheapest, to two digits.

    Without two different prices it takes half a cent for their difference, as between a small and a large model.

    Examples
    --------
    >>> dollar_weight([0.001, 0.01]), dollar_weight([])
    (11.0, 20.0)
    """
    spread = max(prices, default=0.0) - min(prices, default=0.0) or 0.005
    return float(f"{TENTH / spread:.2g}")


def idle_weight(config: Config) -> tuple[float, Sequence[float]] | None:
    """The largest effect of the dollar weight on scores at the agents' prices, if it is negligible.

    None if the effect matters, without a weight, or if fewer than two agents have a price.
    """
    prices = _prices(config)
    weights = wanted_weights(config.router)
    if not weights.per_usd or len(prices) < 2 or max(prices) == min(prices):
        return None
    moved = weights.per_usd * (max(prices) - min(prices))
    return (moved, prices) if moved < LEAST else None


def _counts_dollars(settings: RouterConfig) -> bool:
    """Whether dollars influence or limit the choice."""
    limits = wanted_constraints(settings)
    budget = settings.budget.per_request_usd, settings.budget.window_usd
    limited = any(isinstance(each, Budget | Quality) for each in limits) or any(each is not None for each in budget)
    return limited or wanted_weights(settings).usd > 0.0


def _prices(config: Config) -> list[float]:
    return [typical_price(msgspec.convert(each.price, Price)) for each in config.agents if each.price]


def _limits(wanted: SubjectToConfig) -> Iterator[Constraint]:
    try:
        if wanted.quality_within is not None:
            yield Quality(wanted.quality_within)
        if wanted.usd_per_task is not None:
            yield Budget(wanted.usd_per_task)
        if wanted.p95_seconds is not None:
            yield Deadline(wanted.p95_seconds)
        if wanted.p95_first_token_seconds is not None:
            yield FirstToken(wanted.p95_first_token_seconds)
        for agent, share in wanted.shares.items():
            yield Capacity(agent, share)
    except InvalidInputError as error:
        raise InvalidInputError(f"config.router.subject_to ({error.field})", error.problem, error.remedy) from error
