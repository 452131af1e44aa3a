"""Decisions of a router as OpenTelemetry spans, printed from memory; no network.

pip install 'bot-orchestrator[otel]'
"""

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bot_orch import Router, Task
from bot_orch.integrations.adapter import Adapter
from bot_orch.integrations.otel import DecisionSpans

spans, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
turns = Adapter(Router(["small", "large"], "ucb1", seed=1), watchers=[DecisionSpans(provider)])

for number in range(3):
    with turns.begin(Task(text="Where is my money?")) as turn:  # an exception in here would be a failed span
        turn.answered(f"answer {number}", reward=0.9 if turn.agent == "large" else 0.4)

for span in spans.get_finished_spans():
    told = span.attributes or {}
    print(f"{span.name}: propensity {told['bot_orch.propensity']:.2f}, reward {told['bot_orch.reward']}")
assert len(spans.get_finished_spans()) == 3
