"""Interfaces that take a form with files: transcriptions, translations, changed images and uploads, as they came."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from bot_orch.agents.writing import FilePart
from bot_orch.service.api.gateway.chat_request import ChatRequest, read_hints, read_model, text_of
from bot_orch.service.api.gateway.openai import PassedDialect, refuse_stream
from bot_orch.service.problems import Problem
from bot_orch.service.web.endpoint import JsonFace

_NAME = re.compile(rb'(?i)^content-disposition:[^\r\n]*[; ]name="([^"\r\n]*)"', re.MULTILINE)
_FILE = re.compile(rb"(?i)^content-disposition:[^\r\n]*[; ]filename\*?=", re.MULTILINE)
_OURS = re.compile(r"bot_orch\[(\w+)\]")
_MOST_PARTS = 100


class FormFace(JsonFace):
    """Face of interfaces that take a form, ``multipart/form-data``."""

    media = "multipart/form-data"

    async def decode(self, raw: bytes | bytearray) -> Any:
        """See :class:`Face`."""
        await asyncio.sleep(0)
        body = read_form(bytes(raw))
        await asyncio.sleep(0)
        return body


def read_form(raw: bytes) -> dict[str, Any]:
    r"""The fields of a form: texts and files, lists where a field is there several times; raises a :class:`Problem`.

    ``bot_orch[NAME]`` are the hints for the router.

    Examples
    --------
    >>> read_form(b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nauto\r\n--x--\r\n')
    {'model': 'auto'}
    """
    line, _, rest = raw.partition(b"\r\n")
    parts = (b"\r\n" + rest).split(b"\r\n" + line, _MOST_PARTS) if line.startswith(b"--") and line != b"--" else []
    if len(parts) < 2 or not parts[-1].startswith(b"--"):
        message = f"the body is no form: send multipart/form-data with at most {_MOST_PARTS} parts"
        raise Problem(400, "not_a_form", message)
    found: dict[str, Any] = {}
    for part in parts[:-1]:
        headers, gap, data = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        if not gap or (named := _NAME.search(headers)) is None:
            raise Problem(400, "not_a_form", "a part of the form has no name")
        _add(found, named[1].decode(errors="replace"), headers, data=data)
    return found


def _add(found: dict[str, Any], name: str, headers: bytes, *, data: bytes) -> None:
    value = FilePart(headers, data) if _FILE.search(headers) else data.decode(errors="replace")
    if hint := _OURS.fullmatch(name):
        found.setdefault("bot_orch", {})[hint[1]] = value
    elif name in found:
        found[name] = [*(found[name] if isinstance(found[name], list) else [found[name]]), value]
    else:
        found[name] = value


class FormDialect(PassedDialect):
    """A form with a file, passed unchanged to one agent that declares the interface."""

    def read(self, body: Mapping[str, Any]) -> ChatRequest:
        """See :class:`Dialect`."""
        refuse_stream(self.endpoint, body)
        given = body.get(self._field, body.get(f"{self._field}[]"))
        files = given if isinstance(given, list) else [given]
        if not all(isinstance(each, FilePart) and each.data for each in files):
            raise Problem(400, f"missing_{self._field}", f"{self._field}: must be a file", param=self._field)
        kind = "image" if self._field == "image" else "file"
        content = [*({"type": kind} for _ in files), {"type": "text", "text": text_of(body.get("prompt"))}]
        return ChatRequest(
            self.endpoint,
            read_model(body) if self.endpoint != "files" or "model" in body else "auto",
            ({"role": "user", "content": content},),
            params={"max_tokens": 1},
            hints=read_hints(body),
            document={name: value for name, value in body.items() if name not in ("bot_orch", "model")},
            user=text_of(body.get("user")),
        )
