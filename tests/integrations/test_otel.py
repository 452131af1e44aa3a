"""OpenTelemetry: decisions of the library as spans, for success, error, timeout, cancel and late feedback."""

import asyncio

import pytest

pytest.importorskip("opentelemetry.sdk.trace")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bot_orch import Router, Task
from bot_orch.integrations.adapter import Adapter
from bot_orch.integrations.otel import DecisionSpans
from bot_orch.types import TERMS


@pytest.fixture
def traced():
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter, provider


def book(provider, **settings):
    return Adapter(Router(["a", "b"], "ucb1", floor=0.5, seed=1), watchers=[DecisionSpans(provider)], **settings)


def test_a_decision_is_a_span_with_propensity_and_terms(traced):
    exporter, provider = traced
    turns = book(provider)
    with provider.get_tracer("app").start_as_current_span("request") as parent:
        turn = turns.begin(Task(text="private words"))
        turn.answered("private answer", reward=0.75, cost_usd=0.01, elapsed_s=2.0)
    span, outer = exporter.get_finished_spans()
    told = dict(span.attributes)
    assert span.name == f"invoke_agent {turn.agent}" and outer.name == "request"
    assert span.parent.span_id == parent.get_span_context().span_id
    assert told["gen_ai.operation.name"] == "invoke_agent" and told["gen_ai.agent.name"] == turn.agent
    assert told["bot_orch.decision.id"] == turn.id and told["bot_orch.propensity"] == turn.propensity
    row = turn.decision.agents.index(turn.agent)
    assert told["bot_orch.terms.estimate"] == float(turn.decision.terms.estimate[row])
    assert {name for name in told if name.startswith("bot_orch.terms.")} <= {f"bot_orch.terms.{name}" for name in TERMS}
    assert (told["bot_orch.reward"], told["gen_ai.evaluation.score.value"], told["bot_orch.cost_usd"]) == (
        0.75,
        0.75,
        0.01,
    )
    assert span.end_time - span.start_time == 2_000_000_000
    assert span.status.status_code.name == "UNSET" and "private" not in str(told)


@pytest.mark.parametrize(
    ("error", "reason"),
    [(ValueError(), "crashed"), (TimeoutError(), "timeout"), (asyncio.CancelledError(), "cancelled")],
)
def test_failures_are_errors_of_the_span(traced, error, reason):
    exporter, provider = traced
    turns = book(provider)
    with pytest.raises(type(error)), turns.begin(Task()):
        raise error
    (span,) = exporter.get_finished_spans()
    row = turns.router.history()[0]
    assert span.status.status_code.name == "ERROR" and reason in span.attributes["error.type"]
    assert span.attributes["error.type"] == row["reason"]
    assert span.attributes["bot_orch.propensity"] == row["propensity"]
    assert span.attributes["bot_orch.elapsed_s"] == pytest.approx(row["elapsed_s"])


def test_a_reward_after_the_answer_is_a_span_with_a_link(traced):
    exporter, provider = traced
    turns = book(provider, success_reward=None)
    turn = turns.begin(Task())
    turn.answered("x")
    (span,) = exporter.get_finished_spans()
    assert "bot_orch.reward" not in span.attributes
    turn.feedback(0.5)
    late = exporter.get_finished_spans()[1]
    assert late.name == "evaluate" and late.attributes["bot_orch.reward"] == 0.5
    assert late.links[0].context.span_id == span.get_span_context().span_id
