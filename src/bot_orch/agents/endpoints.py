"""The same model at several places: a call goes to the first that is well, and to the next one on failure."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

from bot_orch.agents.base import CallFailure, CallReply, CallRequest, Chunk
from bot_orch.agents.endings import Ending

_REST_S = 30.0


class EndpointsRunner:
    """Runner of one agent: learning, limits and circuit breaker are those of all its places together.

    A place that failed comes last for 30 s or its ``Retry-After``; a stream moves only before its first content.
    ``passed_over`` is called for every call that failed before another one, with its time; the last failure is raised.
    """

    def __init__(self, runners: Sequence[Any]) -> None:
        self._runners, self._well_at = runners, [0.0] * len(runners)
        self.passed_over: Callable[[CallRequest, CallFailure, float], None] = lambda *_: None
        self.models = tuple(name for runner in runners for name in runner.models)

    async def call(self, request: CallRequest) -> CallReply:
        """Call the places in turn until one answers."""
        async with aclosing(self._in_turn(request, _whole)) as pieces:
            return (await anext(pieces)).reply or CallReply()

    def stream(self, request: CallRequest) -> AsyncGenerator[Chunk, None]:
        """Stream from the places in turn until one begins its answer."""
        return self._in_turn(request, lambda runner, request: runner.stream(request))

    @asynccontextmanager
    async def passed(self, *request: Any) -> AsyncGenerator[Any, None]:
        """Send a request as it came to the places in turn, until one answers, whatever its status."""
        for place in (order := self._order()):
            async with AsyncExitStack() as stack:
                try:
                    response = await stack.enter_async_context(self._runners[place].passed(*request))
                except (CallFailure, asyncio.CancelledError) as failure:
                    self._well_at[place] = time.monotonic() + _REST_S
                    if place == order[-1] or not isinstance(failure, CallFailure):
                        raise
                    continue
                yield response
                return

    async def close(self) -> None:
        """Close the runners of all places."""
        for runner in self._runners:
            await runner.close()

    def _order(self) -> list[int]:
        now = time.monotonic()
        return sorted(range(len(self._runners)), key=lambda place: (self._well_at[place] > now, place))

    async def _in_turn(self, request: CallRequest, ask: Callable[..., Any]) -> AsyncGenerator[Chunk, None]:
        for place in (order := self._order()):
            begun, held, moved = time.monotonic(), list[Chunk](), False
            try:
                async with aclosing(ask(self._runners[place], request)) as pieces:
                    async for piece in pieces:
                        held.append(piece)
                        if moved := moved or piece.begins:
                            for each in held:
                                yield each
                            held.clear()
                return
            except (CallFailure, asyncio.CancelledError) as failure:  # cancelled: it was silent, perhaps
                ending = getattr(failure, "ending", Ending.TIMEOUT_TOTAL)
                if not ending.meaning.trips and ending is not Ending.RATE_LIMITED:  # the request is at fault
                    raise
                self._well_at[place] = time.monotonic() + (getattr(failure, "retry_after_s", None) or _REST_S)
                if moved or place == order[-1] or not isinstance(failure, CallFailure):
                    raise
                self.passed_over(request, failure, time.monotonic() - begun)


async def _whole(runner: Any, request: CallRequest) -> AsyncGenerator[Chunk, None]:
    yield Chunk(reply=await runner.call(request))
