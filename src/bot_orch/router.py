"""A thread-safe orchestrator that calls agents given as Python functions and times them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import Any, Self

from bot_orch.agents.endings import Ending
from bot_orch.agents.kinds.functions import (
    Function,
    Judge,
    ask,
    check_function,
    check_sync,
    ending_of,
    noting,
    outcome_of,
)
from bot_orch.clock import Clock, SteadyClock
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.encoders import Encoder
from bot_orch.errors import InvalidInputError
from bot_orch.policies.base import Policy
from bot_orch.types import Agent, Decision, Outcome, Task

__all__ = ["Call", "Router"]


@dataclass(frozen=True, slots=True)
class Call:
    """Result of one routed call.

    ``outcome`` is the observed outcome; ``None`` if the answer was not judged: call ``observe(decision.id, ...)``.
    ``error`` is the exception of the agent's function, or a ``TimeoutError``; it has been observed as an outcome.
    """

    decision: Decision
    elapsed_s: float
    answer: Any = None
    outcome: Outcome | None = None
    error: Exception | None = None

    def result(self) -> Any:
        """Return the answer or raise the error, like ``Future.result``."""
        if self.error is not None:
            raise self.error
        return self.answer


class Router:
    """A thread-safe orchestrator that also calls the agents.

    Every method may be called from any thread. Agents' functions, the judge and the encoder run outside the lock, one
    per concurrent caller. In a single thread the decisions equal those of the wrapped orchestrator.

    Parameters
    ----------
    agents
        Functions of a :class:`~bot_orch.Task` by agent name; or names and :class:`~bot_orch.Agent` objects, as for an
        orchestrator; or an orchestrator, which must not be used directly afterwards.
    policy, **settings
        As for :class:`~bot_orch.Orchestrator`; not allowed if ``agents`` is an orchestrator.
    functions
        The agents' functions by name, if ``agents`` does not hold them; required for :meth:`call` and :meth:`acall`.
    judge
        ``judge(task, answer)`` returns the reward in [0, 1], an :class:`~bot_orch.Outcome` (to report an output), or
        ``None`` to leave the decision pending; the caller then calls :meth:`observe`.
    clock
        Clock for call durations; monotonic by default.

    Examples
    --------
    >>> functions = {"upper": lambda task: task.text.upper(), "title": lambda task: task.text.title()}
    >>> router = Router(functions, "ucb1", seed=1, judge=lambda task, answer: float(answer.istitle()))
    >>> answers = [router.call(Task(text="a headline")).answer for _ in range(50)]
    >>> answers.count("A Headline") > answers.count("A HEADLINE")
    True
    """

    def __init__(
        self,
        agents: Mapping[str, Function] | Iterable[str | Agent] | Orchestrator,
        policy: Policy | str | None = None,
        *,
        functions: Mapping[str, Function] | None = None,
        judge: Judge | None = None,
        clock: Clock | None = None,
        **settings: Any,
    ) -> None:
        settings |= {} if policy is None else {"policy": policy}
        if isinstance(agents, Orchestrator) and settings:
            raise InvalidInputError("settings", f"{sorted(settings)} come too late", "pass them to the orchestrator")
        if isinstance(agents, Mapping) and functions is not None:
            raise InvalidInputError("functions", "are given twice", "pass names or Agents beside functions=")
        self._orchestrator = agents if isinstance(agents, Orchestrator) else Orchestrator(agents, **settings)
        self._functions: dict[str, Function] = dict(agents if isinstance(agents, Mapping) else functions or {})
        self._judge, self._clock = judge, clock or SteadyClock()
        # re-entrant, so that a signal handler or a policy that calls back gets ConcurrentUseError and not a deadlock
        self._lock = RLock()
        for name, function in self._functions.items():
            check_function(name, function, self._orchestrator.agents)

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents, in order."""
        with self._lock:
            return self._orchestrator.agents

    @property
    def pending(self) -> tuple[str, ...]:
        """Ids of decisions without an outcome, oldest first."""
        with self._lock:
            return self._orchestrator.pending

    def decide(self, task: Task, eligible: Collection[str] | None = None) -> Decision:
        """See :meth:`bot_orch.Orchestrator.decide`."""
        task = self._orchestrator.encoded(task)  # an encoder may be slow: outside the lock
        with self._lock:
            return self._orchestrator.decide(task, eligible)

    def derive(self, task: Task, eligible: Collection[str] | None = None) -> Decision:
        """See :meth:`bot_orch.Orchestrator.derive`; ``derive(task).explain()`` tabulates the scores."""
        task = self._orchestrator.encoded(task)
        with self._lock:
            return self._orchestrator.derive(task, eligible)

    def observe(self, decision_id: str, outcome: Outcome) -> None:
        """See :meth:`bot_orch.Orchestrator.observe`."""
        with self._lock:
            self._orchestrator.observe(decision_id, outcome)

    def observe_all(self, decision_id: str, rewards: Mapping[str, float]) -> None:
        """See :meth:`bot_orch.Orchestrator.observe_all`."""
        with self._lock:
            self._orchestrator.observe_all(decision_id, rewards)

    def add_agent(self, agent: str | Agent, function: Function | None = None) -> None:
        """Register an agent; it is eligible from the next decision on."""
        new = agent if isinstance(agent, Agent) else Agent(agent)
        with self._lock:
            if function is not None:
                check_function(new.id, function, (new.id,))
            self._orchestrator.add_agent(new)
            if function is not None:
                self._functions[new.id] = function

    def remove_agent(self, agent_id: str) -> None:
        """Remove an agent; calls in progress finish and their outcomes are ignored."""
        with self._lock:
            self._orchestrator.remove_agent(agent_id)
            self._functions.pop(agent_id, None)

    def fingerprint(self) -> str:
        """A hash of the state, equal for equal states."""
        with self._lock:
            return self._orchestrator.fingerprint()

    def save(self, path: str | Path) -> None:
        """Write settings and state to a file atomically; functions, judge and clock are not saved."""
        with self._lock:  # held while writing, so that an older state never replaces a newer one
            self._orchestrator.save(path)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        functions: Mapping[str, Function] | None = None,
        judge: Judge | None = None,
        clock: Clock | None = None,
        encoder: Encoder | None = None,
    ) -> Self:
        """Read a file written by :meth:`save` or by :meth:`bot_orch.Orchestrator.save`."""
        return cls(Orchestrator.load(path, encoder=encoder), functions=functions, judge=judge, clock=clock)

    def call(self, task: Task, eligible: Collection[str] | None = None) -> Call:
        """Decide, call the agent's function, judge the answer and observe the outcome.

        An exception in the agent's function counts as a failure with reward 0 and is stored in the :class:`Call`. An
        exception in the judge is raised, and the decision stays pending.
        """
        check_sync("judge", self._judge)
        decision, function = self._begin(task, eligible, sync=True)
        started_us = self._clock.now_us()
        try:
            answer = function(task)
        except BaseException as error:
            return self._unanswered(decision, started_us, error, ending_of(error))
        elapsed_s = self._since(started_us)
        with noting(decision):
            verdict = None if self._judge is None else self._judge(task, answer)
            return self._answered(decision, elapsed_s, answer, verdict)

    async def acall(
        self, task: Task, eligible: Collection[str] | None = None, *, timeout_s: float | None = None
    ) -> Call:
        """Like :meth:`call`, for ``async`` functions; the judge may be ``async`` too.

        After ``timeout_s`` the function is cancelled and the outcome is censored. A function that is not ``async`` runs
        in a thread, which keeps running after a timeout because threads cannot be cancelled.
        """
        if timeout_s is not None and not timeout_s > 0:
            raise InvalidInputError("timeout_s", f"is {timeout_s}", "pass seconds, more than zero, or None")
        decision, function = self._begin(task, eligible, sync=False)
        started_us, timer = self._clock.now_us(), asyncio.timeout(timeout_s)
        try:
            async with timer:
                answer = await ask(function, task)
        except BaseException as error:
            ours = isinstance(error, TimeoutError) and timer.expired()  # otherwise the agent raised it: a failure
            return self._unanswered(decision, started_us, error, Ending.TIMEOUT_TOTAL if ours else ending_of(error))
        elapsed_s = self._since(started_us)
        with noting(decision):
            verdict = None if self._judge is None else self._judge(task, answer)
            verdict = await verdict if inspect.isawaitable(verdict) else verdict
            return self._answered(decision, elapsed_s, answer, verdict)

    def _begin(self, task: Task, eligible: Collection[str] | None, *, sync: bool) -> tuple[Decision, Function]:
        """Decide, after checking that every candidate has a callable function; return the chosen one's function."""
        task = self._orchestrator.encoded(task)
        with self._lock:
            for name in self.agents if eligible is None else set(eligible).intersection(self.agents):
                if name not in self._functions:
                    raise InvalidInputError(f"functions.{name}", "is missing", "pass functions=, or decide and observe")
                if sync:
                    check_sync(f"functions.{name}", self._functions[name])
            decision = self._orchestrator.decide(task, eligible)
            return decision, self._functions[decision.agent]

    def _answered(self, decision: Decision, elapsed_s: float, answer: Any, verdict: Any) -> Call:
        if verdict is None:
            return Call(decision, elapsed_s, answer)
        if not isinstance(verdict, Outcome):
            verdict = Outcome.completed(float(verdict), elapsed_s=elapsed_s)
        elif verdict.elapsed_s is None:
            verdict = replace(verdict, elapsed_s=elapsed_s)
        self.observe(decision.id, verdict)
        return Call(decision, elapsed_s, answer, verdict)

    def _unanswered(self, decision: Decision, started_us: int, error: BaseException, ending: Ending) -> Call:
        """Observe a failure, a timeout or a cancellation."""
        elapsed_s = self._since(started_us)
        outcome = outcome_of(ending, elapsed_s)
        self.observe(decision.id, outcome)
        if not isinstance(error, Exception):  # cancellation or Ctrl-C must propagate
            raise error
        return Call(decision, elapsed_s, outcome=outcome, error=error)

    def _since(self, started_us: int) -> float:
        return max(0, self._clock.now_us() - started_us) / 1e6  # an injected clock may jump backwards
