"""Limits on request bodies: size, nesting depth, time to arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bot_orch.service.config import LimitsConfig
from bot_orch.service.problems import Problem

__all__ = ["ClientGoneError", "check_depth", "read_body"]

Receive = Callable[[], Awaitable[Any]]


class ClientGoneError(Exception):
    """The client has disconnected."""


async def read_body(headers: Mapping[bytes, bytes], receive: Receive, limits: LimitsConfig) -> bytes:
    """Read the whole body; refuse it as soon as it is too long or too slow."""
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length) > limits.body_bytes:
        raise _too_large(limits)
    try:
        async with asyncio.timeout(limits.body_timeout_s):
            body = await _collect(receive, limits)
    except TimeoutError:
        raise Problem(408, "slow_body", "the body did not arrive in time", headers={"connection": "close"}) from None
    check_depth(body, limits.depth)
    return body


async def _collect(receive: Receive, limits: LimitsConfig) -> bytes:
    message = await receive()
    if message["type"] != "http.request":
        raise ClientGoneError
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        if len(body) > limits.body_bytes:
            raise _too_large(limits)
        return body
    pieces, size = [body], len(body)
    while message.get("more_body"):
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGoneError
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > limits.body_bytes:
            raise _too_large(limits)
    return b"".join(pieces)


def check_depth(body: bytes, depth: int) -> None:
    """Refuse JSON nested deeper than ``depth``, before it is parsed."""
    if body.count(b"[") + body.count(b"{") <= depth:
        return
    level, quoted, escaped = 0, False, False
    for byte in body:
        if quoted:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                quoted = False
        elif byte == 0x22:
            quoted = True
        elif byte in (0x5B, 0x7B):
            level += 1
            if level > depth:
                raise Problem(400, "too_deep", f"the body is nested deeper than {depth}")
        elif byte in (0x5D, 0x7D):
            level -= 1


def _too_large(limits: LimitsConfig) -> Problem:
    message = f"the body exceeds {limits.body_bytes} bytes"
    return Problem(413, "too_large", message, headers={"connection": "close"})
