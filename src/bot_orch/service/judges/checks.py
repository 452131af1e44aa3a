"""A check on the text of an answer: a JSON Schema. Its time is linear in the answer's length.

Patterns in a schema are those of the Rust crate ``regex``, without look-around and back-references: a search with
Python's ``re`` may take exponential time, and would hold the interpreter all the while.
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


def _nowhere(address: str) -> Any:
    raise ValueError(f"{address} is not fetched")


@dataclass(frozen=True, slots=True)
class SchemaSettings:
    """A JSON Schema, draft 2020-12 unless it names another; a fenced block in the answer is read without its fence."""

    schema: dict[str, Any]

    def __post_init__(self) -> None:
        self.validator()

    def validator(self) -> Any:
        """Compile the schema, without fetching anything that it refers to."""
        try:
            import jsonschema_rs
        except ImportError as error:
            raise MissingExtraError("judges that check texts", "service") from error
        try:
            options = jsonschema_rs.RegexOptions()
            return jsonschema_rs.validator_for(self.schema, pattern_options=options, retriever=_nowhere)
        except (TypeError, ValueError) as error:
            remedy = "see json-schema.org; patterns have no look-around"
            raise InvalidInputError("schema", str(getattr(error, "message", error)), remedy) from None


class SchemaCheck:
    """1 for an answer that is JSON and matches the schema, else 0."""

    def __init__(self, settings: SchemaSettings) -> None:
        self._validator = settings.validator()

    async def verdict(self, answer: AnswerGiven) -> Verdict:
        """The verdict on an answer."""
        wrong = self._misfit(answer.text)
        return Verdict(0.0 if wrong else 1.0, wrong)

    def _misfit(self, text: str) -> str:
        """What is wrong with the text; empty if it fits."""
        encodable = text.encode("utf-8", "replace").decode()  # half pairs of surrogates replaced
        try:
            found = next(iter(self._validator.iter_errors(json.loads(fenced(encodable)))), None)
        except (ValueError, RecursionError):  # no JSON, or nested too deeply
            return "the answer is not JSON"
        return "" if found is None else str(found.message)[:_LONGEST]
