"""Builds the parts of a service from its settings: the orchestrator and the guarded agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from bot_orch.agents.base import Attempt
from bot_orch.agents.capabilities import Capabilities
from bot_orch.agents.guard import Guard
from bot_orch.agents.kinds.anthropic import AnthropicSettings
from bot_orch.agents.kinds.human import HumanQueue, HumanSettings
from bot_orch.agents.kinds.openai import OpenAISettings, Place
from bot_orch.agents.kinds.python import PythonSettings
from bot_orch.agents.kinds.simulated import SimulatedSettings
from bot_orch.agents.limits import Limits, Price
from bot_orch.agents.registry import KINDS, AgentSettings, make_agent
from bot_orch.core.alignment import Alignment, Reference, Watch
from bot_orch.core.events import as_recorded, record_decision, record_task
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.core.reward import BoundedReward, RewardModel, reward_from_spec
from bot_orch.core.settings import announced
from bot_orch.errors import BotOrchError, InvalidInputError
from bot_orch.log.events import encode_event
from bot_orch.log.stores.open import check_database
from bot_orch.policies.registry import make_policy
from bot_orch.service.config import AgentConfig, AlignmentConfig, Config, check_keys
from bot_orch.service.config.checks import SEE_SETTINGS, invalid
from bot_orch.service.config.dropped import instead_of
from bot_orch.service.config.settings import REFERENCES
from bot_orch.service.judges.registry import check_judges
from bot_orch.service.objective import typical_price, wanted_constraints, wanted_guarantee, wanted_weights
from bot_orch.transport import Labels
from bot_orch.transport.geometries.base import geometry_from_spec
from bot_orch.transport.measures import measure_from_dict
from bot_orch.transport.memory import Memory
from bot_orch.types import Agent, Measure, Outcome, Task

T = TypeVar("T")


def make_orchestrator(config: Config) -> Orchestrator:
    """A new orchestrator with these settings."""
    try:
        return _orchestrator(config)
    except InvalidInputError as error:
        if error.field.startswith("config"):
            raise
        raise InvalidInputError(f"config.router.{error.field}", error.problem, error.remedy) from error


def _orchestrator(config: Config) -> Orchestrator:
    r = config.router
    agents = [_agent(each) for each in config.agents]
    reward = BoundedReward() if r.reward is None else _reward(r.reward)
    if r.success_reward is not None:
        reward.range.check(r.success_reward, "success_reward")
    router = Orchestrator(
        [replace(each, price=None) if _by_use(config, each.id) else each for each in agents],  # no price is certain
        make_policy(r.policy, **r.settings),
        lambda_=r.lambda_,
        seed=r.seed,
        n_features=r.n_features,
        floor=r.floor,
        alignment=None if r.alignment is None else _alignment(r.alignment),
        reward=reward,
        encoder=r.encoder,
        patience_s=r.patience_s,
        horizon=None,  # decisions are dropped at horizon_s, by events in the log
        audit_rate=0.0 if config.audit is None else config.audit.rate,
        on_alarm=r.on_alarm,
        objective=wanted_weights(r),
        constraints=wanted_constraints(r),
        guarantee=wanted_guarantee(r),
        ids="derived",  # the log assigns its own ids, and replicas have equal states
    )
    # the first request may lack a text: its encoder counts from the start
    settings = announced(router.settings) if r.encoder else router.settings
    return Orchestrator.from_settings(settings, agents)


def _by_use(config: Config, name: str) -> bool:
    """Whether what an agent's call costs is only known afterwards."""
    price = next(each.price for each in config.agents if each.id == name)
    return _part(price, Price, f"config.agents.{name}.price").by_use


def _agent(settings: AgentConfig) -> Agent:
    """An agent of the orchestrator, with the price of a typical call."""
    profile = None if settings.profile is None else measure_from_dict(settings.profile)
    price = _part(settings.price, Price, f"config.agents.{settings.id}.price")
    return Agent(settings.id, settings.cost, profile, price=typical_price(price) if settings.price else None)


LIMITS = Limits()
"""What an agent's settings do not say."""

_OF_KIND: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("openai", "anthropic"),
        ("base_url", "model", "api_key", "headers", "endpoints", "check_model", "params", "prefill", "interfaces"),
    ),
    "python": ("path",),
    "human": ("interfaces",),
    "simulated": ("params",),
}


_PLAIN = AgentConfig(id="", kind="")


def make_guard(
    agent: AgentConfig, *, queue: HumanQueue | None = None, observer: Callable[[Attempt], None] | None = None
) -> Guard:
    """An agent behind its guard (limits, retries, circuit breaker)."""
    where = f"config.agents.{agent.id}"
    capabilities = Capabilities(
        agent.context_tokens,
        **{name: name not in agent.lacks for name in ("vision", "tools", "json")},
        interfaces=agent.interfaces or ("chat",),
        prefill=agent.prefill,
    )
    return make_agent(
        agent.id,
        settings_of(agent, where),
        replace(
            LIMITS,
            first_byte_s=agent.first_byte_s,
            total_s=agent.timeout_s or LIMITS.total_s,
            concurrency=agent.concurrency or LIMITS.concurrency,
        ),
        queue=queue,
        price=_part(agent.price, Price, f"{where}.price"),
        capabilities=capabilities,
        observer=observer,
    )


