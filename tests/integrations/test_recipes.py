"""The recipes of docs/how-to/integrations.md run: with the real package where it is installed, else with a stand-in."""

import asyncio
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TypedDict

import pytest

from bot_orch import Router, Task
from bot_orch.integrations.adapter import Adapter

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "integrations.md").read_text()


class State(TypedDict, total=False):
    question: str
    answer: str
    turn: str


@pytest.fixture
def recipe(monkeypatch, tmp_path):
    """Runs the block under a heading; ``stand_ins`` are modules by name, used where the package is missing."""
    monkeypatch.chdir(tmp_path)

    def play(heading, stand_ins=None, **names):
        missing = {module for module in stand_ins or {} if not installed(module.partition(".")[0])}
        for module in sorted(missing):
            parts = module.split(".")
            for number in range(1, len(parts) + 1):
                name = ".".join(parts[:number])
                monkeypatch.setitem(sys.modules, name, ModuleType(name))
            vars(sys.modules[module]).update(stand_ins[module])
        (code,) = re.findall(rf"^## {re.escape(heading)}\n.*?```py\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)[:1]
        assert len([line for line in code.splitlines() if line.strip()]) <= 20
        space = {"Adapter": Adapter, "Router": Router, "Task": Task, "State": State}
        space |= {"score": lambda answer: float(answer == "4"), "__name__": "docs", **names}
        exec(compile(code, heading, "exec"), space)  # noqa: S102
        return space

    return play


def learns(adapter, ask, runs=40):
    """The model that answers rightly gets most of the later questions."""
    for _ in range(runs):
        ask()
    rows = adapter.router.history()
    assert len(rows) == runs and adapter.router.pending == ()
    assert all(0 < row["propensity"] <= 1 and row["elapsed_s"] >= 0 for row in rows)
    assert [row["agent"] for row in rows][-15:].count("large") > 10
    return rows


class Graph:
    """Stands in for LangGraph's graph: one conditional edge, one node."""

    def __init__(self, state):
        self.nodes = {}

    def add_node(self, name, function):
        self.nodes[name] = function

    def add_edge(self, name, end):
        assert name in self.nodes

    def add_conditional_edges(self, start, choose, names):
        self.choose = choose

    def compile(self):
        return self

    def invoke(self, state):
        name, sent = self.choose(state)
        return state | self.nodes[name](sent)


def test_langgraph(recipe):
    stand_ins = {
        "langgraph.types": {"Send": lambda name, state: (name, state)},
        "langgraph.graph": {"END": "end", "START": "start", "StateGraph": Graph},
    }
    found = recipe(
        "LangGraph", stand_ins, ask_small=lambda state: {"answer": "5"}, ask_large=lambda state: {"answer": "4"}
    )
    app = found["graph"].compile()
    learns(found["adapter"], lambda: app.invoke({"question": "2 + 2?"}))


def installed(name):
    """Whether a package is there; a folder of tests of the same name is none."""
    found = find_spec(name)
    return found is not None and found.origin is not None


def openai_model(text):
    """A model of the SDK that says a text."""
    from agents import Model, ModelResponse, Usage
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText

    class Fake(Model):
        async def get_response(self, *_, **__):
            said = ResponseOutputText(type="output_text", text=text, annotations=[])
            message = ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[said]
            )
            return ModelResponse(output=[message], usage=Usage(input_tokens=1000, output_tokens=100), response_id=None)

        def stream_response(self, *_, **__):
            raise NotImplementedError

    return Fake()


def test_openai_agents(recipe, monkeypatch):
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    usage = SimpleNamespace(input_tokens=1000, output_tokens=100)

    class Runner:
        @staticmethod
        async def run(agent, _question):
            return SimpleNamespace(final_output=agent.model, context_wrapper=SimpleNamespace(usage=usage))

    stand_ins = {"agents": {"Agent": SimpleNamespace, "Runner": Runner}}
    model = openai_model if installed("agents") else str
    found = recipe("OpenAI Agents SDK", stand_ins, small=model("5"), large=model("4"))
    rows = learns(found["adapter"], lambda: asyncio.run(found["run"]("2 + 2?")))
    assert {row["cost_usd"] for row in rows if row["agent"] == "small"} == {0.00014}


