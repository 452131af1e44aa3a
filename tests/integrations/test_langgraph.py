"""A real LangGraph: nodes are agents, people interrupt."""

import asyncio
from typing import TypedDict

import pytest

pytest.importorskip("langgraph")

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from bot_orch import Router
from bot_orch.integrations.langgraph import GraphRouter


class State(TypedDict, total=False):
    question: str
    answer: str


def graph_of(choice, nodes, **options):
    graph = StateGraph(State)
    choice.connect(graph, nodes, source=START, then=END, **options)
    return graph


def test_success_and_learning():
    choice = GraphRouter(
        Router(["upper", "lower"], "ucb1", seed=3),
        text=lambda state: state["question"],
        judge=lambda task, update: float(update["answer"] == task.text.upper()),
    )
    nodes = {
        "upper": lambda state: {"answer": state["question"].upper()},
        "lower": lambda state: {"answer": state["question"].lower()},
    }
    app = graph_of(choice, nodes).compile()
    answers = [app.invoke({"question": "Hi"})["answer"] for _ in range(40)]
    assert answers[-20:].count("HI") > 15
    rows = choice.router.history()
    assert len(rows) == 40 and all(0 < row["propensity"] <= 1 and row["elapsed_s"] >= 0 for row in rows)
    assert choice.router.pending == ()


def test_an_error_is_a_failure():
    def broken(state):
        raise ValueError("no")

    choice = GraphRouter(["a"])
    with pytest.raises(ValueError, match="no"):
        graph_of(choice, {"a": broken}).compile().invoke({"question": "x"})
    (row,) = choice.router.history()
    assert row["reward"] == 0.0 and row["reason"] == "crashed"


def test_a_timeout_and_a_cancelled_run():
    async def slow(state):
        await asyncio.sleep(60)

    async def late(state):
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)

    choice = GraphRouter(["a"])
    app = graph_of(choice, {"a": late}).compile()
    with pytest.raises(TimeoutError):
        asyncio.run(app.ainvoke({"question": "x"}))
    assert choice.router.history()[-1]["reason"] == "timeout"

    other = GraphRouter(["a"])
    app = graph_of(other, {"a": slow}).compile()

    async def play():
        run = asyncio.create_task(app.ainvoke({"question": "x"}))
        while not other.router.pending:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(play())
    (row,) = other.router.history()
    assert row["reason"] == "cancelled" and row["reward"] is None


def test_the_graphs_own_time_limit_of_a_node():
    async def slow(state):
        await asyncio.sleep(60)

    choice = GraphRouter(["a"])
    app = graph_of(choice, {"a": slow}, timeout=0.05).compile()
    with pytest.raises(Exception, match="(?i)timeout|exceeded"):
        asyncio.run(app.ainvoke({"question": "x"}))
    (row,) = choice.router.history()
    assert row["reward"] is None and row["reason"] == "timeout"


def person(state):
    return {"answer": interrupt({"question": state["question"]})}


def test_a_person_interrupts_and_resumes():
    choice = GraphRouter(["person"], judge=lambda task, update: 1.0 if update["answer"] == "42" else 0.0)
    app = graph_of(choice, {"person": person}).compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    assert "__interrupt__" in app.invoke({"question": "?"}, config)
    assert len(choice.router.pending) == 1
    assert app.invoke(Command(resume="42"), config)["answer"] == "42"
    (row,) = choice.router.history()
    assert row["reward"] == 1.0 and choice.router.pending == ()


def test_a_person_answers_after_a_restart(tmp_path):
    saver, config = InMemorySaver(), {"configurable": {"thread_id": "1"}}
    with Router(["person"], "ucb1", path=tmp_path / "router.sqlite") as router:
        graph_of(GraphRouter(router), {"person": person}).compile(checkpointer=saver).invoke({"question": "?"}, config)
    with Router(["person"], "ucb1", path=tmp_path / "router.sqlite") as router:
        assert len(router.pending) == 1
        graph_of(GraphRouter(router), {"person": person}).compile(checkpointer=saver).invoke(
            Command(resume="42"), config
        )
        assert router.pending == () and router.history()[-1]["reward"] == 1.0


def test_feedback_later():
    choice = GraphRouter(["a"], success_reward=None)
    graph_of(choice, {"a": lambda state: {"answer": "x"}}).compile().invoke({"question": "?"})
    (decision_id,) = choice.router.pending
    choice.feedback(decision_id, 0.25)
    assert choice.router.history()[-1]["reward"] == 0.25


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_answers_are_checked_before_one_goes_on(kind):
    """A node whose update fails the check leads to the other node; only the delivered update reaches the state."""

    async def later(state):
        return {"answer": "right"}

    choice = GraphRouter(
        ["wrong", "right"],
        text=lambda state: state["question"],
        attempts=2,
        check=lambda task, update: update["answer"] == "right",
        judge=lambda task, update: float(update["answer"] == "right"),
    )
    nodes = {
        "wrong": lambda state: {"answer": "wrong"},
        "right": later if kind == "async" else lambda state: {"answer": "right"},
    }
    app = graph_of(choice, nodes).compile()
    for _ in range(12):
        said = asyncio.run(app.ainvoke({"question": "x"})) if kind == "async" else app.invoke({"question": "x"})
        assert said["answer"] == "right"
    assert choice.router.pending == ()


def test_a_failed_node_leads_to_the_other():
    def broken(state):
        raise ValueError("no")

    choice = GraphRouter(["broken", "right"], attempts=2, check=lambda *_: True, judge=lambda *_: 1.0)
    app = graph_of(choice, {"broken": broken, "right": lambda state: {"answer": "right"}}).compile()
    assert {app.invoke({"question": "x"})["answer"] for _ in range(6)} == {"right"}
