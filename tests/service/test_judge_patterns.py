"""Patterns in schemas with which Python's ``re`` takes exponential time are matched in linear time."""

import asyncio
import time

import pytest
from test_judges import configured, settings_of

from bot_orch.errors import InvalidInputError
from bot_orch.service.build import check
from bot_orch.service.judges.answer import AnswerGiven
from bot_orch.service.judges.checks import SchemaCheck, SchemaSettings

SLOW, TEXT = "(a+)+$", "a" * 100_000 + "b"


def value(judge, text):
    return asyncio.run(judge.verdict(AnswerGiven("d", "a", text=text))).value


def test_a_nested_repetition_takes_no_time():
    """The control: with 30 letters, Python's re needs minutes."""
    schema = SchemaCheck(SchemaSettings({"type": "string", "pattern": SLOW}))
    begun = time.thread_time()
    assert value(schema, f'"{TEXT}"') == 0.0
    assert time.thread_time() - begun < 5


def test_schemas_and_texts():
    schema = SchemaCheck(SchemaSettings({"type": "array"}))
    cases = ("[1]", 1.0), ("```json\n[]\n```", 1.0), ("{}", 0.0), ("no", 0.0), ("[" * 9999, 0.0), ('["\ud800"]', 1.0)
    for text, wanted in cases:
        assert value(schema, text) == wanted, text


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string", "pattern": "(?!a)b"}, "no look-around"),
        ({"type": "string", "pattern": "("}, 'is not a "regex"'),
        ({"items": {"pattern": 7}}, 'is not of type "string"'),
    ],
)
def test_mistakes_are_found_before_the_start(schema, said):
    with pytest.raises(InvalidInputError, match=said):
        check(settings_of(configured({"name": "x", "kind": "json_schema", "settings": {"schema": schema}})))
