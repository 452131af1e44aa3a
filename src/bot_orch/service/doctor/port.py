"""Checks that the port is free, or in use by our own service."""

from __future__ import annotations

import http.client
import json
import socket

from bot_orch.service.config import ListenConfig
from bot_orch.service.doctor.findings import CheckFinding, failed, ok

__all__ = ["check_port"]

_TIMEOUT_S = 3.0


def check_port(listen: ListenConfig) -> CheckFinding:
    """Bind the address briefly; if that fails, find out what is listening."""
    at = f"{listen.host}:{listen.port}"
    if listen.port == 0:
        return ok("port", f"{at}: the system chooses one")
    try:
        family, kind, _, _, address = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as made:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen(1)
    except OSError as error:
        if _is_ours(listen):
            return ok("port", f"{at}: a running service answers")
        problem = f"{at} cannot be used ({error.strerror or error})"
        return failed("port", problem, "end the program that has it, or choose another with listen.port or --port")
    return ok("port", f"{at}: free")


def _is_ours(listen: ListenConfig) -> bool:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen.host, listen.host)  # noqa: S104  to reach it
    connection = http.client.HTTPConnection(host, listen.port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/health/live")
        found = json.loads(connection.getresponse().read(1000))
        return isinstance(found, dict) and found.get("status") == "live"
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()
