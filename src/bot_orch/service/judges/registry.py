"""Registry of the kinds of judges, and construction of judges from settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from bot_orch.agents.guard import Guard
from bot_orch.errors import InvalidInputError
from bot_orch.service.config import Config, JudgeConfig, check_keys
from bot_orch.service.config.dropped import instead_of
from bot_orch.service.judges.answer import AnswerGiven, Verdict
from bot_orch.service.judges.checks import SchemaCheck, SchemaSettings
from bot_orch.service.judges.functions import FunctionJudge, FunctionSettings
from bot_orch.service.judges.models import ModelJudge, ModelSettings

#: The name under which an agent's own reward (``success_reward``, a simulated judge) counts: below every judge.
OWN = "agent"
_REWARDING = {"python", "simulated"}  # kinds of agents that may give their answers a reward
#: What people read where no answer can be told from another one, and how to change that.
NO_SIGNAL = "no quality signal: nothing is learned about quality"
SIGNALS = (
    "to get one, report rewards to /v1/feedback (what is reported is learned at once), "
    "add a judge (judges:), or a check (router.checks)"
)
_RESERVED = (OWN, "audit", "human", "caller")


@dataclass(frozen=True, slots=True)
class ThumbsSettings:
    """Reports by callers; their place in the list is their rank."""


AT_ONCE = 4
"""Answers that one judge sees at a time."""


class AnswerJudge(Protocol):
    """Judges an answer; raises :class:`~bot_orch.service.judges.answer.JudgeFailure`."""

    async def verdict(self, answer: AnswerGiven) -> Verdict:
        """The verdict on an answer."""
        ...


JudgeSettings = FunctionSettings | ModelSettings | SchemaSettings | ThumbsSettings
JUDGE_KINDS: Mapping[str, type[JudgeSettings]] = MappingProxyType(
    {
        "python": FunctionSettings,
        "llm": ModelSettings,
        "json_schema": SchemaSettings,
        "thumbs": ThumbsSettings,
    }
)


def judge_settings(judge: JudgeConfig) -> JudgeSettings:
    """The settings of a judge's kind."""
    where = f"config.judges.{judge.name}"
    if judge.kind not in JUDGE_KINDS:
        remedy = instead_of("judges.kind", judge.kind) or f"choose from {', '.join(JUDGE_KINDS)}"
        raise InvalidInputError(f"{where}.kind", f"{judge.kind!r} is not known", remedy)
    kind, values = JUDGE_KINDS[judge.kind], dict(judge.settings)
    check_keys(values, kind, f"{where}.settings")
    try:
        found: Any = msgspec.convert(values, kind)
    except (msgspec.ValidationError, ValueError) as error:
        raise InvalidInputError(f"{where}.settings", str(error), "see docs/how-to/judges.md") from None
    settings: JudgeSettings = found
    return settings


def make_judge(judge: JudgeConfig, guard: Callable[[], Guard | None]) -> AnswerJudge | None:
    """Build a judge of answers; None for ``thumbs``, which waits for reports.

    ``guard`` returns the agent that a judge of kind ``llm`` asks.
    """
    settings = judge_settings(judge)
    match settings:
        case FunctionSettings():
            return FunctionJudge(settings, AT_ONCE)
        case ModelSettings():
            return ModelJudge(judge.name, settings, guard)
        case SchemaSettings():
            return SchemaCheck(settings)
        case _:
            return None


