"""Patterns with which Python's ``re`` takes exponential time are matched in linear time; mistakes are found early."""

import asyncio
import time

import pytest
from test_judges import configured, settings_of

from bot_orch.errors import InvalidInputError
from bot_orch.service.build import check
from bot_orch.service.judges.answer import AnswerGiven
from bot_orch.service.judges.checks import RegexCheck, RegexSettings, SchemaCheck, SchemaSettings

SLOW, TEXT = "(a+)+$", "a" * 100_000 + "b"


def value(judge, text):
    return asyncio.run(judge.verdict(AnswerGiven("d", "a", text=text))).value


def test_a_nested_repetition_takes_no_time():
    """The control: with 30 letters, Python's re needs minutes."""
    schema = SchemaCheck(SchemaSettings(schema={"type": "string", "pattern": SLOW}))
    begun = time.thread_time()
    assert value(RegexCheck(RegexSettings(pattern=SLOW)), TEXT) == 0.0 and value(schema, f'"{TEXT}"') == 0.0
    assert time.thread_time() - begun < 5


def test_patterns_and_texts():
    cases = [("a", "ba", {}, 1.0), ("a", "ba", {"whole": True}, 0.0), ("a|b", "b", {"whole": True}, 1.0)]
    cases += [("^b", "ab", {}, 0.0), ("x", "ab", {"absent": True}, 1.0), (".", "\ud800", {}, 1.0)]
    for pattern, text, more, wanted in cases:
        assert value(RegexCheck(RegexSettings(pattern=pattern, **more)), text) == wanted, (pattern, text)
    schema = SchemaCheck(SchemaSettings(schema={"type": "array"}))
    for text, wanted in (("[1]", 1.0), ("```json\n[]\n```", 1.0), ("{}", 0.0), ("no", 0.0), ("[" * 9999, 0.0)):
        assert value(schema, text) == wanted, text


@pytest.mark.parametrize(
    ("settings", "kind", "said"),
    [
        ({"pattern": "(?!a)b"}, "regex", "without look-around"),
        ({"schema": {"type": "string", "pattern": "("}}, "json_schema", 'is not a "regex"'),
        ({"schema": {"items": {"pattern": 7}}}, "json_schema", 'is not of type "string"'),
        ({"command": ["true"], "timeout_s": 0}, "unit_test", "timeout_s"),
    ],
)
def test_mistakes_are_found_before_the_start(settings, kind, said):
    with pytest.raises(InvalidInputError, match=said):
        check(settings_of(configured({"name": "x", "kind": kind, "settings": settings})))
