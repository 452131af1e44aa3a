"""A round: decide, call the agent, measure the time, fall back, learn. Used by ``/v1/tasks`` and the gateway."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace

from bot_orch.agents.base import CallFailure, CallReply, CallRequest, Chunk
from bot_orch.agents.endings import Ending
from bot_orch.errors import InvalidInputError
from bot_orch.eventlog.events import DecisionMade, FeedbackGiven, TaskRecord
from bot_orch.service.problems import Problem
from bot_orch.service.reports import ReportSource, feedback_id
from bot_orch.service.routing.decision import decide
from bot_orch.service.routing.rules import RoutingConstraints
from bot_orch.service.runtime import Runtime
from bot_orch.service.storage.writer import Group
from bot_orch.survival.causes import Cause
from bot_orch.types import Outcome

__all__ = ["Round"]

_log = logging.getLogger("bot_orch.rounds")

# The request is at fault, or the caller no longer waits: another agent would not help.
_FINAL = frozenset({Ending.UPSTREAM_4XX, Ending.CALLER_DEADLINE, Ending.CANCELLED_BY_CALLER, Ending.SHUTDOWN})
_STATUS = {
    Ending.UPSTREAM_4XX: 400,
    Ending.REFUSED_REQUEST: 413,
    Ending.RATE_LIMITED: 429,
    Ending.CALLER_DEADLINE: 504,
    Ending.TIMEOUT_FIRST_BYTE: 504,
    Ending.TIMEOUT_TOTAL: 504,
    Ending.UNANSWERED: 504,
    Ending.SHUTDOWN: 503,
    Ending.REFUSED_BREAKER: 503,
    Ending.REFUSED_BUSY: 503,
}


@dataclass(slots=True)
class Round:
    """One task and the agents that are called for it, one after the other until one answers.

    Parameters
    ----------
    runtime, record, constraints, call
        The service, the task, which agents it may go to, and what to send them.
    text
        The request, for the router's encoder; None if it has none.
    task_id
        Of a task submitted to ``/v1/tasks``.
    resumable
        Whether a restart continues the round, so that stopping the service must not censor its decision.
    again
        A decision made before a restart, whose agent is to be called again.
    decisions, tried, last, failure
        How far the round has come: ids of decisions, agents called, the last decision and failure.
    """

    runtime: Runtime
    record: TaskRecord
    constraints: RoutingConstraints
    _: KW_ONLY
    call: CallRequest
    text: str | None = None
    task_id: str | None = None
    resumable: bool = False
    again: DecisionMade | None = None
    decisions: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    last: DecisionMade | None = None
    failure: CallFailure | None = None

    async def run(self) -> CallReply:
        """Call agents until one answers; its answer."""
        while True:
            await self.runtime.writer.turn()
            decision, group = self._decide()
            try:
                with self._watching(decision):
                    reply = await self.runtime.guards[decision.agent].call(self._request(decision))
            except CallFailure as failure:
                self._failed(decision, failure)
                continue
            self._succeeded(decision, reply)
            await group.durable()  # the commit ran while the agent worked
            return reply

    async def stream(self) -> AsyncIterator[Chunk]:
        """The answer in chunks; falls back to another agent only before the first chunk."""
        while True:
            await self.runtime.writer.turn()
            decision, group = self._decide()
            passed_on = False
            try:
                with self._watching(decision):
                    chunks = self.runtime.guards[decision.agent].stream(self._request(decision))
                    async with aclosing(chunks):
                        async for chunk in chunks:
                            if not passed_on:
                                await group.durable()
                            passed_on = True
                            if chunk.reply is not None:
                                self._succeeded(decision, chunk.reply)
                            yield chunk
                return
            except CallFailure as failure:
                self._failed(decision, failure, final=passed_on)

    def headers(self) -> dict[str, str]:
        """Response headers about the round."""
        if self.last is None:
            return {}
        return {
            "x-bot-orch-decision-id": self.last.id,
            "x-bot-orch-agent": self.last.agent,
            "x-bot-orch-propensity": repr(self.last.propensity),
            "x-bot-orch-policy": self.last.policy,
            "x-bot-orch-attempts": str(len(self.decisions)),
        }

    def _decide(self) -> tuple[DecisionMade, Group]:
        """The next decision, or after a restart the last one; await the group before the caller sees it."""
        if self.again is not None and self.again.agent in self.runtime.guards:
            event, self.again = self.again, None
            self._remember(event)
            return event, _on_disk()
        try:
            constraints = replace(self.constraints, tried=self.tried)
            event, group = decide(self.runtime, self.record, constraints, text=self.text, task_ref=self.task_id)
        except Problem as problem:
            if self.failure is not None and problem.code == "no_agent":
                raise _problem(self.failure) from self.failure
            raise
        self._remember(event)
        return event, group

    def _remember(self, event: DecisionMade) -> None:
        self.last = event
        self.decisions.append(event.id)
        self.tried.append(event.agent)

    def _request(self, decision: DecisionMade) -> CallRequest:
        return replace(self.call, id=decision.id)

    @contextmanager
    def _watching(self, decision: DecisionMade) -> Iterator[None]:
        """The horizon does not run while the agent works; a cancelled call is censored."""
        started = self.runtime.writer.now_us()
        try:
            with self.runtime.in_flight.working(decision.id):
                yield
        except (asyncio.CancelledError, GeneratorExit):
            if not (self.resumable and self.runtime.stopping):  # else the restart continues it
                elapsed_s = (self.runtime.writer.now_us() - started) / 1e6
                self._report(decision.id, Outcome.censored(elapsed_s=elapsed_s, reason="cancelled"))
            raise

    def _succeeded(self, decision: DecisionMade, reply: CallReply) -> None:
        reward = self.runtime.config.router.success_reward if reply.reward is None else reply.reward
        if reward is not None:  # otherwise feedback is expected, or the horizon passes
            self._report(decision.id, reply.outcome(reward))

    def _failed(self, decision: DecisionMade, failure: CallFailure, *, final: bool = False) -> None:
        """Learn from a failure; raise if no other agent should be called."""
        meaning = failure.ending.meaning
        failed = meaning.attempted and meaning.cause not in (Cause.CENSORED, Cause.COMPLETED)
        # a failure earns 0; for a censored call the reward model decides by the reason
        reward = 0.0 if failed else None
        self._report(decision.id, Outcome(False, reward, failure.elapsed_s, meaning.reason))
        self.failure = failure
        if final or failure.ending in _FINAL or len(self.decisions) >= self.runtime.config.router.max_attempts:
            raise _problem(failure) from failure

    def _report(self, decision_id: str, outcome: Outcome) -> None:
        if not self.runtime.ready or decision_id not in self.runtime.ledger.pending:
            return  # feedback has arrived already
        try:
            self._stage(decision_id, outcome)
        except InvalidInputError as error:  # the answer counts without its measure
            if outcome.output is None:
                raise
            _log.warning("measure not learned", extra={"fields": {"decision": decision_id, "detail": str(error)}})
            self._stage(decision_id, replace(outcome, output=None))
        self.runtime.metrics.count("bot_orch_feedback_total", effect="learned")

    def _stage(self, decision_id: str, outcome: Outcome) -> None:
        event = FeedbackGiven(
            feedback_id(ReportSource.ROUND, decision_id),
            decision_id,
            "learned",
            outcome.reward,
            outcome.elapsed_s,
            outcome.event,
            outcome.reason,
            None if outcome.output is None else outcome.output.to_dict(),
        )
        self.runtime.writer.stage(self.runtime.writer.stamp(), event, decision_id)


def _on_disk() -> Group:
    group = Group()
    group.done.set()
    return group


def _problem(failure: CallFailure) -> Problem:
    status = _STATUS.get(failure.ending, 502)
    headers = {} if failure.retry_after_s is None else {"retry-after": str(max(1, round(failure.retry_after_s)))}
    return Problem(status, str(failure.ending), str(failure), headers=headers)
