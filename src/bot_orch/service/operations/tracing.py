"""OpenTelemetry traces by the semantic conventions for generative AI: a span per round, a child span per attempt.

Attributes are names, ids, numbers and endings; prompts and answers are never written. Without ``traces`` in the
configuration nothing is imported and a request costs one comparison more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import msgspec

from bot_orch._version import __version__
from bot_orch.agents.base import Attempt
from bot_orch.agents.endings import Ending
from bot_orch.errors import MissingExtraError
from bot_orch.service.config import AgentConfig, TracesConfig

__all__ = ["CURRENT", "RoundTrace", "Traces", "note_attempt", "note_reply"]

_log = logging.getLogger("bot_orch.traces")
_OPERATIONS = {"/v1/tasks": "invoke_agent", "/v1/embeddings": "embeddings", "/v1/completions": "text_completion"}
_PASSED_ON = ("traceparent", "tracestate")
_DECIDED = {
    "x-bot-orch-decision-id": "bot_orch.decision.id",
    "x-bot-orch-agent": "bot_orch.agent",
    "x-bot-orch-policy": "bot_orch.policy",
}


class _FinishedChoice(msgspec.Struct):
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    """What a trace reads of an answer, whole or a piece of a stream."""

    id: str | None = None
    model: str | None = None
    choices: list[_FinishedChoice] = []


_read = msgspec.json.Decoder(_Completion).decode


class Traces:
    """Makes spans and sends them.

    Parameters
    ----------
    settings
        Where to.
    provider
        A tracer provider of one's own; by default one is made that exports to ``settings.endpoint``, or the process's
        global one is used if there is no endpoint.
    """

    def __init__(self, settings: TracesConfig, provider: Any = None) -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

            self._own = _exporting(settings) if provider is None and settings.endpoint is not None else None
        except ImportError as error:
            raise MissingExtraError("config.traces", "otel") from error
        self.api, self.context = trace, TraceContextTextMapPropagator()
        chosen = provider or self._own or trace.get_tracer_provider()
        self.tracer = chosen.get_tracer("bot_orch", __version__)
        self.models: dict[str, str] = {}

    def know(self, agents: tuple[AgentConfig, ...]) -> None:
        """Remember which models agents ask for."""
        self.models = {agent.id: str(agent.settings.get("model", agent.id)) for agent in agents}

    def begin(self, route: str, headers: Mapping[bytes, bytes]) -> RoundTrace:
        """Start the span of a round, as a child of the caller's span."""
        carrier = {name: headers[name.encode()].decode("latin-1") for name in _PASSED_ON if name.encode() in headers}
        return RoundTrace(self, route, self.context.extract(carrier))

    def close(self) -> None:
        """Send what is left."""
        if self._own is not None:
            try:
                self._own.shutdown()
            except Exception as error:  # whatever an exporter raises must not keep the service from stopping
                _log.warning("traces not sent", extra={"fields": {"error": type(error).__name__}})


class RoundTrace:
    """The span of one round."""

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
        self._model, self._finish = "", dict[str, None]()

    def headers(self) -> dict[str, str]:
        """Trace headers for what the round calls."""
        carrier: dict[str, str] = {}
        self._traces.context.inject(carrier, context=self._inside)
        return carrier

    def attempt(self, attempt: Attempt) -> None:
        """Add the span of an attempt that has just ended."""
        now_ns = time.time_ns()
        used, model = attempt.usage, self._traces.models.get(attempt.agent, attempt.agent)
        self._read, self._written = self._read + used.input_tokens, self._written + used.output_tokens
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": self._operation,
            "gen_ai.request.model": model,
            "gen_ai.usage.input_tokens": used.input_tokens,
            "gen_ai.usage.output_tokens": used.output_tokens,
            "bot_orch.agent": attempt.agent,
            "bot_orch.decision.id": attempt.request_id,
            "bot_orch.attempt": attempt.number,
            "bot_orch.cost_usd": attempt.cost_usd,
        }
        if attempt.first_byte_s is not None:
            attributes["bot_orch.first_token_s"] = attempt.first_byte_s
        if attempt.status is not None:
            attributes["http.response.status_code"] = attempt.status
        span = self._traces.tracer.start_span(
            f"{self._operation} {model}",
            context=self._inside,
            kind=self._traces.api.SpanKind.CLIENT,
            start_time=now_ns - round(attempt.elapsed_s * 1e9),
            attributes=attributes,
        )
        if attempt.ending is not Ending.COMPLETED:
            self._failed(span, str(attempt.ending))
        span.end(end_time=now_ns)

    def reply(self, raw: bytes) -> None:
        """Note model, id and finish reasons of an answer, or of a piece of one."""
        try:
            said = _read(raw)
        except msgspec.MsgspecError:
            return
        if said.model and not self._model:
            self._model = said.model
            self._span.set_attribute("gen_ai.response.model", said.model)
            if said.id:
                self._span.set_attribute("gen_ai.response.id", said.id)
        self._finish |= {choice.finish_reason: None for choice in said.choices if choice.finish_reason}

    def end(self, status: int, *, model: str, told: Mapping[str, str]) -> None:
        """End the span: ``model`` is the one requested, ``told`` are the headers of the answer."""
        span = self._span
        if model:
            span.update_name(f"{self._operation} {model}")
            span.set_attribute("gen_ai.request.model", model)
        for header, name in _DECIDED.items():
            if header in told:
                span.set_attribute(name, told[header])
        if "x-bot-orch-propensity" in told:
            span.set_attribute("bot_orch.propensity", float(told["x-bot-orch-propensity"]))
        if not self._model and "x-bot-orch-agent" in told:
            agent = told["x-bot-orch-agent"]
            span.set_attribute("gen_ai.response.model", self._traces.models.get(agent, agent))
        span.set_attribute("gen_ai.usage.input_tokens", self._read)
        span.set_attribute("gen_ai.usage.output_tokens", self._written)
        span.set_attribute("http.response.status_code", status)
        if self._finish:
            span.set_attribute("gen_ai.response.finish_reasons", list(self._finish))
        if status >= 500:
            self._failed(span, str(status))
        span.end()

    def _failed(self, span: Any, kind: str) -> None:
        span.set_attribute("error.type", kind)
        span.set_status(self._traces.api.Status(self._traces.api.StatusCode.ERROR))


CURRENT: ContextVar[RoundTrace | None] = ContextVar("bot-orch-round-trace", default=None)
"""The round that the current task works for."""


def note_attempt(attempt: Attempt) -> None:
    """Add an attempt to the trace of its round, if there is one."""
    if (trace := CURRENT.get()) is not None:
        trace.attempt(attempt)


def note_reply(raw: bytes | None) -> None:
    """Add what an upstream's answer says to the trace of the round, if there is one."""
    if raw is not None and (trace := CURRENT.get()) is not None:
        trace.reply(raw)


def _exporting(settings: TracesConfig) -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": settings.service_name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=settings.endpoint)))
    return provider
