"""Bodies that mean harm get a 4xx, quickly, and leave nothing behind."""

import json
import resource
import socket
import tracemalloc

import pytest
from service_running import BASE, PATIENCE_S, service_limits

BAD = {
    "nan": b'{"task": {"features": [NaN]}}',
    "infinity": b'{"task": {"features": [Infinity]}}',
    "overflow": b'{"task": {"features": [1e999]}}',
    "negative overflow": b'{"decision_id": "x", "reward": -1e999}',
    "bad utf-8": b'{"task": {"id": "\xff\xfe"}}',
    "lone surrogate": b'{"task": {"id": "\\ud800"}}',
    "deep lists": b'{"task": {"reference": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "not json": b"<xml/>",
    "empty": b"",
    "cut off": b'{"task": {"id": "x"',
    "list": b"[]",
    "null": b"null",
    "number": b"1e5",
    "wrong types": b'{"task": {"id": 5}}',
    "unknown field": b'{"tusk": {}}',
    "long id": json.dumps({"task": {"id": "x" * 300}}).encode(),
    "many features": json.dumps({"task": {"features": [0.0] * 10_001}}).encode(),
    "unused features": b'{"task": {"reference": {"kind": "labels", "probabilities": ["a"]}}}',
    "nested reference": b'{"task": {"reference": {"kind": "labels", "probabilities": [[1], [2, 3]]}}}',
    "huge integer": b'{"task": {"features": [1' + b"0" * 400 + b"]}}",
    "nothing eligible": b'{"eligible": []}',
    "nul in a reference": b'{"task": {"reference": {"kind": "\\u0000"}}}',
}
PATHS = ("/v1/decisions", "/v1/feedback", "/v1/tasks", "/v1/chat/completions", "/v1/admin/kill-switch")


@pytest.mark.parametrize("name", BAD)
def test_hostile_bodies_get_a_4xx(service, name):
    for path in PATHS:
        answer = service.request("POST", path, raw=BAD[name])
        assert 400 <= answer.status < 500, f"{path}: {answer}"
        assert answer.json()["error"]["message"] and b"Traceback" not in answer.body


def test_text_with_every_character_is_kept_as_it_is(service):
    weird = "\x00 \u202e \U0001f600 ' \" \\ </script> %s ${X}"
    made = service.post("/v1/decisions", {"task": {"id": weird}}).json()
    assert service.get(f"/v1/decisions/{made['id']}").json()["task_id"] == weird


def test_large_bodies_are_refused_before_they_are_read(service):
    with socket.create_connection(("127.0.0.1", service.port), PATIENCE_S) as s:
        s.sendall(b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")
        assert s.recv(100).startswith(b"HTTP/1.1 413")


def test_large_chunked_bodies_are_cut_off(service):
    with socket.create_connection(("127.0.0.1", service.port), PATIENCE_S) as s:
        s.sendall(b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b"10000\r\n" + b"a" * 65536 + b"\r\n"
        try:
            for _ in range(40):
                s.sendall(piece)
            said = s.recv(100)
        except OSError:  # cut off with unread bytes under way: those take the answer with them
            return
        assert said.startswith(b"HTTP/1.1 413")


def test_slow_bodies_time_out(start, monkeypatch):
    service_limits(monkeypatch, client_timeout_s=0.2)
    service = start(BASE)
    with socket.create_connection(("127.0.0.1", service.port), PATIENCE_S) as s:
        s.sendall(b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
        assert s.recv(100).startswith(b"HTTP/1.1 408")


def test_memory_does_not_grow(service):
    def flood():
        for _ in range(15):
            for body in (BAD["deep lists"], BAD["many features"], b'{"task": {"id": "' + b"x" * 900_000 + b'"}}'):
                assert service.request("POST", "/v1/decisions", raw=body).status in (400, 422)

    flood()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    flood()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000, "kB"


def test_prompts_and_secrets_are_not_logged(start, caplog):
    caplog.set_level("DEBUG")
    service = start(BASE.replace("quality: 0.6", "quality: 0.6, crash: 1.0"))
    body = {"model": "quick", "messages": [{"role": "user", "content": "my-private-prompt"}]}
    assert service.post("/v1/chat/completions", body, headers={"Authorization": "Bearer my-secret"}).status == 502
    assert service.post("/v1/tasks", {"task": {"text": "my-private-prompt"}}).status == 200
    assert "my-private-prompt" not in caplog.text and "my-secret" not in caplog.text
    decisions = [row.body for row in service.runtime.writer.log.read() if row.kind == "decision@1"]
    assert decisions and not any(b"my-private-prompt" in body for body in decisions)


LARGE = {"kind": "labels", "probabilities": [1 / 401] * 401}
CLOUD = {"kind": "cloud", "points": [[0.5, 0.5]] * 1001}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/decisions", {"task": {"reference": LARGE}}, "task.reference"),
        ("/v1/decisions", {"task": {"profiles": {"quick": LARGE}}}, "task.profiles.quick"),
        ("/v1/decisions", {"task": {"reference": CLOUD}}, "task.reference"),
        ("/v1/tasks", {"task": {"reference": LARGE}}, "task.reference"),
        ("/v1/feedback", {"decision_id": "x", "reward": 1, "output": LARGE}, "output"),
    ],
)
def test_measures_that_would_fill_the_memory_are_refused(service, path, body, param):
    answer = service.post(path, body)
    assert answer.status == 422 and answer.json()["error"]["param"] == param, answer
    assert "at most" in answer.json()["error"]["message"]


def test_many_labels_take_little_memory():
    """The distances between labels once took memory that grew with the cube of their number."""
    from bot_orch.transport.geometries.labels import ZeroOneLabels

    tracemalloc.start()
    try:
        assert ZeroOneLabels(400).diameter > 0
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


def test_a_chat_with_such_a_measure_is_refused_too(service):
    chat = {"model": "auto", "messages": [{"role": "user", "content": "x"}], "bot_orch": {"reference": LARGE}}
    assert service.post("/v1/chat/completions", chat).status == 422


RAW = {
    "half a request line": b"GET",
    "not http": b"\x00" * 200,
    "tls": b"\x16\x03\x01\x02\x00\x01\x00",
    "two lengths": b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
    b"Content-Length: 3\r\n\r\n{}",
    "negative length": b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "length and chunks": b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad chunk": b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
    "huge chunk": b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"ffffffffffffffffff\r\n{}",
    "nul in a header": b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nx: \x00\r\n\r\n",
    "latin-1 in a header": b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\xfe\r\n\r\n",
    "bad escape in a path": b"GET /v1/decisions/%ff%zz%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "absolute form": b"GET http://[::1/v1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "connect": b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "star": b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "version": b"GET /health/live HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "duplicate keys": b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 22\r\n\r\n"
    b'{"task":{},"task":{} }',
}


@pytest.mark.parametrize("name", RAW)
@pytest.mark.parametrize("half_closed", [False, True])
def test_raw_bytes_never_lead_to_a_server_error(service, caplog, name, half_closed):
    with socket.create_connection(("127.0.0.1", service.port), PATIENCE_S) as s:
        s.sendall(RAW[name])
        s.settimeout(0.5)
        if half_closed:
            s.shutdown(socket.SHUT_WR)
        try:
            said = s.recv(65536)
        except OSError:  # it waits for more, or has cut the connection
            said = b""
    assert not said.startswith(b"HTTP/1.1 5"), said
    assert service.get("/health/live").status == 200
    assert not [record for record in caplog.records if record.exc_info]
