"""Checks on the text of an answer: a regular expression, a JSON Schema."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import KW_ONLY, dataclass
from typing import Any

from bot_orch.errors import InvalidInputError
from bot_orch.service.judges.answer import AnswerGiven
from bot_orch.service.judges.patterns import PatternProcess
from bot_orch.service.judges.schema import check_pattern, check_schema, conforms

__all__ = ["RegexCheck", "RegexSettings", "SchemaCheck", "SchemaSettings", "fenced"]

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


@dataclass(frozen=True, slots=True)
class RegexSettings:
    """A pattern that the answer must contain (``whole``: be); ``absent`` turns that round.

    ``timeout_s`` is the time that a search has; an answer on which it takes longer is not judged.
    """

    pattern: str
    whole: bool = False
    absent: bool = False
    _: KW_ONLY
    timeout_s: float = 1.0

    def __post_init__(self) -> None:
        _check_timeout(self.timeout_s)
        check_pattern(self.pattern, "pattern")


def _check_timeout(timeout_s: float) -> None:
    if not 0 < timeout_s <= 60:
        raise InvalidInputError("timeout_s", f"is {timeout_s}", "set seconds, from 0 to 60")


class RegexCheck:
    """1 if the answer fits the pattern, else 0."""

    def __init__(self, settings: RegexSettings) -> None:
        self._settings, self._patterns = settings, PatternProcess(settings.timeout_s)

    async def value(self, answer: AnswerGiven) -> float:
        """The value of an answer."""
        found = await asyncio.get_running_loop().run_in_executor(self._patterns.thread, self._found, answer.text)
        return float(found != self._settings.absent)

    def close(self) -> None:
        """End what was started."""
        self._patterns.close()

    def _found(self, text: str) -> bool:
        return self._patterns.fits(self._settings.pattern, text, whole=self._settings.whole)


@dataclass(frozen=True, slots=True)
class SchemaSettings:
    """A JSON Schema (see ``schema.KEYWORDS``); a fenced block in the answer is read without its fence.

    ``timeout_s`` is the time that the check of an answer has; one on which it takes longer is not judged.
    """

    schema: dict[str, Any]
    _: KW_ONLY
    timeout_s: float = 1.0

    def __post_init__(self) -> None:
        _check_timeout(self.timeout_s)
        check_schema(self.schema, "schema")


class SchemaCheck:
    """1 if the answer is JSON that fits the schema, else 0."""

    def __init__(self, settings: SchemaSettings) -> None:
        self._schema, self._patterns = settings.schema, PatternProcess(settings.timeout_s)

    async def value(self, answer: AnswerGiven) -> float:
        """The value of an answer."""
        return await asyncio.get_running_loop().run_in_executor(self._patterns.thread, self._fits, answer.text)

    def close(self) -> None:
        """End what was started."""
        self._patterns.close()

    def _fits(self, text: str) -> float:
        until_s = time.monotonic() + self._patterns.timeout_s

        def matches(pattern: str, part: str) -> bool:
            if time.monotonic() > until_s:
                raise TimeoutError(f"the schema was not checked within {self._patterns.timeout_s:g} s")
            return self._patterns.fits(pattern, part)

        try:
            document = json.loads(fenced(text))
        except (ValueError, RecursionError):
            return 0.0
        return float(conforms(document, self._schema, matches))
