"""An answer as a judge sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

from bot_orch.agents.base import CallReply, CallRequest
from bot_orch.core.events import DecisionMade
from bot_orch.errors import BotOrchError, InvalidInputError
from bot_orch.types import check_reward

_REASON = 80  # characters


class JudgeFailure(BotOrchError):  # noqa: N818  like CallFailure: no value, which is not always an error
    """A judge returned no value, at a cost of ``cost_usd``; no learning takes place."""

    def __init__(self, problem: str, *, cost_usd: float = 0.0) -> None:
        super().__init__(problem)
        self.cost_usd = cost_usd


class Verdict(NamedTuple):
    """What a judge says of an answer: a value in [0, 1], None for no opinion, and a message about what is wrong.

    ``own``: the message is the operator's own, so that its last line may be logged; others may quote the answer.
    ``cost_usd`` is what the judge's agent has cost; ``failed``: the judge could not run, and the message says why.
    """

    value: float | None
    message: str = ""
    own: bool = False
    cost_usd: float = 0.0
    failed: bool = False

    @property
    def reason(self) -> str:
        """The last line of the message, shortened; test runners sum up there."""
        lines = [line.strip(" =-") for line in self.message.splitlines() if line.strip(" =-")]
        return lines[-1][:_REASON] if lines else ""


@dataclass(frozen=True, slots=True)
class AnswerGiven:
    """A question, the agent's answer, and how the answer ended.

    Parameters
    ----------
    decision_id, agent, kind
        The decision, the agent that answered, the kind of the task.
    question, messages, params
        The request: as plain text, as chat messages (empty for a task given as text), and its parameters.
    text
        The answer; of several choices, the first.
    finish_reason
        Of a chat completion: ``stop``, ``length``, ``tool_calls``, ...; None if the agent tells none.
    elapsed_s
        How long the agent took.
    token, counter, audit
        Name of the caller's token, number of the decision, whether it is marked for an audit.
    learner
        The decision that learns a value once the round has an outcome: that of its first answer.
    """

    decision_id: str
    agent: str
    kind: str = ""
    _: KW_ONLY
    question: str = ""
    messages: tuple[Mapping[str, Any], ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    finish_reason: str | None = None
    elapsed_s: float | None = None
    token: str = ""
    counter: int = 0
    audit: bool = False
    learner: str = ""

    def document(self) -> dict[str, Any]:
        """The JSON document that a program reads on standard input."""
        return {
            "decision_id": self.decision_id,
            "agent": self.agent,
            "kind": self.kind,
            "question": self.question,
            "messages": [dict(message) for message in self.messages],
            "params": dict(self.params),
            "answer": self.text,
            "finish_reason": self.finish_reason,
            "elapsed_s": self.elapsed_s,
        }


def answer_of(decision: DecisionMade, request: CallRequest, reply: CallReply) -> AnswerGiven:
    """The answer to a decision's request."""
    reason = reply.extra.get("finish_reason")
    return AnswerGiven(
        decision.id,
        decision.agent,
        decision.task.kind,
        question=request.plain(),
        messages=request.messages,
        params=request.params,
        text=reply.text,
        finish_reason=reason if isinstance(reason, str) else None,
        elapsed_s=reply.elapsed_s,
        token=decision.token,
        counter=decision.counter,
        audit=decision.audit,
        learner=decision.answers[0].decision_id if decision.answers else "",
    )


def checked_value(value: Any) -> float | None:
    """Validate a judge's value: a number in [0, 1], or None for no opinion; raise an error for anything else.

    Examples
    --------
    >>> checked_value(True), checked_value(0.25), checked_value(None)
    (1.0, 0.25, None)
    """
    if value is None:
        return None
    try:
        return float(check_reward(value, "value"))
    except InvalidInputError as error:
        raise JudgeFailure(f"the judge gave {str(value)[:40]!r}; give a number from 0 to 1, or nothing") from error
