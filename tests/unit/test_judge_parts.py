"""The parts of judges: scores in texts, schemas, signals of a conversation."""

import pytest

from bot_orch.errors import InvalidInputError
from bot_orch.service.judges.answer import AnswerGiven, JudgeFailure, checked_value
from bot_orch.service.judges.checks import SchemaSettings, fenced
from bot_orch.service.judges.implicit import ImplicitJudge, ImplicitSettings
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


def test_another_scale():
    assert read_score("score: 1", scale=1.0) == 1.0 and read_score("0.25", scale=1.0) == 0.25


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


USER = {"role": "user", "content": "hi"}


class Chats:
    def __init__(self, **settings):
        self.said, self.now_s = [], 0.0
        self.judge = ImplicitJudge(
            ImplicitSettings(**settings), lambda answer, value, silent: self.heard(answer, value), most=3
        )

    def heard(self, answer, value):
        self.said.append((answer.decision_id, value))

    def turn(self, name, *messages, text="answer", finish="stop", **more):
        answer = AnswerGiven(name, "a", messages=messages, text=text, finish_reason=finish, **more)
        self.judge.hear(answer, self.now_s)
        self.judge.watch(answer, self.now_s)

    def wait(self, seconds):
        self.now_s += seconds
        self.judge.pass_time(self.now_s)


def test_nothing_happens_and_the_answer_was_good():
    chats = Chats(window_s=10)
    chats.turn("d1", USER)
    chats.wait(9)
    assert chats.said == []
    chats.wait(2)
    assert chats.said == [("d1", 1.0)] and len(chats.judge) == 0


def test_texts_are_not_kept():
    kept = []
    judge = ImplicitJudge(ImplicitSettings(window_s=10), lambda answer, value, silent: kept.append(answer))
    judge.watch(AnswerGiven("d1", "a", question="hi", messages=(USER,), params={"user": "me"}, text="answer"), 0.0)
    judge.pass_time(11.0)
    (answer,) = kept
    assert answer == AnswerGiven("d1", "a"), "a conversation is kept as a digest"


def test_asked_again():
    chats = Chats(window_s=10)
    chats.turn("d1", USER)
    chats.turn("d2", USER, token="else")  # noqa: S106
    assert chats.said == []
    chats.turn("d3", USER)
    assert chats.said == [("d1", 0.0)]
    chats.wait(11)
    assert sorted(chats.said[1:]) == [("d2", 1.0), ("d3", 1.0)]


def test_the_same_question_of_another_user_is_no_retry():
    """One token serves many users of an application."""
    chats = Chats(window_s=10)
    chats.turn("d1", USER, params={"user": "ann"})
    chats.turn("d2", USER, params={"user": "bob"})
    chats.turn("d3", USER, params={"user": "bob"})
    assert chats.said == [("d2", 0.0)]


def test_empty_and_cut_off():
    chats = Chats(window_s=10)
    chats.turn("empty", {"role": "user", "content": "1"}, text=" ")
    chats.turn("cut", {"role": "user", "content": "2"}, finish="length")
    chats.turn("tool", {"role": "user", "content": "3"}, text="", finish="tool_calls")
    assert chats.said == [("empty", 0.0), ("cut", 0.3)]
    chats.wait(11)
    assert chats.said[2:] == [("tool", 1.0)], "said once"


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        ("Error: no such file", True),
        ('{"error": "quota"}', True),
        ('{"is_error": true, "content": ""}', True),
        ('{"error": null, "rows": 3}', False),
        ("3 rows, no errors", False),
        ([{"type": "text", "text": "Traceback (most recent call last)"}], True),
    ],
)
def test_a_tool_call_that_failed(result, failed):
    chats = Chats(window_s=10)
    chats.turn("d1", USER, text="", finish="tool_calls")
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    chats.turn("d2", USER, call, {"role": "tool", "tool_call_id": "1", "content": result})
    chats.wait(11)
    assert dict(chats.said) == {"d1": 0.0 if failed else 1.0, "d2": 1.0}


def test_signals_can_be_switched_off_and_memory_is_bounded():
    chats = Chats(window_s=10, good=None, retried=None)
    for number in range(5):
        chats.turn(f"d{number}", {"role": "user", "content": str(number)})
    assert len(chats.judge) == 3 and chats.said == []
    chats.turn("again", {"role": "user", "content": "4"})
    assert chats.said == []
    with pytest.raises(InvalidInputError, match="retried"):
        ImplicitSettings(retried=2.0)
