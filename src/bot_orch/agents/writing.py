"""Encoding of arbitrarily large requests as JSON without blocking the event loop.

The encoder writes a document in one go, and a thread does not help, as it holds the GIL. So a large document is
written value by value, and long texts piece by piece.
"""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from bot_orch.agents.base import CallFailure
from bot_orch.agents.endings import Ending

_LETTERS, _VALUES = 100_000, 2_000  # documents with fewer are written in one go
_PIECE = 65_536
_AT_ONCE_S = 0.001
_write = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode


async def encode(document: Mapping[str, Any], cap_bytes: int) -> bytes:
    """Encode a document as JSON; raises ``REFUSED_REQUEST`` if it is not JSON or larger than the cap."""
    try:
        body = _write(document).encode() if _is_small(document) else await _in_turns(document, cap_bytes)
    except (TypeError, ValueError, RecursionError):  # also lone surrogates
        raise CallFailure(Ending.REFUSED_REQUEST, "not asked: the request is not plain JSON") from None
    if len(body) > cap_bytes:
        raise CallFailure(Ending.REFUSED_REQUEST)
    return body


async def _in_turns(document: Mapping[str, Any], cap_bytes: int) -> bytes:
    turns, body = _Turns(), io.BytesIO()  # which hands its memory over without a copy
    for piece in _pieces(document):
        body.write(piece.encode())
        if body.tell() > cap_bytes:
            raise CallFailure(Ending.REFUSED_REQUEST)
        if turns.due:
            await turns.pass_on()
    return body.getvalue()


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, str) and len(value) > _PIECE:
        yield '"'
        for begin in range(0, len(value), _PIECE):
            yield _write(value[begin : begin + _PIECE])[1:-1]
        yield '"'
    elif isinstance(value, dict) and value:
        before = "{"
        for name, entry in value.items():
            yield f"{before}{_write(name if isinstance(name, str) else _key(name))}:"
            yield from _pieces(entry)
            before = ","
        yield "}"
    elif isinstance(value, list | tuple) and value:
        before = "["
        for entry in value:
            yield before
            yield from _pieces(entry)
            before = ","
        yield "]"
    else:
        yield _write(value)


def _key(name: Any) -> str:
    """A name that is not a text, as the encoder writes it."""
    return str(next(iter(json.loads(_write({name: 0})))))


def _is_small(document: Any) -> bool:
    """Whether the document has few values and characters; stops counting once it does not."""
    letters, values, todo = 0, 0, [document]
    while todo:
        value = todo.pop()
        if isinstance(value, str):
            letters += len(value)
        elif isinstance(value, dict):
            values += len(value)
            letters += sum(len(name) for name in value if isinstance(name, str)) if values <= _VALUES else 0
            todo += value.values() if values <= _VALUES else ()
        elif isinstance(value, list | tuple):
            values += len(value)
            todo += value if values <= _VALUES else ()
        if letters > _LETTERS or values > _VALUES:
            return False
    return True


class _Turns:
    """Yields to the event loop after each millisecond of work."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = time.perf_counter()

    @property
    def due(self) -> bool:
        """Whether a millisecond has passed since the last yield."""
        return time.perf_counter() - self._since > _AT_ONCE_S

    async def pass_on(self) -> None:
        """Yield to the event loop."""
        await asyncio.sleep(0)
        self._since = time.perf_counter()
