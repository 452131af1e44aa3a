"""Checks on the text of an answer: a regular expression, a JSON Schema."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any

from bot_orch.errors import InvalidInputError
from bot_orch.service.judges.answer import AnswerGiven
from bot_orch.service.judges.schema import check_schema, conforms

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
    """A pattern that the answer must contain (``whole``: be); ``absent`` turns that round."""

    pattern: str
    whole: bool = False
    absent: bool = False

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise InvalidInputError("pattern", f"is no regular expression ({error})", "see re of Python") from None


class RegexCheck:
    """1 if the answer fits the pattern, else 0."""

    def __init__(self, settings: RegexSettings) -> None:
        self._settings, self._pattern = settings, re.compile(settings.pattern)

    async def value(self, answer: AnswerGiven) -> float:
        """The value of an answer; the search runs in a thread, as a pattern may take long."""
        search = self._pattern.fullmatch if self._settings.whole else self._pattern.search
        found = await asyncio.to_thread(search, answer.text)
        return float((found is None) == self._settings.absent)


@dataclass(frozen=True, slots=True)
class SchemaSettings:
    """A JSON Schema (see ``schema.KEYWORDS``); a fenced block in the answer is read without its fence."""

    schema: dict[str, Any]

    def __post_init__(self) -> None:
        check_schema(self.schema, "schema")


class SchemaCheck:
    """1 if the answer is JSON that fits the schema, else 0."""

    def __init__(self, settings: SchemaSettings) -> None:
        self._schema = settings.schema

    async def value(self, answer: AnswerGiven) -> float:
        """The value of an answer."""
        try:
            document = json.loads(fenced(answer.text))
        except (ValueError, RecursionError):
            return 0.0
        return float(conforms(document, self._schema))
