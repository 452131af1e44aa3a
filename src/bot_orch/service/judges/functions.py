"""Python functions as judges, given by import path."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bot_orch.agents.base import CallFailure, CallReply, CallRequest
from bot_orch.agents.kinds.python import PythonRunner, load_function
from bot_orch.agents.limits import Limits
from bot_orch.errors import InvalidInputError
from bot_orch.service.judges.answer import AnswerGiven, JudgeFailure, Verdict, checked_value


@dataclass(frozen=True, slots=True)
class FunctionSettings:
    """The function, as ``module:function``; ``folder``, that of the configuration file, is on the import path."""

    path: str
    folder: str | None = None

    def __post_init__(self) -> None:
        module, colon, name = self.path.partition(":")
        if not (module and colon and name):
            raise InvalidInputError("path", f"is {self.path!r}", "write module:function")


class FunctionJudge:
    """Calls the function with an :class:`AnswerGiven`: on the event loop if it is ``async``, else in a thread.

    It returns a value, or a tuple of a value and a message about what is wrong.

    A thread cannot be killed: one that hangs keeps its slot, and with all slots taken answers are not judged.
    """

    def __init__(self, settings: FunctionSettings, concurrency: int) -> None:
        function: Callable[[Any], Any] = load_function(settings.path, settings.folder)
        self._runner = PythonRunner(_wrapped(function), Limits(concurrency=concurrency))

    async def verdict(self, answer: AnswerGiven) -> Verdict:
        """The verdict on an answer."""
        try:
            reply = await self._runner.call(CallRequest(answer.decision_id, params={"answer": answer}))
        except CallFailure as failure:
            raise JudgeFailure(str(failure)) from failure
        match reply.output:
            case (value, str(message)):
                return Verdict(checked_value(value), message, own=True)
            case value:
                return Verdict(checked_value(value))


def _wrapped(function: Callable[[Any], Any]) -> Callable[[CallRequest], Any]:
    async def later(request: CallRequest) -> CallReply:
        return CallReply(output=await function(request.params["answer"]))

    def now(request: CallRequest) -> CallReply:
        return CallReply(output=function(request.params["answer"]))

    return later if inspect.iscoroutinefunction(function) else now
