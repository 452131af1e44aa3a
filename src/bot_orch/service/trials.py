"""Settings of an agent's rollout: a growing share (canary), shadow calls, health checks."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from bot_orch.errors import InvalidInputError

__all__ = ["CanaryConfig", "CanaryStep", "HealthConfig", "ShadowConfig", "check_trial"]


def _is(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class _Trial(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class CanaryStep(_Trial, frozen=True, kw_only=True):
    """A step of a ramp."""

    share: Annotated[float, _is("A larger cap ...")]
    after: Annotated[int | None, _is("... after so many decisions of the router, ...")] = None
    after_s: Annotated[float | None, _is("... or so many seconds of the trial.")] = None


class CanaryConfig(_Trial, frozen=True, kw_only=True):
    """A cap on the propensity of a new agent."""

    share: Annotated[float, _is("The largest propensity of the agent.")]
    ramp: Annotated[tuple[CanaryStep, ...], _is("Steps that raise it.")] = ()

    def cap(self, decisions: int, seconds: float) -> float:
        """The cap after so many decisions and seconds of the trial: the largest of the steps that were reached.

        Examples
        --------
        >>> ramp = (CanaryStep(share=0.2, after=100), CanaryStep(share=1.0, after_s=3600))
        >>> canary = CanaryConfig(share=0.05, ramp=ramp)
        >>> canary.cap(99, 0.0), canary.cap(100, 0.0), canary.cap(0, 3600.0)
        (0.05, 0.2, 1.0)
        """
        reached = [step.share for step in self.ramp if _reached(step, decisions, seconds)]
        return max([self.share, *reached])


class ShadowConfig(_Trial, frozen=True, kw_only=True):
    """Shadow calls: the agent's answers are never returned to clients."""

    rate: Annotated[float, _is("Share of rounds in which the agent is asked, too.")]


class HealthConfig(_Trial, frozen=True, kw_only=True):
    """Regular checks of the agent."""

    every_s: Annotated[float, _is("Seconds between checks.")] = 30.0
    timeout_s: Annotated[float, _is("Seconds for an answer.")] = 5.0
    path: Annotated[str | None, _is("What to GET; without it, a chat is sent.")] = None
    max_tokens: Annotated[int | None, _is("Limit of that chat; `null` for none.")] = 1


def check_trial(
    where: str, kind: str, *, canary: CanaryConfig | None, shadow: ShadowConfig | None, health: HealthConfig | None
) -> None:
    """Refuse settings that agents of this kind cannot have."""
    if canary is not None:
        _check_canary(f"{where}.canary", canary)
    if shadow is not None:
        _check_share(f"{where}.shadow.rate", shadow.rate)
        if kind == "human":
            raise InvalidInputError(f"{where}.shadow", "is set for a person", "nobody's work should be thrown away")
        if canary is not None:
            remedy = "remove shadow to begin with the canary"
            raise InvalidInputError(f"{where}.canary", "has no effect while shadow is set", remedy)
    if health is not None:
        _check_health(f"{where}.health", health, kind)


def _reached(step: CanaryStep, decisions: int, seconds: float) -> bool:
    return decisions >= step.after if step.after is not None else seconds >= (step.after_s or 0.0)


def _check_canary(where: str, canary: CanaryConfig) -> None:
    _check_share(f"{where}.share", canary.share)
    for index, step in enumerate(canary.ramp):
        at = f"{where}.ramp[{index}]"
        _check_share(f"{at}.share", step.share)
        if (step.after is None) == (step.after_s is None):
            raise InvalidInputError(at, "needs one of after and after_s", "keep exactly one")
        if min(step.after or 0, step.after_s or 0.0) < 0 or not math.isfinite(step.after_s or 0.0):
            raise InvalidInputError(at, "begins before the trial, or never", "set a finite number, 0 or more")


def _check_share(where: str, value: float) -> None:
    if not 0.0 < value <= 1.0:
        raise InvalidInputError(where, f"is {value}", "set a share above 0, 1 at most, such as 0.05")


def _check_health(where: str, health: HealthConfig, kind: str) -> None:
    if kind == "human":
        raise InvalidInputError(where, "is set for a person", "remove it")
    if health.path is not None and (kind != "openai" or not health.path.startswith("/")):
        problem, remedy = f"is {health.path!r}, of kind {kind}", "write /path for kind openai, or leave it out"
        raise InvalidInputError(f"{where}.path", problem, remedy)
    for name in ("every_s", "timeout_s"):
        value = getattr(health, name)
        if not (1e-3 <= value < math.inf):
            raise InvalidInputError(f"{where}.{name}", f"is {value}", "set a finite number, 0.001 or more")
