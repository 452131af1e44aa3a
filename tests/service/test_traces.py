"""Traces: one span per round and one per attempt, under the caller's, with the attributes of the conventions."""

import sys
from types import SimpleNamespace

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from service_running import BASE, until

from bot_orch.errors import MissingExtraError
from bot_orch.log.stores.open import open_log
from bot_orch.service.config import AgentConfig, parse_config
from bot_orch.service.operations.conventions import ReplyFacts, target_of
from bot_orch.service.operations.tracing import CURRENT, ENDPOINT, Traces, note_reply
from bot_orch.service.server import make_server

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CHAT = {"model": "careful", "messages": [{"role": "user", "content": "PROMPT"}]}
BAD = "  - {{id: bad, kind: simulated, params: {{median_s: 0.0, sigma: 0, crash: 1.0}}}}\n"


@pytest.fixture
def kept(monkeypatch):
    """The spans that the process's own provider has finished."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(otel, "get_tracer_provider", lambda: provider)
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:9")
    return exporter.get_finished_spans


@pytest.fixture
def traced(start, kept):
    return start(BASE + BAD), kept


def ended(kept, count):
    until(lambda: len(kept()) == count)
    kinds = {kind: [span for span in kept() if span.kind.name == kind] for kind in ("SERVER", "CLIENT")}
    assert len(kinds["SERVER"]) == 1
    names = {value for name, value in vars(gen_ai).items() if name.startswith("GEN_AI_")}
    for span in kept():
        assert {name for name in span.attributes if name.startswith("gen_ai.")} <= names, "not of the conventions"
    return kinds["SERVER"][0], kinds["CLIENT"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_is_a_span_under_the_callers(traced, stream):
    service, kept = traced
    answer = service.post("/v1/chat/completions", {**CHAT, "stream": stream}, headers={"traceparent": PARENT})
    assert answer.status == 200
    round_, (attempt,) = ended(kept, 2)
    assert round_.context.trace_id == attempt.context.trace_id == int(PARENT[3:35], 16)
    assert round_.parent.span_id == int(PARENT[36:52], 16) and attempt.parent.span_id == round_.context.span_id
    assert (round_.name, attempt.name) == ("chat careful", "chat careful")
    told = round_.attributes
    assert told["gen_ai.operation.name"] == "chat" and told["gen_ai.request.model"] == "careful"
    assert told["bot_orch.decision.id"] == answer.headers["x-bot-orch-decision-id"]
    assert told["bot_orch.propensity"] == float(answer.headers["x-bot-orch-propensity"])
    assert told["gen_ai.response.model"] == told["bot_orch.agent"] == "careful"
    assert told["http.response.status_code"] == 200 and "error.type" not in told
    assert told["gen_ai.provider.name"] == attempt.attributes["gen_ai.provider.name"] == "simulated"
    assert told.get("gen_ai.request.stream", False) is stream
    why = service.get(f"/v1/decisions/{told['bot_orch.decision.id']}").json()["decision"]
    row = why["terms"]["careful"]
    for term in ("estimate", "exploration", "distance", "alignment", "cost"):
        assert told[f"bot_orch.terms.{term}"] == attempt.attributes[f"bot_orch.terms.{term}"] == row[term]
    assert told["bot_orch.by"] == why["by"]
    for name in ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"):
        assert told[name] == attempt.attributes[name]
    assert attempt.attributes["bot_orch.cost_usd"] == 0.1 and attempt.attributes["bot_orch.attempt"] == 1
    assert attempt.start_time <= attempt.end_time <= round_.end_time
    assert "PROMPT" not in str([(span.name, span.attributes) for span in kept()])


def test_failures_and_tasks(traced):
    service, kept = traced
    answer = service.post("/v1/tasks", {"task": {"text": "PROMPT"}, "eligible": ["bad"]})
    assert answer.status >= 500
    round_, attempts = ended(kept, 2)
    assert round_.name == "invoke_agent" and round_.parent is None
    assert round_.attributes["error.type"] == str(answer.status)
    assert attempts[0].attributes["error.type"] == "crashed" and attempts[0].status.status_code.name == "ERROR"


def test_a_background_round_and_what_is_no_round(traced):
    service, kept = traced
    assert service.post("/v1/decisions").status == 200 and service.get("/v1/models").status == 200
    assert not kept()
    body = {"task": {"text": "x"}, "eligible": ["quick"], "background": True}
    assert service.post("/v1/tasks", body).status == 202
    round_, (attempt,) = ended(kept, 2)
    assert attempt.parent.span_id == round_.context.span_id
    assert attempt.attributes["bot_orch.agent"] == "quick" and "bot_orch.terms.estimate" in attempt.attributes


def test_refused_requests_end_their_span(traced):
    service, kept = traced
    assert service.post("/v1/chat/completions", raw=b"{").status == 400
    round_, _ = ended(kept, 1)
    assert round_.attributes["http.response.status_code"] == 400


def test_what_an_upstream_says(kept):
    trace = Traces().begin("/v1/chat/completions", {})
    assert trace.headers()["traceparent"].startswith("00-")
    CURRENT.set(trace)
    try:
        for raw in (
            b'{"id": "chatcmpl-1", "model": "gpt-x-2026", "choices": [{"delta": {"content": "SECRET"}}]}',
            b'{"id": "chatcmpl-1", "model": "gpt-x-2026", "choices": [{"finish_reason": "stop"}]}',
            b'{"choices": [{"finish_reason": "length"}, {"finish_reason": "stop"}]}',
            b"[1, 2]",
            b"not json",
        ):
            note_reply(raw)
        note_reply(None)
    finally:
        CURRENT.set(None)
    trace.end(200, body={"model": "auto", "temperature": 0.5, "max_tokens": 7, "n": 1, "seed": True}, told={})
    (span,) = kept()
    assert (span.name, span.attributes["gen_ai.request.model"]) == ("chat auto", "auto")
    assert (span.attributes["gen_ai.request.temperature"], span.attributes["gen_ai.request.max_tokens"]) == (0.5, 7)
    assert "gen_ai.request.seed" not in span.attributes and "gen_ai.request.choice.count" not in span.attributes
    assert span.attributes["gen_ai.response.model"] == "gpt-x-2026"
    assert span.attributes["gen_ai.response.id"] == "chatcmpl-1"
    assert span.attributes["gen_ai.response.finish_reasons"] == ("stop", "length")
    assert "SECRET" not in str(span.attributes)


def test_without_the_extra_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(MissingExtraError, match="otel"):
        Traces()


def test_off_by_default(service):
    assert service.runtime.traces is None
    assert service.post("/v1/chat/completions", CHAT).status == 200
    assert CURRENT.get() is None


@pytest.mark.parametrize(
    ("pieces", "model", "finish"),
    [
        ([b'{"id": "msg_1", "model": "m-1", "stop_reason": "end_turn"}'], "m-1", ("end_turn",)),
        (
            [
                b'{"type": "message_start", "message": {"id": "msg_1", "model": "m-1"}}',
                b'{"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}',
            ],
            "m-1",
            ("max_tokens",),
        ),
        (
            [
                b'{"type": "response.created", "response": {"id": "resp_1", "model": "m-2"}}',
                b'{"type": "response.output_text.delta", "delta": "SECRET"}',
            ],
            "m-2",
            (),
        ),
    ],
)
def test_facts_of_the_other_interfaces(pieces, model, finish):
    facts = ReplyFacts()
    for raw in pieces:
        facts.read(raw)
    assert (facts.model, tuple(facts.finish)) == (model, finish) and facts.id.split("_")[1] == "1"


@pytest.mark.parametrize(
    ("kind", "settings", "provider"),
    [
        ("openai", {"base_url": "https://api.openai.com/v1", "model": "m"}, "openai"),
        ("openai", {"base_url": "https://api.groq.com/openai/v1", "model": "m"}, "groq"),
        ("openai", {"base_url": "https://mine.openai.azure.com/openai/v1", "model": "m"}, "azure.ai.openai"),
        ("openai", {"base_url": "http://notgroq.com:8000/v1", "model": "m"}, "openai"),
        ("anthropic", {"base_url": "https://proxy.example/v1", "model": "m"}, "anthropic"),
        ("human", {}, "human"),
    ],
)
def test_provider_and_server(kind, settings, provider):
    target = target_of(AgentConfig(id="a", kind=kind, **settings))
    assert target.provider == provider and target.model == settings.get("model", "a")
    if "notgroq" in settings.get("base_url", ""):
        assert target.server == {"server.address": "notgroq.com", "server.port": 8000}


def test_an_exporter_that_fails_does_not_keep_the_service_from_stopping(kept):
    def fail():
        raise OSError("no")

    traces = Traces()
    traces._own = SimpleNamespace(shutdown=fail)
    traces.close()
    assert traces._own is None


def test_a_start_without_the_extra_leaves_the_log_free(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    text = BASE.format(database=tmp_path / "log.sqlite", port=0)
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:9")
    runtime = make_server(parse_config(text)).config.app.state.router.runtime
    with pytest.raises(MissingExtraError):
        runtime.open()
    open_log(tmp_path / "log.sqlite", writing=True).close()
