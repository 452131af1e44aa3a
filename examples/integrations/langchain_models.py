"""A LangChain agent whose model is chosen for every call; fake models, no network.

pip install 'bot-orchestrator[langchain]'
"""

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeListChatModel

from bot_orch import Router
from bot_orch.integrations.langchain import RoutingMiddleware

models = {"small": FakeListChatModel(responses=["I think it is 5"]), "large": FakeListChatModel(responses=["4"])}
routing = RoutingMiddleware(
    models,
    Router(list(models), "ucb1", seed=1),  # path="router.sqlite" would keep what it learns
    judge=lambda task, response: float(response.result[0].text == "4"),
)
agent = create_agent(models["small"], middleware=[routing])

for _ in range(40):
    reply = agent.invoke({"messages": [("user", "What is 2 + 2?")]})["messages"][-1]

shares = [row["agent"] for row in routing.router.history()][-20:]
print(f"last answer: {reply.text!r} by {reply.response_metadata['bot_orch']['agent']}")
print(f"large got {shares.count('large')} of the last 20 calls")
assert shares.count("large") > 15
