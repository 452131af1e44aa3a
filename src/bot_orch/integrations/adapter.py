"""The base class of adapters: decide, measure the time, report the outcome once, find the call for late feedback."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from bot_orch.agents.endings import Ending
from bot_orch.agents.kinds.functions import ending_of, outcome_of
from bot_orch.errors import InvalidInputError, UnknownDecisionError
from bot_orch.recent import Newest
from bot_orch.router import Router
from bot_orch.types import Decision, Outcome, Task

__all__ = ["Adapter", "ModelAdapter", "Turn", "TurnWatcher", "turn_ending", "user_text"]

TurnJudge = Callable[[Task, Any], "float | None"]


class TurnWatcher(Protocol):
    """Receives the events of an adapter's turns, to trace, count or score them."""

    def decided(self, turn: Turn) -> None:
        """An agent was chosen; its call begins."""

    def awaiting(self, turn: Turn) -> None:
        """An answer arrived; its reward will be reported later."""

    def observed(self, turn: Turn, outcome: Outcome) -> None:
        """The outcome is in the log."""


class Turn:
    """One decision whose call is made elsewhere. As a context manager it reports exceptions as failures.

    ``answered`` and ``failed`` report at most one outcome between them; what comes later is ignored.
    """

    def __init__(self, adapter: Adapter, decision: Decision, task: Task) -> None:
        self._adapter, self._task = adapter, task
        self.decision = decision
        self._started = time.monotonic()
        self._spent: tuple[float, float | None] | None = None
        self.outcome: Outcome | None = None
        self._replaceable = False

    @property
    def agent(self) -> str:
        """The chosen agent."""
        return self.decision.agent

    @property
    def id(self) -> str:
        """The id of the decision."""
        return self.decision.id

    @property
    def propensity(self) -> float:
        """The probability with which the agent was chosen."""
        return self.decision.propensity

    @property
    def labels(self) -> dict[str, Any]:
        """Metadata for a framework's response, so that feedback can find the decision."""
        return {"decision_id": self.id, "agent": self.agent, "propensity": self.propensity}

    @property
    def ended(self) -> bool:
        """Whether an answer or a failure has been reported."""
        return self._spent is not None

    @property
    def _elapsed_s(self) -> float:
        return 0.0 if self._spent is None else self._spent[0]

    def answered(
        self,
        answer: Any = None,
        *,
        reward: float | None = None,
        tokens: tuple[int, int] | None = None,
        cost_usd: float | None = None,
        elapsed_s: float | None = None,
    ) -> None:
        """Report an answer; its reward is ``reward``, else the judge's, else the default for success, else pending.

        ``tokens``, read and written, are priced by the adapter's ``prices``, unless ``cost_usd`` is given.
        """
        if cost_usd is None and tokens is not None:
            cost_usd = self._adapter.token_cost(self.agent, tokens)
        if not self._end(elapsed_s, cost_usd):
            return
        if reward is None and self._adapter.judge is not None:
            reward = self._adapter.judge(self._task, answer)
        elif reward is None and self._adapter.success_reward is not None:
            self._complete(self._adapter.success_reward, default=True)
            self._replaceable = True
            return
        if reward is not None:
            self._complete(reward)
            return
        for watcher in self._adapter.watchers:
            watcher.awaiting(self)

    def feedback(self, reward: float) -> None:
        """Report the reward of an answer that was not judged; it replaces the reward of success."""
        if self._spent is None:
            raise InvalidInputError("call", f"{self.id} has no answer yet", "report the answer first")
        if self._replaceable:
            self._observe(Outcome.completed(float(reward), elapsed_s=self._spent[0]))  # the cost is known
            self._replaceable = False
            return
        if self.outcome is not None:
            raise InvalidInputError("call", f"{self.id} has its outcome already", "report once, and pass no judge")
        self._complete(reward)

    def failed(
        self,
        error: BaseException | None = None,
        *,
        ending: Ending | None = None,
        cost_usd: float | None = None,
        elapsed_s: float | None = None,
    ) -> None:
        """Report a failure, a timeout or a cancellation, according to the exception or the ending."""
        if not self._end(elapsed_s, cost_usd):
            return
        if ending is None:
            ending = Ending.CRASHED if error is None else turn_ending(error)
        lowest = self._adapter.router.rewards.low
        self._observe(replace(outcome_of(ending, self._elapsed_s, lowest=lowest), cost_usd=cost_usd))

    def _end(self, elapsed_s: float | None, cost_usd: float | None) -> bool:
        if self._spent is not None:
            return False
        self._spent = (time.monotonic() - self._started if elapsed_s is None else elapsed_s, cost_usd)
        return True

    def _complete(self, reward: float, *, default: bool = False) -> None:
        elapsed_s, cost_usd = self._spent or (None, None)
        self._observe(Outcome.completed(float(reward), elapsed_s=elapsed_s, cost_usd=cost_usd), default=default)

    def _observe(self, outcome: Outcome, *, default: bool = False) -> None:
        self._adapter.router.observe(self.id, outcome, default=default)
        self.outcome = outcome
        for watcher in self._adapter.watchers:
            watcher.observed(self, outcome)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None:
            self.failed(error)


