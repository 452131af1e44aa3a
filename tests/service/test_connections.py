"""Clients that are slow, silent, too many or that never read are let go, and others are served meanwhile."""

import contextlib
import json
import logging
import socket
import struct
import threading
import time

import pytest
from service_running import BASE, PATIENCE_S, service_limits, until

from bot_orch.service.config import LimitsConfig
from bot_orch.service.web.connections import Connections, most_connections

LINE = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n"
GET = LINE + b"\r\n"


@pytest.fixture
def service(start, monkeypatch):
    """A service with little patience for its clients."""
    service_limits(monkeypatch, client_timeout_s=0.3, idle_s=1)
    return start()


@pytest.fixture
def connect():
    """Opens connections that are closed at the end of the test."""
    with contextlib.ExitStack() as stack:

        def begin(service, said=b""):
            s = stack.enter_context(socket.create_connection(("127.0.0.1", service.port), PATIENCE_S))
            s.sendall(said)
            return s

        yield begin


def rest(s):
    """Everything until the server closes."""
    pieces = []
    with contextlib.suppress(ConnectionError):
        while piece := s.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def answered(s):
    s.sendall(GET)
    said = b""
    while not said.endswith(b"}") and (piece := s.recv(65536)):
        said += piece
    return said.startswith(b"HTTP/1.1 200")


def open_ones(service):
    return service.call(lambda: len(service.server.server_state.connections))


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"", b""),
        (b"\r\n", b""),
        (b"GET /", b"HTTP/1.1 408"),
        (LINE, b"HTTP/1.1 408"),
        (LINE + b"x: y", b"HTTP/1.1 408"),
        (GET + LINE, b"HTTP/1.1 200"),
        (GET + b"\r\n", b"HTTP/1.1 200"),
        (b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{", b"HTTP/1.1 408"),
        (b"POST /health/live HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{", b"HTTP/1.1 405"),
    ],
)
def test_a_client_that_stops_in_the_middle_is_let_go(service, connect, said, status):
    s = connect(service, said)
    assert rest(s).startswith(status)
    until(lambda: open_ones(service) == 0)


def test_bytes_one_by_one_do_not_prolong_the_time(service, connect):
    s, begun = connect(service, b"GET /"), time.monotonic()
    with contextlib.suppress(OSError):
        while time.monotonic() - begun < PATIENCE_S:
            s.sendall(b"x")
            time.sleep(0.02)
            s.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                if s.recv(100):
                    break
            s.setblocking(True)
    assert time.monotonic() - begun < 10


