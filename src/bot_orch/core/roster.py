"""The ordered set of registered agents, and their observation of a task."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from unicodedata import normalize

import numpy as np

from bot_orch.arrays import Bools, Floats, Ints
from bot_orch.checks import is_number
from bot_orch.core.alignment import Alignment
from bot_orch.core.alignment.claims import claims_of
from bot_orch.core.constraints import Budget, Capacity, Quality, Quota
from bot_orch.core.engine import Engine, Observation
from bot_orch.core.settings import Settings
from bot_orch.errors import InvalidInputError, UnknownAgentError, require_type
from bot_orch.numerics.choice import indices
from bot_orch.types import Agent, Decision, Task


@dataclass(frozen=True)
class Roster:
    """A non-empty sequence of agents with unique names.

    Examples
    --------
    >>> roster = Roster((Agent("fast"), Agent("careful", cost=0.1)))
    >>> roster.find("careful"), roster.mask(["fast"]).tolist(), roster.cost.tolist()
    (1, [True, False], [0.0, 0.1])
    """

    agents: tuple[Agent, ...]

    def __post_init__(self) -> None:
        if not self.agents:
            raise InvalidInputError("agents", "is empty", "pass at least one agent")
        if len(self.index) != len(self.agents):
            raise InvalidInputError("agents", "holds a name twice", "give every agent its own name")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names, in order."""
        return tuple(agent.id for agent in self.agents)

    @cached_property
    def index(self) -> dict[str, int]:
        """Index by name."""
        return {name: index for index, name in enumerate(self.names)}

    @cached_property
    def places(self) -> tuple[Ints, ...]:
        """The agents' numbers, as arrays without dimensions."""
        return indices(len(self.agents))

    @cached_property
    def cost(self) -> Floats:
        """Configured costs, (M,)."""
        costs = np.array([agent.cost for agent in self.agents], dtype=float)
        costs.flags.writeable = False
        return costs

    @cached_property
    def free(self) -> bool:
        """Whether no agent has a configured cost."""
        return not self.cost.any()

    @cached_property
    def price(self) -> Floats | None:
        """Configured prices in dollars, (M,), NaN where missing; None if no agent has one."""
        prices = np.array([np.nan if agent.price is None else agent.price for agent in self.agents], dtype=float)
        return prices if np.isfinite(prices).any() else None

    def price_changes(self, agents: Iterable[Agent]) -> Floats:
        """Ratios of new to current prices, in the order of ``agents``; 1 where either is missing or zero."""
        known = {agent.id: agent.price for agent in self.agents}
        pairs = [(agent.price, known.get(agent.id)) for agent in agents]
        return np.array([new / old if new and old else 1.0 for new, old in pairs])

    @cached_property
    def described(self) -> bool:
        """Whether any agent has a configured profile."""
        return any(agent.profile is not None for agent in self.agents)

    def find(self, agent_id: str) -> int:
        """Index of an agent; raises ``UnknownAgentError`` if it is not registered."""
        if isinstance(agent_id, str) and agent_id not in self.index:
            agent_id = normalize("NFC", agent_id)
        if not isinstance(agent_id, str) or agent_id not in self.index:
            raise UnknownAgentError("agent.id", f"{agent_id!r} is not registered", f"choose from {self.names}")
        return self.index[agent_id]

    def mask(self, eligible: Collection[str] | None) -> Bools | None:
        """Boolean mask of eligible agents, (M,); None means all."""
        if eligible is None:
            return None
        if isinstance(eligible, str):
            raise InvalidInputError("eligible", f"is the text {eligible!r}", f"pass a list: [{eligible!r}]")
        require_type("eligible", eligible, Iterable, "pass names of agents, or None for all")
        mask = np.zeros(len(self.names), dtype=bool)
        for name in eligible:
            mask[self.find(name)] = True
        if not mask.any():
            raise InvalidInputError("eligible", "is empty", "name at least one agent, or pass None for all")
        return mask

    def caps(self, shares: Mapping[str, float]) -> Floats:
        """The maximum propensity of each agent, (M,); 1 without a cap."""
        require_type("caps", shares, Mapping, "pass the largest propensities by agent")
        for name, share in shares.items():
            if name not in self.index:
                raise InvalidInputError("caps", f"{name!r} is not an agent", f"choose from {', '.join(self.names)}")
            if not (is_number(share) and 0.0 <= share <= 1.0):
                raise InvalidInputError(f"caps.{name}", f"is {share!r}", "pass a share from 0 to 1")
        return np.array([shares.get(name, 1.0) for name in self.names])

    def check(self, settings: Settings) -> None:
        """Raise an error if a capacity, a quota or a guarantee is stated for an agent that is not registered."""
        promised = settings.guarantee
        if promised is not None and promised.baseline not in self.index:
            problem = f"{promised.baseline!r} is not registered"
            raise InvalidInputError("guarantee.baseline", problem, f"choose from {self.names}")
        for each in settings.constraints:
            if isinstance(each, Capacity | Quota) and each.agent not in self.index:
                problem = f"{each.agent!r} is not registered"
                raise InvalidInputError(f"constraints.{each.kind}.agent", problem, f"choose from {self.names}")

    def check_profiles(self, task: Task) -> None:
        """Raise an error for profiles of agents that are not registered."""
        for name in task.profiles:
            if name not in self.index:
                raise UnknownAgentError(f"task.profiles.{name}", "is no agent", f"choose from {self.names}")

    def check_budgets(self, settings: Settings) -> None:
        """Refuse a budget below every agent's price, if all prices are known."""
        if self.price is None or not np.isfinite(self.price).all():
            return
        least = float(self.price.min())
        for each in settings.constraints:
            if isinstance(each, Budget) and each.limit < least:
                cheapest = self.names[int(np.argmin(self.price))]
                problem = f"is {each.limit:g} per task, and {cheapest!r}, the cheapest agent, costs {least:g}"
                raise InvalidInputError("constraints.budget.usd", problem, "raise the budget, or add a cheaper agent")

    def idle_prices(self, settings: Settings) -> str:
        """Why dollars do not steer although a price or a constraint suggests it, and the remedy; empty if they do."""
        if any(isinstance(each, Quality) for each in settings.constraints) and self.price is None:
            remedy = "pass Agent(name, price=...) with Quality(within=...), or weigh dollars with Objective(usd=...)"
            return f"constraints.quality: no agent has a price, so all cost the same until outcomes say more; {remedy}"
        if any(isinstance(each, Budget) for each in settings.constraints) and self.price is None:
            remedy = "pass Agent(name, price=...), and Outcome.completed(..., cost_usd=...) where costs vary"
            return f"constraints.budget: no agent has a price, so nothing is spent until outcomes have costs; {remedy}"
        counted = settings.weights.per_usd or any(isinstance(each, Budget | Quality) for each in settings.constraints)
        if self.price is None or counted or len(self.agents) < 2:
            return ""
        remedy = "pass objective=Objective(usd=...) to weigh dollars against reward, or constraints=Quality(within=...)"
        return f"agents.price: breaks ties alone; {remedy} for the least dollars at almost the best reward"

    def comparing(self, engine: Engine) -> Engine:
        """An engine whose alignment fits the agents' configured profiles."""
        for agent in self.agents:
            engine = engine.comparing(f"agents.{agent.id}.profile", agent.profile)
        return engine

    def waiting(self, pending: Iterable[Decision]) -> Floats:
        """Number of pending decisions per agent, (M,)."""
        counts = np.zeros(len(self.names))
        for decision in pending:
            if decision.agent in self.index:
                counts[self.index[decision.agent]] += 1.0
        return counts

    def place(self, decision: Decision, values: Floats, *, absent: float = 0.0) -> Floats:
        """Reorder per-agent values of a decision to the current agents; ``absent`` for agents added since."""
        if decision.agents == self.names:
            return values
        by_name = dict(zip(decision.agents, values.tolist(), strict=True))
        return np.array([by_name.get(name, absent) for name in self.names])

    def observation(
        self, engine: Engine, task: Task, t: int, *, eligible: Collection[str] | None, pending: Floats
    ) -> Observation:
        """The observation of a task before the choice in round ``t`` (from 1); no side effects."""
        alignment = engine.alignment
        reference, profiles = None, None
        if alignment is not None:
            if task.reference is not None:
                reference = alignment.embed("task.reference", task.reference)
            profiles = self._profiles(alignment, task)
        context = _context(task, engine.settings) if engine.settings.context_width else None
        mask = None if eligible is None else self.mask(eligible)
        cost = self.cost if self.free or engine.rewards.is_unit else self.cost / engine.rewards.width
        observed = Observation(t, cost, context, eligible=mask, pending=pending, free=self.free)
        if alignment is not None:
            observed.reference, observed.profiles = reference, profiles
        if task.profiles or task.claims:
            observed.claims = claims_of(task, self.names)
        if engine.accounts or self.price is not None:
            observed.price, observed.names, observed.time_s = self.price, self.names, task.time_s
        return observed

    def _profiles(self, alignment: Alignment, task: Task) -> Floats | None:
        """Embedded profiles known in advance; those of the task take precedence over the agents'."""
        if not (task.profiles or self.described):
            return None
        known = np.full((len(self.names), alignment.geometry.width), np.nan)
        for index, agent in enumerate(self.agents):
            measure = task.profiles.get(agent.id, agent.profile)
            if measure is not None:
                known[index] = alignment.embed(f"task.profiles.{agent.id}", measure)
        return known


def as_agents(agents: Iterable[str | Agent]) -> list[Agent]:
    """Convert names to :class:`~bot_orch.Agent` objects."""
    if isinstance(agents, str):
        raise InvalidInputError("agents", f"is the text {agents!r}", f"pass a list: [{agents!r}]")
    if isinstance(agents, Agent):
        raise InvalidInputError("agents", "is one agent", "pass a list of agents")
    if isinstance(agents, set | frozenset):
        raise InvalidInputError("agents", "is a set, whose order differs between processes", "pass a list")
    require_type("agents", agents, Iterable, "pass names of agents, or Agent objects")
    return [agent if isinstance(agent, Agent) else Agent(agent) for agent in agents]


def _context(task: Task, settings: Settings) -> Floats:
    width = settings.context_width
    if len(task.features) != width:
        problem = f"has {len(task.features)} numbers, this orchestrator expects {width}"
        raise InvalidInputError("task.features", problem, "pass as many with every task")
    return np.array(task.features)
