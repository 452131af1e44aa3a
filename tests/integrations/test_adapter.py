"""What all adapters share: one outcome per turn, whatever happens, and late feedback."""

import asyncio

import pytest

from bot_orch import InvalidInputError, Router, Task
from bot_orch.errors import UnknownDecisionError
from bot_orch.integrations.adapter import Adapter, user_text


def turns(**options):
    return Adapter(Router(["a", "b"], "ucb1", seed=1), **options)


def raised_from(cause):
    error = RuntimeError("as a framework says it")
    error.__cause__ = cause
    return error


def last(own):
    return own.router.history()[-1]


def test_success():
    own = turns()
    turn = own.begin(Task(text="hello"))
    turn.answered("hi", cost_usd=0.25, elapsed_s=1.5)
    turn.failed(ValueError())  # the first report counts
    assert turn.ended and turn.outcome.reward == 1.0 and turn.outcome.cost_usd == 0.25
    assert last(own)["reward"] == 1.0 and last(own)["elapsed_s"] == 1.5
    assert last(own)["propensity"] == turn.propensity > 0 and last(own)["agent"] == turn.agent


@pytest.mark.parametrize(
    ("error", "reward", "reason"),
    [
        (ValueError(), 0.0, "crashed"),
        (TimeoutError(), None, "timeout"),
        (type("APITimeoutError", (Exception,), {})(), None, "timeout"),
        (asyncio.CancelledError(), None, "cancelled"),
        (MemoryError(), 0.0, "out_of_memory"),
        (raised_from(TimeoutError()), None, "timeout"),
        (raised_from(ValueError()), 0.0, "crashed"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_exceptions(error, reward, reason):
    own = turns()

    def play():
        with own.begin(Task()) as turn:
            plays.append(turn)
            raise error

    plays = []
    with pytest.raises(type(error)):
        play()
    assert (plays[0].outcome.event, plays[0].outcome.reward, plays[0].outcome.reason) == (False, reward, reason)
    assert own.router.pending == ()


def test_a_judge_and_a_reward():
    own = turns(judge=lambda task, answer: float(answer == task.text))
    own.begin(Task(text="same")).answered("same")
    assert last(own)["reward"] == 1.0
    own.begin(Task(text="same")).answered("other")
    assert last(own)["reward"] == 0.0
    own.begin(Task(text="same")).answered("other", reward=0.5)
    assert last(own)["reward"] == 0.5


def test_late_feedback():
    own = turns(success_reward=None)
    turn = own.begin(Task(), ["b"], call_id="call-1")
    assert turn.agent == "b"
    with pytest.raises(InvalidInputError, match="no answer yet"):
        own.feedback("call-1", 1.0)
    turn.answered("x", elapsed_s=2.0, cost_usd=0.1)
    assert own.router.pending == (turn.id,)
    own.feedback("call-1", 0.75)
    assert (turn.outcome.reward, turn.outcome.elapsed_s, turn.outcome.cost_usd) == (0.75, 2.0, 0.1)
    with pytest.raises(InvalidInputError, match="has its outcome"):
        own.feedback(turn.id, 0.75)
    with pytest.raises(UnknownDecisionError):
        own.feedback("nobody", 1.0)


def test_memory_is_bounded():
    own = turns(remembered=4)
    made = [own.begin(Task(), call_id=str(number)) for number in range(5)]
    assert own.find("0") is None and own.find("4") is made[4] and own.find(made[3].id) is made[3]


def test_a_reward_out_of_range_is_named():
    with pytest.raises(InvalidInputError, match="success_reward"):
        turns(success_reward=-1.0)


def test_a_name_given_later():
    own = turns(success_reward=None)
    turn = own.begin(Task())
    own.add_id(turn, "call-2")
    turn.answered("x")
    own.feedback("call-2", 0.5)
    assert turn.outcome.reward == 0.5


def test_watchers_are_told_in_order():
    class Diary:
        def __init__(self):
            self.lines = []

        def decided(self, turn):
            self.lines.append(("decided", turn.id))

        def awaiting(self, turn):
            self.lines.append(("awaiting", turn.ended))

        def observed(self, turn, outcome):
            self.lines.append(("observed", outcome.reward, turn.id in own.router.pending))

    diary = Diary()
    own = turns(success_reward=None, watchers=[diary])
    turn = own.begin(Task())
    turn.answered("x")
    turn.feedback(0.25)
    own.begin(Task()).failed(ValueError())
    assert [line[0] for line in diary.lines] == ["decided", "awaiting", "observed", "decided", "observed"]
    assert diary.lines[1:3] == [("awaiting", True), ("observed", 0.25, False)] and diary.lines[0][1] == turn.id


def test_the_text_of_the_user():
    parts = [{"type": "input_text", "text": "one"}, {"type": "input_image", "image_url": "x"}, {"text": "two"}]
    asked = [
        {"role": "user", "content": "before"},
        {"role": "user", "content": parts},
        {"role": "tool", "content": "t"},
    ]
    assert user_text(asked) == "one\ntwo" and user_text(asked[:1]) == "before" and user_text("plain") == "plain"
    assert user_text([]) == user_text([{"role": "user", "content": None}]) == user_text([{"role": "system"}]) == ""


def test_feedback_takes_the_place_of_success():
    own = turns()
    turn = own.begin(Task(), ["b"], call_id="call-3")
    turn.answered("x", elapsed_s=2.0, cost_usd=0.1)
    assert turn.outcome.reward == 1.0 and own.router.pending == ()
    own.feedback("call-3", 0.25)
    assert turn.outcome.reward == 0.25
    assert own.router.derive(Task(), ["b"]).terms.estimate[own.router.agents.index("b")] < 0.9
    with pytest.raises(InvalidInputError, match="has its outcome"):
        own.feedback(turn.id, 0.75)