def test_pydantic_ai(recipe):
    class Agent:
        async def run(self, question, model):
            return SimpleNamespace(output=model, usage=SimpleNamespace(input_tokens=50, output_tokens=1))

    model = str
    if installed("pydantic_ai"):
        from pydantic_ai.messages import ModelResponse, TextPart
        from pydantic_ai.models.function import FunctionModel

        def model(text):
            return FunctionModel(lambda messages, info: ModelResponse([TextPart(text)]))

    found = recipe("PydanticAI", {"pydantic_ai": {"Agent": Agent}}, small=model("5"), large=model("4"))
    rows = learns(found["adapter"], lambda: asyncio.run(found["run"]("2 + 2?")))
    assert all(row["cost_usd"] > 0.0 for row in rows if row["agent"] == "small")


def test_strands(recipe):
    class Agent:
        def __init__(self, model):
            self.model = model

        async def invoke_async(self, question):
            return Said(self.model)

    class Said(str):
        metrics = SimpleNamespace(accumulated_usage={"inputTokens": 50, "outputTokens": 1})

    model = str
    if installed("strands"):
        from strands.models import Model

        class Fake(Model):
            def __init__(self, text):
                self.text = text

            def update_config(self, **_):
                """Nothing to configure."""

            def get_config(self):
                return {}

            def structured_output(self, *_, **__):
                raise NotImplementedError

            async def stream(self, *_, **__):
                yield {"messageStart": {"role": "assistant"}}
                yield {"contentBlockDelta": {"delta": {"text": self.text}}}
                yield {"contentBlockStop": {}}
                yield {"messageStop": {"stopReason": "end_turn"}}

        model = Fake
    found = recipe(
        "Strands Agents",
        {"strands": {"Agent": Agent}},
        small=model("5"),
        large=model("4"),
        score=lambda answer: float(answer.strip() == "4"),
    )
    learns(found["adapter"], lambda: asyncio.run(found["run"]("2 + 2?")))


class Server:
    """Stands in for a server of tools."""

    def __init__(self, name):
        self.tools = {}

    def tool(self):
        return lambda function: self.tools.setdefault(function.__name__, function)


def test_model_context_protocol(recipe):
    found = recipe("Model Context Protocol", {"mcp.server.mcpserver": {"MCPServer": Server}})
    server = found["server"]

    async def call(name, arguments):
        if isinstance(server, Server):
            return server.tools[name](**arguments)
        from mcp import Client

        async with Client(server) as client:
            return (await client.call_tool(name, arguments)).structured_content

    def ask():
        made = asyncio.run(call("decide", {"text": "2 + 2?"}))
        reward = 0.9 if made["agent"] == "large" else 0.1
        asyncio.run(call("observe", {"decision_id": made["decision_id"], "reward": reward}))

    learns(found["adapter"], ask)
    found["adapter"].router.close()


def test_langfuse(recipe):
    sent = []

    class Langfuse:
        @staticmethod
        def create_trace_id(*, seed):
            return f"trace of {seed}"

    found = recipe("Langfuse", {"langfuse": {"Langfuse": Langfuse}}, sent=sent)
    trace_id = found["Langfuse"].create_trace_id
    found["langfuse"].create_score = lambda **score: sent.append(score)  # the real client sends it to a server
    turn = found["adapter"].begin(Task())
    turn.answered("x")
    assert sent == []
    found["adapter"].feedback(turn.id, 0.75)
    (score,) = sent
    assert (score["value"], score["trace_id"], score["metadata"]) == (0.75, trace_id(seed=turn.id), turn.labels)
    found["adapter"].begin(Task()).failed(TimeoutError())
    assert len(sent) == 1


def test_prometheus(recipe):
    client = pytest.importorskip("prometheus_client")
    found = recipe("Prometheus")
    turn = found["adapter"].begin(Task())
    turn.answered(reward=0.75)
    assert f'bot_orch_agent_rewards_total{{agent="{turn.agent}"}} 0.75'.encode() in client.generate_latest()
    for metric in ("decisions", "rewards"):
        client.REGISTRY.unregister(found[metric])
