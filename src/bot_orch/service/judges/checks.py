"""Checks on the text of an answer: a regular expression, a JSON Schema."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass
from typing import Any

from bot_orch.errors import InvalidInputError
from bot_orch.service.judges.answer import AnswerGiven
from bot_orch.service.judges.patterns import PatternProcess
from bot_orch.service.judges.schema import check_pattern, check_schema, conforms

__all__ = ["CheckSettings", "RegexCheck", "RegexSettings", "SchemaCheck", "SchemaSettings", "fenced"]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    """What a check is worth: ``passed`` and ``failed``, from 0 to 1; None says nothing, and another judge counts.

    ``timeout_s`` is the time that a check has; an answer on which it takes longer is not judged.
    """

    passed: float | None = 1.0
    failed: float | None = 0.0
    timeout_s: float = 1.0

    def __post_init__(self) -> None:
        for name in ("passed", "failed"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise InvalidInputError(name, f"is {value}", "set a number from 0 to 1, or null")
        if not 0 < self.timeout_s <= 3600:
            raise InvalidInputError("timeout_s", f"is {self.timeout_s}", "set seconds, from 0 to 3600")

    def value(self, *, passed: bool) -> float | None:
        """The value of an answer."""
        return self.passed if passed else self.failed


@dataclass(frozen=True, slots=True)
class RegexSettings(CheckSettings):
    """A pattern that the answer must contain (``whole``: be); ``absent`` turns that round."""

    pattern: str
    whole: bool = False
    absent: bool = False

    def __post_init__(self) -> None:
        CheckSettings.__post_init__(self)
        check_pattern(self.pattern, "pattern")


class RegexCheck:
    """Whether the answer fits the pattern."""

    def __init__(self, settings: RegexSettings) -> None:
        self._settings, self._patterns = settings, PatternProcess(settings.timeout_s)

    async def value(self, answer: AnswerGiven) -> float | None:
        """The value of an answer."""
        found = await asyncio.get_running_loop().run_in_executor(self._patterns.thread, self._found, answer.text)
        return self._settings.value(passed=found != self._settings.absent)

    def close(self) -> None:
        """End what was started."""
        self._patterns.close()

    def _found(self, text: str) -> bool:
        return self._patterns.fits(self._settings.pattern, text, whole=self._settings.whole)


@dataclass(frozen=True, slots=True)
class SchemaSettings(CheckSettings):
    """A JSON Schema (see ``schema.KEYWORDS``); a fenced block in the answer is read without its fence."""

    schema: dict[str, Any]

    def __post_init__(self) -> None:
        CheckSettings.__post_init__(self)
        check_schema(self.schema, "schema")


class SchemaCheck:
    """Whether the answer is JSON that fits the schema."""

    def __init__(self, settings: SchemaSettings) -> None:
        self._settings, self._patterns = settings, PatternProcess(settings.timeout_s)

    async def value(self, answer: AnswerGiven) -> float | None:
        """The value of an answer."""
        fits = await asyncio.get_running_loop().run_in_executor(self._patterns.thread, self._fits, answer.text)
        return self._settings.value(passed=fits)

    def close(self) -> None:
        """End what was started."""
        self._patterns.close()

    def _fits(self, text: str) -> bool:
        until_s = time.monotonic() + self._patterns.timeout_s

        def matches(pattern: str, part: str) -> bool:
            if time.monotonic() > until_s:
                raise TimeoutError(f"the schema was not checked within {self._patterns.timeout_s:g} s")
            return self._patterns.fits(pattern, part)

        try:
            document = json.loads(fenced(text))
        except (ValueError, RecursionError):
            return False
        return conforms(document, self._settings.schema, matches)
