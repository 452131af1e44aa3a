"""The attempts of one call: candidates, time limits, answers and the result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bot_orch.agents.endings import Ending
from bot_orch.checks import check_callable
from bot_orch.core.completion.patience import PATIENCE_RULES, PatienceRule
from bot_orch.errors import InvalidInputError
from bot_orch.types import Answer, Decision, Outcome, Task

#: What is said of an answer before it is delivered: whether or how far it passed, or fields of an ``Answer``.
Check = Callable[[Task, Any], Any]


@dataclass(frozen=True, slots=True)
class Call:
    """Result of one routed call.

    ``outcome`` is the observed outcome; ``None`` if the answer was not judged: call ``observe(decision.id, ...)``.
    ``error`` is the exception of the agent's function, or a ``TimeoutError``; it has been observed as an outcome.
    ``unjudged`` is the exception of the judge or the check: the answer is delivered without what they would have said.
    ``earlier`` are the other attempts, if several were allowed: one per agent that was asked and whose answer this is
    not.
    """

    decision: Decision
    elapsed_s: float
    answer: Any = None
    outcome: Outcome | None = None
    error: Exception | None = None
    unjudged: Exception | None = None
    earlier: tuple[Call, ...] = ()

    def result(self) -> Any:
        """Return the answer or raise the error, like ``Future.result``."""
        if self.error is not None:
            raise self.error
        return self.answer


class CallAttempts:
    """State of one call with up to ``attempts`` attempts within ``timeout_s`` seconds.

    An attempt that is given up for another one ends as cancelled: silence at its patience. The last one ends as a
    timeout.
    """

    def __init__(
        self,
        agents: Collection[str],
        eligible: Collection[str] | None,
        timeout_s: float | None,
        *,
        attempts: int,
        rule: PatienceRule,
        check: Check | None = None,
    ) -> None:
        if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
            raise InvalidInputError("attempts", f"is {attempts!r}", "pass a whole number, 1 or more")
        if attempts > 1 and timeout_s is None and check is None:
            remedy = "attempts share the time that it gives; or pass check=, which looks at every answer"
            raise InvalidInputError("timeout_s", "is missing", remedy)
        if check is not None:
            check_callable("check", check, "pass a function of task and answer")
            if attempts == 1:
                raise InvalidInputError("check", "has no effect with one attempt", "pass attempts=2 or more")
        if rule not in PATIENCE_RULES:
            raise InvalidInputError("patience", f"is {rule!r}", f"choose one of {', '.join(PATIENCE_RULES)}")
        self.eligible = eligible
        self._agents, self._left_s, self._attempts, self._rule = agents, timeout_s, attempts, rule
        self._tried: list[str] = []
        self._made: list[Call] = []
        self._last = attempts == 1
        self.check, self.calls, self.seen = check, dict[str, Call](), tuple[Answer, ...]()

    @property
    def allowed(self) -> int:
        """Number of agents the round may ask: those that answered, plus the remaining attempts."""
        late = self._left_s is not None and self._left_s <= 0.0
        return 1 if self.check is None else len(self.seen) + (0 if late else self._attempts - len(self._tried))

    @property
    def expiry(self) -> Ending:
        """The ending of the current attempt if its time runs out."""
        return Ending.TIMEOUT_TOTAL if self._last else Ending.CANCELLED_BY_CALLER

    def wait_for(self, decision: Decision, patience: Callable[..., float]) -> float | None:
        """Seconds to wait for the agent of a decision; None for no limit.

        ``patience`` is :meth:`bot_orch.Orchestrator.patience`.
        """
        self._tried.append(decision.agent)
        others = self._others()
        self._last = len(self._tried) >= self._attempts or not others
        if self._last or self._left_s is None:
            return self._left_s
        wait_s = patience(decision, self._left_s, eligible=others, rule=self._rule)
        self._last = wait_s >= self._left_s
        return wait_s

    @staticmethod
    def answer_of(call: Call, said: Any) -> Answer:
        """An answer with the result of its check: a number, or fields of :class:`bot_orch.Answer`."""
        fields = said if isinstance(said, Mapping) else {"check": said}
        unknown = fields.keys() - {"signal", "check", "label", "key", "cost_usd"}
        if unknown:
            raise InvalidInputError("check", f"returned {sorted(unknown)}", "return a number, or fields of Answer")
        return Answer(call.decision.agent, call.decision.id, elapsed_s=call.elapsed_s, **fields)

    def answered(self, call: Call, answer: Answer, failed: Sequence[Exception] = ()) -> Call:
        """Store an answer that may be delivered; ``failed`` is the exception of its check, if there was one."""
        self.seen = (*self.seen, answer)
        self.calls[answer.agent] = call = replace(call, unjudged=failed[0]) if failed else call
        return call

    def goes_on(self, call: Call) -> bool:
        """Whether the round continues after this step."""
        if call.decision.action == "accept" or (call.error is None and self.check is None):
            return False
        self._made.append(call)
        if self._left_s is not None:
            self._left_s -= call.elapsed_s
        others = self._others()
        self.eligible = [*others, *self.calls]
        if self.calls:
            return True
        timely = self._left_s is None or self._left_s > 0.0
        return timely and bool(others) and len(self._tried) < self._attempts

    def ended(self, call: Call) -> Call:
        """The last call, with the attempts of other agents."""
        return replace(call, earlier=tuple(each for each in self._made if each.decision.agent != call.decision.agent))

    def _others(self) -> list[str]:
        allowed = self._agents if self.eligible is None else set(self.eligible).intersection(self._agents)
        return [name for name in self._agents if name in allowed and name not in self._tried]
