"""A round: decide, call the agent, look at its answer, ask another one or deliver, learn.

Used by ``/v1/tasks`` and the gateway.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple, NoReturn

import msgspec

from bot_orch.agents.base import AgentMeter, Attempt, CallFailure, CallReply, CallRequest, Chunk, Usage
from bot_orch.agents.endings import Ending
from bot_orch.agents.replies import made_in
from bot_orch.agents.served import is_replacement
from bot_orch.core.events import MODEL, DecisionMade, FeedbackGiven, Noted, TaskRecord
from bot_orch.core.reward import SurvivalReward
from bot_orch.errors import InvalidInputError
from bot_orch.log.ids import time_ordered_id
from bot_orch.service.judges.answer import Verdict
from bot_orch.service.judges.registry import OWN
from bot_orch.service.judging.completions import answered_by
from bot_orch.service.operations.tracing import note_decision, note_reply
from bot_orch.service.problems import Problem
from bot_orch.service.reports import ReportSource, feedback_id
from bot_orch.service.routing.decision import decide
from bot_orch.service.routing.explanation import NEXT_DECISION
from bot_orch.service.routing.failures import FINAL, problem_of_round, reason_of
from bot_orch.service.routing.midstream import PartialAnswer
from bot_orch.service.routing.observe import ask_unseen, dollars_to_compare
from bot_orch.service.routing.rules import RoutingConstraints, narrow
from bot_orch.service.routing.steps import (
    ANSWER,
    Candidate,
    Team,
    candidate_of,
    reasons_of,
    step_lines,
    with_logprobs,
    without_logprobs,
)
from bot_orch.service.runtime import Runtime
from bot_orch.service.storage.groups import Group
from bot_orch.survival.causes import Cause
from bot_orch.types import Measure, Outcome, RewardRange

_log = logging.getLogger("bot_orch.rounds")
_LEAST_S = 1e-3
_MOST_MODELS = 20  # names that an agent may be served by; more say nothing


class AnswerFrame(NamedTuple):
    """Metadata of an answer: decision id as seen by the caller, agent, and creation time."""

    decision_id: str
    agent: str
    created_s: int


@dataclass(slots=True)
class Round:
    """One task and the agents called for it, one after the other until one answers.

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
    decisions, tried, last, failures
        How far the round has come: ids of decisions, agents called, the last decision, and how the calls failed.
    made, candidates, reasons
        Its decisions, the answers that may be delivered by agent, and what is known of them by decision.
    calls, waited_s, spent_usd
        Attempts at agents so far, the time spent on them (waiting for a slot, for the agent, between attempts, for
        checks), and their dollars.
    meter
        The time that agents took: what is left of the round's is the service's own.
    partial
        What the client has of a streamed answer.
    served
        Of a comparison: the agent whose answer the caller gets.
    answered
        Whether an agent has answered.
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
    failures: list[CallFailure] = field(default_factory=list)
    made: list[DecisionMade] = field(default_factory=list)
    candidates: dict[str, Candidate] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    calls: int = 0
    waited_s: float = 0.0
    spent_usd: float = 0.0
    meter: AgentMeter = field(default_factory=AgentMeter)
    partial: PartialAnswer = field(init=False)
    served: str = ""
    answered: bool = False
    _spent: bool = False  # no further agent may be asked
    _stops: bool = False  # the agent gets less than the deadline, so that another one can be asked
    _group: Group | None = None
    _usage: Usage | None = None  # of the answer
    _known: DecisionMade | None = None  # the last decision, once it is on disk

    def __post_init__(self) -> None:
        self.partial = PartialAnswer(self.runtime.config.router.midstream)

    @property
    def looks(self) -> bool:
        """Whether answers are looked at before one is delivered; streams are passed on as they come."""
        settings = self.runtime.config.router
        return settings.looks and not self.call.stream and not self.constraints.unseen

    async def run(self) -> CallReply:
        """Call agents until one answers; returns the answer."""
        if self.looks:
            return (await self._accepted()).reply
        while True:
            decision = await self._next()
            if decision.agent == self.served:
                self._report(decision.id, Outcome(False, None, None, "not_applicable"))
                return CallReply()
            begun = time.perf_counter()
            try:
                with self._watching(decision):
                    reply = await self.runtime.guards[decision.agent].call(self._request(decision))
            except CallFailure as failure:
                self.waited_s += time.perf_counter() - begun
                await self._failed(decision, failure)
                continue
            self.waited_s += time.perf_counter() - begun
            note_reply(reply.raw)
            self._succeeded(decision, reply)
            self._judge(decision, reply)
            await self._on_disk()  # the commit ran while the agent worked
            return reply

    async def stream(self) -> AsyncIterator[Chunk]:
        """Stream the answer in chunks. After the first one a failure ends it, or ``router.midstream`` says what."""
        while True:
            decision = await self._next()
            passed_on, begun = False, time.perf_counter()
            try:
                with self._watching(decision):
                    request = self._request(decision)
                    chunks = self.runtime.guards[decision.agent].stream(self._taking_over(decision, request))
                    async with aclosing(chunks):
                        async for chunk in chunks:
                            if not passed_on:
                                self.waited_s += time.perf_counter() - begun
                                await self._on_disk()
                                if self.partial.begun and request.carrier is None:
                                    yield self.partial.opening(decision.agent)
                            passed_on = True
                            note_reply(chunk.raw)
                            if chunk.reply is not None:
                                reply = chunk.reply if request.carrier is not None else self.partial.whole(chunk.reply)
                                self._succeeded(decision, reply)
                                self._judge(decision, reply)
                            if (piece := self.partial.add(chunk)) is not None:
                                yield piece
                return
            except CallFailure as failure:
                since_first_s = failure.elapsed_s - (failure.first_byte_s or 0.0)
                self.waited_s += since_first_s if passed_on else time.perf_counter() - begun
                await self._failed(decision, failure, final=not self.partial.can_move)

    def headers(self) -> dict[str, str]:
        """Response headers about the round; empty until its decision is on disk."""
        if self._known is None:
            return {}
        return {
            "x-bot-orch-decision-id": self._known.id,
            "x-bot-orch-agent": self._known.agent,
            "x-bot-orch-propensity": repr(self._known.propensity),
            "x-bot-orch-policy": self._known.policy,
            "x-bot-orch-attempts": str(len(self.tried)),
            **({"x-bot-orch-steps": "; ".join(self.steps())} if self.looks else {}),
            **self._dollars(),
        }

    def _dollars(self) -> dict[str, str]:
        """Dollars of a complete answer, and what the baseline would have cost: with as many tokens, if these are known.

        A stream has headers before it has costs.
        """
        runtime = self.runtime
        found = {"x-bot-orch-cost-usd": f"{self.spent_usd:.8g}"} if self.answered else {}
        baseline = runtime.baseline
        if baseline in runtime.guards:
            usage = self._usage or self.constraints.size.usage()
            found["x-bot-orch-baseline-usd"] = f"{runtime.guards[baseline].price.cost(usage):.8g}"
        return found

    def steps(self) -> list[str]:
        """The steps so far, in words."""
        return step_lines(self.made, self.reasons)

    def frame(self) -> AnswerFrame:
        """The metadata of the answer."""
        created_s = self.runtime.ledger.time_us // 1_000_000
        return (
            AnswerFrame("", "auto", created_s)
            if self.last is None
            else AnswerFrame(self.last.id, self.last.agent, created_s)
        )

    async def _next(self) -> DecisionMade:
        """The next decision, or after a restart the last one."""
        if self.again is not None and self.again.agent in self.runtime.guards:
            event, self.again = self.again, None
            self._remember(event)
            return event
        try:
            first = self.decisions[0] if self.decisions else ""
            event, self._group = decide(
                self.runtime,
                self.record,
                self._constraints(),
                text=self.text,
                task_ref=self.task_id,
                round_id=first,
                team=self._team() if self.looks else None,
            )
        except Problem as problem:
            if self.failures and problem.code == "no_agent":
                await self._give_up()
            raise
        if first:
            note = Noted(NEXT_DECISION, first, {"decision": event.id})
            self._group = self.runtime.writer.stage(self.runtime.writer.stamp(), note, first)
        self._remember(event)
        if not self.constraints.unseen:
            note_decision(event)
        if not first and (expected_usd := dollars_to_compare(self.runtime, event, self.constraints)) is not None:
            self.runtime.background.start(f"shadow {event.id}", self._compare(event, expected_usd))
        return event

    def _constraints(self) -> RoutingConstraints:
        """The constraints of the next decision of the round."""
        tried = (name for name in self.tried if self.tried.count(name) > 1 or name not in self.partial.refused)
        return msgspec.structs.replace(
            self.constraints,
            tried=tuple(tried),
            spent_usd=self.spent_usd,
            continuing=self._continuing() if self.partial.begun else (),
        )

    def _others(self) -> bool:
        """Whether another agent may be asked in place of the last one."""
        runtime, settings = self.runtime, self.runtime.config.router
        if len(self.tried) >= settings.attempts or self.calls + 1 >= settings.max_calls:
            return False
        try:
            now_us = runtime.writer.now_us()
            narrow(self._constraints(), settings, runtime.ledger, guards=runtime.guards, now_us=now_us)
        except Problem:
            return False
        return True

    def _continuing(self) -> tuple[str, ...]:
        """Agents that can go on with the answer that the client has begun to get."""
        return self.partial.continuing({name: each.capabilities for name, each in self.runtime.guards.items()})

    async def _compare(self, served: DecisionMade, expected_usd: float) -> None:
        """Ask whom the router would choose beside ``served``; its own choice of that one needs no second call."""
        constraints = msgspec.structs.replace(self.constraints, unseen=True, session=None, token="", eligible=None)
        call = replace(self.call, stream=False, carrier=None)
        twin = Round(self.runtime, self.record, constraints, call=call, text=self.text, served=served.agent)
        await ask_unseen(twin)
        self.runtime.shadow_allowance.settle(expected_usd, twin.spent_usd)

    async def _on_disk(self) -> None:
        """Wait until the last decision is on disk and may be returned to the caller."""
        if self._group is not None:
            await self._group.durable()
        self._known = self.last

    async def _give_up(self) -> NoReturn:
        """Raise the failure to answer with, once the round with all its attempts is on disk."""
        await self._on_disk()
        if self.runtime.heir is None:
            await self.runtime.writer.barrier()
        raise problem_of_round(self.failures, self.tried[-len(self.failures) :]) from self.failures[-1]

    def _team(self) -> Team:
        """The answers so far, and how many agents the round may ask."""
        settings, known = self.runtime.config.router, self.runtime.ledger.router.agents
        seen = tuple(each.answer for name, each in self.candidates.items() if name in known)
        left = 0 if self._spent else settings.attempts - len(self.tried)
        baseline = settings.guarantee.get("baseline")
        if baseline is not None and len(self.tried) < settings.attempts and baseline not in self.tried:
            left = max(left, 1)  # whatever was spent, its answer may be needed
        return Team(seen, max(1, len(seen) + left))

    def _remember(self, event: DecisionMade) -> None:
        self.last = event
        self.made.append(event)
        self.decisions.append(event.id)
        if event.action == "ask":
            self.tried.append(event.agent)

    async def _accepted(self) -> Candidate:
        """Ask agents, look at their answers, and return the one that is accepted; its decision is on disk."""
        while True:
            decision = await self._next()
            if decision.action == "accept":
                break
            begun = time.perf_counter()
            try:
                with self._watching(decision):
                    reply = await self._asked(decision)
            except CallFailure as failure:
                self.waited_s += time.perf_counter() - begun
                self.reasons[decision.id] = str(failure.ending)
                await self._failed(decision, failure)
                continue
            note_reply(reply.raw)
            await self._looked(decision, reply)
            self.waited_s += time.perf_counter() - begun
            settings, left_s = self.runtime.config.router, self._left_s()
            self._spent = self.calls >= settings.max_calls or (left_s is not None and left_s <= 0.0)
        found = await self._delivered(decision, self.candidates[decision.agent])
        self._count_steps(decision)
        await self._on_disk()
        return found

    async def _asked(self, decision: DecisionMade) -> CallReply:
        """The answer of an agent, with the probabilities of its tokens if they are the signal."""
        guard, request, mute = self.runtime.guards[decision.agent], self._request(decision), self.runtime.mute
        sure = with_logprobs(request) if self.runtime.config.router.signal == "logprobs" else request
        if sure is not request and decision.agent not in mute:
            try:
                return await guard.call(sure)
            except CallFailure as failure:
                if b"logprobs" not in (failure.raw or b""):
                    raise
                mute.add(decision.agent)  # it refuses the parameter
                self._add_up(failure.attempts)
        return await guard.call(request)

    async def _looked(self, decision: DecisionMade, reply: CallReply) -> None:
        """Note what is known of an answer: what checks say, how sure it is."""
        judges, settings = self.runtime.judges, self.runtime.config.router
        self._check_model(decision, reply.model)
        self._add_up(reply.attempts)
        verdicts = {} if judges is None else await judges.look(decision, self.call, reply)
        self.spent_usd += sum(each.cost_usd for each in verdicts.values())
        found = candidate_of(decision, reply, verdicts=verdicts, settings=settings)
        self.candidates[decision.agent] = found
        self.reasons[decision.id] = reasons_of(found, settings)
        if reply.measure is not None:
            self._show(decision.id, reply.measure)
        note = Noted(ANSWER, decision.id, {"reasons": reasons_of(found, settings, logged=True)})
        self.runtime.writer.stage(self.runtime.writer.stamp(), note, decision.id)

    async def _delivered(self, decision: DecisionMade, found: Candidate) -> Candidate:
        """The accepted answer, once judges know of it and of its tool calls."""
        reply = found.reply
        if self.runtime.config.router.signal == "logprobs" and with_logprobs(self.call) is not self.call:
            reply = replace(reply, raw=without_logprobs(reply.raw))
        self._remember_made(decision, reply)
        self.answered, self._usage = True, reply.usage
        if reply.reward is not None:
            reward = self._rewards.natural(reply.reward)
            outcome = replace(reply.outcome(reward), output=None)  # which its own decision has shown
            self._report(decision.id, outcome, judge=OWN)
        self._judge(decision, reply, known=found.verdicts)
        return replace(found, reply=reply)

    def _remember_made(self, decision: DecisionMade, reply: CallReply) -> None:
        """Remember who made the tool calls or the response: what builds on them goes to that agent."""
        for each in made_in(reply):
            self.runtime.made[self.constraints.token, each] = decision.agent

    def _count_steps(self, decision: DecisionMade) -> None:
        """Count a round by the number of agents asked, and what later ones cost."""
        metrics, (first, *later) = self.runtime.metrics, self.candidates.values()
        changed = "yes" if decision.agent != first.answer.agent else "no"
        metrics.count("bot_orch_rounds_total", agents=str(len(self.tried)), changed=changed)
        metrics.count("bot_orch_later_answers_usd_total", sum(each.reply.cost_usd for each in later))

    def _judge(
        self, decision: DecisionMade, reply: CallReply, *, known: Mapping[str, Verdict] = MappingProxyType({})
    ) -> None:
        if self.runtime.judges is not None:
            self.runtime.judges.hear(decision, self.call, reply, known=known)

    def _add_up(self, attempts: Sequence[Attempt]) -> None:
        self.calls += sum(each.ending.meaning.attempted and not each.passed_over for each in attempts)
        self.spent_usd += sum(attempt.cost_usd for attempt in attempts)

    def _request(self, decision: DecisionMade) -> CallRequest:
        """The request to the agent; retries use only calls that are not reserved for other agents."""
        settings = self.runtime.config.router
        others = min(settings.attempts - len(self.tried), len(decision.eligible or decision.agents) - 1)
        spare = settings.max_calls - self.calls - max(0, others)
        given = _allowance(self.runtime, decision, self._left_s(), made=len(self.tried), tried=self.tried)
        self._stops = given.stops
        call = self.call
        most, seconds = max(1, spare), given.seconds
        return replace(
            call, id=decision.id, most_calls=most, deadline_s=seconds, elsewhere=self._others, meter=self.meter
        )

    def _taking_over(self, decision: DecisionMade, request: CallRequest) -> CallRequest:
        """The request as the agent gets it if the client has a part of the answer already."""
        return self.partial.request(
            request, self.partial.style(decision.agent, self.runtime.guards[decision.agent].capabilities)
        )

    def _left_s(self) -> float | None:
        """Seconds left until the caller's deadline; None without one."""
        return None if self.call.deadline_s is None else self.call.deadline_s - self.waited_s

    @contextmanager
    def _watching(self, decision: DecisionMade) -> Iterator[None]:
        """The horizon does not run while the agent works; a cancelled call is censored."""
        started = self.runtime.writer.now_us()
        try:
            with self.runtime.in_flight.working(decision.id, resumed=self._keeps_ticket(decision.agent)):
                yield
        except (asyncio.CancelledError, GeneratorExit):
            if not (self.resumable and self.runtime.stopping):  # else the restart continues it
                elapsed_s = (self.runtime.writer.now_us() - started) / 1e6
                self._report(decision.id, Outcome.censored(elapsed_s=elapsed_s, reason="cancelled"))
            raise

    def _keeps_ticket(self, agent: str) -> bool:
        """Whether the round waits for a person, and keeps the ticket across restarts."""
        return self.resumable and any(each.id == agent and each.kind == "human" for each in self.runtime.config.agents)

    @property
    def _rewards(self) -> RewardRange:
        return self.runtime.ledger.router.reward.range

    def _check_model(self, decision: DecisionMade, served: str) -> None:
        """Start the agent afresh if another model answers in its name: what was learned is about the former one."""
        runtime = self.runtime
        if decision.agent not in runtime.guards:
            return
        asked, known = runtime.guards[decision.agent].models, runtime.ledger.rollout.models.get(decision.agent, ())
        settled = served in asked or served in known or len(known) >= _MOST_MODELS
        if not (asked and served and runtime.ready) or settled:
            return
        afresh = is_replacement(asked, known, served)
        if afresh:
            fields = {"agent": decision.agent, "asked": asked[0], "served": served, "decision": decision.id}
            _log.warning("another model answers", extra={"fields": fields})
            runtime.metrics.count("bot_orch_model_replacements_total", agent=decision.agent)
        note = Noted(MODEL, decision.agent, {"model": served, "decision": decision.id, "afresh": afresh})
        runtime.writer.stage(runtime.writer.stamp(), note, decision.agent)

    def _succeeded(self, decision: DecisionMade, reply: CallReply) -> None:
        self._check_model(decision, reply.model)
        self._remember_made(decision, reply)
        self.answered, self._usage = True, reply.usage
        self.spent_usd += reply.cost_usd
        default = reply.reward is None
        own = None if reply.reward is None else self._rewards.natural(reply.reward)
        reward = self.runtime.config.router.success_reward if default else own
        timed = isinstance(self.runtime.ledger.router.reward, SurvivalReward)  # it learns from times alone
        if reward is not None or timed:  # otherwise feedback is expected, or the horizon passes
            judge = OWN if reward is not None else ""  # a report takes its place
            self._report(decision.id, reply.outcome(reward), judge=judge, default=default and reward is not None)
        elif reply.measure is not None:
            self._show(decision.id, reply.measure)

    async def _failed(self, decision: DecisionMade, failure: CallFailure, *, final: bool = False) -> None:
        """Learn from a failure; raise an error if no other agent should be called."""
        meaning = failure.ending.meaning
        passed_on = failure.ending is Ending.UNSUITED and self._is_the_callers(decision, reason_of(failure))
        # what another agent wrote, or what the client is to change, says nothing of this one
        rejected = self.partial.failed(decision.agent, failure) or passed_on
        failed = meaning.attempted and meaning.cause not in (Cause.CENSORED, Cause.COMPLETED)
        # a failure earns the least; for a censored call the reward model decides by the reason
        reward = self._rewards.low if failed and not rejected else None
        reason = "not_applicable" if rejected else meaning.reason
        self._report(decision.id, Outcome(False, reward, failure.elapsed_s, reason))
        self.failures.append(failure)
        self._add_up(failure.attempts)
        settings = self.runtime.config.router
        spent = len(self.tried) >= settings.attempts or self.calls >= settings.max_calls
        left_s = self._left_s()
        stopped = self._stops and failure.ending is Ending.CALLER_DEADLINE
        ended = passed_on or (failure.ending in FINAL and not (stopped or rejected))
        if final or spent or ended or (left_s is not None and left_s <= 0.0):
            if not self.candidates:
                await self._give_up()
            self._spent = True  # the best answer so far is delivered

    def _is_the_callers(self, decision: DecisionMade, reason: str | None) -> bool:
        """Whether a rejection is for the client at once: no other agent can be expected to take the request."""
        if reason != "context length":
            return reason == "content filter"
        others = [name for name in decision.eligible or decision.agents if name not in self.tried]
        return all(self._context(name) <= self._context(decision.agent) for name in others)

    def _context(self, agent: str) -> float:
        """The tokens that an agent takes; infinite if it is not configured."""
        guard = self.runtime.guards.get(agent)
        tokens = None if guard is None else guard.capabilities.context_tokens
        return math.inf if tokens is None else tokens

    def _report(self, decision_id: str, outcome: Outcome, *, judge: str = "", default: bool = False) -> None:
        moved = self.runtime.heir is not None
        if not (self.runtime.ready or moved) or decision_id not in self.runtime.ledger.pending:
            return  # feedback has arrived already
        effect = self.runtime.ledger.router.effect_of(decision_id, outcome) or ""
        try:
            self._stage(decision_id, outcome, effect, judge=judge, default=default)
        except InvalidInputError as error:  # the answer counts without its measure
            if outcome.output is None:
                raise
            _log.warning("measure not learned", extra={"fields": {"decision": decision_id, "detail": str(error)}})
            self._stage(decision_id, replace(outcome, output=None), effect, judge=judge, default=default)
        self.runtime.metrics.count("bot_orch_feedback_total", effect=effect)

    def _show(self, decision_id: str, output: Measure) -> None:
        """Report the output without a reward, so that distances and drift alarms need not wait."""
        ledger = self.runtime.ledger
        if not self.runtime.ready or decision_id not in ledger.pending:
            return
        if decision_id in ledger.router.shown:
            return  # before a restart
        event = FeedbackGiven(
            feedback_id(ReportSource.ROUND, decision_id), decision_id, "shown", output=output.to_dict()
        )
        try:
            self.runtime.writer.stage(self.runtime.writer.stamp(), event, decision_id)
        except InvalidInputError as error:
            _log.warning("measure not learned", extra={"fields": {"decision": decision_id, "detail": str(error)}})

    def _stage(self, decision_id: str, outcome: Outcome, effect: str, *, judge: str, default: bool) -> None:
        agent = self.last.agent if judge and self.last is not None else ""
        known_as = feedback_id(ReportSource.ROUND, decision_id)
        self.runtime.record(
            FeedbackGiven.of(known_as, decision_id, effect, outcome=outcome, judge=judge, agent=agent, default=default)
        )


