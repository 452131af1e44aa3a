"""Prometheus: what a router in this process decided and earned, as metrics."""

import pytest

pytest.importorskip("prometheus_client")

import prometheus_client as client

from bot_orch import Router, Task
from bot_orch.integrations.adapter import Adapter
from bot_orch.integrations.prometheus import DecisionMetrics


def test_decisions_and_outcomes_are_counted():
    registry = client.CollectorRegistry()
    turns = Adapter(Router(["a"], "ucb1"), watchers=[DecisionMetrics(registry)])
    turns.begin(Task()).answered(reward=0.75, elapsed_s=2.0, cost_usd=0.5)
    turns.begin(Task()).failed(TimeoutError(), elapsed_s=5.0)
    turns.begin(Task())

    def value(name, **labels):
        return registry.get_sample_value(name, {"agent": "a", **labels})

    assert value("bot_orch_decisions_total") == 3.0
    assert value("bot_orch_feedback_total", ending="completed") == 1.0
    assert value("bot_orch_feedback_total", ending="timeout") == 1.0
    assert (value("bot_orch_agent_rewards_total"), value("bot_orch_agent_rewarded_total")) == (0.75, 1.0)
    assert value("bot_orch_agent_cost_usd_total") == 0.5
    assert (value("bot_orch_agent_call_seconds_sum"), value("bot_orch_agent_call_seconds_count")) == (7.0, 2.0)
    assert b'bot_orch_decisions_total{agent="a"} 3.0' in client.generate_latest(registry)
