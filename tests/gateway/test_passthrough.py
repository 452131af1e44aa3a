"""Paths that go unchanged to one agent: bytes there and back, keys, limits, and what is refused."""

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import openai
import pytest
from service_running import PATIENCE_S, until

from bot_orch.errors import InvalidInputError
from bot_orch.service.api.routes import API_ROUTES
from bot_orch.service.config import parse_config
from bot_orch.service.config.checks import OWN_PATHS, PASSED_PATHS

TODAY = (
    "/v1/audio/speech",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/files",
    "/v1/images/edits",
    "/v1/images/generations",
    "/v1/moderations",
)
FORM = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nRIFF\r\n--\x00\xff\r\n--x--\r\n'
BODIES = {
    "application/json": b'{ "model":"m-9",  "input": ["one","two"], "stream": false }\n',
    "multipart/form-data; boundary=x": FORM,
}
EVENTS = [b'data: {"a": 1}\n\n', b"data: \xff\xfe odd bytes\n\n", b"data: [DONE]\n\n"]


class Upstream:
    """An endpoint that keeps requests as they come, and answers with ``status``, ``media`` and ``pieces``."""

    def __init__(self):
        self.seen, self.status, self.media, self.pieces = [], 200, "audio/mpeg", [b"ID3\x00\xff"]
        self.headers, self.go, self.cut, kept = {}, threading.Event(), False, self
        self.go.set()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                kept.seen.append((self.command, self.path, headers, body))
                self.send_response(kept.status)
                for name, value in {"Content-Type": kept.media, "Transfer-Encoding": "chunked", **kept.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                for piece in kept.pieces:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    self.wfile.flush()
                    kept.go.wait(PATIENCE_S)
                if kept.cut:
                    self.close_connection = True
                else:
                    self.wfile.write(b"0\r\n\r\n")

            def log_message(self, *_):
                pass

        for method in ("GET", "POST", "DELETE"):
            setattr(Handler, f"do_{method}", Handler.answer)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"


@pytest.fixture
def upstream():
    made = Upstream()
    yield made
    made.go.set()
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def passing(upstream, serve, agent, monkeypatch):
    monkeypatch.setenv("UPSTREAM_KEY", "sk-upstream")

    def begin(paths="[]", after=""):
        lines = (
            agent("http://127.0.0.1:9/v1", "other"),
            agent(upstream.url, "all", extra=", api_key: '${UPSTREAM_KEY}'"),
        )
        return serve(*lines, after=f"passthrough: {{agent: all, paths: {paths}}}\n{after}")

    return begin


def test_the_paths_of_today():
    assert PASSED_PATHS == TODAY


@pytest.mark.parametrize("media", BODIES)
def test_each_path_passes_byte_for_byte(passing, upstream, media):
    service = passing()
    for path in TODAY:
        headers = {"Content-Type": media, "Authorization": "Bearer of-the-caller", "Cookie": "a=b"}
        told = service.request("POST", f"{path}?a=%2F&a=b", raw=BODIES[media], headers=headers)
        method, target, sent, body = upstream.seen.pop()
        assert (method, target, body) == ("POST", f"{path}?a=%2F&a=b", BODIES[media])
        assert (sent["content-type"], sent["authorization"]) == (media, "Bearer sk-upstream") and "cookie" not in sent
        assert (told.status, told.body, told.headers["content-type"]) == (200, b"ID3\x00\xff", "audio/mpeg")
        assert told.headers["x-bot-orch-agent"] == "all"


def test_nothing_is_decided_or_logged(passing):
    service = passing()
    before = service.get("/v1/admin/state").json()
    assert service.request("POST", "/v1/embeddings", raw=b"{}").status == 200
    assert service.get("/v1/admin/state").json() == before
    counted = 'bot_orch_requests_total{route="/v1/{path:path}",status="200"} 1'
    assert counted in service.get("/metrics").body.decode()


def test_a_stream_comes_as_it_is_made(passing, upstream):
    service = passing()
    upstream.media, upstream.pieces = "text/event-stream", EVENTS
    upstream.go.clear()
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE_S)
    connection.request("POST", "/v1/completions", b'{"stream": true}', {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert response.headers["content-type"] == "text/event-stream"
    assert response.read1() == EVENTS[0], "before the endpoint has made the rest"
    upstream.go.set()
    assert response.read() == b"".join(EVENTS[1:])
    connection.close()


def test_an_answer_that_is_cut_is_cut_for_the_client(passing, upstream):
    service = passing()
    upstream.cut = True
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE_S)
    connection.request("POST", "/v1/embeddings", b"{}")
    with pytest.raises(http.client.IncompleteRead):
        connection.getresponse().read()
    connection.close()


@pytest.mark.parametrize(("status", "headers"), [(400, {}), (429, {"Retry-After": "7"}), (500, {}), (201, {})])
def test_other_statuses_come_as_they_are(passing, upstream, status, headers):
    service = passing()
    upstream.status, upstream.headers, upstream.pieces = status, headers, [b'{"error": {"message": "no"}}']
    told = service.request("POST", "/v1/embeddings", raw=b"{}")
    assert (told.status, told.body) == (status, upstream.pieces[0])
    assert headers.items() <= {name.title(): value for name, value in told.headers.items()}.items()


@pytest.mark.parametrize("status", [401, 403, 307])
def test_an_answer_about_the_services_key_is_not_quoted(passing, upstream, status):
    service = passing()
    upstream.status, upstream.pieces = status, [b"Incorrect API key: sk-upstream"]
    upstream.headers = {"Location": "http://127.0.0.1:1/"}
    told = service.request("POST", "/v1/embeddings", raw=b"{}")
    assert (told.status, told.json()["error"]["code"]) == (502, "upstream_denied") and b"sk-up" not in told.body


def test_an_endpoint_that_is_away(serve, agent):
    service = serve(agent("http://127.0.0.1:9/v1", "gone"), after="passthrough: {agent: gone}")
    told = service.request("POST", "/v1/embeddings", raw=b"{}")
    assert (told.status, told.json()["error"]["code"]) == (502, "no_answer")


def test_official_clients(passing, upstream, client):
    through = client(passing())
    upstream.media = "application/json"
    upstream.pieces = [b'{"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}]}']
    assert through.embeddings.create(model="e", input="a", encoding_format="float").data[0].embedding == [0.5]
    upstream.pieces = [b'{"id": "file-7", "object": "file", "bytes": 4, "created_at": 1, "filename": "a"}']
    assert through.files.create(file=("a.txt", b"\x00\r\n\xff"), purpose="user_data").id == "file-7"
    assert b"\r\n\r\n\x00\r\n\xff\r\n--" in upstream.seen[-1][3]
    assert through.files.retrieve("file-7").id == "file-7"
    assert upstream.seen[-1][:2] == ("GET", "/v1/files/file-7")
    upstream.media, upstream.pieces = "audio/mpeg", [b"ID3"]
    assert through.audio.speech.create(model="s", voice="alloy", input="Hello").content == b"ID3"
    upstream.status, upstream.media, upstream.pieces = 400, "application/json", [b'{"error": {"message": "too long"}}']
    with pytest.raises(openai.BadRequestError, match="too long"):
        through.moderations.create(input="a")


def test_the_file_names_further_paths(passing, upstream):
    service = passing("[/v1/fine_tuning]")
    assert service.request("POST", "/v1/fine_tuning/jobs", raw=b"{}").status == 200
    assert service.request("DELETE", "/v1/fine_tuning/jobs/1").status == 200
    assert [each[:2] for each in upstream.seen] == [
        ("POST", "/v1/fine_tuning/jobs"),
        ("DELETE", "/v1/fine_tuning/jobs/1"),
    ]


@pytest.mark.parametrize("path", ["/v1/batches", "/v1/embeddingsx", "/v1/files/../chat/completions", "/v1", "/v1/"])
def test_other_paths_are_unknown(passing, upstream, path):
    told = passing().request("POST", path, raw=b"{}")
    assert (told.status, told.json()["error"]["code"]) == (404, "unknown_path")
    assert "/openapi.json" in told.json()["error"]["message"] and not upstream.seen


def test_without_an_agent_for_them_they_are_unknown(serve, agent):
    told = serve(agent("http://127.0.0.1:9/v1")).request("POST", "/v1/embeddings", raw=b"{}")
    assert told.status == 404 and "passthrough: {agent: NAME}" in told.json()["error"]["message"]


def test_a_path_of_the_service_keeps_its_answers(passing, upstream):
    service = passing()
    assert (service.get("/v1/feedback").status, service.request("DELETE", "/v1/chat/completions").status) == (405, 405)
    assert service.request("POST", "/v1/chat/other", raw=b"{}").status == 404 and not upstream.seen


def test_keys_and_limits(passing, monkeypatch, upstream):
    secrets = {name: name.lower() * 20 for name in ("APP", "DESK")}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    service = passing(
        after="tokens:\n  - {name: app, scopes: [decide], env: APP, limits: {requests_per_minute: 2}}\n"
        "  - {name: desk, scopes: [feedback], env: DESK}\n"
    )

    def status(name=None):
        headers = {} if name is None else {"Authorization": f"Bearer {secrets[name]}"}
        return service.request("POST", "/v1/embeddings", raw=b"{}", headers=headers).status

    assert [status(), status("DESK"), status("APP"), status("APP"), status("APP")] == [401, 403, 200, 200, 429]
    assert len(upstream.seen) == 2


def test_large_bodies_are_refused(passing, upstream):
    service = passing()
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE_S)
    connection.request("POST", "/v1/files", b"x", {"Content-Length": "20000001"})
    assert connection.getresponse().status == 413 and not upstream.seen
    connection.close()


