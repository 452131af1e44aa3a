"""An orchestrator for threads: a lock around it, a clock beside it, and agents that are functions."""

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
from bot_orch.errors import InvalidInputError
from bot_orch.policies.base import Policy
from bot_orch.types import Agent, Decision, Outcome, Task

__all__ = ["Call", "Router"]


@dataclass(frozen=True, slots=True)
class Call:
    """One task, decided and done.

    ``outcome`` is what was learned; ``None`` where nobody judged the answer yet: ``observe(decision.id, ...)`` later.
    ``error`` is what the agent's function raised, or a ``TimeoutError``; it has been learned from.
    """

    decision: Decision
    elapsed_s: float
    answer: Any = None
    outcome: Outcome | None = None
    error: Exception | None = None

    def result(self) -> Any:
        """The answer, or the error raised again: as of a future."""
        if self.error is not None:
            raise self.error
        return self.answer


class Router:
    """An orchestrator that threads may share, and that asks the agents itself.

    Every method may be called from any thread. Agents' functions and the judge run outside the lock, as many at once
    as there are callers. In one thread it decides exactly as the orchestrator inside would.

    Parameters
    ----------
    agents
        Functions of a :class:`~bot_orch.Task` by name; or names and :class:`~bot_orch.Agent` objects as an
        orchestrator takes them; or an orchestrator, which nobody else should use from then on.
    policy, **settings
        As :class:`~bot_orch.Orchestrator` takes them; not for an orchestrator that is given.
    functions
        The agents' functions by name, where ``agents`` does not hold them; needed for :meth:`call` and :meth:`acall`.
    judge
        ``judge(task, answer)``: the reward in [0, 1], an :class:`~bot_orch.Outcome` where there is more to say (an
        output), or ``None`` for not yet. Where it says nothing the caller observes.
    clock
        Times the calls.

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
        """Ids of decisions whose outcome is awaited, oldest first."""
        with self._lock:
            return self._orchestrator.pending

    def decide(self, task: Task, eligible: Collection[str] | None = None) -> Decision:
        """See :meth:`bot_orch.Orchestrator.decide`."""
        with self._lock:
            return self._orchestrator.decide(task, eligible)

    def derive(self, task: Task, eligible: Collection[str] | None = None) -> Decision:
        """See :meth:`bot_orch.Orchestrator.derive`; ``derive(task).explain()`` says why."""
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
        """Let a new agent take part from the next decision on."""
        new = agent if isinstance(agent, Agent) else Agent(agent)
        with self._lock:
            if function is not None:
                check_function(new.id, function, (new.id,))
            self._orchestrator.add_agent(new)
            if function is not None:
                self._functions[new.id] = function

    def remove_agent(self, agent_id: str) -> None:
        """Take an agent out; calls under way end, and what comes of them is ignored."""
        with self._lock:
            self._orchestrator.remove_agent(agent_id)
            self._functions.pop(agent_id, None)

    def fingerprint(self) -> str:
        """A hash of the state, equal for equal states."""
        with self._lock:
            return self._orchestrator.fingerprint()

    def save(self, path: str | Path) -> None:
        """Write settings and state to a file, atomically; not the functions, the judge and the clock."""
        with self._lock:  # also while writing: an older state never replaces a newer one
            self._orchestrator.save(path)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        functions: Mapping[str, Function] | None = None,
        judge: Judge | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """Read what :meth:`save`, or that of an orchestrator, wrote."""
        return cls(Orchestrator.load(path), functions=functions, judge=judge, clock=clock)

    def call(self, task: Task, eligible: Collection[str] | None = None) -> Call:
        """Decide, ask the agent, learn.

        An exception of the agent's function is a failure that earns 0; it is in the :class:`Call`. An exception of the
        judge is raised, and the decision stays pending.
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
        """As :meth:`call`, for ``async`` functions; the judge may be ``async`` too.

        After ``timeout_s`` the function is cancelled and the outcome is censored. A function that is not ``async`` runs
        in a thread, which goes on after a timeout: threads cannot be cancelled.
        """
        if timeout_s is not None and not timeout_s > 0:
            raise InvalidInputError("timeout_s", f"is {timeout_s}", "pass seconds, more than zero, or None")
        decision, function = self._begin(task, eligible, sync=False)
        started_us, timer = self._clock.now_us(), asyncio.timeout(timeout_s)
        try:
            async with timer:
                answer = await ask(function, task)
        except BaseException as error:
            ours = isinstance(error, TimeoutError) and timer.expired()  # else it is the agent's own, a failure
            return self._unanswered(decision, started_us, error, Ending.TIMEOUT_TOTAL if ours else ending_of(error))
        elapsed_s = self._since(started_us)
        with noting(decision):
            verdict = None if self._judge is None else self._judge(task, answer)
            verdict = await verdict if inspect.isawaitable(verdict) else verdict
            return self._answered(decision, elapsed_s, answer, verdict)

    def _begin(self, task: Task, eligible: Collection[str] | None, *, sync: bool) -> tuple[Decision, Function]:
        """A decision between agents that can all be asked, and the function of the one chosen."""
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
        """Learn that there is no answer."""
        elapsed_s = self._since(started_us)
        outcome = outcome_of(ending, elapsed_s)
        self.observe(decision.id, outcome)
        if not isinstance(error, Exception):  # cancelled, or Ctrl-C: not the agent's, and not ours to keep
            raise error
        return Call(decision, elapsed_s, outcome=outcome, error=error)

    def _since(self, started_us: int) -> float:
        return max(0, self._clock.now_us() - started_us) / 1e6  # a clock that is handed in may jump
