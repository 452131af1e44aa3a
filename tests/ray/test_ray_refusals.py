"""A Ray that is not there, and one that goes away, are told in one line; Ray itself would wait for minutes."""

import http.server
import socket
import threading
from types import SimpleNamespace

import pytest

from bot_orch.errors import BotOrchError
from bot_orch.lab.harness import engines_ray
from bot_orch.lab.harness.experiment import Unit


@pytest.fixture
def website():
    """The port of a server that is not Ray, as its dashboard is not."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(daemon=True, target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_another_server_is_not_taken_for_ray(website, scheme):
    address = f"{scheme}127.0.0.1:{website}"
    with pytest.raises(BotOrchError, match=f"what listens at {address} is not Ray; pass what 'ray start --head'"):
        engines_ray._probe(address)


def test_one_who_hangs_up_is_not_taken_for_ray():
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(daemon=True, target=lambda: server.accept()[0].close())
        thread.start()
        with pytest.raises(BotOrchError, match=r"is not Ray|no Ray cluster"):
            engines_ray._probe(f"127.0.0.1:{server.getsockname()[1]}")
        thread.join()


def test_one_who_says_nothing_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(engines_ray, "_CONNECT_S", 0.1)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(BotOrchError, match=r"timed out.*start it, or correct the address"),
    ):
        engines_ray._probe(f"127.0.0.1:{server.getsockname()[1]}")


def test_with_tls_it_is_left_to_ray(website, monkeypatch):
    monkeypatch.setenv("RAY_USE_TLS", "1")
    engines_ray._probe(f"127.0.0.1:{website}")


@pytest.mark.parametrize("port", [1, 99999])
def test_nobody_there(port):
    with pytest.raises(BotOrchError, match="no Ray cluster at .*; start it, or correct the address"):
        engines_ray._probe(f"127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("name", "said"),
    [("WorkerCrashedError", "k: its worker died 6 times"), ("LocalRayletDiedError", "k: Ray gave it up")],
)
def test_who_died_is_said_as_it_is(name, said):
    exceptions = pytest.importorskip("ray").exceptions

    def get(_):
        raise getattr(exceptions, name)

    with pytest.raises(BotOrchError, match=rf"^{said} \(.+\); run the same command again to go on$"):
        engines_ray._payload(SimpleNamespace(get=get, exceptions=exceptions), None, ("run", Unit("k", {})))
