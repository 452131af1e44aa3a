"""OpenAI Agents SDK: the model of a call and the agent of a handoff are chosen and learned; fake models, no network.

pip install 'bot-orchestrator[agents-sdk]'
"""

from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from bot_orch import Router
from bot_orch.integrations.openai_agents import RoutedHandoffs, RoutedModels


class Fake(Model):  # type: ignore[misc]
    """Says a text, or hands off to whoever is offered."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    async def get_response(self, *_: Any, **named: Any) -> Any:
        """One message, or one call."""
        output: Any
        if self.text is None:
            tool = named["handoffs"][0].tool_name
            output = ResponseFunctionToolCall(type="function_call", name=tool, arguments="{}", call_id="1")
        else:
            text = ResponseOutputText(type="output_text", text=self.text, annotations=[])
            output = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Not needed here."""
        raise NotImplementedError


models = {"small": Fake("5"), "large": Fake("4")}
provider = RoutedModels(
    models,
    Router(list(models), "ucb1", seed=1),
    judge=lambda task, response: float(response.output[0].content[0].text == "4"),
)
config = RunConfig(model_provider=provider, tracing_disabled=True)
said = [Runner.run_sync(Agent(name="adder"), "2 + 2?", run_config=config).final_output for _ in range(30)]
print(f"models: {said[-15:].count('4')} of the last 15 answers are right")

desk = [Agent(name="sales", model=Fake("Buy!")), Agent(name="refunds", model=Fake("Paid back."))]
choice = RoutedHandoffs(
    desk, Router(["sales", "refunds"], "ucb1", seed=1), judge=lambda task, output: float(output == "Paid back.")
)
triage = Agent(name="triage", model=Fake(None), handoffs=choice.handoffs)
for _ in range(30):
    with choice.routed("Where is my money?"):
        Runner.run_sync(triage, "Where is my money?", hooks=choice, run_config=RunConfig(tracing_disabled=True))
asked = [row["agent"] for row in choice.router.history()][-15:]
print(f"handoffs: {asked.count('refunds')} of the last 15 went to refunds")
assert said[-15:].count("4") > 11
assert asked.count("refunds") > 11
