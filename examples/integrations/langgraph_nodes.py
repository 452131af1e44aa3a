"""A LangGraph whose nodes are agents, one of them a person; no network.

pip install 'bot-orchestrator[langgraph]'
"""

from typing import TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from bot_orch import Router
from bot_orch.integrations.langgraph import GraphRouter


class State(TypedDict, total=False):
    """What travels through the graph."""

    question: str
    answer: str


def model(state: State) -> State:
    """Answers at once, often wrongly."""
    return {"answer": "5"}


def person(state: State) -> State:
    """Stops the graph until somebody answers; the decision stays pending meanwhile."""
    return {"answer": interrupt(state["question"])}


choice = GraphRouter(
    Router(["model", "person"], "ucb1", seed=2),
    text=lambda state: state["question"],
    judge=lambda task, update: float(update["answer"] == "4"),
)
graph = StateGraph(State)
choice.connect(graph, {"model": model, "person": person}, source=START, then=END)
app = graph.compile(checkpointer=InMemorySaver())

for number in range(30):
    config = {"configurable": {"thread_id": str(number)}}
    state = app.invoke({"question": "What is 2 + 2?"}, config)
    if "__interrupt__" in state:
        state = app.invoke(Command(resume="4"), config)

asked = [row["agent"] for row in choice.router.history()][-15:]
print(f"the person got {asked.count('person')} of the last 15 questions; nothing is pending: {choice.router.pending}")
assert asked.count("person") > 10
