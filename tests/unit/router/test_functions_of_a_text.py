"""A router calls functions of a task and functions of a text, and no mistake of that kind passes for an outcome."""

import asyncio
import json
import logging
from functools import partial

import pytest

from bot_orch import Outcome, Router, Task
from bot_orch.agents.kinds.functions import takes_text
from bot_orch.errors import InvalidInputError

HELLO = Task("t", text="hello there")


def annotated(question: str):
    return question.upper()


def postponed(question: "str", loud=True):
    return question.upper()


async def later(text):
    return text.upper()


def of_a_task(text: Task):
    return text.text.upper()


class Shouting:
    def __call__(self, prompt):
        return prompt.upper()


TEXT = [str.upper, annotated, postponed, lambda text: text.upper(), lambda prompt: prompt.upper(), Shouting()]


@pytest.mark.parametrize("function", TEXT)
@pytest.mark.parametrize("timeout_s", [None, 60.0])
def test_functions_of_a_text_get_the_text(function, timeout_s):
    router = Router({"up": function}, judge=lambda task, answer: float(answer == "HELLO THERE"))
    call = router.call(HELLO, timeout_s=timeout_s)
    assert (call.answer, call.outcome.reward, call.error) == ("HELLO THERE", 1.0, None)
    assert asyncio.run(router.acall(HELLO)).answer == "HELLO THERE"


def test_async_functions_and_added_ones_too():
    router = Router({"up": later})
    router.add_agent("down", str.lower)
    assert asyncio.run(router.acall(HELLO, ["up"])).answer == "HELLO THERE"
    assert asyncio.run(router.acall(HELLO, ["down"])).answer == "hello there"


@pytest.mark.parametrize("function", [of_a_task, lambda task: task.text.upper(), lambda t: t.text.upper()])
def test_other_functions_get_the_task(function):
    assert not takes_text(function) and Router({"up": function}).call(HELLO).answer == "HELLO THERE"


@pytest.mark.parametrize(
    "function",
    [
        lambda q: q.upper(),
        lambda q: "> " + q,
        lambda q: list(q),
        lambda q: json.dumps({"content": q}),
        partial(int),
        lambda text: text.features,
    ],
)
def test_a_function_that_takes_the_other_raises_and_nothing_is_learned(function):
    router = Router({"up": function, "down": function}, judge=lambda *_: 1.0)
    for call in (router.call, lambda task: asyncio.run(router.acall(task))):
        with pytest.raises(InvalidInputError, match=r"functions\.(up|down): fails on a .*annotate its parameter"):
            call(HELLO)
    assert len(router.pending) == 2 and all(row["reward"] is None for row in router.history())


def test_a_missing_text_is_refused_before_a_decision():
    router = Router({"up": str.upper, "task": of_a_task})
    with pytest.raises(InvalidInputError, match=r"task.text: is missing, and 'up' is a function of a text; pass Task"):
        router.call(Task("t"))
    assert router.pending == ()


@pytest.mark.parametrize("function", [lambda: "x", lambda task, model: "x", lambda *, task: "x"])
def test_functions_of_no_or_several_arguments_are_refused_at_once(function):
    with pytest.raises(InvalidInputError, match=r"functions.a: cannot be called with one argument"):
        Router({"a": function})


def test_the_first_failure_of_every_agent_is_logged(caplog):
    def broken(task):
        raise KeyError("OPENAI_API_KEY")

    router = Router({"a": broken, "b": broken})
    with caplog.at_level(logging.WARNING, "bot_orch"):
        calls = [router.call(HELLO, [name]) for name in "aabb"]
    assert all(call.outcome == Outcome(False, 0.0, call.elapsed_s, "crashed") for call in calls)
    assert [record.args[0] for record in caplog.records] == ["a", "b"] and "OPENAI_API_KEY" in caplog.text
