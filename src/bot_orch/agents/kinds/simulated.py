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
    crash
        Probability of crashing.
    """

    seed: int = 0
    median_s: float = 0.2
    sigma: float = 0.4
    quality: float = 0.7
    spread: float = 0.1
    flattery: float = 0.0
    profile: Mapping[str, float] = field(default_factory=lambda: _GOOD)
    crash: float = 0.0

    def __post_init__(self) -> None:
        for name in ("quality", "crash", "spread"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InvalidInputError(name, f"is {getattr(self, name)}", "set a number in [0, 1]")
        if not (0.0 <= self.median_s < math.inf and 0.0 <= self.sigma < math.inf):
            raise InvalidInputError("median_s", "or sigma is negative", "set zero or more")
        weights = self.profile.values()
        if not weights or min(weights) < 0 or not 0 < sum(weights) < math.inf:
            raise InvalidInputError("profile", "has no positive weights", "give labels weights like {good: 1}")


@dataclass(frozen=True, slots=True)
class _Script:
    """Predetermined course of one call."""

    latency_s: float
    ending: Ending
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

    async def call(self, request: CallRequest) -> CallReply:
        """Sleep for the latency, then answer or crash."""
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
        s = self._settings
        rng = generator("simulated", s.seed, self._agent_id, request.id)
        latency_s = s.median_s * math.exp(s.sigma * rng.standard_normal())
        ending = Ending.CRASHED if rng.random() < s.crash else Ending.COMPLETED
        weights = np.array(list(s.profile.values()))
        label = str(rng.choice(list(s.profile), p=weights / weights.sum()))
        quality = float(np.clip(s.quality + s.spread * rng.standard_normal(), 0.0, 1.0))
        reward = float(np.clip(quality + s.flattery, 0.0, 1.0))
        extra = {"reward": reward, "quality": quality, "label": label}
        text = f"{self._agent_id} says: this one is {label}"
        usage = Usage(_words(request), len(text.split()))
        reply = CallReply(text, output={"label": label}, usage=usage, extra=extra, reward=reward)
        return _Script(latency_s, ending, reply)

    async def _end(self, script: _Script) -> CallReply:
        if script.ending is Ending.CRASHED:
            raise CallFailure(Ending.CRASHED)
        return script.reply


def _words(request: CallRequest) -> int:
    """Number of words in the request; for long requests or images, the token estimate of endpoints."""
    texts = [request.text] if request.text else [message.get("content") or "" for message in request.messages]
    short = all(isinstance(text, str) for text in texts) and sum(map(len, texts)) <= _LONG
    return sum(len(text.split()) for text in texts) if short else prompt_tokens(request)