def test_a_body_that_nobody_reads_does_not_hold_a_connection(service, connect):
    """The answer is complete before the body is: 401, 404, 405."""
    s = connect(service, b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
    begun = time.monotonic()
    with contextlib.suppress(OSError):
        while time.monotonic() - begun < PATIENCE_S:
            s.sendall(b"x")
            time.sleep(0.02)
    assert time.monotonic() - begun < 10
    until(lambda: open_ones(service) == 0)


def test_a_client_that_does_not_read_is_let_go(service, connect):
    s = connect(service)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with contextlib.suppress(OSError):
        s.settimeout(3.0)
        for _ in range(3000):
            s.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
    until(lambda: open_ones(service) == 0)
    assert service.get("/health/live").status == 200


def test_the_one_that_waits_longest_makes_room(start, connect, monkeypatch):
    service_limits(monkeypatch, connections=20)
    service = start(BASE)
    idle = [connect(service) for _ in range(20)]
    until(lambda: open_ones(service) == 20)
    assert answered(idle[0]), "now it has waited least"
    new = [connect(service) for _ in range(5)]
    assert all(answered(s) for s in new)
    assert answered(idle[0]) and open_ones(service) <= 20
    assert sum(rest_of_closed(s) for s in idle) == 5


def rest_of_closed(s):
    """Whether the server has closed it."""
    s.settimeout(0.05)
    try:
        return s.recv(10) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_if_all_are_at_work_a_new_one_gets_503_and_when_to_come_back(start, connect, monkeypatch):
    service_limits(monkeypatch, connections=10)
    service = start(BASE.replace("median_s: 0.0", "median_s: 30.0"))
    chat = json.dumps({"model": "auto", "messages": [{"role": "user", "content": "x"}]}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(chat)
    for _ in range(10):
        connect(service, head + chat)
    until(lambda: service.call(lambda: len(list(service.runtime.in_flight))) == 10)
    said = rest(connect(service))
    assert said.startswith(b"HTTP/1.1 503") and b"retry-after: 1" in said and b"too_many_connections" in said


def test_slow_clients_by_the_hundreds_do_not_hold_up_others(start, connect, monkeypatch):
    service_limits(monkeypatch, connections=400, client_timeout_s=30)
    service = start(BASE)
    slow = [connect(service, LINE) for _ in range(600)]
    until(lambda: open_ones(service) <= 401)
    begun = time.perf_counter()
    for _ in range(20):
        assert service.post("/v1/decisions").status == 200
    assert time.perf_counter() - begun < 10
    assert sum(map(rest_of_closed, slow[:100])) == 100


def test_requests_sent_ahead_are_all_answered_and_few_wait_in_memory(start, connect):
    service = start()
    s = connect(service)
    most = [0]
    count = 3000

    def look():
        most[0] = max([most[0], *(len(each.pipeline) for each in service.server.server_state.connections)])

    heard = []
    reader = threading.Thread(daemon=True, target=lambda: heard.append(read_all(s, count)))
    reader.start()
    for _ in range(count // 100):
        s.sendall(GET * 100)
        service.call(look)
    reader.join(PATIENCE_S)
    assert heard == [count]
    assert most[0] <= 3 * 4096 // len(GET), "what is read at once"


def read_all(s, count):
    seen, tail = 0, b""
    while seen < count and (piece := s.recv(65536)):
        data = tail + piece
        seen += data.count(b"HTTP/1.1 200")
        tail = data[-11:] if not data.endswith(b"HTTP/1.1 200") else b""
    return seen


def test_a_reset_leaves_nothing_behind(start, connect):
    service = start()
    for said in (b"", LINE, GET, b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"):
        s = connect(service, said)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
    assert service.get("/health/live").status == 200  # those before it have been accepted
    until(lambda: open_ones(service) == 0)
    assert service.call(lambda: len(service.server.config.http_protocol_class)) == 0


def test_what_is_not_http_is_refused_without_a_line_in_the_log(start, connect):
    service, lines = start(), []
    handler = logging.Handler()
    handler.emit = lines.append
    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "bot_orch")]
    for each in loggers:
        each.addHandler(handler)
    try:
        for said in (b"x" * 100, b"GET / HTTPx\r\n\r\n", b"\x16\x03\x01\x02\x00" * 9, b"GET  /\x00 HTTP/1.1\r\n\r\n"):
            assert rest(connect(service, said)).startswith(b"HTTP/1.1 400")
    finally:
        for each in loggers:
            each.removeHandler(handler)
    assert not lines


def test_no_websocket_gets_around_the_limits(start, connect):
    service = start()
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    s = connect(service, LINE + upgrade + b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
    assert b" 101 " not in s.recv(65536)


def test_the_limit_on_open_files_counts(monkeypatch):
    import resource

    limits = {"now": (1024, 4096)}
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.update(now=pair))
    assert most_connections(10_000) == 4096 - 200 and limits["now"] == (4096, 4096)
    limits["now"] = (1024, 100_000)
    assert most_connections(10_000) == 10_000 and limits["now"] == (10_200, 100_000)


def test_the_one_that_has_waited_longest_is_closed_for_a_new_one(monkeypatch):
    class One:
        closed = False

        def end(self):
            self.closed = True

    monkeypatch.setattr(Connections, "_sweep", lambda _: None)
    service_limits(monkeypatch, connections=2)
    all_, (a, b, c) = Connections(LimitsConfig(), None), (One(), One(), One())
    assert all_.enter(a) and all_.enter(b)
    all_.works(a)
    assert all_.enter(c) and b.closed and not a.closed and len(all_) == 2
    all_.works(c)
    assert not all_.enter(One())
    all_.waits(b)  # it is gone
    assert not all_.enter(One())


def test_the_rest_of_a_body_that_was_refused_does_not_break_the_connection(start, connect):
    """The client has its answer before it has sent all, and its next request is answered."""
    service = start()
    s = connect(service, b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n")
    while not s.recv(65536).endswith(b"}"):
        pass
    s.sendall(b"x" * 300_000)
    assert answered(s)


def test_nobody_knows_where_a_refused_body_in_chunks_ends(start, connect):
    service = start()
    s = connect(service, b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n")
    assert rest(s).startswith(b"HTTP/1.1 404")
