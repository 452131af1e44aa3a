"""A Strands agent with three models: one is down, one is wrong; failures and answers tell. No network.

pip install 'bot-orchestrator[strands]'
"""

import logging
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent
from strands.models import Model
from strands.models.routing import ModelRouter, RoutingCandidate

from bot_orch import Router
from bot_orch.integrations.strands import LearnedStrategy


class Fake(Model):  # type: ignore[misc]
    """Says a text, or is down."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def update_config(self, **_: Any) -> None:
        """Nothing to configure."""

    def get_config(self) -> dict[str, Any]:
        """Nothing is configured."""
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        """Not needed here."""
        raise NotImplementedError

    async def stream(self, *_: Any, **__: Any) -> AsyncIterator[dict[str, Any]]:
        """One text."""
        if self.text is None:
            raise ConnectionError("down")
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"delta": {"text": self.text}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


logging.getLogger("strands").setLevel(logging.ERROR)
models = {"down": Fake(None), "wrong": Fake("5"), "right": Fake("4")}
strategy = LearnedStrategy(
    Router(list(models), "ucb1", seed=1), judge=lambda task, result: float(str(result).strip() == "4")
)
candidates = [RoutingCandidate(model, name=name) for name, model in models.items()]
agent = Agent(model=ModelRouter(candidates, strategy=strategy), hooks=[strategy], callback_handler=None)
answers = [str(agent("What is 2 + 2?")).strip() for _ in range(40)]
asked = [row["agent"] for row in strategy.router.history()]
print(f"right among the last 20: {answers[-20:].count('4')}; calls: { ({name: asked.count(name) for name in models}) }")
assert answers[-20:].count("4") > 12
