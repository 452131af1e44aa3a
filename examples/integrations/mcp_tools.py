"""Tools of the Model Context Protocol over a router, called by the package's own client in memory; no network.

pip install 'bot-orchestrator[mcp]'
"""

import asyncio

from mcp import Client

from bot_orch import Router
from bot_orch.integrations.mcp import mcp_server

router = Router(["small", "large"], "ucb1", seed=1)  # path="router.sqlite" would keep what it learns


async def main() -> None:
    """Decide and observe forty times, then ask why."""
    async with Client(mcp_server(router)) as client:
        for _ in range(40):
            made = (await client.call_tool("decide", {"text": "Summarise this contract."})).structured_content
            told = {"decision_id": made["decision_id"], "reward": 0.9 if made["agent"] == "large" else 0.3}
            await client.call_tool("observe", told)
        why = (await client.call_tool("explain", {"decision_id": made["decision_id"]})).structured_content
        print(f"last: {why['round']['agent']}, propensity {why['round']['propensity']:.2f}")
        print((await client.call_tool("agents", {})).structured_content)


asyncio.run(main())
large = [row["agent"] for row in router.history()][-20:].count("large")
print(f"large got {large} of the last 20 tasks")
assert large > 12
