"""OpenTelemetry traces by the semantic conventions for generative AI: a span per round, a child span per attempt.

Attributes are names, ids, numbers and endings; prompts and answers are never written. Without :data:`ENDPOINT` in
the environment nothing is imported and a request costs one comparison more.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from bot_orch._version import __version__
from bot_orch.agents.base import Attempt
from bot_orch.agents.endings import Ending
from bot_orch.core.events import DecisionMade
from bot_orch.errors import MissingExtraError
from bot_orch.service.config import AgentConfig
from bot_orch.service.operations.conventions import AgentTarget, ReplyFacts, request_attributes, target_of
from bot_orch.types import TERMS

_log = logging.getLogger("bot_orch.traces")
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""The variable with the URL of a collector (OTLP over HTTP); without it nothing is traced."""

_OPERATIONS = {"/v1/tasks": "invoke_agent"}
_PASSED_ON = ("traceparent", "tracestate")
_DECISION = "bot_orch.decision.id"


class Traces:
    """Creates and exports spans.

    Parameters
    ----------
    provider
        A tracer provider; by default that of the process, or one that exports to :data:`ENDPOINT` if it has none.
    """

    def __init__(self, provider: Any = None) -> None:
        check_traces()
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        known = provider or trace.get_tracer_provider()
        self._own = _exporting() if isinstance(known, trace.ProxyTracerProvider) else None
        self.api, self.context = trace, TraceContextTextMapPropagator()
        chosen = self._own or known
        self.tracer = chosen.get_tracer("bot_orch", __version__)
        self._targets: dict[str, AgentTarget] = {}

    def know(self, agents: tuple[AgentConfig, ...]) -> None:
        """Remember the targets of agents."""
        self._targets = {agent.id: target_of(agent) for agent in agents}

    def target(self, agent: str) -> AgentTarget:
        """The target of an agent."""
        return self._targets.get(agent) or AgentTarget(agent, "bot_orch")

    def begin(self, route: str, headers: Mapping[bytes, bytes]) -> RoundTrace:
        """Start the span of a round, as a child of the caller's span."""
        carrier = {name: headers[name.encode()].decode("latin-1") for name in _PASSED_ON if name.encode() in headers}
        return RoundTrace(self, route, self.context.extract(carrier))

    def close(self) -> None:
        """Export the remaining spans."""
        own, self._own = self._own, None
        if own is not None:
            try:
                own.shutdown()
            except Exception as error:  # whatever an exporter raises must not keep the service from stopping
                _log.warning("traces not sent", extra={"fields": {"error": type(error).__name__}})


