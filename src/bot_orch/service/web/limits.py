"""Limits on request bodies: size, time to arrive, memory of all together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bot_orch.service.config import LimitsConfig
from bot_orch.service.problems import Problem

__all__ = ["RECORD_BYTES", "BodyRoom", "ClientGoneError", "check_length", "check_values", "read_body"]

Receive = Callable[[], Awaitable[Any]]
RECORD_BYTES = 1_000_000
"""Of a body that holds no images."""
_LONGEST_BODIES = 20
_SMALL = 65_536
_VALUES, _BYTES_PER_VALUE = 200_000, 20  # texts have brackets and commas too
_SLOWEST = 100_000  # bytes per second that prolong the time to arrive


class ClientGoneError(Exception):
    """The client has disconnected."""


class BodyRoom:
    """Memory for the bodies of all requests that are being read or answered.

    Parameters
    ----------
    limits
        Twenty bodies of the longest kind fit in.
    """

    def __init__(self, limits: LimitsConfig) -> None:
        self._most, self.used = _LONGEST_BODIES * limits.body_bytes, 0

    def take(self, size: int) -> None:
        """Take room for more bytes; refuses (503) if there is none."""
        if self.used + size > self._most:
            message = "the service holds too many large bodies at the moment; try again"
            raise Problem(503, "busy", message, headers={"connection": "close"})
        self.used += size

    def give_back(self, size: int) -> None:
        """Give room back."""
        self.used -= size


def check_length(headers: Mapping[bytes, bytes], most: int) -> None:
    """Refuse a body that says it is too long."""
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and (len(length) > 18 or int(length) > most):
        raise _too_large(most)


def check_values(raw: bytes | bytearray) -> None:
    """Refuse a large body of so many values that they would fill the memory: an empty list takes 60 bytes."""
    if len(raw) > _SMALL and sum(map(raw.count, (b",", b"[", b"{"))) > _VALUES + len(raw) // _BYTES_PER_VALUE:
        raise Problem(413, "too_many_values", "the body holds too many values; send fewer")


async def read_body(
    headers: Mapping[bytes, bytes], receive: Receive, limits: LimitsConfig, *, most: int, room: BodyRoom
) -> bytes | bytearray:
    """Read the whole body; refuse it as soon as it is too long or too slow.

    Its bytes are taken from ``room``; the caller gives them back.
    """
    check_length(headers, most)
    taken = 0
    try:
        async with asyncio.timeout(limits.client_timeout_s) as waiting:
            begun = asyncio.get_running_loop().time()
            message = await receive()
            body: bytes | bytearray = _part(message)
            if message.get("more_body"):
                body = bytearray(body)
            while True:
                if len(body) > most:
                    raise _too_large(most)
                room.take(len(body) - taken)
                taken = len(body)
                if not message.get("more_body"):
                    return body
                waiting.reschedule(begun + limits.client_timeout_s + taken / _SLOWEST)
                message = await receive()
                body += _part(message)
    except TimeoutError:
        room.give_back(taken)
        said = "the body did not arrive in time; send it faster, or raise limits.client_timeout_s"
        raise Problem(408, "slow_body", said, headers={"connection": "close"}) from None
    except BaseException:
        room.give_back(taken)
        raise


def _part(message: Mapping[str, Any]) -> bytes:
    if message["type"] != "http.request":
        raise ClientGoneError
    part: bytes = message.get("body", b"")
    return part


def _too_large(most: int) -> Problem:
    message = f"the body exceeds {most} bytes; send less; limits.body_bytes is for chats"
    return Problem(413, "too_large", message, headers={"connection": "close"})