def test_a_client_that_leaves_ends_the_call(passing, upstream):
    service = passing()
    upstream.go.clear()
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE_S)
    connection.request("POST", "/v1/embeddings", b"{}")
    until(lambda: upstream.seen)
    connection.close()
    until(lambda: not service.runtime.serving)


def test_own_paths_are_known():
    assert {route.path.split("/")[2] for route in API_ROUTES if route.path.startswith("/v1/")} == OWN_PATHS


FILE = """
version: 1
agents:
  - {id: a, kind: simulated}
  - {id: up, kind: openai, base_url: "https://a.example/v1", model: m}
"""


@pytest.mark.parametrize(
    ("passthrough", "part"),
    [
        *((f"{{agent: up, paths: [/v1/{own}]}}", "config.passthrough.paths") for own in sorted(OWN_PATHS)),
        ("{agent: up, paths: [/v1/chat/completions]}", "is a path of the service"),
        ("{agent: up, paths: [/health]}", "below /v1"),
        ("{agent: up, paths: [/v1/a/../chat]}", "config.passthrough.paths"),
        ("{agent: up, paths: [/v1/]}", "config.passthrough.paths"),
        ("{agent: a}", "is no agent with an endpoint"),
        ("{agent: nobody}", "config.passthrough.agent"),
        ("{agent: up, pahts: []}", "did you mean 'paths'"),
    ],
)
def test_mistakes_are_named(passthrough, part):
    with pytest.raises(InvalidInputError) as refused:
        parse_config(f"{FILE}passthrough: {passthrough}")
    assert part in str(refused.value)
