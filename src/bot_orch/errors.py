"""Errors a user may meet. Each names what was wrong and what to do about it."""

from __future__ import annotations


class BotOrchError(Exception):
    """Base class of every error this package raises on purpose."""


class InvalidInputError(BotOrchError, ValueError):
    """A value at the boundary is not acceptable.

    Parameters
    ----------
    field
        Name of the offending field, as the caller knows it.
    problem
        What is wrong with it.
    remedy
        What the caller can do.

    Examples
    --------
    >>> print(InvalidInputError("reward", "is nan", "pass a number in [0, 1]"))
    reward: is nan; pass a number in [0, 1]
    """

    def __init__(self, field: str, problem: str, remedy: str) -> None:
        super().__init__(f"{field}: {problem}; {remedy}")
        self.field = field
        self.problem = problem
        self.remedy = remedy


class UnknownDecisionError(BotOrchError, KeyError):
    """An outcome arrived for a decision that is not pending."""

    def __init__(self, decision_id: str) -> None:
        message = (
            f"decision_id: no pending decision {decision_id!r}; it was never made by this orchestrator, "
            "or its outcome was already observed"
        )
        super().__init__(message)
        self.decision_id = decision_id

    def __str__(self) -> str:
        return str(self.args[0])


class UnknownAgentError(InvalidInputError):
    """A name does not belong to any registered agent."""


class ConcurrentUseError(BotOrchError, RuntimeError):
    """Two calls on an object that takes one at a time overlapped; the later one was refused and changed nothing."""

    def __init__(self, call: str) -> None:
        super().__init__(
            f"{call}: another call on the same object is under way; it is not thread-safe: share a bot_orch.Router "
            "between threads, or hold one lock around every call"
        )
        self.call = call


class StateFormatError(BotOrchError, ValueError):
    """A saved state cannot be read by this version."""


class MissingExtraError(BotOrchError, ImportError):
    """An optional dependency is needed for what was asked."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional dependency; pip install 'bot-orchestrator[{extra}]'")
        self.extra = extra


class ResultsExistError(BotOrchError):
    """Results would be overwritten."""


def require_type(field: str, value: object, kind: type, remedy: str) -> None:
    """Refuse a value of another type than ``kind``.

    Examples
    --------
    >>> require_type("task", "hello", dict, "pass a dict")
    Traceback (most recent call last):
    bot_orch.errors.InvalidInputError: task: is of type str; pass a dict
    """
    if not isinstance(value, kind):
        raise InvalidInputError(field, f"is of type {type(value).__name__}", remedy)
