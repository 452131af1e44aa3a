"""Connections handed over between the workers of one machine, with the request that was read from them; messages.

A client that asks for one router on one connection is so answered by the right worker, without a process in between.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from bot_orch.service.cluster.directory import Neighbour
from bot_orch.service.neighbours import ROUTER_HEADER, Exchange
from bot_orch.service.web.protocol import CONNECTION, LimitedProtocol

__all__ = ["ConnectionMail"]

_log = logging.getLogger("bot_orch.cluster")
_HEAD = struct.Struct("<I")
_NO_CONNECTION = 0xFFFFFFFF
_MOST = 60_000  # bytes of a request; a longer one is passed on
_FIRST_MOVES = 2  # then a connection must have asked so often for routers of one worker to be moved again:
_ENOUGH_REQUESTS = 16


class ConnectionMail:
    """Sends connections to other workers and receives theirs.

    Parameters
    ----------
    inbox
        Where connections for this worker arrive.
    outboxes
        Where those for the others go, by worker.
    """

    def __init__(self, inbox: socket.socket, outboxes: Mapping[int, socket.socket]) -> None:
        self._inbox, self._outboxes = inbox, outboxes
        self._make: Callable[[], LimitedProtocol] | None = None
        self.message: Callable[[bytes], None] | None = None  # takes messages of the others
        self._taking: set[asyncio.Task[None]] = set()
        for each in (inbox, *outboxes.values()):
            each.setblocking(False)

    def open(self, make: Callable[[], LimitedProtocol]) -> None:
        """Take connections from now on; ``make`` makes their protocol."""
        self._make = make
        asyncio.get_running_loop().add_reader(self._inbox.fileno(), self._read)

    def close(self) -> None:
        """Take no more; what waits is for the next process that opens this inbox."""
        asyncio.get_running_loop().remove_reader(self._inbox.fileno())

    def tell(self, message: bytes) -> None:
        """Send a message to all others, except for those where too much waits already."""
        for outbox in self._outboxes.values():
            with suppress(OSError):
                outbox.send(_HEAD.pack(_NO_CONNECTION) + message)

    def __call__(self, other: Neighbour, exchange: Exchange) -> bool:
        """Hand a connection over to a worker, by its number; False if it must stay."""
        return self._hand_over(self._outboxes.get(other.number), exchange)

    def by_path(self, sockets: Mapping[int, str], other: Neighbour, exchange: Exchange) -> bool:
        """The same to the worker with the socket of that path."""
        found = next((number for number, path in sockets.items() if path == other.address), None)
        return found is not None and self._hand_over(self._outboxes.get(found), exchange)

    def _hand_over(self, outbox: socket.socket | None, exchange: Exchange) -> bool:
        connection = exchange.scope.get(CONNECTION)
        if connection is None or outbox is None or exchange.raw is None or not connection.may_leave():
            return False
        if connection.moves >= _FIRST_MOVES and connection.requests < _ENOUGH_REQUESTS:
            return False
        request = _written(exchange)
        if len(request) > _MOST or ROUTER_HEADER in dict(exchange.scope["headers"]):
            return False
        try:
            socket.send_fds(outbox, [_HEAD.pack(connection.moves + 1), request], [connection.descriptor()])
        except OSError:  # too many wait there already
            return False
        connection.leave()
        return True

    def _read(self) -> None:
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._inbox, _HEAD.size + _MOST, 1)
            except BlockingIOError:
                return
            except OSError as error:
                _log.warning("a connection was lost", extra={"fields": {"detail": str(error)}})
                return
            if not descriptors and data[: _HEAD.size] == _HEAD.pack(_NO_CONNECTION) and self.message is not None:
                self.message(data[_HEAD.size :])
            for descriptor in descriptors:
                taking = asyncio.ensure_future(self._take(socket.socket(fileno=descriptor), data))
                self._taking.add(taking)
                taking.add_done_callback(self._taking.discard)

    async def _take(self, client: socket.socket, data: bytes) -> None:
        if self._make is None:
            client.close()
            return
        client.setblocking(False)
        try:
            _, protocol = await asyncio.get_running_loop().connect_accepted_socket(self._make, client)
        except OSError:  # the client has left
            client.close()
            return
        protocol.moves = _HEAD.unpack_from(data)[0]
        protocol.data_received(data[_HEAD.size :])


def _written(exchange: Exchange) -> bytes:
    """The request as its client may have written it."""
    scope: Any = exchange.scope
    query = b"?" + scope["query_string"] if scope.get("query_string") else b""
    line: bytes = scope["method"].encode("ascii") + b" " + scope["raw_path"] + query
    kept = [(name, value) for name, value in scope["headers"] if name not in (b"expect", b"transfer-encoding")]
    headers: bytes = b"".join(name + b": " + value + b"\r\n" for name, value in kept)
    if exchange.raw and b"content-length" not in dict(kept):
        headers += b"content-length: " + str(len(exchange.raw)).encode() + b"\r\n"
    version: bytes = scope["http_version"].encode()
    return line + b" HTTP/" + version + b"\r\n" + headers + b"\r\n" + bytes(exchange.raw or b"")