class Adapter:
    """Makes decisions for calls made elsewhere, and learns from their results.

    Adapters of frameworks inherit from it; it can also be used as it is.

    Parameters
    ----------
    router
        A router, or the names of its agents; ``Router(names, path="router.sqlite")`` keeps what it learned.
    judge, success_reward
        ``judge(task, answer)`` returns a reward, or ``None`` to wait for :meth:`feedback`. Without a judge an answer
        earns ``success_reward`` (``highest``: the highest reward; ``None``: wait for :meth:`feedback`), an exception
        the lowest.
    prices
        Dollars per million tokens read and written, by agent: costs are then part of the outcome.
    remembered
        How many calls are remembered for late feedback.
    watchers
        Objects that trace, count or score turns.
    """

    def __init__(
        self,
        router: Router | Sequence[str],
        *,
        judge: TurnJudge | None = None,
        success_reward: float | Literal["highest"] | None = "highest",
        prices: Mapping[str, tuple[float, float]] | None = None,
        remembered: int = 10_000,
        watchers: Iterable[TurnWatcher] = (),
    ) -> None:
        super().__init__()
        self.router = router if isinstance(router, Router) else Router(list(router))
        rewards = self.router.rewards
        if success_reward == "highest":
            success_reward = rewards.high
        elif success_reward is not None:
            success_reward = rewards.check(success_reward, "success_reward")
        self.judge, self.success_reward = judge, success_reward
        self.prices, self.watchers = dict(prices or {}), list(watchers)
        self._turns, self._lock = Newest[str, Turn](remembered), Lock()

    def begin(self, task: Task, eligible: Collection[str] | None = None, *, call_id: str | None = None) -> Turn:
        """Make a decision; the turn can be found by ``call_id`` and by the decision's id."""
        turn = Turn(self, self.router.decide(task, eligible), task)
        with self._lock:
            self._turns[turn.id] = turn
            if call_id is not None:
                self._turns[call_id] = turn
        for watcher in self.watchers:
            watcher.decided(turn)
        return turn

    def add_id(self, turn: Turn, call_id: str) -> None:
        """Register another id for a turn, known only after the decision."""
        with self._lock:
            self._turns[call_id] = turn

    def find(self, call_id: str) -> Turn | None:
        """The turn of a call, if remembered."""
        with self._lock:
            return self._turns.get(call_id)

    def feedback(self, call_id: str, reward: float) -> None:
        """Report the reward of a call by its id, or by the id of its decision."""
        turn = self.find(call_id)
        if turn is None:
            raise UnknownDecisionError(call_id)
        turn.feedback(reward)

    def token_cost(self, agent: str, tokens: tuple[int, int]) -> float | None:
        """Dollars for input and output tokens, or None if the agent has no price.

        >>> Adapter(["small", "large"], prices={"small": (1.0, 10.0)}).token_cost("small", (1000, 100))
        0.002
        """
        if agent not in self.prices:
            return None
        return sum(price * count for price, count in zip(self.prices[agent], tokens, strict=True)) / 1e6


class ModelAdapter(Adapter):
    """An adapter that maps the router's agents to the framework's models.

    Parameters
    ----------
    models
        Models by the names of the router's agents.
    router
        By default a new one with these agents.
    options
        As of :class:`Adapter`: ``judge``, ``success_reward``, ``prices``, ``remembered``, ``watchers``.
    """

    def __init__(self, models: Mapping[str, Any], router: Router | None = None, **options: Any) -> None:
        super().__init__(router or list(models), **options)
        self.models = dict(models)


def turn_ending(error: BaseException) -> Ending:
    """The ending of a call that raised ``error``; clients' own timeouts are recognised by the names of their classes.

    A timeout that a framework re-raised as its own error is found among the causes.

    >>> turn_ending(TimeoutError()), turn_ending(ValueError())
    (<Ending.TIMEOUT_TOTAL: 'timeout_total'>, <Ending.CRASHED: 'crashed'>)
    """
    cause: BaseException | None = error
    for _ in range(8):
        if isinstance(cause, Exception) and any("Timeout" in kind.__name__ for kind in type(cause).__mro__):
            return Ending.TIMEOUT_TOTAL
        cause = None if cause is None else cause.__cause__
    return ending_of(error)


def user_text(messages: Any) -> str:
    """The text of the last message of a user, of messages in the forms of OpenAI's interfaces.

    >>> user_text([{"role": "user", "content": [{"type": "text", "text": "hi"}]}])
    'hi'
    """
    if isinstance(messages, str):
        return messages
    asked = [each.get("content") for each in messages if isinstance(each, dict) and each.get("role") == "user"]
    content = (asked[-1] if asked else None) or ""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
