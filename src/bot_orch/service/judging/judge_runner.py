"""Samples answers, judges them outside the request path, and logs the values."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import Any

import msgspec

from bot_orch.agents.base import CallReply, CallRequest
from bot_orch.agents.guard import Guard
from bot_orch.core.events import DecisionMade
from bot_orch.rng import derive_key, uniform
from bot_orch.service.build import make_guard
from bot_orch.service.config import AgentConfig, JudgeConfig
from bot_orch.service.judges.answer import AnswerGiven, JudgeFailure, Verdict, answer_of
from bot_orch.service.judges.models import ModelSettings
from bot_orch.service.judges.registry import AT_ONCE, AnswerJudge, judge_settings, make_judge
from bot_orch.service.judging.audits import HumanAudits
from bot_orch.service.judging.completions import completion_of, note_completion
from bot_orch.service.judging.verdicts import report, thumbs_of
from bot_orch.service.problems import StorageError
from bot_orch.service.runtime import Runtime

_log = logging.getLogger("bot_orch.judges")
_TIMEOUT_S = 60.0  # for one answer
_MOST = 1_000  # answers that wait


@dataclass(slots=True)
class _Seat:
    """A running judge with its slots."""

    config: JudgeConfig
    _: KW_ONLY
    judge: AnswerJudge | None = None
    guard: Guard | None = None
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    async def close(self) -> None:
        """Release the resources of the judge."""
        if self.guard is not None:
            await self.guard.close()


def open_bench(runtime: Runtime) -> JudgeRunner:
    """The judges of a service that is starting."""
    bench = runtime.judges = JudgeRunner(runtime)
    runtime.background.start("judges", bench.run())
    return bench


class JudgeRunner:
    """Judges answers in background tasks, at most 1000 at once; pending ones are dropped at a stop.

    Parameters
    ----------
    runtime
        The service; its configuration is looked at with every answer, so a reload takes effect at once.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._built: tuple[JudgeConfig, ...] = ()
        self._seats: list[_Seat] = []
        self._open = 0
        self._number = 0
        self._people = HumanAudits(runtime)

    async def look(self, decision: DecisionMade, request: CallRequest, reply: CallReply) -> dict[str, Verdict]:
        """What the checks say of an answer, before it is delivered."""
        self._rebuild()
        names = self._runtime.config.router.checks
        seats = [each for each in self._seats if each.config.name in names]
        if not seats:
            return {}
        answer = answer_of(decision, request, reply)
        found = await asyncio.gather(*(self._verdict(seat, answer) for seat in seats))
        for seat, each in zip(seats, found, strict=True):
            if each.value is not None:
                self._count(seat, "judged")
        return {seat.config.name: each for seat, each in zip(seats, found, strict=True)}

    def hear(
        self,
        decision: DecisionMade,
        request: CallRequest,
        reply: CallReply,
        *,
        known: Mapping[str, Verdict] = MappingProxyType({}),
    ) -> None:
        """Take a delivered answer: note its id, sample the judges for it, and start those without a ``known`` verdict.

        A sampled judge that has looked at the answer before its delivery is not asked again.
        """
        runtime = self._runtime
        if reply.endpoint == "files" or (runtime.config.judges and thumbs_of(runtime.config)):
            named = completion_of(decision, reply)
            if named is not None:
                runtime.background.start(f"completion {decision.id}", note_completion(runtime, decision, named))
        if not runtime.config.judges and not decision.audit:
            return
        answer = answer_of(decision, request, reply)
        seats = self._sampled(decision)
        auditor = self._auditor(decision)
        if not seats and auditor is None and not self._by_people(decision):
            return
        if self._open >= _MOST:
            for seat in seats:
                self._count(seat, "dropped")
            return
        self._start(answer.decision_id, self._work(answer, seats, auditor, known=known))

    async def run(self) -> None:
        """Go on with audits that people have begun; close the judges at the stop."""
        await self._people.resume(self._start)
        try:
            await asyncio.Event().wait()
        finally:
            if self._open:
                _log.warning("answers not judged because of the stop", extra={"fields": {"waiting": self._open}})
            for seat in self._seats:
                await seat.close()

    def _sampled(self, decision: DecisionMade) -> list[_Seat]:
        """The judges that see an answer, each drawn from a separate random stream, so that draws are reproducible."""
        self._rebuild()
        audit = self._runtime.config.audit
        trusted = "" if audit is None else audit.by
        found = []
        for seat in self._seats:
            judge = seat.config
            wanted = judge.name != trusted and judge.kind != "thumbs" and judge.rate > 0
            if wanted and (judge.rate >= 1 or uniform(self._stream(judge), decision.counter) < judge.rate):
                found.append(seat)
        return found

    def _stream(self, judge: JudgeConfig) -> int:
        return derive_key("judge", judge.name, self._runtime.config.router.seed)

    def _auditor(self, decision: DecisionMade) -> _Seat | None:
        audit = self._runtime.config.audit
        if audit is None or not decision.audit:
            return None
        return next((seat for seat in self._seats if seat.config.name == audit.by), None)

    def _by_people(self, decision: DecisionMade) -> bool:
        audit = self._runtime.config.audit
        return audit is not None and audit.by == "human" and decision.audit and decision.audit_probability > 0

    def _start(self, name: str, work: Awaitable[None]) -> None:
        self._number += 1
        self._runtime.background.start(f"judge {self._number} {name}", self._counted(work))

    async def _counted(self, work: Awaitable[None]) -> None:
        self._open += 1
        try:
            await work
        except StorageError:
            _log.warning("a value was not logged: storage fails")
        finally:
            self._open -= 1

    async def _work(
        self, answer: AnswerGiven, seats: Sequence[_Seat], auditor: _Seat | None, *, known: Mapping[str, Verdict]
    ) -> None:
        """Run all judges on an answer, then the audit, which compares the truth with the value that counts."""
        await asyncio.gather(*(self._ask(seat, answer, known=known.get(seat.config.name)) for seat in seats))
        if auditor is not None:
            await self._ask(auditor, answer, audit=True)
        elif answer.audit and self._runtime.config.audit is not None and self._runtime.config.audit.by == "human":
            await self._people.ask(answer)

    async def _ask(
        self, seat: _Seat, answer: AnswerGiven, *, audit: bool = False, known: Verdict | None = None
    ) -> None:
        if known is not None and known.failed:
            known = None  # it is tried again, in the background
        verdict = known or await self._verdict(seat, answer)
        if verdict.value is None:
            return
        rate = _rate(self._runtime, audit=audit, rate=seat.config.rate)
        await report(self._runtime, answer, seat.config.name, value=verdict.value, rate=rate, audit=audit)
        if known is None:
            self._count(seat, "audited" if audit else "judged")

    async def _verdict(self, seat: _Seat, answer: AnswerGiven) -> Verdict:
        """The verdict of a judge, which may be that it could not run."""
        if seat.judge is None:
            return Verdict(None)
        try:
            async with seat.slots, asyncio.timeout(_TIMEOUT_S):
                found = await seat.judge.verdict(answer)
        except TimeoutError as error:
            self._failed(seat, answer, error)
            return Verdict(None, f"no verdict within {_TIMEOUT_S:g} s", own=True, failed=True)
        except Exception as error:  # a defect of a judge must not end the others
            self._failed(seat, answer, error)
            paid = error.cost_usd if isinstance(error, JudgeFailure) else 0.0
            return Verdict(None, str(error) or type(error).__name__, cost_usd=paid, failed=True)
        if found.value is None:
            self._count(seat, "no opinion")
        return found

    def _failed(self, seat: _Seat, answer: AnswerGiven, error: Exception) -> None:
        detail = str(error) or type(error).__name__
        fields = {"judge": seat.config.name, "decision": answer.decision_id, "detail": detail}
        _log.warning("not judged", extra={"fields": fields})
        self._count(seat, "timeout" if isinstance(error, TimeoutError) else "failed")

    def _count(self, seat: _Seat, result: str) -> None:
        self._runtime.metrics.count("bot_orch_judgements_total", judge=seat.config.name, result=result)

    def _rebuild(self) -> None:
        """Build the configured judges; unchanged ones keep their slots and state."""
        wanted = self._runtime.config.judges
        if wanted is self._built:
            return
        known = {seat.config.name: seat for seat in self._seats}
        self._seats = [
            known.pop(judge.name) if judge.name in known and known[judge.name].config == judge else self._seat(judge)
            for judge in wanted
        ]
        for seat in known.values():
            self._start(f"retired {seat.config.name}", seat.close())
        self._built = wanted

    def _seat(self, judge: JudgeConfig) -> _Seat:
        settings = judge_settings(judge)
        seat = _Seat(judge, slots=asyncio.Semaphore(AT_ONCE))
        guard: Callable[[], Guard | None] = lambda: None  # noqa: E731
        if isinstance(settings, ModelSettings):
            guard = self._asked(seat, settings.agent)
        seat.judge = make_judge(judge, guard)
        return seat

    def _asked(self, seat: _Seat, agent: str | dict[str, Any]) -> Callable[[], Guard | None]:
        """The agent that a judge asks: one of the router's, or one of its own."""
        runtime = self._runtime
        if isinstance(agent, str):
            return lambda: runtime.guards.get(agent)
        own = msgspec.convert({"id": f"judge-{seat.config.name}", **agent}, AgentConfig)
        seat.guard = make_guard(own, queue=runtime.queue, observer=runtime.on_attempt)
        return lambda: seat.guard


def _rate(runtime: Runtime, *, audit: bool, rate: float) -> float:
    """The probability with which a value was requested."""
    return runtime.config.audit.rate if audit and runtime.config.audit is not None else rate