class RoundTrace:
    """The span of one round.

    The span of an attempt stays open until the next one or the end of the round, because parts of its answer are read
    after it has ended; its end is the attempt's.
    """

    def __init__(self, traces: Traces, route: str, parent: Any) -> None:
        self._traces, self._operation = traces, _OPERATIONS.get(route, "chat")
        self._span = traces.tracer.start_span(
            self._operation,
            context=parent,
            kind=traces.api.SpanKind.SERVER,
            attributes={"gen_ai.operation.name": self._operation, "http.route": route},
        )
        self._inside = traces.api.set_span_in_context(self._span, parent)
        self._read, self._written = 0, 0
        self._facts, self._decided = ReplyFacts(), dict[str, dict[str, Any]]()
        self._open: tuple[Any, int] | None = None  # span of the last attempt, its end
        self._last: tuple[Attempt, AgentTarget] | None = None
        self._over = False

    def headers(self) -> dict[str, str]:
        """Trace headers for the round's calls."""
        carrier: dict[str, str] = {}
        self._traces.context.inject(carrier, context=self._inside)
        return carrier

    def decided(self, event: DecisionMade) -> None:
        """Note a decision of the round: who was chosen, how probably, and the terms of its score."""
        row = event.agents.index(event.agent)
        told: dict[str, Any] = {
            _DECISION: event.id,
            "bot_orch.agent": event.agent,
            "bot_orch.propensity": event.propensity,
        }
        numbers = event.columns()
        told |= {f"bot_orch.terms.{name}": float(numbers[name][row]) for name in TERMS if name in numbers}
        self._decided[event.id] = told
        if not self._over:
            for name, value in told.items():
                self._span.set_attribute(name, value)
            self._span.set_attribute("bot_orch.policy", event.policy)
            self._span.set_attribute("bot_orch.by", event.by)

    def attempt(self, attempt: Attempt) -> None:
        """Add the span of an attempt that has just ended."""
        own, now_ns = attempt.request_id in self._decided, time.time_ns()  # not a judge's or a shadow's
        if own:
            self._end_attempt()
        used, target = attempt.usage, self._traces.target(attempt.agent)
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": self._operation,
            "gen_ai.provider.name": target.provider,
            "gen_ai.request.model": target.model,
            "gen_ai.usage.input_tokens": used.input_tokens,
            "gen_ai.usage.output_tokens": used.output_tokens,
            **target.server,
            "bot_orch.agent": attempt.agent,
            _DECISION: attempt.request_id,
            "bot_orch.attempt": attempt.number,
            "bot_orch.cost_usd": attempt.cost_usd,
            **self._decided.get(attempt.request_id, {}),
        }
        if attempt.first_byte_s is not None:
            attributes["bot_orch.first_token_s"] = attempt.first_byte_s
        if attempt.status is not None:
            attributes["http.response.status_code"] = attempt.status
        span = self._traces.tracer.start_span(
            f"{self._operation} {target.model}",
            context=self._inside,
            kind=self._traces.api.SpanKind.CLIENT,
            start_time=now_ns - round(attempt.elapsed_s * 1e9),
            attributes=attributes,
        )
        if attempt.ending is not Ending.COMPLETED:
            self._failed(span, str(attempt.ending))
        if self._over or not own:
            span.end(end_time=now_ns)
            return
        self._read, self._written = self._read + used.input_tokens, self._written + used.output_tokens
        self._open, self._last = (span, now_ns), (attempt, target)

    def reply(self, raw: bytes) -> None:
        """Record model, id and finish reasons of an answer or a chunk."""
        if not self._over:
            self._facts.read(raw)

    def end(self, status: int, *, body: Any = None, told: Mapping[str, str]) -> None:
        """End the span; ``body`` is the request's body, ``told`` are the headers of the answer."""
        answered = self._facts.attributes()
        self._end_attempt()
        self._over = True
        span, asked = self._span, dict(request_attributes(body))
        if "gen_ai.request.model" in asked:
            span.update_name(f"{self._operation} {asked['gen_ai.request.model']}")
        last, target = self._last or (None, None)
        answered.setdefault("gen_ai.response.model", "" if target is None else target.model)
        found: dict[str, Any] = {
            **asked,
            **(answered if answered["gen_ai.response.model"] else {}),
            "gen_ai.provider.name": "bot_orch" if target is None else target.provider,
            "gen_ai.usage.input_tokens": self._read,
            "gen_ai.usage.output_tokens": self._written,
            "http.response.status_code": status,
        }
        if last is not None and last.first_byte_s is not None and "gen_ai.request.stream" in asked:
            found["gen_ai.response.time_to_first_chunk"] = last.first_byte_s
        for name, value in found.items():
            span.set_attribute(name, value)
        if status >= 500:
            self._failed(span, str(status))
        elif status < 400 and last is not None and last.ending is not Ending.COMPLETED:
            self._failed(span, str(last.ending))  # a stream that broke off
        span.end()

    def _end_attempt(self) -> None:
        if self._open is not None:
            span, end_ns = self._open
            for name, value in self._facts.attributes().items():
                span.set_attribute(name, value)
            span.end(end_time=end_ns)
            self._open, self._facts = None, ReplyFacts()

    def _failed(self, span: Any, kind: str) -> None:
        span.set_attribute("error.type", kind)
        span.set_status(self._traces.api.Status(self._traces.api.StatusCode.ERROR))


CURRENT: ContextVar[RoundTrace | None] = ContextVar("bot-orch-round-trace", default=None)
"""The round that the current task works for."""


def note_decision(event: DecisionMade) -> None:
    """Add a decision to the trace of its round, if there is one."""
    if (trace := CURRENT.get()) is not None:
        trace.decided(event)


def note_attempt(attempt: Attempt) -> None:
    """Add an attempt to the trace of its round, if there is one."""
    if (trace := CURRENT.get()) is not None:
        trace.attempt(attempt)


def note_reply(raw: bytes | None) -> None:
    """Add model, id and finish reasons of an upstream answer to the trace of the round, if there is one."""
    if raw is not None and (trace := CURRENT.get()) is not None:
        trace.reply(raw)


def traces_wanted() -> bool:
    """Whether the environment names a collector."""
    return bool(os.environ.get(ENDPOINT))


def check_traces() -> None:
    """Refuse to trace without the extra."""
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace.export  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(f"the variable {ENDPOINT}", "otel") from error


def _exporting() -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    name = os.environ.get("OTEL_SERVICE_NAME", "bot-orch")
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
