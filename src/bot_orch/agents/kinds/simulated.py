"""Simulated agents for demonstrations and tests; deterministic given the seed."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from bot_orch.agents.base import CallFailure, CallReply, CallRequest, Chunk, Usage
from bot_orch.agents.endings import Ending
from bot_orch.agents.tokens import prompt_tokens
from bot_orch.errors import InvalidInputError
from bot_orch.rng import generator

_LONG = 20_000
_GOOD: Mapping[str, float] = MappingProxyType({"good": 1.0})


@dataclass(frozen=True, slots=True)
class SimulatedSettings:
    """Parameters of a simulated agent.

    Parameters
    ----------
    seed
        Seed; equal seeds and request ids give equal latency, quality and answers.
    median_s, sigma
        Median and log standard deviation of the log-normal latency.
    quality, spread
        Mean and standard deviation of the true quality, in [0, 1].
    flattery
        Bias of the judge's reward above the true quality; positive for an agent that games the judge.
    profile
        Weights of the labels of its answers; an agent that games the judge has unwanted labels.
    crash, hang
        Probabilities of crashing and of never answering.
    drift_after, drift_over, drift_quality, drift_profile
        From call number ``drift_after``, quality moves linearly to ``drift_quality`` over ``drift_over`` calls; the
        profile changes at the first of them to ``drift_profile``.
    """

    seed: int = 0
    median_s: float = 0.2
    sigma: float = 0.4
    quality: float = 0.7
    spread: float = 0.1
    flattery: float = 0.0
    profile: Mapping[str, float] = field(default_factory=lambda: _GOOD)
    crash: float = 0.0
    hang: float = 0.0
    drift_after: int | None = None
    drift_over: int = 1
    drift_quality: float | None = None
    drift_profile: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        for name in ("quality", "crash", "hang", "spread"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InvalidInputError(name, f"is {getattr(self, name)}", "set a number in [0, 1]")
        if not (0.0 <= self.median_s < math.inf and 0.0 <= self.sigma < math.inf) or self.drift_over < 1:
            raise InvalidInputError("median_s", "or sigma is negative, or drift_over less than 1", "check all three")
        for profile in (self.profile, self.drift_profile or _GOOD):
            if not profile or min(profile.values()) < 0 or not 0 < sum(profile.values()) < math.inf:
                raise InvalidInputError("profile", "has no positive weights", "give labels weights like {good: 1}")

    def quality_at(self, call: int) -> float:
        """True mean quality at the ``call``-th call, from 0."""
        if self.drift_after is None or self.drift_quality is None:
            return self.quality
        share = min(max((call - self.drift_after + 1) / self.drift_over, 0.0), 1.0)
        return self.quality + share * (self.drift_quality - self.quality)

    def profile_at(self, call: int) -> Mapping[str, float]:
        """Weights of labels at the ``call``-th call, from 0."""
        drifted = self.drift_after is not None and call >= self.drift_after
        return self.drift_profile if drifted and self.drift_profile is not None else self.profile


@dataclass(frozen=True, slots=True)
class _Script:
    """Predetermined course of one call."""

    latency_s: float
    ending: Ending | None  # None: never answers
    reply: CallReply


class SimulatedRunner:
    """Runner with simulated replies; ``reply.extra`` has the judge's ``reward``, true ``quality`` and ``label``."""

    def __init__(
        self,
        settings: SimulatedSettings,
        agent_id: str = "simulated",
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._agent_id = agent_id
        self._sleep = sleep
        self._calls = 0

    async def call(self, request: CallRequest) -> CallReply:
        """Sleep for the latency, then answer, crash or hang."""
        script = self._script(request)
        await self._sleep(script.latency_s)
        return await self._end(script)

    async def stream(self, request: CallRequest) -> AsyncGenerator[Chunk, None]:
        """Stream the same answer word by word: the first after half the latency, the rest evenly."""
        script = self._script(request)
        await self._sleep(script.latency_s / 2)
        reply = await self._end(script)
        words = reply.text.split(" ")
        for index, word in enumerate(words):
            yield Chunk(word if index == 0 else " " + word)
            await self._sleep(script.latency_s / 2 / len(words))
        yield Chunk(reply=reply)

    async def close(self) -> None:
        """Do nothing: there are no resources."""

    def _script(self, request: CallRequest) -> _Script:
        s, call = self._settings, self._calls
        self._calls += 1
        rng = generator("simulated", s.seed, self._agent_id, request.id)
        latency_s = s.median_s * math.exp(s.sigma * rng.standard_normal())
        fate = rng.random()
        ending = Ending.CRASHED if fate < s.crash else None if fate < s.crash + s.hang else Ending.COMPLETED
        profile = s.profile_at(call)
        weights = np.array(list(profile.values()))
        label = str(rng.choice(list(profile), p=weights / weights.sum()))
        quality = float(np.clip(s.quality_at(call) + s.spread * rng.standard_normal(), 0.0, 1.0))
        reward = float(np.clip(quality + s.flattery, 0.0, 1.0))
        extra = {"reward": reward, "quality": quality, "label": label}
        text = f"{self._agent_id} says: this one is {label}"
        usage = Usage(_words(request), len(text.split()))
        reply = CallReply(text, output={"label": label}, usage=usage, extra=extra, reward=reward)
        return _Script(latency_s, ending, reply)

    async def _end(self, script: _Script) -> CallReply:
        if script.ending is None:
            await asyncio.get_running_loop().create_future()  # until cancelled
        if script.ending is Ending.CRASHED:
            raise CallFailure(Ending.CRASHED)
        return script.reply


def _words(request: CallRequest) -> int:
    """Number of words in the request; for long requests or images, the token estimate of endpoints."""
    texts = [request.text] if request.text else [message.get("content") or "" for message in request.messages]
    short = all(isinstance(text, str) for text in texts) and sum(map(len, texts)) <= _LONG
    return sum(len(text.split()) for text in texts) if short else prompt_tokens(request)
