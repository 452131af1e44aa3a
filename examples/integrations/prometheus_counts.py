"""Decisions of a router as Prometheus metrics, printed instead of served; no network.

pip install 'bot-orchestrator[prometheus]'
"""

from prometheus_client import CollectorRegistry, generate_latest

from bot_orch import Router, Task
from bot_orch.integrations.adapter import Adapter
from bot_orch.integrations.prometheus import DecisionMetrics

registry = CollectorRegistry()
turns = Adapter(Router(["small", "large"], "ucb1", seed=1), watchers=[DecisionMetrics(registry)])
for _ in range(20):
    with turns.begin(Task()) as turn:
        turn.answered(reward=0.9 if turn.agent == "large" else 0.4, cost_usd=0.01)

text = generate_latest(registry).decode()
print("\n".join(line for line in text.splitlines() if "_total{" in line))
assert 'bot_orch_decisions_total{agent="large"}' in text
