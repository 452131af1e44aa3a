"""A PydanticAI agent with two models: every run goes to one of them, and the answers tell which. No network."""

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from bot_orch import Router, Task
from bot_orch.integrations.pydantic_ai import RoutedRuns


def small(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model that is often wrong."""
    return ModelResponse([TextPart("41")])


def large(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model that is right."""
    return ModelResponse([TextPart("42")])


def judge(task: Task, result: object) -> float:
    """A reward for the result of a run."""
    return 1.0 if getattr(result, "output", None) == "42" else 0.0


models = {"small": FunctionModel(small), "large": FunctionModel(large)}
runs = RoutedRuns(models, Router(list(models), seed=1), judge=judge)
agent = Agent(capabilities=[runs])
answers = [agent.run_sync("What is six times seven?").output for _ in range(40)]
print("right among the first ten:", answers[:10].count("42"), "- among the last ten:", answers[-10:].count("42"))
last = runs.router.history()[-1]
print(f"last run: {last['agent']}, propensity {last['propensity']:.2f}, {last['elapsed_s'] * 1000:.0f} ms")
