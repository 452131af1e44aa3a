"""LiteLLM's router with two fake deployments: every request goes to one, and the answers tell which. No network.

pip install 'bot-orchestrator[litellm]'
"""

import asyncio
import os
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else LiteLLM fetches prices from the network
import litellm

from bot_orch import Router
from bot_orch.integrations.litellm import LearnedRouting


class Provider(litellm.CustomLLM):  # type: ignore[misc]
    """A provider of two models, one of which can add."""

    async def acompletion(self, model: str, *_: Any, **__: Any) -> Any:
        """Answer at once."""
        message = litellm.Message(role="assistant", content="4" if model == "large" else "5")
        usage = litellm.Usage(prompt_tokens=10, completion_tokens=1, total_tokens=11)
        return litellm.ModelResponse(model=model, choices=[litellm.Choices(message=message)], usage=usage)


litellm.custom_provider_map = [{"provider": "fake", "custom_handler": Provider()}]
names = ["fake/small", "fake/large"]
routing = LearnedRouting(
    Router(names, "ucb1", seed=1),  # path="router.sqlite" would keep what it learns
    judge=lambda task, reply: float(reply.choices[0].message.content == "4"),
)
litellm.callbacks = [routing]
router = litellm.Router(
    model_list=[{"model_name": "chat", "litellm_params": {"model": name}} for name in names],
    plugins=[routing],
    disable_cooldowns=True,
)


async def main() -> None:
    """Forty requests; LiteLLM reports their ends in the background."""
    for _ in range(40):
        await router.acompletion(model="chat", messages=[{"role": "user", "content": "What is 2 + 2?"}])
        while routing.router.pending:
            await asyncio.sleep(0.001)


asyncio.run(main())
last = [row["agent"] for row in routing.router.history()][-20:]
print(f"fake/large got {last.count('fake/large')} of the last 20 requests")
assert last.count("fake/large") > 14
