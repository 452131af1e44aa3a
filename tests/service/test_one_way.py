"""Programs and people come in the same way: the same limits, the same refusals, the same care; only looks differ."""

import socket
import sqlite3

import pytest
from service_running import BASE, PATIENCE_S, Running, service_limits, until
from starlette.routing import Route

from bot_orch.log.stores.memory import MemoryLog
from bot_orch.service.api.gateway.messages import MessagesFace
from bot_orch.service.api.gateway.passthrough import _BytesFace
from bot_orch.service.config import parse_config
from bot_orch.service.web.endpoint import Endpoint, JsonFace
from bot_orch.service.web.pages import HtmlFace

API, PAGE = "/v1/decisions", "/login"


def post(path, length, body=b"", port=80):
    head = f"POST {path} HTTP/1.1\r\nHost: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n"
    return f"{head}Content-Length: {length}\r\n\r\n".encode() + body


def said(service, request):
    """Head and body of the answer, and whether the connection was closed after it."""
    with socket.create_connection(("127.0.0.1", service.port), PATIENCE_S) as s:
        s.sendall(request)
        got = b""
        while piece := s.recv(65536):
            got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    return head.lower(), body


def looks_right(path, head, body):
    assert (b"content-type: application/json" if path == API else b"content-type: text/html") in head
    assert b"x-content-type-options: nosniff" in head and b"cache-control: no-store" in head
    assert (b"content-security-policy: default-src 'none'" in head) == (path == PAGE)
    assert head.count(b"cache-control") == head.count(b"content-type:") == 1
    assert (b'{"error":' in body) == (path == API) and (b"<html" in body) == (path == PAGE)


def test_every_route_has_the_one_endpoint(service):
    routes = [route for route in service.server.config.app.routes if isinstance(route, Route)]
    assert len(routes) > 25 and all(type(route.endpoint) is Endpoint for route in routes)
    assert {type(route.endpoint._face) for route in routes} == {JsonFace, HtmlFace, MessagesFace, _BytesFace}


@pytest.mark.parametrize("path", [API, PAGE])
def test_large_bodies(service, path):
    head, body = said(service, post(path, 99_999_999))
    assert head.startswith(b"http/1.1 413") and b"connection: close" in head and b"exceeds 1000000 bytes" in body
    looks_right(path, head, body)


@pytest.mark.parametrize("path", [API, PAGE])
def test_slow_bodies(start, path, monkeypatch):
    service_limits(monkeypatch, client_timeout_s=0.1)
    service = start(BASE)
    head, body = said(service, post(path, 10, b"{"))
    assert head.startswith(b"http/1.1 408") and b"connection: close" in head and b"did not arrive in time" in body
    looks_right(path, head, body)


@pytest.mark.parametrize("path", [API, PAGE])
def test_defects_are_logged_and_told_alike(start, monkeypatch, caplog, path):
    service = start()

    async def broken(_):
        raise KeyError("a secret")

    endpoints = [route.endpoint for route in service.server.config.app.routes if getattr(route, "path", "") == path]
    for endpoint in endpoints:
        monkeypatch.setattr(endpoint, "_handler", broken)
    body = b"{}" if path == API else b"token=x"
    origin = {"Origin": f"http://127.0.0.1:{service.port}"}
    answer = service.request("POST", path, raw=body, headers=origin)
    assert answer.status == 500 and b"the service failed; the log has details" in answer.body
    assert b"a secret" not in answer.body
    (record,) = [record for record in caplog.records if record.message == "defect"]
    assert record.fields == {"route": path} and record.name == "bot_orch.http"
    looks_right(path, b"\r\n".join(f"{k}: {v}".lower().encode() for k, v in answer.headers.items()), answer.body)


class Full(MemoryLog):
    broken = False

    def commit(self):
        if self.broken:
            raise sqlite3.OperationalError("database or disk is full")
        super().commit()

    def probe(self):
        self.commit()


def test_a_full_disk_is_told_with_when_to_come_back(tmp_path):
    text = BASE + "  - {{id: person, kind: human, timeout_s: 600}}\n"
    log = Full()
    service = Running(parse_config(text.format(database=tmp_path / "x", port=0)), log=log)
    try:
        body = {"model": "person", "task": {"text": "x"}, "background": True, "eligible": ["person"]}
        assert service.post("/v1/tasks", {k: v for k, v in body.items() if k != "model"}).status in (200, 202)
        until(lambda: service.get("/v1/queue").json().get("tickets"))
        log.broken = True
        origin = {"Origin": f"http://127.0.0.1:{service.port}"}
        for path, raw in ((API, b"{}"), ("/queue/next", b"")):
            answer = service.request("POST", path, raw=raw, headers=origin)
            assert answer.status == 503 and answer.headers["retry-after"] == "1", answer
    finally:
        log.broken = False
        service.stop()


@pytest.mark.parametrize(("path", "status"), [(API, 200), (PAGE, 303)])
def test_requests_are_counted_by_route(service, path, status):
    origin = {"Origin": f"http://127.0.0.1:{service.port}"}
    raw = b"{}" if path == API else b"token="
    assert service.request("POST", path, raw=raw, headers=origin).status == status
    counted = service.get("/metrics").body.decode()
    assert any(f'route="{path}"' in line and f'"{status}"' in line for line in counted.splitlines())


def test_only_pages_take_a_cookie_and_only_pages_ask_where_a_form_comes_from(start):
    text = BASE + "tokens: [{{name: a, scopes: [admin], env: A}}]\n"
    service = start(text, environment={"A": "x" * 20})
    cookie, here = {"Cookie": "bot_orch_token=" + "x" * 20}, {"Origin": f"http://127.0.0.1:{service.port}"}
    bearer = {"Authorization": "Bearer " + "x" * 20}
    assert service.post(API, headers=cookie).status == 401 and service.post(API, headers=bearer).status == 200
    assert service.get("/queue", headers=cookie).status == service.get("/queue", headers=bearer).status == 200
    assert service.post("/queue/next", headers=cookie).status == 403
    assert service.post("/queue/next", headers={**cookie, **here}).status == 303
    assert service.post("/queue/next", headers=here).status == 401
    away = service.get("/queue")
    assert away.status == 303 and away.headers["location"] == "/login?next=/queue"


def test_the_terms_of_an_answer_are_the_columns_of_a_score():
    """Columns are named once, in ``bot_orch.types``; the API's schema states the same names."""
    from bot_orch.service.api.bodies import TermsView
    from bot_orch.types import TERMS

    assert TermsView.__struct_fields__ == TERMS
