"""The guard around every agent: timeouts, admission, retries, price and circuit breaker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TypeVar

from bot_orch.agents.admission import Admission, Refusal
from bot_orch.agents.base import AgentMeter, AgentRunner, Attempt, CallFailure, CallReply, CallRequest, Chunk, Usage
from bot_orch.agents.breaker import Breaker, BreakerSettings, BreakerView, Clock, Permit
from bot_orch.agents.capabilities import Capabilities
from bot_orch.agents.endings import Ending
from bot_orch.agents.endpoints import EndpointsRunner
from bot_orch.agents.limits import Limits, Price, Retry

T = TypeVar("T")

_log = logging.getLogger("bot_orch.agents")
_LATEST = 64
_SILENCE, _LEAST_SILENCE_S, _LONGEST_SILENCE_S = 1.5, 0.5, 30.0
_UNKNOWN_SILENCE_S = 1.5  # of an agent that has not answered yet
_EXPECTED = frozenset({Ending.COMPLETED, Ending.CANCELLED_BY_CALLER, Ending.SHUTDOWN})


@dataclass(frozen=True, slots=True)
class GuardView:
    """Snapshot of one agent. ``reason`` is why it accepts no calls, ``retry_in_s`` for how long (0: unknown)."""

    agent: str
    breaker: BreakerView
    in_flight: int
    _: KW_ONLY
    concurrency: int
    waiting: int
    held_s: float
    available: bool
    reason: str
    retry_in_s: float


class AttemptTimer:
    """Measures the time spent waiting for an agent and enforces its timeouts.

    Only time inside :meth:`wait` counts against the agent's own timeouts, so that a slow reader of a stream does not
    make the agent look slow. The caller's deadline is wall time.

    Parameters
    ----------
    limits
        The agent's timeouts.
    deadline_at
        The caller's deadline in event loop time.
    meter
        Adds up the time waited.
    """

    def __init__(self, limits: Limits, deadline_at: float | None = None, meter: AgentMeter | None = None) -> None:
        self._limits, self._meter = limits, meter
        self._deadline_at = deadline_at
        self._now = asyncio.get_running_loop().time
        self._timer: asyncio.Timeout | None = None
        self._ended = False
        self.waited_s = 0.0
        self.first_byte_s: float | None = None

    async def wait(self, ask: Callable[[], Awaitable[T]], *, streams: bool = False) -> T:
        """Await ``ask()``, the whole answer or (``streams``) its next piece, under the timeouts."""
        if self._ended:
            raise CallFailure(Ending.SHUTDOWN)
        bound, ending = self._bound(streams)
        begun = self._now()
        self._timer = timer = asyncio.timeout(bound)
        try:
            async with timer:
                return await ask()
        except TimeoutError:
            if not timer.expired():  # raised by the agent itself: a crash
                raise
            raise CallFailure(Ending.SHUTDOWN if self._ended else ending) from None
        finally:
            self._timer = None
            waited_s = self._now() - begun
            self.waited_s += waited_s
            if self._meter is not None:
                self._meter.seconds += waited_s

    def end(self) -> None:
        """Stop waiting now, because the process is shutting down."""
        self._ended = True
        if self._timer is not None and not self._timer.expired():
            self._timer.reschedule(self._now())

    def mark_first_byte(self) -> None:
        """Record the time of the first content."""
        if self.first_byte_s is None:
            self.first_byte_s = self.waited_s

    def _bound(self, streams: bool) -> tuple[float | None, Ending]:
        limits, live = self._limits, streams and self.first_byte_s is not None
        rest: list[tuple[float, Ending]] = []
        total_s = limits.stream_total_s if live else limits.total_s
        if total_s is not None:
            rest.append((total_s - self.waited_s, Ending.TIMEOUT_TOTAL))
        if live and limits.idle_s is not None:
            rest.append((limits.idle_s, Ending.TIMEOUT_IDLE))
        if streams and not live and limits.first_byte_s is not None:
            rest.append((limits.first_byte_s - self.waited_s, Ending.TIMEOUT_FIRST_BYTE))
        if self._deadline_at is not None:
            rest.append((self._deadline_at - self._now(), Ending.CALLER_DEADLINE))
        return min(rest, key=lambda pair: pair[0]) if rest else (None, Ending.TIMEOUT_TOTAL)


class FirstBytes:
    """How long an agent is usually silent: seconds to the first byte of its latest streams, and to the end of its
    latest whole answers, which have their first byte there.

    Examples
    --------
    >>> seen = FirstBytes()
    >>> seen.patience_s(streamed=True)
    >>> for _ in range(20):
    ...     seen.note(2.0, streamed=True)
    >>> seen.patience_s(streamed=True), seen.patience_s(streamed=False)
    (3.0, None)
    """

    def __init__(self) -> None:
        self._latest: dict[bool, deque[float]] = {each: deque(maxlen=_LATEST) for each in (False, True)}

    def note(self, seconds: float, *, streamed: bool) -> None:
        """Take one call into account."""
        self._latest[streamed].append(seconds)

    def patience_s(self, *, streamed: bool) -> float | None:
        """Half as long again as nine of ten calls needed, within bounds; None before the first call."""
        latest = sorted(self._latest[streamed])
        if not latest:
            return None
        return min(max(_SILENCE * latest[int(0.9 * len(latest))], _LEAST_SILENCE_S), _LONGEST_SILENCE_S)


_NOTHING = CallReply()
_UNTIMED = Limits(first_byte_s=None, total_s=None, idle_s=None)


@dataclass(slots=True)
class _Run:
    """One call including its retries."""

    request: CallRequest
    deadline_at: float | None
    _: KW_ONLY
    attempts: list[Attempt] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Try:
    """One attempt, which holds a concurrency slot and a breaker permit."""

    run: _Run
    watch: AttemptTimer
    permit: Permit
    _: KW_ONLY
    settled: bool = False
    usage: Usage | None = None  # of a stream, so far


class Guard:
    """A runner with limits, retries and a circuit breaker; it is an :class:`AgentRunner` too.

    Parameters
    ----------
    agent_id
        The agent's name.
    runner
        Calls the agent.
    limits, retry, price, breaker, capabilities
        The agent's settings.
    clock
        Monotonic clock of the breaker.
    sleep
        Coroutine function for pauses between attempts.
    observer
        Called with every attempt when it ends, including cancelled ones.
    admission
        Admission control of the agent; by default built from ``limits``.
    """

    def __init__(
        self,
        agent_id: str,
        runner: AgentRunner,
        limits: Limits | None = None,
        *,
        retry: Retry | None = None,
        price: Price | None = None,
        breaker: BreakerSettings | None = None,
        capabilities: Capabilities | None = None,
        clock: Clock = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        observer: Callable[[Attempt], None] | None = None,
        admission: Admission | None = None,
    ) -> None:
        self.agent_id, self.runner = agent_id, runner
        self.limits = limits or Limits()
        self.retry, self.price = retry or Retry(), price or Price()
        self.capabilities = capabilities or Capabilities()
        self.breaker = Breaker(breaker or BreakerSettings(), clock)
        self._clock, self._sleep, self.observer = clock, sleep, observer
        self._admission = admission or Admission(self.limits, clock)
        self._active: set[_Try] = set()
        self._first_bytes = FirstBytes()
        self._closing = False
        self._streams = bool(getattr(runner, "streams", True))  # else an answer has its first byte at its end
        if isinstance(runner, EndpointsRunner):
            runner.passed_over = self._passed_over

    @property
    def available(self) -> bool:
        """Whether a call would be admitted now, or may wait; routers exclude unavailable agents."""
        return self.refusal is None

    @property
    def refusal(self) -> Refusal | None:
        """Why a call would not be admitted now; None if it would, immediately or after a wait."""
        if self._closing:
            return Refusal.STOPPING
        return self._admission.refusal if self.breaker.ready() else Refusal.CIRCUIT

    @property
    def reason(self) -> str:
        """Why a call would not be admitted now, for people: an open circuit with the failure that opened it."""
        refusal = self.refusal
        failure = self.breaker.view().last_failure
        if refusal is Refusal.CIRCUIT and failure is not None:
            return f"{refusal}: {failure.meaning.what}"
        return "" if refusal is None else str(refusal)

    @property
    def models(self) -> tuple[str, ...]:
        """The models that the agent's answers may name; empty for any."""
        return tuple(getattr(self.runner, "models", ()))

    @property
    def retry_in_s(self) -> float:
        """Seconds until an unavailable agent may accept calls again; 0 if unknown."""
        return max(self.breaker.view().retry_in_s, self._admission.held_s)

    def view(self) -> GuardView:
        """Snapshot of the current state."""
        refusal = self.refusal
        return GuardView(
            self.agent_id,
            self.breaker.view(),
            len(self._active),
            concurrency=self.limits.slots,
            waiting=self._admission.waiting,
            held_s=self._admission.held_s,
            available=refusal is None,
            reason=self.reason,
            retry_in_s=self.retry_in_s,
        )

    def reset(self) -> None:
        """End a hold requested by the agent, and close its circuit breaker."""
        self._admission.hold(0.0)
        self.breaker.reset()

    async def call(self, request: CallRequest) -> CallReply:
        """Call the agent, with retries; returns the complete answer."""
        run = self._begin(request)
        while True:
            try:
                return await self._call_once(run)
            except CallFailure as failure:
                pause = self._pause(failure, run)
                if pause is None:
                    raise
            await self._sleep(pause)

    async def stream(self, request: CallRequest) -> AsyncGenerator[Chunk, None]:
        """Stream the answer; retried only while no chunk has been yielded."""
        run = self._begin(replace(request, stream=True))
        while True:
            passed_on = False
            try:
                async with aclosing(self._stream_once(run)) as chunks:
                    async for chunk in chunks:
                        passed_on = True
                        yield chunk
                return
            except CallFailure as failure:
                pause = None if passed_on else self._pause(failure, run)
                if pause is None:
                    raise
            await self._sleep(pause)

    async def close(self) -> None:
        """Reject new calls, end calls in progress (as ``shutdown``) and release all resources."""
        self._closing = True
        for attempt in tuple(self._active):
            attempt.watch.end()
        await self.runner.close()

    def _begin(self, request: CallRequest) -> _Run:
        deadline_s = request.deadline_s
        return _Run(request, None if deadline_s is None else asyncio.get_running_loop().time() + deadline_s)

    async def _call_once(self, run: _Run) -> CallReply:
        attempt = await self._admit(run)
        with self._settling(attempt):
            runner = run.request.carrier or self.runner
            reply = await attempt.watch.wait(lambda: runner.call(run.request))
            return self._complete(attempt, reply)

    async def _stream_once(self, run: _Run) -> AsyncGenerator[Chunk, None]:
        """One attempt. Chunks before the first content are buffered, so that another agent can still take over."""
        attempt = await self._admit(run)
        held: list[Chunk] = []
        with self._settling(attempt):
            async with aclosing((run.request.carrier or self.runner).stream(run.request)) as source:
                while (chunk := await self._next(attempt.watch, source)).reply is None:
                    attempt.usage = chunk.usage or attempt.usage or (Usage() if chunk.begins else None)
                    held.append(chunk)
                    if attempt.watch.first_byte_s is not None:
                        for piece in held:
                            yield piece
                        held.clear()
                reply = self._complete(attempt, chunk.reply)
            for piece in (*held, replace(chunk, reply=reply)):
                yield piece

    @contextmanager
    def _settling(self, attempt: _Try) -> Iterator[None]:
        """Report a failed attempt; always release its concurrency slot."""
        try:
            yield
        except BaseException as error:
            failure = self._fail(attempt, error)
            if failure is None:
                raise
            raise failure from error
        finally:
            self._active.discard(attempt)
            self._admission.leave()

    async def _next(self, watch: AttemptTimer, source: AsyncGenerator[Chunk, None]) -> Chunk:
        try:
            chunk = await watch.wait(source.__anext__, streams=self._streams)
        except StopAsyncIteration:
            raise CallFailure(Ending.TRUNCATED_STREAM) from None
        if chunk.begins:
            watch.mark_first_byte()
        return chunk

    async def _admit(self, run: _Run) -> _Try:
        """Acquire a concurrency slot and a permit, or raise a refusal."""
        if self._closing:
            raise self._refuse(run, Ending.REFUSED_BUSY, "not asked: this process is stopping")
        if not run.attempts and self._admission.held_s:
            raise self._refuse(run, Ending.REFUSED_HOLD)
        if not await self._admission.enter(run.deadline_at):
            late = run.deadline_at is not None and asyncio.get_running_loop().time() >= run.deadline_at
            raise self._refuse(run, Ending.CALLER_DEADLINE if late else Ending.REFUSED_BUSY)
        permit = None if self._closing else self.breaker.acquire()
        if permit is None:
            self._admission.leave()
            raise self._refuse(run, Ending.REFUSED_BUSY if self._closing else Ending.REFUSED_BREAKER)
        limits = self.limits if run.request.carrier is None else _UNTIMED
        attempt = _Try(run, AttemptTimer(limits, run.deadline_at, run.request.meter), permit)
        self._active.add(attempt)
        return attempt

    def _complete(self, attempt: _Try, reply: CallReply) -> CallReply:
        """Add cost, times and attempts to the reply, and report it."""
        if len(reply.text) > self.limits.max_reply_bytes:
            raise CallFailure(Ending.TOO_LARGE)
        watch, run = attempt.watch, attempt.run
        if run.request.carrier is not None:
            self._take_times(attempt, reply)
        first = reply.first_byte_s if watch.first_byte_s is None else watch.first_byte_s
        reply = replace(reply, cost_usd=self.price.cost(reply.usage), elapsed_s=watch.waited_s, first_byte_s=first)
        streamed = run.request.stream and self._streams
        self._first_bytes.note(watch.waited_s if first is None or not streamed else first, streamed=streamed)
        self._report(attempt, Ending.COMPLETED, first, status=reply.status, reply=reply)
        return replace(reply, attempts=tuple(run.attempts))

    def _fail(self, attempt: _Try, error: BaseException) -> CallFailure | None:
        """Report the failure; returns the exception to raise instead of ``error``, or ``None`` to re-raise it."""
        if attempt.settled:
            return None
        failure = self._failure(error)
        watch, carrier = attempt.watch, attempt.run.request.carrier
        if carrier is not None and failure is error:
            self._take_times(attempt, failure)
        first = failure.first_byte_s if watch.first_byte_s is None else watch.first_byte_s
        if failure.retry_after_s:
            failure.retry_after_s = self._admission.hold(failure.retry_after_s)
        used = getattr(carrier, "usage", None) or attempt.usage
        part = None if used is None else CallReply(usage=used, cost_usd=self.price.cost(used))
        ending = Ending.ABANDONED if first is None and self._abandoned(attempt, failure) else failure.ending
        self._report(attempt, ending, first, status=failure.status, reply=part)
        failure.elapsed_s, failure.first_byte_s = watch.waited_s, first
        failure.attempts = tuple(attempt.run.attempts)
        is_cancellation = not isinstance(error, Exception)  # must propagate unchanged
        return None if is_cancellation or failure is error else failure

    def _abandoned(self, attempt: _Try, failure: CallFailure) -> bool:
        """Whether the caller gave up after a silence that is the agent's: longer than it usually needs.

        An agent that has never answered is given up sooner, but only if another one may serve the request.
        """
        left = failure.ending in (Ending.CANCELLED_BY_CALLER, Ending.CALLER_DEADLINE)
        if not left or self.limits.first_byte_s is None:  # nobody knows how long a person needs
            return False
        request = attempt.run.request
        usual_s = self._first_bytes.patience_s(streamed=request.stream and self._streams)
        if usual_s is not None:
            return attempt.watch.waited_s > usual_s
        return attempt.watch.waited_s > _UNKNOWN_SILENCE_S and request.elsewhere is not None and request.elsewhere()

    def _take_times(self, attempt: _Try, ended: CallReply | CallFailure) -> None:
        """Copy the carrier's times, and log its earlier calls of other endpoints in this attempt."""
        watch, run = attempt.watch, attempt.run
        watch.waited_s, watch.first_byte_s = ended.elapsed_s, ended.first_byte_s
        for each in ended.attempts[:-1]:
            self._note(run, each.ending, each.elapsed_s, first=each.first_byte_s, status=each.status, passed_over=True)

    def _failure(self, error: BaseException) -> CallFailure:
        if self._closing:
            return CallFailure(Ending.SHUTDOWN)
        if isinstance(error, CallFailure):
            return error
        if isinstance(error, asyncio.CancelledError | GeneratorExit):
            return CallFailure(Ending.CANCELLED_BY_CALLER)
        if isinstance(error, Exception):
            ending = Ending.OUT_OF_MEMORY if isinstance(error, MemoryError) else Ending.CRASHED
            return CallFailure(ending, f"the agent raised {type(error).__name__}")
        return CallFailure(Ending.SHUTDOWN)

    def _report(
        self, attempt: _Try, ending: Ending, first: float | None, *, status: int | None, reply: CallReply | None = None
    ) -> None:
        attempt.settled = True
        opened = self.breaker.view().opened
        self.breaker.settle(attempt.permit, ending)
        if self.breaker.view().opened > opened:
            fields = {"agent": self.agent_id, "ending": str(ending), "detail": ending.meaning.what}
            _log.error("circuit opened", extra={"fields": fields})
        self._note(attempt.run, ending, attempt.watch.waited_s, first=first, status=status, reply=reply or _NOTHING)

    def _refuse(self, run: _Run, ending: Ending, message: str = "") -> CallFailure:
        self._note(run, ending, 0.0, first=None, status=None)
        wait_s = self.retry_in_s or None
        return CallFailure(ending, message, started=False, retry_after_s=wait_s, attempts=tuple(run.attempts))

    def _note(
        self,
        run: _Run,
        ending: Ending,
        elapsed_s: float,
        *,
        first: float | None,
        status: int | None,
        reply: CallReply = _NOTHING,
        passed_over: bool = False,
    ) -> None:
        number = len(run.attempts) + 1
        entry = Attempt(
            self.agent_id,
            run.request.id,
            number,
            ending=ending,
            elapsed_s=elapsed_s,
            first_byte_s=first,
            status=status,
            usage=reply.usage,
            cost_usd=reply.cost_usd,
            passed_over=passed_over,
        )
        run.attempts.append(entry)
        _log_failure(entry)
        if self.observer is not None:
            self.observer(entry)

    def _passed_over(self, request: CallRequest, failure: CallFailure, elapsed_s: float) -> None:
        """Log a failed call of one endpoint before the next one is tried within the same attempt."""
        run = next((each.run for each in self._active if each.run.request is request), None)
        if run is not None:
            self._note(run, failure.ending, elapsed_s, first=None, status=failure.status, passed_over=True)

    def _pause(self, failure: CallFailure, run: _Run) -> float | None:
        """Seconds before the next attempt, or ``None`` to give up."""
        number, retry = sum(not each.passed_over for each in run.attempts), self.retry
        safe = failure.ending.meaning.retryable and (retry.idempotent or not failure.started)
        most = retry.tries if run.request.most_calls is None else min(retry.tries, run.request.most_calls)
        if not safe or number >= most or not self.breaker.ready() or self._closing:
            return None
        slowed, elsewhere = failure.ending is Ending.RATE_LIMITED or failure.retry_after_s, run.request.elsewhere
        if slowed and elsewhere is not None and elsewhere():
            return None
        pause = retry.pause(number, f"{self.agent_id}/{run.request.id}", failure.retry_after_s)
        if pause is None or run.deadline_at is None:
            return pause
        return pause if asyncio.get_running_loop().time() + pause < run.deadline_at else None


def _log_failure(attempt: Attempt) -> None:
    """Log a failed attempt: agent, ending and times, never the request or answer."""
    if attempt.ending in _EXPECTED or not attempt.ending.meaning.attempted:
        return
    fields = {
        "agent": attempt.agent,
        "decision": attempt.request_id,
        "attempt": attempt.number,
        "ending": str(attempt.ending),
        "status": attempt.status,
        "elapsed_s": round(attempt.elapsed_s, 3),
    }
    _log.warning("attempt failed", extra={"fields": fields})
