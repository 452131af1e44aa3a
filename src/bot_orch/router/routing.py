"""The router: decisions, calls and outcomes under one lock."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from bot_orch.agents.endings import Ending
from bot_orch.agents.kinds.functions import (
    Function,
    Judge,
    argument_of,
    ask,
    ask_within,
    check_function,
    check_sync,
    ending_of,
    noting,
    outcome_of,
    takes_text,
    unfit_argument,
)
from bot_orch.checks import check_callable, check_seconds, is_number
from bot_orch.clock import Clock, SteadyClock
from bot_orch.core.completion.patience import PatienceRule
from bot_orch.core.guarantee import Certificate
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.core.restarts import OnAlarm
from bot_orch.encoders import Encoder
from bot_orch.errors import InvalidInputError, require_type
from bot_orch.policies.base import Policy
from bot_orch.router.attempts import Call, CallAttempts, Check
from bot_orch.router.history import RecentRounds, Ring
from bot_orch.router.plots import Kind, plot
from bot_orch.types import Agent, Answer, Decision, Measure, Outcome, RewardRange, Task

if TYPE_CHECKING:
    from bot_orch.log.logged import LoggedOrchestrator

Alarm = Callable[[str, int], object]
_SILENCES = ("horizon", "timeout")


class Router:
    """A thread-safe orchestrator that also calls the agents.

    Every method may be called from any thread. Agents' functions, the judge and the encoder run outside the lock, one
    per concurrent caller. In a single thread the decisions equal those of the wrapped orchestrator.

    Parameters
    ----------
    agents
        Functions by agent name; or names and :class:`~bot_orch.Agent` objects, as for an orchestrator; or an
        orchestrator, which must not be used directly afterwards. A function gets the text of a task if its first
        parameter is annotated as ``str``, or is called ``text`` or ``prompt`` and not annotated, or if it is a method
        of ``str``; every other one gets the :class:`~bot_orch.Task`.
    policy, **settings
        As for :class:`~bot_orch.Orchestrator`; not allowed if ``agents`` is an orchestrator.
    functions
        The agents' functions by name, if ``agents`` does not hold them; required for :meth:`call` and :meth:`acall`.
    judge
        ``judge(task, answer)`` returns the reward, an :class:`~bot_orch.Outcome` (to report an output), or
        ``None`` to leave the decision pending; the caller then calls :meth:`observe`.
    path
        A file for an append-only log. A change takes effect when it is on disk, and a router that is opened with the
        same file continues where the last one stopped, however it stopped. Agents may come or go from one router to
        the next, with a warning in the log ``bot_orch``; the file of entirely other agents is refused. One process
        uses a file, through one router; a child process (``os.fork``, ``multiprocessing``) is refused and opens its
        own. Needs the extra ``service``.
    horizon_s
        Seconds after which a decision without an outcome ends as silence; a reward may still replace it. It is checked
        at every decision and by :meth:`expire`; calls in progress are exempt, and of a call that was answered only the
        reward is missing. ``horizon`` among the settings counts rounds instead.
    silence
        Reason of those outcomes: ``horizon`` (no report: says little about the agent) or ``timeout`` (the agent
        did not complete in time: the lowest reward).
    on_alarm
        ``on_alarm(agent, count)`` is called after an outcome that raised the number of an agent's drift alarms. The
        words ``count`` and ``restart`` are those of :class:`bot_orch.Orchestrator`.
        Exceptions in it are logged and not raised.
    history
        How many recent rounds :meth:`history` and :meth:`plot` show; with a file also those of earlier routers.
    clock
        Clock for call durations and for the horizon; monotonic by default.

    Examples
    --------
    >>> functions = {"upper": str.upper, "title": lambda task: task.text.title()}
    >>> router = Router(functions, "ucb1", seed=1, judge=lambda task, answer: float(answer.istitle()))
    >>> answers = [router.call(Task(text="a headline")).answer for _ in range(50)]
    >>> answers.count("A Headline") > answers.count("A HEADLINE")
    True
    >>> router.history()[-1]["reward"]
    1.0
    """

    def __init__(
        self,
        agents: Mapping[str, Function] | Iterable[str | Agent] | Orchestrator,
        policy: Policy | str | None = None,
        *,
        functions: Mapping[str, Function] | None = None,
        judge: Judge | None = None,
        path: str | Path | None = None,
        horizon_s: float | None = None,
        silence: Literal["horizon", "timeout"] = "horizon",
        on_alarm: Alarm | OnAlarm | None = None,
        history: int = 1000,
        clock: Clock | None = None,
        **settings: Any,
    ) -> None:
        settings |= {} if policy is None else {"policy": policy}
        if isinstance(on_alarm, str):
            settings, on_alarm = settings | {"on_alarm": on_alarm}, None
        if isinstance(agents, Orchestrator) and settings:
            raise InvalidInputError("settings", f"{sorted(settings)} come too late", "pass them to the orchestrator")
        if isinstance(agents, Mapping) and functions is not None:
            raise InvalidInputError("functions", "are given twice", "pass names or Agents beside functions=")
        if functions is not None:
            require_type("functions", functions, Mapping, "pass functions by agent name")
        if silence not in _SILENCES:
            raise InvalidInputError("silence", f"is {silence!r}", f"choose one of {', '.join(_SILENCES)}")
        check_seconds("horizon_s", horizon_s)
        check_callable("judge", judge, "pass a function of a task and an answer")
        check_callable("on_alarm", on_alarm, "pass a function of an agent's name and a count")
        self._functions: dict[str, Function] = dict(agents if isinstance(agents, Mapping) else functions or {})
        if clock is not None and not callable(getattr(clock, "now_us", None)):
            raise InvalidInputError("clock", f"is {clock!r}", "pass a clock of bot_orch.clock, or None")
        self._judge, self._clock, self._on_alarm = judge, clock or SteadyClock(), on_alarm
        self._horizon_s, self._silence, self._ring = horizon_s, silence, Ring(history)
        # re-entrant, so that a signal handler or a policy that calls back gets ConcurrentUseError and not a deadlock
        self._own_lock = RLock()
        orchestrator = agents if isinstance(agents, Orchestrator) else Orchestrator(agents, **settings)
        for name, function in self._functions.items():
            check_function(name, function, orchestrator.agents)
        self._of_text = {name for name, function in self._functions.items() if takes_text(function)}
        self._process, self._closed = None if path is None else os.getpid(), False
        self._kept: Orchestrator | LoggedOrchestrator = orchestrator  # receives every change
        self._logged: LoggedOrchestrator | None = None
        self._made_us: dict[str, int] = dict.fromkeys(orchestrator.pending, self._clock.now_us())
        if path is not None:
            if orchestrator is agents:
                raise InvalidInputError("path", "is given with an orchestrator", "pass agents and settings")
            from bot_orch.log.logged import open_logged  # an extra

            self._kept = self._logged = open_logged(path, orchestrator, self._clock)
            self._ring.restore(self._logged.recent(self._ring.size))
            self._made_us = self._logged.waiting(self._clock.now_us())
        self._in_progress: set[str] = set()
        self._failed: set[str] = set()  # agents that a failure was logged of
        self._failed_verdicts: set[str] = set()  # "judge" and "check", likewise
        self._answers: dict[str, float] = {}  # seconds until an answer that was not judged
        self._alarms = self._orchestrator.drift_alarms()
        _check_watched(on_alarm, self._orchestrator)

    @property
    def _lock(self) -> RLock:
        """The lock, after checking the process: in a forked child a thread that no longer exists may hold it."""
        self._check_process()
        return self._own_lock

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """The lock, for a change: refused after :meth:`close`."""
        with self._lock:
            if self._closed:
                raise InvalidInputError("router", "is closed", "open a new one")
            yield

    @property
    def _inherited(self) -> bool:
        """Whether this process is a child of the one that opened the file."""
        return self._process is not None and self._process != os.getpid()

    def _check_process(self) -> None:
        """Refuse a forked child: it holds the parent's connection, and using that would damage the file."""
        if self._inherited:
            problem = f"was opened by process {self._process}, and this is process {os.getpid()}, forked from it"
            remedy = "open one Router per process, each with a file of its own, after the fork"
            raise InvalidInputError("path", problem, remedy)

    @property
    def _orchestrator(self) -> Orchestrator:
        self._check_process()
        return self._kept if isinstance(self._kept, Orchestrator) else self._kept.orchestrator

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents, in order."""
        with self._lock:
            return self._orchestrator.agents

    @property
    def rewards(self) -> RewardRange:
        """The range of the rewards that outcomes may have."""
        with self._lock:
            return self._orchestrator.reward.range

    @property
    def pending(self) -> tuple[str, ...]:
        """Ids of decisions without an outcome, oldest first."""
        with self._lock:
            return self._orchestrator.pending

    def decide(
        self,
        task: Task,
        eligible: Collection[str] | None = None,
        *,
        decision_id: str | None = None,
        seen: Sequence[Answer] = (),
        attempts: int = 1,
    ) -> Decision:
        """See :meth:`bot_orch.Orchestrator.decide`."""
        encoded = self._orchestrator.encoded(task)  # an encoder may be slow: outside the lock
        with self._changing():
            task = self._named(task, encoded)
            self.expire()
            task = self._timed(task)
            decision = self._kept.decide(task, eligible, decision_id=decision_id, seen=seen, attempts=attempts)
            self._made_us[decision.id] = self._clock.now_us()
            self._forget()
            self._ring.decided(decision)
            return decision

    def _named(self, task: Task, encoded: Task) -> Task:
        """The encoded task, under the names of features that another thread may have given in the meantime."""
        return encoded if encoded.names == self._orchestrator.settings.names else self._orchestrator.encoded(task)

    def derive(self, task: Task, eligible: Collection[str] | None = None) -> Decision:
        """See :meth:`bot_orch.Orchestrator.derive`; ``derive(task).explain()`` tabulates the scores."""
        task = self._orchestrator.encoded(task)
        with self._lock:
            return self._orchestrator.derive(self._timed(task), eligible)

    def _timed(self, task: Task) -> Task:
        """The task with its time, if a quota needs it."""
        if task.time_s is not None or not self._orchestrator.settings.timed:
            return task
        return replace(task, time_s=self._clock.now_us() / 1e6)

    def observe(self, decision_id: str, outcome: Outcome, *, audit: bool = False, default: bool = False) -> None:
        """See :meth:`bot_orch.Orchestrator.observe`.

        While the answer that a round delivered has no outcome, the id of any of its steps means that answer.
        """
        require_type("outcome", outcome, Outcome, "pass Outcome.completed(reward=...) or Outcome.censored(...)")
        with self._changing():
            self._report(self._orchestrator.accepted_in(decision_id), outcome, audit=audit, default=default)

    def _report(self, decision_id: str, outcome: Outcome, *, audit: bool = False, default: bool = False) -> None:
        with self._changing():
            steps, outcome = self._orchestrator.round_of(decision_id), self._orchestrator.checked(outcome)
            self._kept.observe(decision_id, outcome, audit=audit, default=default)
            for each in (decision_id, *steps):
                self._ended(each)
            self._ring.observed(decision_id, outcome)
            raised = self._raised()
        for agent, count in raised:
            self._tell(agent, count)

    def observe_output(self, decision_id: str, output: Measure) -> None:
        """See :meth:`bot_orch.Orchestrator.observe_output`."""
        with self._changing():
            self._kept.observe_output(decision_id, output)
            raised = self._raised()
        for agent, count in raised:
            self._tell(agent, count)

    def observe_all(self, decision_id: str, rewards: Mapping[str, float]) -> None:
        """See :meth:`bot_orch.Orchestrator.observe_all`; not possible with a log (``path``)."""
        with self._changing():
            self._kept.observe_all(decision_id, rewards)
            self._ended(decision_id)

    def expire(self) -> tuple[str, ...]:
        """End decisions older than the horizon as silence; returns their ids. :meth:`decide` does it too."""
        if self._horizon_s is None:
            return ()
        with self._changing():
            now_us, ids = self._clock.now_us(), []
            for decision_id, made_us in list(self._made_us.items()):  # oldest first
                elapsed_s = (now_us - made_us) / 1e6
                if elapsed_s < self._horizon_s:
                    break
                if decision_id not in self._in_progress:
                    self._report(decision_id, self._unreported(decision_id, elapsed_s))
                    ids.append(decision_id)
            return tuple(ids)

    def _unreported(self, decision_id: str, elapsed_s: float) -> Outcome:
        """Silence, unless the agent answered: then only the reward is missing."""
        if decision_id in self._answers:
            return Outcome.completed(elapsed_s=self._answers[decision_id])
        return Outcome.censored(elapsed_s=elapsed_s, reason=self._silence)

    def _ended(self, decision_id: str) -> None:
        self._made_us.pop(decision_id, None)
        self._answers.pop(decision_id, None)

    def _forget(self) -> None:
        """Forget decisions that the orchestrator has dropped after its horizon of rounds."""
        oldest = next(iter(self._made_us))
        while not self._orchestrator.is_pending(oldest):
            self._ended(oldest)
            oldest = next(iter(self._made_us))

    def learn_from(
        self,
        evaluations: Any,
        *,
        features: Any = None,
        tasks: Any = None,
        weight: Any = 1.0,
        most: float | None = None,
        answers: Any = None,
    ) -> int:
        """Warm start, see :meth:`bot_orch.Orchestrator.learn_from`; ``evaluations`` may also be the path of a log."""
        if isinstance(evaluations, str | Path):
            from bot_orch.log.evaluations import outcomes_in  # an extra

            evaluations = outcomes_in(evaluations, among=self.agents)
        with self._changing():
            return self._kept.learn_from(
                evaluations, features=features, tasks=tasks, weight=weight, most=most, answers=answers
            )

    def history(self) -> RecentRounds:
        """Recent rounds, one row each; ``history().frame()`` is a DataFrame."""
        with self._lock:
            return self._ring.rows()

    def plot(self, kind: Kind = "shares", *, window: int | None = None) -> Any:
        """A ``matplotlib`` figure (extra ``notebook``) of the recent ``shares``, ``rewards`` or ``distances``."""
        with self._lock:
            rounds, rewards = self._ring.rounds(), self._orchestrator.reward.range
        return plot(rounds, kind, window=window, rewards=rewards)

    def add_agent(self, agent: str | Agent, function: Function | None = None) -> None:
        """Register an agent; it is eligible from the next decision on."""
        new = agent if isinstance(agent, Agent) else Agent(agent)
        with self._changing():
            if function is not None:
                check_function(new.id, function, (new.id,))
            self._kept.add_agent(new)
            if function is not None:
                self._functions[new.id] = function
                self._of_text |= {new.id} if takes_text(function) else set()

    def remove_agent(self, agent_id: str) -> None:
        """Remove an agent; calls in progress finish and their outcomes are ignored."""
        with self._changing():
            self._kept.remove_agent(agent_id)
            self._functions.pop(agent_id, None)
            self._of_text.discard(agent_id)

    def certificate(self) -> Certificate | None:
        """The current certificate of the guarantee; None without one."""
        with self._lock:
            return self._orchestrator.certificate()

    def drift_alarms(self) -> dict[str, int]:
        """See :meth:`bot_orch.Orchestrator.drift_alarms`."""
        with self._lock:
            return self._orchestrator.drift_alarms()

    def fingerprint(self) -> str:
        """See :meth:`bot_orch.Orchestrator.fingerprint`."""
        with self._lock:
            return self._orchestrator.fingerprint()

    def save(self, path: str | Path) -> None:
        """Write settings and state to a file atomically; functions, judge and clock are not saved."""
        with self._lock:  # held while writing, so that an older state never replaces a newer one
            self._orchestrator.save(path)

    @classmethod
    def load(cls, path: str | Path, *, encoder: Encoder | None = None, **arguments: Any) -> Self:
        """Read a file written by :meth:`save` or by :meth:`bot_orch.Orchestrator.save`.

        ``encoder`` is needed for more texts if it was a callable; ``arguments`` are those of the constructor:
        ``functions``, ``judge``, ``horizon_s``, ...
        """
        return cls(Orchestrator.load(path, encoder=encoder), **arguments)

    def close(self) -> None:
        """Close the log, if there is one. Learned state stays readable; changes are refused."""
        if self._inherited:
            return  # the file belongs to the parent
        with self._lock:
            if self._logged is not None:
                self._logged.close()
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._inherited:
            return "<Router of the parent process>"
        with self._lock:
            return self._orchestrator.described("Router")

    def _repr_html_(self) -> str:
        with self._lock:
            return self._ring.table(self._orchestrator.described("Router"), self._orchestrator.agents)

    def patience(
        self,
        decision: Decision,
        deadline_s: float,
        *,
        eligible: Collection[str] | None = None,
        rule: PatienceRule = "learned",
    ) -> float:
        """See :meth:`bot_orch.Orchestrator.patience`."""
        with self._lock:
            return self._orchestrator.patience(decision, deadline_s, eligible=eligible, rule=rule)

    def call(
        self,
        task: Task,
        eligible: Collection[str] | None = None,
        *,
        timeout_s: float | None = None,
        attempts: int = 1,
        patience: PatienceRule = "learned",
        check: Check | None = None,
    ) -> Call:
        """Decide, call the agent's function, judge the answer and observe the outcome.

        An exception in the agent's function counts as a failure with the lowest reward and is stored in the
        :class:`Call`; the first of every agent is also logged. One that shows that the function takes a text and got a
        task, or the reverse, is raised.

        A judge that raises an exception, or returns no reward, does not cost the answer: it is delivered unjudged with
        ``call.unjudged``, the first failure is logged, and the decision stays pending. A check that fails says nothing
        of the answer.

        With ``timeout_s`` the function runs in a separate thread, and the outcome is censored at that time; the
        thread keeps running because threads cannot be cancelled.

        With ``attempts``, an agent that fails, or does not answer within :meth:`patience`, is given up and another one
        is asked, all within ``timeout_s``. Every attempt is a decision with its own propensities and outcome; those of
        other agents than the one that answered are ``call.earlier``.

        With ``check``, every answer is looked at before it is delivered: ``check(task, answer)`` returns whether it
        passed, or a dictionary with fields of :class:`bot_orch.Answer` (``signal``, ``check``, ``label``, ``key``,
        ``cost_usd``). An answer that passed (``True`` or 1) is delivered. After any other, it is delivered
        or another agent is asked, by what is learned of checks and signals: a check that errs is trusted less. Only
        the delivered answer is judged.
        """
        check_seconds("timeout_s", timeout_s)
        check_sync("judge", self._judge)
        check_sync("check", check)
        turns = CallAttempts(self.agents, eligible, timeout_s, attempts=attempts, rule=patience, check=check)
        call = self._call_once(task, turns)
        while turns.goes_on(call):
            call = self._call_once(task, turns)
        return turns.ended(call)

    def _call_once(self, task: Task, turns: CallAttempts) -> Call:
        decision, function, given = self._begin(task, turns, sync=True)
        if decision.action == "accept":
            return self._judged(task, replace(turns.calls[decision.agent], decision=decision))
        started_us, wait_s = self._clock.now_us(), turns.wait_for(decision, self.patience)
        expired = TimeoutError(f"{decision.agent} did not answer in {wait_s} s")
        try:
            try:
                answer = function(given) if wait_s is None else ask_within(function, given, wait_s, late=expired)
            except BaseException as error:
                ending = turns.expiry if error is expired else self._ending(decision, error, given)
                return self._unanswered(decision, started_us, error, ending)
            call = Call(decision, self._since(started_us), answer)
            return self._judged(task, call) if turns.check is None else self._checked(task, call, turns, turns.check)
        finally:
            self._in_progress.discard(decision.id)

    async def acall(
        self,
        task: Task,
        eligible: Collection[str] | None = None,
        *,
        timeout_s: float | None = None,
        attempts: int = 1,
        patience: PatienceRule = "learned",
        check: Check | None = None,
    ) -> Call:
        """Like :meth:`call`, for ``async`` functions; judge and check may be ``async`` too.

        After ``timeout_s`` the function is cancelled and the outcome is censored. A function that is not ``async`` runs
        in a thread, which keeps running after a timeout because threads cannot be cancelled.
        """
        check_seconds("timeout_s", timeout_s)
        turns = CallAttempts(self.agents, eligible, timeout_s, attempts=attempts, rule=patience, check=check)
        call = await self._acall_once(task, turns)
        while turns.goes_on(call):
            call = await self._acall_once(task, turns)
        return turns.ended(call)

    async def _acall_once(self, task: Task, turns: CallAttempts) -> Call:
        decision, function, given = self._begin(task, turns, sync=False)
        if decision.action == "accept":
            return await self._ajudged(task, replace(turns.calls[decision.agent], decision=decision))
        started_us, timer = self._clock.now_us(), asyncio.timeout(turns.wait_for(decision, self.patience))
        try:
            try:
                async with timer:
                    answer = await ask(function, given)
            except BaseException as error:
                ours = isinstance(error, TimeoutError) and timer.expired()  # otherwise the agent raised it: a failure
                ending = turns.expiry if ours else self._ending(decision, error, given)
                return self._unanswered(decision, started_us, error, ending)
            call = Call(decision, self._since(started_us), answer)
            if turns.check is None:
                return await self._ajudged(task, call)
            return await self._achecked(task, call, turns, turns.check)
        finally:
            self._in_progress.discard(decision.id)

    def _begin(self, task: Task, turns: CallAttempts, *, sync: bool) -> tuple[Decision, Callable[..., Any], Task | str]:
        """Decide, after checking that every candidate can be called; returns the chosen function and its argument."""
        encoded = self._orchestrator.encoded(task)
        with self._changing():
            given: dict[str, Task | str] = {}
            for name in self._candidates(turns.eligible):
                if name not in self._functions:
                    raise InvalidInputError(f"functions.{name}", "is missing", "pass functions=, or decide and observe")
                if sync:
                    check_sync(f"functions.{name}", self._functions[name])
                given[name] = argument_of(task, name, text=name in self._of_text)
            decision = self.decide(self._named(task, encoded), turns.eligible, seen=turns.seen, attempts=turns.allowed)
            if decision.action == "ask":
                self._in_progress.add(decision.id)
            return decision, self._functions[decision.agent], given[decision.agent]

    def _ending(self, decision: Decision, error: BaseException, given: Task | str) -> Ending:
        """How a call that raised an error ended; an argument of the wrong type raises an error instead."""
        agent = decision.agent
        with noting(decision):
            unfit = unfit_argument(agent, error, given)
            if unfit is not None:
                raise unfit from error
        if isinstance(error, Exception) and agent not in self._failed:
            self._failed.add(agent)
            what = f"{type(error).__name__}: {error}"
            log = logging.getLogger("bot_orch")
            log.warning("agent %r failed for the first time, with the lowest reward: %s", agent, what)
        return ending_of(error)

    def _candidates(self, eligible: Collection[str] | None) -> Collection[str]:
        if not isinstance(eligible, Iterable):
            return self.agents
        return {name for name in eligible if isinstance(name, str)}.intersection(self.agents)

    def _raised(self) -> list[tuple[str, int]]:
        """Agents whose number of drift alarms has grown."""
        if self._on_alarm is None:
            return []
        before, self._alarms = self._alarms, self._orchestrator.drift_alarms()
        return [(agent, count) for agent, count in self._alarms.items() if count > before.get(agent, 0)]

    def _tell(self, agent: str, count: int) -> None:
        if self._on_alarm is None:
            return
        try:
            self._on_alarm(agent, count)
        except Exception:
            logging.getLogger("bot_orch").exception("on_alarm failed for agent %r", agent)

    def _judged(self, task: Task, call: Call) -> Call:
        outcome = None
        with self._judging("judge", call.decision) as failed:
            outcome = self._valued(None if self._judge is None else self._judge(task, call.answer), call)
        return self._delivered(call, outcome, failed)

    async def _ajudged(self, task: Task, call: Call) -> Call:
        outcome = None
        with self._judging("judge", call.decision) as failed:
            verdict = None if self._judge is None else self._judge(task, call.answer)
            outcome = self._valued(await verdict if inspect.isawaitable(verdict) else verdict, call)
        return self._delivered(call, outcome, failed)

    def _checked(self, task: Task, call: Call, turns: CallAttempts, check: Check) -> Call:
        answer = turns.answer_of(call, {})
        with self._judging("check", call.decision) as failed:
            answer = turns.answer_of(call, check(task, call.answer))
        return turns.answered(call, answer, failed)

    async def _achecked(self, task: Task, call: Call, turns: CallAttempts, check: Check) -> Call:
        answer = turns.answer_of(call, {})
        with self._judging("check", call.decision) as failed:
            said = check(task, call.answer)
            answer = turns.answer_of(call, await said if inspect.isawaitable(said) else said)
        return turns.answered(call, answer, failed)

    def _valued(self, verdict: Any, call: Call) -> Outcome | None:
        """What the judge returned as an outcome in the range of rewards."""
        outcome = _outcome(verdict, call.elapsed_s)
        return None if outcome is None else self._orchestrator.checked(outcome)

    @contextmanager
    def _judging(self, name: str, decision: Decision) -> Iterator[list[Exception]]:
        """Keep an exception of the judge or the check: the answer is delivered all the same."""
        failed: list[Exception] = []
        try:
            with noting(decision):
                yield failed
        except Exception as error:
            failed.append(error)
            if name not in self._failed_verdicts:
                self._failed_verdicts.add(name)
                what = f"{type(error).__name__}: {error}"
                logging.getLogger("bot_orch").warning("the %s failed for the first time, see Call: %s", name, what)

    def _delivered(self, call: Call, outcome: Outcome | None, failed: Sequence[Exception]) -> Call:
        """Observe the outcome of an answer; without one the decision stays pending."""
        if outcome is not None:
            self.observe(call.decision.id, outcome)
            return replace(call, outcome=outcome)
        with self._lock:
            if call.decision.id in self._made_us:
                self._answers[call.decision.id] = call.elapsed_s
        return replace(call, unjudged=failed[0]) if failed else call

    def _unanswered(self, decision: Decision, started_us: int, error: BaseException, ending: Ending) -> Call:
        """Observe a failure, a timeout or a cancellation."""
        elapsed_s = self._since(started_us)
        outcome = outcome_of(ending, elapsed_s, lowest=self._orchestrator.reward.range.low)
        self.observe(decision.id, outcome)
        if not isinstance(error, Exception):  # cancellation or Ctrl-C must propagate
            raise error
        return Call(decision, elapsed_s, outcome=outcome, error=error)

    def _since(self, started_us: int) -> float:
        return max(0, self._clock.now_us() - started_us) / 1e6  # an injected clock may jump backwards


def _check_watched(on_alarm: Alarm | None, orchestrator: Orchestrator) -> None:
    """Refuse an alarm callback if nothing would raise alarms."""
    if on_alarm is not None and (orchestrator.alignment is None or orchestrator.alignment.watch is None):
        remedy = "pass alignment=Alignment(geometry, watch=Watch())"
        raise InvalidInputError("on_alarm", "would never be called: outputs are not watched", remedy)


def _outcome(verdict: Any, elapsed_s: float) -> Outcome | None:
    """What the judge returned as an outcome, with the time that the answer took."""
    if verdict is None:
        return None
    if isinstance(verdict, Outcome):
        return verdict if verdict.elapsed_s is not None else replace(verdict, elapsed_s=elapsed_s)
    if not (is_number(verdict) or isinstance(verdict, bool | np.bool_)):
        problem = f"returned {type(verdict).__name__} {verdict!r:.60}"
        raise InvalidInputError("judge", problem, "return a reward, an Outcome, or None")
    return Outcome.completed(float(verdict), elapsed_s=elapsed_s)
