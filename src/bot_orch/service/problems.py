"""Errors and their HTTP answers, all in the format of OpenAI's API."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bot_orch.errors import BotOrchError, InvalidInputError, UnknownAgentError
from bot_orch.log.stores.postgres.connect import LogUnavailableError

_encoder = msgspec.json.Encoder()
_JSON = (b"content-type", b"application/json")
_LATER = frozenset({429, 503})


class StorageError(BotOrchError):
    """The log cannot be written at the moment; failed writes were never acknowledged."""


class Problem(BotOrchError):  # noqa: N818  an answer, not always an error
    """An error answer to a request.

    Parameters
    ----------
    status
        HTTP status. 429 and 503 have a ``retry-after``, of a second unless ``headers`` says otherwise.
    code
        Machine-readable code.
    message
        Text for people; it never repeats prompts or secrets.
    param
        The offending field.
    headers
        Headers of the answer.
    details
        More for programs; ``None`` for nothing.
    kind
        The ``type`` of the error; by default it follows from the status.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: dict[str, str] | None = None,
        details: dict[str, Any] | None = None,
        kind: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.param, self.headers, self.details = param, dict(headers or {}), details
        self.kind = kind
        if status in _LATER:
            self.headers.setdefault("retry-after", "1")

    def document(self) -> dict[str, Any]:
        """The body as a JSON-compatible object."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        kind = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}.get(self.status, kind)
        error = {"message": self.message, "type": self.kind or kind, "param": self.param, "code": self.code}
        return {"error": error if self.details is None else {**error, "details": self.details}}


@dataclass(slots=True)
class Reply:
    """Status, body and headers of an answer."""

    status: int
    body: bytes
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


def json_reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    """A reply with ``value`` encoded as JSON."""
    extra = [(name.lower().encode("latin-1"), _ascii(text)) for name, text in (headers or {}).items()]
    return Reply(status, _encoder.encode(value), [_JSON, *extra])


def problem_reply(problem: Problem) -> Reply:
    """A problem as a reply."""
    return json_reply(problem.document(), problem.status, problem.headers)


def problem_of(error: Exception) -> Problem | None:
    """Map an expected exception to a problem; ``None`` for unexpected ones."""
    match error:
        case Problem():
            return error
        case StorageError() | LogUnavailableError():
            return Problem(503, "storage_unavailable", str(error), headers={"retry-after": "1"})
        case UnknownAgentError():
            return Problem(422, "unknown_agent", str(error), param=error.field)
        case InvalidInputError():
            return Problem(422, "invalid_value", str(error), param=error.field)
        case msgspec.ValidationError():
            return _invalid(str(error))
        case OverflowError():
            return Problem(422, "invalid_value", "the body holds a number that is too large; send finite numbers")
        case msgspec.DecodeError():
            return _malformed(str(error))
        case UnicodeDecodeError():
            return _malformed("it is not UTF-8")
        case RecursionError():
            return Problem(400, "too_deep", "the body is nested too deeply; send flatter JSON")
    return None


def _invalid(said: str) -> Problem:
    """The problem for a body of the wrong shape; decoder messages name types and fields, never values."""
    what, _, where = said.partition(" - at ")
    field = where.rpartition("$")[2].rstrip("`").lstrip(".")
    unknown = re.search(r"unknown field `(.{1,80})`", what)
    if unknown is not None:
        name = f"{field}.{unknown[1]}".lstrip(".")
        message = f"{name}: is not a field; see those there are in /openapi.json"
        return Problem(422, "invalid_body", message, param=field or name)
    needed = re.search(r"missing required field `(.+)`", what)
    if needed is not None:
        field = f"{field}.{needed[1]}".lstrip(".")
        return Problem(422, "invalid_body", f"{field}: is missing; add it", param=field)
    what = what[:1].lower() + what[1:]
    message = f"{field or 'body'}: {what}; see its schema in /openapi.json"
    return Problem(422, "invalid_body", message, param=field or None)


def _malformed(said: str) -> Problem:
    detail = said.removeprefix("JSON is malformed: ")
    return Problem(400, "malformed_json", f"the body is not JSON that can be read ({detail}); send one JSON object")


def _ascii(text: str) -> bytes:
    """A header value: printable ASCII only, whatever an agent is called."""
    return "".join(each if " " <= each <= "~" else "?" for each in text).encode("ascii")
