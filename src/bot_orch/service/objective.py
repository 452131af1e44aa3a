"""The objective in the user's units: weights and limits of the configuration as those of the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from bot_orch.errors import InvalidInputError
from bot_orch.service.config import Config, RouterConfig, SubjectToConfig

__all__ = ["counts_dollars", "dollar_weight", "idle_weight", "typical_price", "wanted_constraints", "wanted_weights"]

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


def counts_dollars(settings: RouterConfig) -> bool:
    """Whether dollars steer the choice."""
    limits = wanted_constraints(settings)
    return wanted_weights(settings).usd > 0.0 or any(isinstance(each, Budget | Quality) for each in limits)


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
    """How far the weight of dollars moves scores apart at the prices of the agents, if that is next to nothing.

    None if it matters, if there is none, or if fewer than two agents have a price.
    """
    prices = [typical_price(msgspec.convert(each.price, Price)) for each in config.agents if each.price]
    weights = wanted_weights(config.router)
    if not weights.per_usd or len(prices) < 2 or max(prices) == min(prices):
        return None
    moved = weights.per_usd * (max(prices) - min(prices))
    return (moved, prices) if moved < LEAST else None


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
