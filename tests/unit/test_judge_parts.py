"""The parts of judges: scores in texts, schemas."""

import pytest

from bot_orch.errors import InvalidInputError
from bot_orch.service.judges.answer import JudgeFailure, checked_value
from bot_orch.service.judges.checks import SchemaSettings, fenced
from bot_orch.service.judges.models import read_score


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("7", 0.7),
        ("score: 8.5", 0.85),
        ("**Score:** 6", 0.6),
        ('{"score": 3, "reason": "5 errors, 10 lines"}', 0.3),
        ("In 2024 this would be 9 out of 10.", 0.9),
        ("I give 4/5", 0.8),
        ("90%", 0.9),
        ("7,5", 0.75),
        ("<think>a 2, or 3/10</think>\n9", 0.9),
        ("<thinking>never ends 8", None),
        ("The answer is great", None),
        ("-3", None),
        ("score: 42", None),
        ("12/10", None),
        ("3/0", None),
        ("", None),
    ],
)
def test_scores_in_texts(text, score):
    assert read_score(text) == (None if score is None else pytest.approx(score))


def conforms(value, schema):
    return SchemaSettings(schema=schema).validator().is_valid(value)


def test_schemas():
    schema = {
        "type": "object",
        "required": ["tags"],
        "properties": {
            "tags": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
            "share": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
            "kind": {"anyOf": [{"const": 1}, {"enum": ["a", "b"]}]},
        },
        "additionalProperties": False,
    }
    good = {"tags": ["x"], "share": 0.5, "kind": "b"}
    assert conforms(good, schema) and conforms({"tags": ["x"], "share": None, "kind": 1}, schema)
    for bad in (
        {},
        {"tags": []},
        {"tags": [""]},
        good | {"share": 2},
        good | {"kind": "c"},
        good | {"more": 1},
        [],
        True,
    ):
        assert not conforms(bad, schema), bad
    assert conforms(True, {"type": "boolean"}) and not conforms(True, {"type": "integer"})
    for wrong in ({"$ref": "#/x"}, {"$ref": "http://127.0.0.1/x"}, {"type": "text"}, {"properties": []}, "object"):
        with pytest.raises(InvalidInputError):
            SchemaSettings(schema=wrong)


def test_values_of_functions():
    assert [checked_value(value) for value in (None, 0, 1.0, True)] == [None, 0.0, 1.0, 1.0]
    for wrong in (1.5, -0.1, float("nan"), "0.5"):
        with pytest.raises(JudgeFailure):
            checked_value(wrong)


def test_a_fenced_block_is_read_without_its_fence():
    assert fenced("a\n```py\nx = 1\n```\nb") == "x = 1\n" and fenced("plain") == "plain"
