"""Checks on the text of an answer: a regular expression, a JSON Schema. Their time is linear in the answer's length.

Patterns are those of the Rust crate ``regex``, without look-around and back-references: a search with Python's ``re``
may take exponential time, and would hold the interpreter all the while.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from bot_orch.errors import InvalidInputError, MissingExtraError
from bot_orch.service.judges.answer import AnswerGiven, Verdict

_LONGEST = 2_000  # characters of a message
_FENCE = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)


def fenced(text: str) -> str:
    r"""The first fenced block of a text, or the text.

    Examples
    --------
    >>> fenced("Here: ```json\n[1]\n``` done")
    '[1]\n'
    """
    found = _FENCE.search(text)
    return text if found is None else found[1]


def _validator(schema: Any, where: str, remedy: str) -> Any:
    """Compile a schema, without fetching anything that it refers to."""
    try:
        import jsonschema_rs
    except ImportError as error:
        raise MissingExtraError("judges that check texts", "service") from error
    try:
        return jsonschema_rs.validator_for(schema, pattern_options=jsonschema_rs.RegexOptions(), retriever=_nowhere)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(where, str(getattr(error, "message", error)), remedy) from None


def _nowhere(address: str) -> Any:
    raise ValueError(f"{address} is not fetched")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    """Values of a check, ``passed`` and ``failed``, from 0 to 1; None means no opinion, and another judge counts."""

    passed: float | None = 1.0
    failed: float | None = 0.0

    def __post_init__(self) -> None:
        for name in ("passed", "failed"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise InvalidInputError(name, f"is {value}", "set a number from 0 to 1, or null")

    def verdict(self, *, passed: bool, message: str = "", own: bool = False) -> Verdict:
        """The verdict on an answer."""
        return Verdict(self.passed, "", own) if passed else Verdict(self.failed, message, own)


@dataclass(frozen=True, slots=True)
class RegexSettings(CheckSettings):
    """A pattern that the answer must contain (``whole``: be); ``absent`` turns that round."""

    pattern: str
    whole: bool = False
    absent: bool = False

    def __post_init__(self) -> None:
        CheckSettings.__post_init__(self)
        self.validator()

    def validator(self) -> Any:
        """Compile the pattern."""
        pattern = f"^(?:{self.pattern})$" if self.whole else self.pattern
        return _validator({"pattern": pattern}, "pattern", "write one without look-around and back-references")


class RegexCheck:
    """Checks whether the answer matches the pattern."""

    def __init__(self, settings: RegexSettings) -> None:
        self._settings, self._validator = settings, settings.validator()

    async def verdict(self, answer: AnswerGiven) -> Verdict:
        """The verdict on an answer."""
        found = self._validator.is_valid(_encodable(answer.text))
        s = self._settings
        wrong = f"the answer {'contains' if s.absent else 'lacks'} what the pattern {s.pattern} describes"
        return s.verdict(passed=found != s.absent, message=wrong)


@dataclass(frozen=True, slots=True)
class SchemaSettings(CheckSettings):
    """A JSON Schema, draft 2020-12 unless it names another; a fenced block in the answer is read without its fence."""

    schema: dict[str, Any]

    def __post_init__(self) -> None:
        CheckSettings.__post_init__(self)
        self.validator()

    def validator(self) -> Any:
        """Compile the schema."""
        return _validator(self.schema, "schema", "see json-schema.org; patterns have no look-around")


class SchemaCheck:
    """Checks whether the answer is JSON that matches the schema."""

    def __init__(self, settings: SchemaSettings) -> None:
        self._settings, self._validator = settings, settings.validator()

    async def verdict(self, answer: AnswerGiven) -> Verdict:
        """The verdict on an answer."""
        wrong = self._misfit(answer.text)
        return self._settings.verdict(passed=not wrong, message=wrong)

    def _misfit(self, text: str) -> str:
        """What is wrong with the text; empty if it fits."""
        try:
            found = next(iter(self._validator.iter_errors(json.loads(fenced(_encodable(text))))), None)
        except (ValueError, RecursionError):  # no JSON, or nested too deeply
            return "the answer is not JSON"
        return "" if found is None else str(found.message)[:_LONGEST]


def _encodable(text: str) -> str:
    """The text with half pairs of surrogates replaced."""
    return text.encode("utf-8", "replace").decode()
