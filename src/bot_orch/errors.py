"""Exceptions raised to users. Messages have the form ``field: problem; remedy``."""

from __future__ import annotations

import shlex
from pathlib import Path


class BotOrchError(Exception):
    """Base class of all exceptions defined by this package."""


class InvalidInputError(BotOrchError, ValueError):
    """An argument, setting or document field is invalid.

    Parameters
    ----------
    field
        Name of the invalid field, as the caller knows it.
    problem
        What is wrong with it.
    remedy
        How the caller can fix it.

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
    """The decision id of an outcome is not pending."""

    def __init__(self, decision_id: str, *, audit: bool = False) -> None:
        message = f"decision_id: no pending decision {decision_id!r}; it was never made by this orchestrator, " + (
            "it was not marked for an audit, or its audit was already observed"
            if audit
            else "or its outcome was already observed"
        )
        super().__init__(message)
        self.decision_id = decision_id

    def __str__(self) -> str:
        return str(self.args[0])


class UnknownAgentError(InvalidInputError):
    """No agent with this id is registered."""


class MissingFileError(InvalidInputError, FileNotFoundError):
    """A file that should be read does not exist."""


class ConcurrentUseError(BotOrchError, RuntimeError):
    """Two calls overlapped on an object that is not thread-safe; the later call was rejected without effect."""

    def __init__(self, call: str) -> None:
        super().__init__(
            f"{call}: another call on the same object is under way; it is not thread-safe: share a bot_orch.Router "
            "between threads, or hold one lock around every call"
        )
        self.call = call


class StateFormatError(BotOrchError, ValueError):
    """A saved state is damaged, or its format version is not supported."""


class MissingExtraError(BotOrchError, ImportError):
    """An optional dependency of the requested feature is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional dependency; {install_command(extra)}")
        self.extra = extra


class ResultsExistError(BotOrchError):
    """Results would be overwritten."""


class BotOrchWarning(UserWarning):
    """Base class of all warnings of this package: something is allowed but probably unintended."""


class TaskIdWarning(BotOrchWarning):
    """The id of a task reads like its text, and the task has no text."""


class PriceWarning(BotOrchWarning):
    """Agents have prices that only break ties, or dollars are to be saved and no agent has a price."""


def install_command(extra: str) -> str:
    """The command that installs an extra from the current folder.

    In the source tree that this package runs from it is ``pip install '.[service]'``. Elsewhere it names the
    distribution, which pip finds installed, and the path of the source tree if that was never installed.

    Examples
    --------
    >>> install_command("service").startswith("pip install '")
    True
    """
    package = Path(__file__).resolve().parent
    tree = package.parents[1]
    where = "bot-orchestrator"
    if package.parent.name == "src" and (tree / "pyproject.toml").is_file():
        where = "." if _is_current(tree) else where if _is_installed(where) else str(tree)
    return "pip install " + shlex.quote(f"{where}[{extra}]")


def _is_installed(distribution: str) -> bool:
    from importlib import metadata  # slow to import, and rarely needed

    try:
        return bool(metadata.version(distribution))
    except metadata.PackageNotFoundError:
        return False


def _is_current(folder: Path) -> bool:
    try:
        return Path.cwd() == folder
    except OSError:  # the current folder was deleted
        return False


def require_type(field: str, value: object, kind: type, remedy: str) -> None:
    """Raise an error unless the value is of type ``kind``.

    Examples
    --------
    >>> require_type("task", "hello", dict, "pass a dict")
    Traceback (most recent call last):
    bot_orch.errors.InvalidInputError: task: is of type str; pass a dict
    """
    if not isinstance(value, kind):
        raise InvalidInputError(field, f"is of type {type(value).__name__}", remedy)
