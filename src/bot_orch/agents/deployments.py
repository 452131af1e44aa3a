"""Several deployments of one agent: selection for the next call, and cooldown."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

from bot_orch.agents.base import AgentRunner, CallFailure, CallReply, CallRequest, Chunk
from bot_orch.agents.endings import Ending
from bot_orch.agents.tokens import most_tokens
from bot_orch.errors import InvalidInputError

Rotation = Literal["least_used", "round_robin"]
_MINUTE_S = 60.0
_ELSEWHERE = frozenset(
    {
        *(Ending.RATE_LIMITED, Ending.UPSTREAM_5XX, Ending.UPSTREAM_DENIED, Ending.UPSTREAM_MISSING),
        *(Ending.CONNECTION, Ending.REDIRECTED, Ending.TIMEOUT_FIRST_BYTE),
        *(Ending.TRUNCATED_STREAM, Ending.MALFORMED, Ending.REFUSED_ADDRESS),
    }
)


@dataclass(frozen=True, slots=True)
class Deployment:
    """One of several endpoints with the same model.

    Parameters
    ----------
    base_url, api_key
        Its address and key.
    model
        The model's name at this endpoint; ``None`` for the agent's.
    region
        Where it is: requests that ask for a region go to deployments there.
    rpm, tpm
        Requests and tokens that it takes in a minute; ``None`` for no limit. Tokens are estimated before a call,
        with the limit of its answer if the request sets one, and counted as reported after it.
    """

    base_url: str
    api_key: str = field(default="", repr=False)
    model: str | None = None
    _: KW_ONLY
    region: str | None = None
    rpm: int | None = None
    tpm: int | None = None

    def __post_init__(self) -> None:
        for name in ("rpm", "tpm"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInputError(f"deployments.{name}", f"is {value}", "set 1 or more, or null")


@dataclass(slots=True)
class _Use:
    _: KW_ONLY
    calls: deque[list[float]] = field(default_factory=deque)  # [time, tokens] of the last minute
    in_flight: int = 0
    rests_until: float = -math.inf
    asked_to_rest: bool = False


class DeploymentPool:
    """Chooses deployments.

    Parameters
    ----------
    deployments
        All of them.
    rotation
        ``least_used``: with the fewest calls under way, then in the last minute. ``round_robin``: one after the other.
    rest_s
        How long a deployment is skipped after a failure, unless it says so itself (``Retry-After``).
    clock
        Monotonic clock.
    """

    def __init__(
        self,
        deployments: Sequence[Deployment],
        rotation: Rotation = "least_used",
        rest_s: float = 30.0,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.deployments, self._rotation, self._rest_s, self._clock = tuple(deployments), rotation, rest_s, clock
        self._uses = [_Use() for _ in self.deployments]
        self._last = -1

    def choose(self, tokens: int, *, region: str | None = None, avoid: Collection[int] = ()) -> int | None:
        """The deployment for a call of so many tokens; ``None`` if all are at their limits, cooling down or excluded.

        One that cools down after a failure is used if there is no other; one that asked for a pause is not.
        """
        now = self._clock()
        able = [
            place
            for place, each in enumerate(self.deployments)
            if place not in avoid and (region is None or each.region == region) and self._free(place, tokens, now)
        ]
        awake = [place for place in able if self._uses[place].rests_until <= now]
        if not awake:
            awake = sorted(able, key=lambda place: self._uses[place].rests_until)[:1]
        if not awake:
            return None
        if self._rotation == "round_robin":
            count = len(self.deployments)
            chosen = min(awake, key=lambda place: (place - self._last - 1) % count)
        else:
            chosen = min(awake, key=lambda place: (self._uses[place].in_flight, len(self._uses[place].calls), place))
        self._last = chosen
        return chosen

    def begin(self, place: int, tokens: int) -> list[float]:
        """Count a call; returns its entry for :meth:`end`."""
        entry = [self._clock(), float(tokens)]
        self._uses[place].calls.append(entry)
        self._uses[place].in_flight += 1
        return entry

    def end(self, place: int, entry: list[float], tokens: int | None = None) -> None:
        """End a call; ``tokens`` is the reported number, if known."""
        self._uses[place].in_flight -= 1
        if tokens is not None:
            entry[1] = float(tokens)

    def failed(self, place: int, failure: CallFailure) -> None:
        """Skip a deployment for a while."""
        use, asked = self._uses[place], failure.retry_after_s
        use.rests_until = self._clock() + (self._rest_s if asked is None else asked)
        use.asked_to_rest = asked is not None

    def succeeded(self, place: int) -> None:
        """Make a deployment available again."""
        self._uses[place].rests_until = -math.inf

    def wait_s(self) -> float:
        """Seconds until a deployment can accept a call again."""
        now = self._clock()
        waits = [
            max(use.rests_until - now if use.asked_to_rest else 0.0, use.calls[0][0] + _MINUTE_S - now)
            if use.calls
            else max(0.0, use.rests_until - now)
            for use in self._uses
        ]
        return max(1.0, min(waits))

    def _free(self, place: int, tokens: int, now: float) -> bool:
        use, limits = self._uses[place], self.deployments[place]
        while use.calls and use.calls[0][0] <= now - _MINUTE_S:
            use.calls.popleft()
        if use.asked_to_rest and use.rests_until > now:
            return False
        if limits.rpm is not None and len(use.calls) >= limits.rpm:
            return False
        used = sum(count for _, count in use.calls) if limits.tpm is not None else 0.0
        return limits.tpm is None or not use.calls or used + tokens <= limits.tpm


class DeploymentsRunner:
    """Runner of an agent with several deployments; learning, limits and the circuit breaker treat it as one agent.

    A call that one deployment fails goes to the next, within the same attempt; a stream only until its first content.
    ``passed_over`` is called for every call that failed so, with its time; the last failure of all is raised instead.
    """

    def __init__(self, runners: Sequence[AgentRunner], pool: DeploymentPool) -> None:
        self._runners, self._pool = runners, pool
        self.passed_over: Callable[[CallRequest, CallFailure, float], None] | None = None

    @property
    def models(self) -> tuple[str, ...]:
        """The models that answers may name; empty for any."""
        return tuple(name for runner in self._runners for name in getattr(runner, "models", ()))

    async def call(self, request: CallRequest) -> CallReply:
        """Call the deployments in turn until one answers."""
        avoid: set[int] = set()
        failure: tuple[CallFailure, float] | None = None
        tokens = most_tokens(request)
        while True:
            place = self._next(request, tokens, avoid, failure=failure)
            entry, counted, begun = self._pool.begin(place, tokens), None, time.monotonic()
            try:
                reply = await self._runners[place].call(request)
                counted = reply.usage.input_tokens + reply.usage.output_tokens or None
                self._pool.succeeded(place)
                return reply
            except CallFailure as error:
                failure = self._after(place, error), time.monotonic() - begun
                avoid.add(place)
            finally:
                self._pool.end(place, entry, counted)

    async def stream(self, request: CallRequest) -> AsyncGenerator[Chunk, None]:
        """Stream from the deployments in turn until one begins its answer."""
        avoid: set[int] = set()
        failure: tuple[CallFailure, float] | None = None
        tokens = most_tokens(request)
        while True:
            place = self._next(request, tokens, avoid, failure=failure)
            entry, counted, begun = self._pool.begin(place, tokens), None, time.monotonic()
            held: list[Chunk] | None = []  # until the answer begins, another deployment may take over
            try:
                async with aclosing(self._runners[place].stream(request)) as chunks:
                    async for chunk in chunks:
                        if chunk.reply is not None:
                            counted = chunk.reply.usage.input_tokens + chunk.reply.usage.output_tokens
                            self._pool.succeeded(place)
                        if held is not None and not chunk.begins:
                            held.append(chunk)
                            continue
                        for each in (*(held or ()), chunk):
                            yield each
                        held = None
                return
            except CallFailure as error:
                failure = self._after(place, error), time.monotonic() - begun
                if held is None:
                    raise
                avoid.add(place)
            finally:
                self._pool.end(place, entry, counted)

    async def close(self) -> None:
        """Close the runners of all deployments."""
        for runner in self._runners:
            await runner.close()

    def _next(
        self, request: CallRequest, tokens: int, avoid: set[int], *, failure: tuple[CallFailure, float] | None
    ) -> int:
        place = self._pool.choose(tokens, region=request.region, avoid=avoid)
        if place is not None:
            if failure is not None and self.passed_over is not None:
                self.passed_over(request, *failure)
            return place
        if failure is not None:
            raise failure[0]
        message = "not asked: all deployments are at their limits or rest"
        raise CallFailure(Ending.RATE_LIMITED, message, started=False, retry_after_s=self._pool.wait_s())

    def _after(self, place: int, failure: CallFailure) -> CallFailure:
        """Record a failure; raises it unless another deployment may help."""
        if failure.ending not in _ELSEWHERE:
            raise failure
        self._pool.failed(place, failure)
        return failure