def settings_of(agent: AgentConfig, where: str) -> AgentSettings:
    """The settings of an agent's kind; refuses those of another."""
    if agent.kind not in KINDS:
        remedy = instead_of("config.agents.kind", agent.kind) or f"choose from {', '.join(KINDS)}"
        raise InvalidInputError(f"{where}.kind", f"{agent.kind!r} is not known", remedy)
    for name in {each for names in _OF_KIND.values() for each in names} - {*_OF_KIND[agent.kind]}:
        if getattr(agent, name) != getattr(_PLAIN, name):
            raise InvalidInputError(f"{where}.{name}", f"is nothing for an agent of kind {agent.kind}", "remove it")
    try:
        return _settings_of(agent, where)
    except InvalidInputError as error:
        if error.field.startswith("config"):
            raise
        raise InvalidInputError(f"{where}.{error.field}", error.problem, error.remedy) from None


def _settings_of(agent: AgentConfig, where: str) -> AgentSettings:
    if agent.kind == "simulated":
        return _part(agent.params, SimulatedSettings, f"{where}.params")
    if agent.kind == "human":
        asked = "chat" in (agent.interfaces or ())
        return HumanSettings(chat=asked) if agent.timeout_s is None else HumanSettings(agent.timeout_s, asked)
    if agent.kind == "python":
        folder, _, path = agent.path.rpartition("/")
        return PythonSettings(path, folder or None)
    params = dict(agent.params)
    return (AnthropicSettings if agent.kind == "anthropic" else OpenAISettings)(
        agent.base_url,
        agent.model,
        agent.api_key,
        agent.headers,
        system=str(params.pop("system", "")),
        params=params,
        check_model=agent.check_model,
        places=tuple(Place(each.base_url, each.api_key, each.model) for each in agent.endpoints),
    )


def check(config: Config) -> None:
    """Build every part and make one decision, to find errors before the start."""
    router = make_orchestrator(config)
    try:
        decision = router.decide(Task("check", features=(0.0,) * (config.router.n_features or 0)))
        middle = router.reward.range.natural(0.5)
        router.observe(decision.id, Outcome.completed(middle, elapsed_s=1.0))  # compiles what the first requests need
    except (TypeError, ValueError) as error:
        raise InvalidInputError("config.router", f"cannot decide ({error})", "check policy and settings") from error
    check_database(config.database, "config.database")
    for agent in config.agents:
        make_guard(agent, queue=_NoQueue())
    check_judges(config)
    if config.router.reference is not None:
        measure_from_dict(config.router.reference)


def _reward(spec: dict[str, Any]) -> RewardModel:
    try:
        return reward_from_spec({"id": BoundedReward.id, **spec})
    except TypeError as error:
        raise InvalidInputError("config.router.reward", f"is malformed ({error})", SEE_SETTINGS) from error


def _alignment(settings: AlignmentConfig) -> Alignment:
    where = "config.router.alignment"
    if (settings.latency_target_s is None) == (settings.geometry is None):
        raise InvalidInputError(where, "needs one of latency_target_s and geometry", "keep exactly one")
    try:
        if settings.latency_target_s is not None:
            return Alignment.to_latency(settings.latency_target_s, watch=Watch())
        geometry = geometry_from_spec(settings.geometry or {})
        return Alignment(geometry, reference=_reference(settings.reference), watch=Watch())
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}.{error.field}", error.problem, error.remedy) from error


def _reference(named: str) -> Reference:
    """A source of references by its name, or the outputs of the agent with that name."""
    recent = Memory.window()
    if named in REFERENCES:
        return Reference(named, recent)
    return Reference("agent", recent, agent=named)


def _part(values: dict[str, Any], type_: type[T], where: str) -> T:
    check_keys(values, type_, where)
    try:
        return msgspec.convert(values, type_)
    except msgspec.ValidationError as error:
        raise invalid(error, type_, where) from None
    except ValueError as error:
        raise InvalidInputError(where, str(error), SEE_SETTINGS) from None


class _NoQueue:
    """A placeholder to build human agents with."""

    async def enqueue(self, request: Any, answer_within_s: float) -> str:
        raise NotImplementedError

    async def answer(self, ticket: str) -> Any:
        raise NotImplementedError

    async def withdraw(self, ticket: str, ending: Any) -> None:
        raise NotImplementedError


def called_alike(one: AgentConfig, other: AgentConfig) -> bool:
    """Whether two configurations of an agent give the same guard; they may differ in canary."""
    first, second = (msgspec.structs.replace(each, canary=None) for each in (one, other))
    return first == second


def warm_up(config: Config) -> None:
    """Decide and learn with a router of the same settings that is thrown away.

    Imports and caches are those of the process, so a router that serves requests finds them ready.
    """
    r = config.router
    router = make_orchestrator(config)
    wanted = [None, Labels([0.5, 0.5])] if r.reference is None else [measure_from_dict(r.reference)]
    for number, reference in enumerate(wanted):
        for eligible in (None, router.agents[:1]):
            with suppress(BotOrchError, TypeError, ValueError):  # a measure that this geometry does not take
                _one_round(router, f"warm-up-{number}", reference, eligible=eligible)


def _one_round(router: Orchestrator, name: str, reference: Measure | None, *, eligible: tuple[str, ...] | None) -> None:
    task = Task(name, reference=reference, features=(0.0,) * (router.n_features or 0))
    if router.settings.text is not None:
        task = Task(name, reference=reference, text="warm up")
        task = router.encoded(task)
    task = as_recorded(task)
    middle = router.reward.range.natural(0.5)
    for outcome in (Outcome.completed(middle, elapsed_s=1.0), Outcome.censored(elapsed_s=1.0, reason="timeout")):
        made = router.decide(task, eligible)
        encode_event(record_decision(made, record_task(task), eligible=eligible))
        router.observe(made.id, outcome)
