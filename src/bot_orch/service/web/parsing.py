"""Parsing of JSON bodies, however large, without holding up other requests.

The parser works through a body in one go, and no thread helps: it holds the interpreter meanwhile. So a large body is
parsed without its long texts (an image is one), which are decoded piece by piece and put back.
"""

from __future__ import annotations

import re
import secrets
from typing import Any

import msgspec

from bot_orch.agents.turns import Turns
from bot_orch.service.config import LimitsConfig
from bot_orch.service.problems import Problem
from bot_orch.service.web.scanning import scan_json

__all__ = ["JsonBody"]

_SMALL = 65_536  # bytes that need no look before they are parsed, if there are few brackets
_AT_ONCE = 1_000_000  # bytes that are parsed in one go
_LONG = 64  # of a larger body, texts with more bytes are put back later
_REST = 4_000_000  # bytes of a larger body beside those texts
_PIECE = 65_536
_ESCAPED = re.compile(
    rb"(?:[^\\]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\[^u]){1,8192}",
    re.DOTALL,
)


class JsonBody:
    """Decodes bodies of one type.

    Parameters
    ----------
    type_
        The type.
    """

    def __init__(self, type_: Any) -> None:
        self._type, self._decoder = type_, msgspec.json.Decoder(type_)

    async def decode(self, raw: bytes | bytearray, limits: LimitsConfig) -> Any:
        """The body; raises what the parser raises, or a problem if it is too deep or holds too many values."""
        if len(raw) <= _SMALL and raw.count(b"[") + raw.count(b"{") <= limits.depth:
            return self._decoder.decode(raw)
        scan = await scan_json(raw, limits, long=_LONG)
        if len(raw) <= _AT_ONCE:
            return self._decoder.decode(raw)
        turns = Turns()
        name = f"\ue000{secrets.token_hex(8)}-"
        if scan.begin >= 0:
            raise msgspec.DecodeError("a text has no end")
        rest, texts = await _taken_apart(raw, scan.texts, name, turns=turns)
        await turns.pass_on()
        whole = msgspec.json.decode(rest)
        await turns.pass_on()
        whole = await _put_back(whole, texts, turns)
        await turns.pass_on()
        body = msgspec.convert(whole, self._type)
        await turns.pass_on()
        return body


async def _taken_apart(
    raw: bytes | bytearray, spans: list[tuple[int, int]], name: str, *, turns: Turns
) -> tuple[bytes, dict[str, str]]:
    """The body with short names in place of long texts, and the texts by name."""
    pieces, texts, at = [], {}, 0
    for number, (begin, end) in enumerate(spans):
        placeholder = f"{name}{number}"
        pieces += [raw[at:begin], placeholder.encode()]
        texts[placeholder] = await _decoded(raw, begin, end, turns=turns)
        at = end
    pieces.append(raw[at:])
    await turns.pass_on()
    if sum(map(len, pieces)) > _REST:
        message = f"the body holds more than {_REST} bytes beside texts; send less, or no white space"
        raise Problem(413, "too_large", message)
    return b"".join(pieces), texts


async def _decoded(raw: bytes | bytearray, begin: int, end: int, *, turns: Turns) -> str:
    """The text between two quotes."""
    plain, text = raw.find(b"\\", begin, end) < 0, ""
    while begin < end:
        upto = min(begin + _PIECE, end)
        if not plain and (found := _ESCAPED.match(raw, begin, upto)) is not None:
            upto = found.end()
        while begin + 4 < upto < end and raw[upto] & 0xC0 == 0x80:  # not within a character
            upto -= 1
        part: str = msgspec.json.decode(b'"' + raw[begin:upto] + b'"', type=str)
        text += part  # grows in place
        begin = upto
        if turns.due:
            await turns.pass_on()
    return text


async def _put_back(whole: Any, texts: dict[str, str], turns: Turns) -> Any:
    """The value with texts in place of their names, changed in place."""
    top = [whole]
    todo: list[Any] = [top]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            if any(key in texts for key in value):
                renamed = {texts.get(key, key): entry for key, entry in value.items()}
                value.clear()
                value.update(renamed)
            places: list[Any] = list(value)
        else:
            places = list(range(len(value)))
        for place in places:
            entry = value[place]
            if isinstance(entry, str):
                if entry in texts:
                    value[place] = texts[entry]
            elif isinstance(entry, dict | list):
                todo.append(entry)
            if turns.due:
                await turns.pass_on()
    return top[0]
