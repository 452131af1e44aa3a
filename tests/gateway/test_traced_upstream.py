"""Traces of calls to an endpoint, sent to a collector over HTTP and read there."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import openai
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from upstream import ID, MODEL, ROLE, chunk, completion, delta, drop, said, status

from bot_orch.service.operations.tracing import ENDPOINT

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ASK = {"model": "auto", "messages": [{"role": "user", "content": "PROMPT"}], "temperature": 0.5}


@pytest.fixture
def collector():
    """An OTLP receiver; ``collector()`` gives what has arrived: resource attributes and spans."""
    bodies = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            assert self.path == "/v1/traces"
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def arrived():
        found = [each for body in bodies for each in ExportTraceServiceRequest.FromString(body).resource_spans]
        resource = {pair.key: plain(pair.value) for each in found for pair in each.resource.attributes}
        return resource, [span for each in found for scope in each.scope_spans for span in scope.spans]

    arrived.url = f"http://127.0.0.1:{server.server_port}/v1/traces"
    yield arrived
    server.shutdown()
    thread.join()
    server.server_close()


def plain(value):
    kind = value.WhichOneof("value")
    return [plain(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)


def told(span):
    return {pair.key: plain(pair.value) for pair in span.attributes}


@pytest.fixture
def traced(serve, agent, upstream, collector, client, monkeypatch):
    """Runs ``use`` with an official client and returns (round, attempts, what the endpoint got)."""

    def run(use, *answers, names=("upstream",)):
        for name, answer in zip(names, answers, strict=True):
            upstream.script(name, *answer)
        lines = [agent(upstream.url(name), name) for name in names]
        monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
        monkeypatch.setenv(ENDPOINT, collector.url.removesuffix("/v1/traces"))
        service = serve(*lines)
        use(client(service, default_headers={"traceparent": CALLER}))
        service.stop()  # sends what is left
        resource, spans = collector()
        assert resource["service.name"] == "mine"
        (round_,) = [span for span in spans if span.kind == 2]
        return round_, [span for span in spans if span.kind == 3]

    return run


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer(traced, upstream, stream):
    def use(client):
        answer = client.chat.completions.create(**ASK, stream=stream)
        assert not stream or len(list(answer)) > 2

    answer = said("The ", "answer") if stream else [completion(content="SECRET")]
    round_, (attempt,) = traced(use, [answer])
    assert round_.parent_span_id.hex() == CALLER[36:52] and attempt.parent_span_id == round_.span_id
    assert (round_.name, attempt.name) == ("chat auto", "chat m")
    for span in (round_, attempt):
        found = told(span)
        assert found["gen_ai.operation.name"] == "chat" and found["gen_ai.provider.name"] == "openai"
        assert found["gen_ai.response.model"] == MODEL and found["gen_ai.response.id"] == ID
        assert found["gen_ai.response.finish_reasons"] == ["stop"]
        assert (found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]) == (11, 7)
        assert found["bot_orch.propensity"] == 1.0 and "bot_orch.terms.estimate" in found
        assert "error.type" not in found and span.status.code == 0
    assert told(round_)["gen_ai.request.temperature"] == 0.5
    assert ("gen_ai.response.time_to_first_chunk" in told(round_)) is stream
    assert told(attempt)["server.address"] == "127.0.0.1" and told(attempt)["gen_ai.request.model"] == "m"
    got = upstream.headers[-1]["traceparent"]
    assert got.split("-")[1:3] == [CALLER[3:35], round_.span_id.hex()]
    assert "PROMPT" not in str((round_, attempt)) and "SECRET" not in str((round_, attempt))


def test_another_agent_takes_over(traced):
    def use(client):
        client.chat.completions.create(**ASK)

    round_, attempts = traced(use, [[status(500)]], [[completion(content="x")]], names=("bad", "good"))
    failed = [span for span in attempts if "error.type" in told(span)]
    assert len(attempts) == 1 + len(failed) and all(span.status.code == 2 for span in failed)
    assert {told(span)["error.type"] for span in failed} <= {"upstream_5xx"}
    assert all("gen_ai.response.model" not in told(span) for span in failed)
    assert "error.type" not in told(round_) and told(round_)["bot_orch.agent"] == "good"
    assert len({told(span)["bot_orch.decision.id"] for span in attempts}) == len(attempts)


def test_a_failure(traced):
    def use(client):
        with pytest.raises(openai.APIStatusError):
            client.chat.completions.create(**ASK)

    round_, (attempt,) = traced(use, [[status(500)]])
    assert told(round_)["error.type"] == str(told(round_)["http.response.status_code"]) and round_.status.code == 2
    assert told(attempt)["http.response.status_code"] == 500 and attempt.status.code == 2


def test_a_stream_that_breaks_off(traced):
    def use(client):
        with pytest.raises(openai.APIError):
            list(client.chat.completions.create(**ASK, stream=True))

    round_, (attempt,) = traced(use, [[ROLE, chunk(delta(content="The ")), drop]])
    assert told(round_)["http.response.status_code"] == 200
    assert told(round_)["error.type"] == told(attempt)["error.type"] and round_.status.code == 2
    assert told(attempt)["gen_ai.response.model"] == MODEL