def check_judges(config: Config) -> None:
    """Build every judge, so that mistakes are found before the start."""
    names = [judge.name for judge in config.judges]
    for judge in config.judges:
        where = f"config.judges.{judge.name}"
        if names.count(judge.name) > 1:
            raise InvalidInputError(where, "is there twice", "give every judge its own name")
        if not judge.name or judge.name in _RESERVED:
            taken = ", ".join(_RESERVED)
            raise InvalidInputError(f"{where}.name", f"is {judge.name!r}", f"choose another name than {taken}")
        settings = judge_settings(judge)
        agents = [agent.id for agent in config.agents]
        asked = settings.agent if isinstance(settings, ModelSettings) else None
        if isinstance(asked, str) and asked not in agents:
            known = ", ".join(agents)
            raise InvalidInputError(f"{where}.settings.agent", f"{asked!r} is not an agent", f"choose from {known}")
        make_judge(judge, lambda: None)
    _check_audit(config, names)
    _check_steps(config)
    _check_observed(config)
    if names and (config.router.reward or {}).get("id") == "survival":
        remedy = "remove router.reward, which computes rewards from times"
        raise InvalidInputError("config.judges", "cannot count", remedy)


def _judged(config: Config) -> bool:
    """Whether anything in the service judges answers: a judge, or agents that may do so themselves."""
    judged = any(judge.kind != "thumbs" and judge.rate > 0 for judge in config.judges)
    return judged or bool({agent.kind for agent in config.agents} & _REWARDING)


def lacks_signal(config: Config) -> bool:
    """Whether nothing is learned about quality until callers report; a reward for every whole answer is no signal."""
    return not _judged(config) and (config.router.reward or {}).get("id") != "survival"


def _check_observed(config: Config) -> None:
    """Require that somebody judges the answers that are compared."""
    if config.router.observe is not None and not _judged(config):
        remedy = "add a judge that sees every answer"
        raise InvalidInputError("config.router.observe", "has nothing that judges the answers", remedy)


def _check_audit(config: Config, names: list[str]) -> None:
    audit = config.audit
    if audit is None:
        return
    if audit.by not in ("human", "caller", *names):
        raise InvalidInputError("config.audit.by", f"is {audit.by!r}", "write human, caller or the name of a judge")
    kinds = {judge.name: judge.kind for judge in config.judges}
    if kinds.get(audit.by) == "thumbs":
        raise InvalidInputError("config.audit.by", f"is of kind {kinds[audit.by]}", "name a judge that can be asked")


def _check_steps(config: Config) -> None:
    """Refuse settings of steps that have no effect, or that name a judge that cannot be asked."""
    settings, kinds = config.router, {judge.name: judge.kind for judge in config.judges}
    for name in settings.checks:
        if name not in kinds:
            known = ", ".join(kinds) or "judges of the file"
            raise InvalidInputError("config.router.checks", f"{name!r} is not a judge", f"choose from {known}")
        if settings.checks.count(name) > 1:
            raise InvalidInputError("config.router.checks", f"holds {name!r} twice", "keep one")
        if kinds[name] == "thumbs":
            problem = f"{name!r} is of kind thumbs, which does not judge one answer"
            raise InvalidInputError("config.router.checks", problem, "name a judge that can be asked")
    if not settings.looks:
        return
    if settings.attempts == 1:
        raise InvalidInputError("config.router.attempts", "is 1: nothing follows from checks", "set 2 or more")
    if len(config.agents) == 1:
        raise InvalidInputError("config.agents", "are one: nothing follows from checks", "add another one")
    if settings.success_reward is not None:
        problem = "would teach that every delivered answer is right"
        remedy = "remove it; a judge, feedback or silence says what an answer earns"
        raise InvalidInputError("config.router.success_reward", problem, remedy)
    if settings.observe is not None:
        problem = "compares single answers"
        raise InvalidInputError("config.router.observe", problem, "remove it, or checks and signal")
    if (settings.reward or {}).get("id") == "survival":
        problem = "rewards speed, and steps need to know which answers are right"
        raise InvalidInputError("config.router.reward", problem, "remove it, or checks and signal")
    if settings.signal == "logprobs" and all(agent.kind != "openai" for agent in config.agents):
        problem = "is logprobs, which agents of kind openai alone tell"
        raise InvalidInputError("config.router.signal", problem, "set none, and name a judge in checks")
