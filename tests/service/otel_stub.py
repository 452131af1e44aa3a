"""The part of OpenTelemetry's Python API that the service uses, as its documentation describes it; spans are kept.

It stands in where the extra ``otel`` is not installed: signatures are strict, so a call that the real API does not
know fails here too.
"""

import enum
import itertools
import re
import sys
import time
import types

_ids = itertools.count(1)


class SpanKind(enum.Enum):
    INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER = range(5)


class StatusCode(enum.Enum):
    UNSET, OK, ERROR = range(3)


class Status:
    def __init__(self, status_code=StatusCode.UNSET, description=None):
        self.status_code = status_code


class Span:
    def __init__(self, name, parent, kind, attributes, start_time):
        self.name, self.kind, self.parent = name, kind, parent
        self.trace_id = parent[0] if parent else f"{next(_ids):032x}"
        self.span_id, self.attributes = f"{next(_ids):016x}", {}
        self.start_time, self.end_time, self.status = start_time or time.time_ns(), None, Status()
        for key, value in (attributes or {}).items():
            self.set_attribute(key, value)

    def set_attribute(self, key, value):
        assert self.end_time is None, "set after the end"
        plain = (str, bool, int, float)
        assert isinstance(value, plain) or (isinstance(value, list) and all(isinstance(each, str) for each in value))
        self.attributes[key] = value

    def update_name(self, name):
        self.name = name

    def set_status(self, status, description=None):
        self.status = status

    def end(self, end_time=None):
        assert self.end_time is None, "ended twice"
        self.end_time = end_time or time.time_ns()


def set_span_in_context(span, context=None):
    return {**(context or {}), "span": (span.trace_id, span.span_id)}


class TraceContextTextMapPropagator:
    def extract(self, carrier, context=None):
        found = re.fullmatch(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}", carrier.get("traceparent", ""))
        return {"span": (found[1], found[2])} if found else {}

    def inject(self, carrier, context=None):
        carrier["traceparent"] = "00-{}-{}-01".format(*context["span"])


class Tracer:
    def __init__(self, spans):
        self._spans = spans

    def start_span(self, name, context=None, kind=SpanKind.INTERNAL, attributes=None, links=None, start_time=None):
        span = Span(name, (context or {}).get("span"), kind, attributes, start_time)
        self._spans.append(span)
        return span


class TracerProvider:
    def __init__(self, resource=None):
        self.spans, self.resource, self.processors, self.closed = [], resource, [], False

    def get_tracer(self, instrumenting_module_name, instrumenting_library_version=None):
        return Tracer(self.spans)

    def add_span_processor(self, span_processor):
        self.processors.append(span_processor)

    def shutdown(self):
        self.closed = True


class BatchSpanProcessor:
    def __init__(self, span_exporter):
        self.exporter = span_exporter


class OTLPSpanExporter:
    def __init__(self, endpoint=None):
        self.endpoint = endpoint


class Resource:
    @staticmethod
    def create(attributes=None):
        return attributes


def install(monkeypatch):
    """Put the stub where ``opentelemetry`` is imported from; the global provider."""
    provider = TracerProvider()
    api = {"SpanKind": SpanKind, "Status": Status, "StatusCode": StatusCode, "set_span_in_context": set_span_in_context}
    parts = {
        "opentelemetry": {},
        "opentelemetry.trace": {**api, "get_tracer_provider": lambda: provider},
        "opentelemetry.trace.propagation": {},
        "opentelemetry.trace.propagation.tracecontext": {
            "TraceContextTextMapPropagator": TraceContextTextMapPropagator
        },
        "opentelemetry.sdk": {},
        "opentelemetry.sdk.resources": {"Resource": Resource},
        "opentelemetry.sdk.trace": {"TracerProvider": TracerProvider},
        "opentelemetry.sdk.trace.export": {"BatchSpanProcessor": BatchSpanProcessor},
        "opentelemetry.exporter": {},
        "opentelemetry.exporter.otlp": {},
        "opentelemetry.exporter.otlp.proto": {},
        "opentelemetry.exporter.otlp.proto.http": {},
        "opentelemetry.exporter.otlp.proto.http.trace_exporter": {"OTLPSpanExporter": OTLPSpanExporter},
    }
    for name, members in parts.items():
        module = types.ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
        above, _, last = name.rpartition(".")
        if above:
            setattr(sys.modules[above], last, module)
    return provider