class _Allowance(NamedTuple):
    """Seconds allotted to an agent (None: no limit), and whether another one would be called afterwards."""

    seconds: float | None
    stops: bool = False


def _allowance(
    runtime: Runtime, decision: DecisionMade, left_s: float | None, *, made: int, tried: Collection[str]
) -> _Allowance:
    """The share of the remaining ``left_s`` seconds for the agent, after ``made`` decisions in the round.

    Everything, unless another agent may have a turn: then what
    :meth:`bot_orch.Orchestrator.patience` says.
    """
    if left_s is None:
        return _Allowance(None)
    left_s, settings, router = max(left_s, _LEAST_S), runtime.config.router, runtime.ledger.router
    others = [name for name in decision.eligible or decision.agents if name not in tried and name in router.agents]
    if made >= settings.attempts or not others:
        return _Allowance(left_s)
    seconds = max(router.patience(decision.decision(), left_s, eligible=others), _LEAST_S)
    return _Allowance(min(seconds, left_s), seconds < left_s)


class ChatTask(msgspec.Struct, frozen=True, array_like=True):
    """A chat as the owner of its router needs it: enough to decide, even if another process calls the agent.

    Parameters
    ----------
    task, constraints
        The task, without an id, and which agents it may go to.
    refers_to, results
        Ids of earlier answers that it builds on, and of the tool calls whose results it has.
    text
        The prompt, for a router with an encoder; it is not logged.
    """

    task: TaskRecord
    constraints: RoutingConstraints
    refers_to: tuple[str, ...]
    results: tuple[str, ...]
    text: str | None


async def round_of(runtime: Runtime, chat: ChatTask, call: CallRequest) -> Round:
    """Create the round that serves a chat; raises a :class:`Problem` if there is none."""
    if not set(chat.constraints.eligible or ()) <= set(runtime.ledger.router.agents):
        raise unknown_model()
    constraints = msgspec.structs.replace(chat.constraints, made_by=await _made_by(runtime, chat))
    record = chat.task._replace(id=f"chat-{time_ordered_id(runtime.writer.now_us())}")
    text = None if runtime.ledger.router.settings.text is None else chat.text
    return Round(runtime, record, constraints, call=call, text=text)


def unknown_model() -> Problem:
    """The answer to an unknown model."""
    return Problem(404, "model_not_found", "there is no such model; see /v1/models", param="model")


async def _made_by(runtime: Runtime, chat: ChatTask) -> str | None:
    """The agent that has what the chat builds on: tool calls, an earlier answer, a file."""
    token = chat.constraints.token
    for each in (*chat.refers_to, *chat.results):
        if (agent := runtime.made.get((token, each))) is not None:
            return agent
    for each in chat.refers_to:
        if agent := await answered_by(runtime, each):
            return agent
    return None
