"""What comes before a body is bounded, whoever sends it: 431 early, and no memory for the rest."""

import contextlib
import http.client
import json
import socket
from pathlib import Path

import pytest
from service_running import PATIENCE_S, service_limits

MEGABYTE = 1_000_000
LINE = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture
def talk(service):
    with socket.create_connection(("127.0.0.1", service.port), PATIENCE_S) as s:
        yield s


@contextlib.contextmanager
def little_memory():
    """The process (it is client and server) must not grow by more than a few megabytes at any time."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resident("VmRSS")
    yield
    assert resident("VmHWM") - before < 8_000, "kB"


def resident(what):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(what)).split()[1])


def flood(s, head, piece, most=64 * MEGABYTE):
    """Send until it does not go any further; how much went."""
    s.sendall(head)
    s.settimeout(0.5)  # what the kernel has taken by then is all that it takes
    sent = 0
    with contextlib.suppress(OSError):
        while sent < most:
            sent += s.send(piece)
    s.settimeout(PATIENCE_S)
    return sent


def heard(s):
    """Everything until the end."""
    pieces = []
    with contextlib.suppress(ConnectionError):
        while piece := s.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def read(s, count=1):
    """The statuses of so many answers of one connection."""
    file = s.makefile("rb")
    statuses = []
    for _ in range(count):
        statuses.append(int(file.readline().split()[1]))
        length = 0
        while (line := file.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        file.read(length)
    return statuses


FLOODS = {
    "many headers": (LINE, b"".join(b"x-%d: y\r\n" % number for number in range(5000))),
    "large headers": (LINE, b"".join(b"x-%d: " % number + b"y" * 8000 + b"\r\n" for number in range(8))),
    "one endless value": (LINE + b"x: ", b"y" * 65536),
    "one endless name": (LINE, b"x" * 65536),
    "folded": (LINE + b"x: y\r\n", b" y\r\n" * 16000),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_floods_of_headers_are_cut_off(service, talk, kind):
    with little_memory():
        sent = flood(talk, *FLOODS[kind])
        said = heard(talk)
    assert sent < 32 * MEGABYTE, "it was taken"
    assert said[:12] in (b"HTTP/1.1 431", b"HTTP/1.1 400")  # what the parser takes for malformed is refused as such
    assert said[:12] == b"HTTP/1.1 431" or kind in ("one endless name", "folded")
    assert service.get("/health/live").status == 200


def test_an_endless_path_is_cut_off(talk):
    sent = flood(talk, b"GET /", b"x" * 65536)
    assert heard(talk).startswith(b"HTTP/1.1 431") and sent < 32 * MEGABYTE


def test_an_endless_trailer_is_cut_off(start, monkeypatch):
    service_limits(monkeypatch, client_timeout_s=1.0)
    port = start().port
    head = b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx: "
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as talk:
        with little_memory():
            assert flood(talk, head, b"y" * 65536) < 32 * MEGABYTE
        assert b" 200 " not in heard(talk)


def test_the_answer_names_the_limit_and_has_the_usual_shape(service, talk):
    talk.sendall(LINE + b"x: " + b"y" * 40_000 + b"\r\n\r\n")
    head, _, body = heard(talk).partition(b"\r\n\r\n")
    assert b"connection: close" in head and head.startswith(b"HTTP/1.1 431")
    error = json.loads(body)["error"]
    assert error["code"] == "head_too_large" and "32768 bytes" in error["message"]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (LINE + b"x: y\r\n" * 99, 200),
        (LINE + b"x: y\r\n" * 100, 431),
        (LINE + b"x: " + b"y" * (32_768 - 17 - 12 - 5) + b"\r\n", 200),
        (LINE + b"x: " + b"y" * (32_768 - 17 - 12 - 4) + b"\r\n", 431),
        (LINE.replace(b"/live", b"/live?" + b"x" * (32_768 - 17 - 12)), 200),
        (LINE.replace(b"/live", b"/live?" + b"x" * (32_768 - 17 - 11)), 431),
    ],
)
@pytest.mark.parametrize("pieces", [1, 7])
def test_the_limits_are_exact_and_do_not_depend_on_how_it_arrives(service, talk, head, status, pieces):
    talk.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    request = head + b"\r\n"
    step = -(-len(request) // pieces)
    with contextlib.suppress(ConnectionError):
        for start in range(0, len(request), step):
            talk.sendall(request[start : start + step])
    assert read(talk) == [status]


def test_a_head_may_come_byte_by_byte(talk):
    talk.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in LINE + b"\r\n":
        talk.sendall(bytes([byte]))
    assert read(talk) == [200]


def test_a_connection_is_kept_whatever_its_requests_add_up_to(service):
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE_S)
    for number in range(10):
        connection.request("POST", "/v1/decisions", b"{}" + b" " * 200_000, {f"x-{number}": "y" * 20_000})
        response = connection.getresponse()
        assert response.status == 200 and response.read() and connection.sock is not None
    connection.close()


def test_pipelined_requests_are_answered_in_order(talk):
    large = LINE + b"x: " + b"y" * 5000 + b"\r\n\r\n"
    post = b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
    missing = LINE.replace(b"/live", b"/none") + b"\r\n"
    talk.sendall((large + post + missing) * 20)
    assert read(talk, 60) == [200, 200, 404] * 20


def test_a_head_too_large_behind_good_requests_does_not_spoil_their_answers(talk):
    post = b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
    talk.sendall(post + post + LINE + b"x: y\r\n" * 200 + b"\r\n")
    assert read(talk, 3) == [200, 200, 431]


def test_small_chunks_with_their_framing_are_not_headers(talk):
    head = b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"{}" + b" " * 100_000
    talk.sendall(head + b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\nx: y\r\n\r\n")
    assert read(talk) == [200]
