"""Bodies that mean harm get a 4xx, quickly, and leave nothing behind."""

import json
import resource
import socket

import pytest
from service_running import BASE, PATIENCE_S

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


def test_slow_bodies_time_out(start):
    service = start(BASE + "limits: {{body_timeout_s: 0.2}}\n")
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
    decisions = [row.body for row in service.runtime.writer.log.read() if row.kind == "decision@2"]
    assert decisions and not any(b"my-private-prompt" in body for body in decisions)
