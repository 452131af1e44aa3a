"""Models behind an OpenAI-compatible endpoint: chat, and other interfaces that the agent declares."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from bot_orch.agents.address import check_url
from bot_orch.agents.base import BETA, CallFailure, CallReply, CallRequest, Chunk
from bot_orch.agents.endings import Ending
from bot_orch.agents.limits import Limits
from bot_orch.agents.rejections import ending_of, read_error
from bot_orch.agents.replies import PATHS, Accumulator, accumulate, asks_for_counts, read_reply
from bot_orch.agents.tokens import prompt_tokens
from bot_orch.agents.writing import encode
from bot_orch.errors import InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    import aiohttp

    from bot_orch.agents.connection import Lookup

_OURS = frozenset({"model", "messages", "stream"})
_ERROR_BODY_BYTES = 16_384
_ERROR_BODY_S = 1.0
_DRAIN_S = 0.05
_END_MARK_S = 5.0  # for token counts and [DONE], once every choice has its finish reason
_IN_PIECES_BYTES = 500_000  # a larger body is written in pieces, so that it does not block the event loop
_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)  # a trailing \r may be half of \r\n: wait for more
_INSTRUCTIONS = {"responses": "instructions", "messages": "system"}
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_NO_PARAMS: Mapping[str, Any] = MappingProxyType({})


class Place(NamedTuple):
    """One of several endpoints with the same model; what it leaves out is that of the agent."""

    base_url: str
    api_key: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class OpenAISettings:
    """Connection settings of an endpoint.

    Parameters
    ----------
    base_url
        URL including ``/v1``; from configuration only.
    model
        Model name at the endpoint.
    api_key, headers
        Sent with every call, excluded from ``repr``.
    system, params
        Make a variant of the model: a prefix of the system's instructions, and parameters that count before those of
        the caller.
    check_model
        Whether an answer that names another model than the one asked for, or than before, is an alarm and starts the
        agent afresh (see :mod:`bot_orch.agents.served`). Disable it for names behind which an endpoint chooses models.
    places
        Several endpoints with the same model instead of one: see :class:`bot_orch.agents.endpoints.EndpointsRunner`.
    """

    base_url: str = ""
    model: str = ""
    api_key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=lambda: _NO_HEADERS, repr=False)
    system: str = ""
    params: Mapping[str, Any] = field(default_factory=lambda: _NO_PARAMS)
    check_model: bool = True
    places: tuple[Place, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.base_url) == bool(self.places):
            raise InvalidInputError("base_url", "or endpoints must be given, and not both", "keep exactly one")
        for number, each in enumerate(self.places):
            _check_base(each.base_url, f"endpoints[{number}].base_url")
        if self.base_url:
            _check_base(self.base_url)
        if not self.model:
            raise InvalidInputError("model", "is empty", "name the model as the endpoint knows it")
        for value in (self.api_key, *self.headers, *self.headers.values()):
            if not (value.isprintable() and value.isascii()):
                raise InvalidInputError("api_key", "holds a line break or an odd character", "check the environment")

    def url(self, endpoint: str = "chat") -> str:
        """URL of an interface."""
        return self.below(PATHS[endpoint])

    def below(self, path: str) -> str:
        """URL of a path below the base URL, which may have a query, too."""
        base, _, query = check_url(self.base_url).partition("?")
        path, _, more = path.partition("?")
        query = "&".join(filter(None, (query, more)))
        return f"{base.rstrip('/')}{path}{'?' if query else ''}{query}"


def _check_base(url: str, field: str = "base_url") -> None:
    """Raise an error for an invalid URL, or one that already contains the path of an interface."""
    base = check_url(url, field=field).partition("?")[0]
    path = max((each for each in PATHS.values() if base.endswith(each)), key=len, default="")
    if path:
        raise InvalidInputError(field, f"ends in {path}, which is added to it", f"write {base.removesuffix(path)}")


class OpenAIRunner:
    """Runner that calls the endpoint over persistent connections."""

    def __init__(
        self,
        settings: OpenAISettings,
        limits: Limits | None = None,
        lookup: Lookup | None = None,
        *,
        interfaces: Collection[str] = ("chat",),
    ) -> None:
        self._settings = settings
        self._limits = limits or Limits()
        self._lookup = lookup or _connection().lookup  # fails early if aiohttp is missing
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._url, self._interfaces = settings.url(), frozenset(interfaces)
        self._headers = {"Content-Type": "application/json", **settings.headers}
        if settings.api_key:
            self._headers["Authorization"] = f"Bearer {settings.api_key}"

    @property
    def models(self) -> tuple[str, ...]:
        """The models that answers may name; empty for any."""
        return (self._settings.model,) if self._settings.check_model else ()

    async def call(self, request: CallRequest) -> CallReply:
        """Call without streaming."""
        request = self._prepared(request)
        payload = await self._payload(request, stream=False)
        now = asyncio.get_running_loop().time
        begun = now()
        exchange = self._exchange(payload, request.headers, url=self._at(request))
        async with exchange as (response, pieces):
            first_byte_s = now() - begun
            data = b"".join([piece async for piece in pieces])
        reply = self._read(data, response.status, request)
        return replace(reply, elapsed_s=now() - begun, first_byte_s=first_byte_s)

    async def stream(self, request: CallRequest) -> AsyncGenerator[Chunk, None]:
        """Call with streaming. The answer is complete after ``[DONE]`` or a finish reason in every choice."""
        request = self._prepared(request)
        payload, answer = await self._payload(request, stream=True), self._accumulator(request)
        exchange = self._exchange(payload, request.headers, url=self._at(request), accept="text/event-stream")
        async with exchange as (response, pieces):
            if response.content_type != "text/event-stream":
                raise CallFailure(Ending.MALFORMED, "the answer is not an event stream", status=response.status)
            reader = EventReader()
            async for piece in _until_finished(pieces, answer):
                for event in reader.feed(piece):
                    chunk = answer.add(event)
                    if chunk is not None:
                        yield chunk
                if answer.done:
                    await _drain(pieces)
                    break
        yield Chunk(reply=answer.reply(response.status), endpoint=request.endpoint)

    @asynccontextmanager
    async def passed(
        self, method: str, target: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        """Send a request for ``/v1/...`` as it came, with the agent's key; yields the answer, whatever its status."""
        connection, url = _connection(), self._settings.below(target.removeprefix("/v1"))
        own = {name: value for name, value in self._headers.items() if name != "Content-Type"}
        with connection.translated():
            where = connection.as_it_is(url)
            data = io.BytesIO(body) if body else None
            response = await self._open().request(
                method, where, data=data, headers={**headers, **own}, allow_redirects=False
            )
            try:
                yield response
            finally:
                if not response.content.at_eof():  # unread data: the connection cannot be reused
                    response.close()

    async def close(self) -> None:
        """Close all connections; calls in progress end."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _payload(self, request: CallRequest, *, stream: bool) -> bytes:
        document = self._document(request)
        if stream:
            document["stream"] = True
            options = document.get("stream_options") or {}
            if request.endpoint == "chat" and isinstance(options, Mapping):  # needed for the cost
                document["stream_options"] = {**options, "include_usage": True}
        else:
            document.pop("stream_options", None)
        return await encode(document, self._limits.max_request_bytes)

    def _prepared(self, request: CallRequest) -> CallRequest:
        """The request of a variant; as a chat, unless the endpoint has the requested interface."""
        native = request.endpoint in self._interfaces and request.document is not None
        if not native and (request.endpoint != "chat" or request.document is not None):
            headers = {name: value for name, value in request.headers.items() if name != BETA}
            request = replace(request, endpoint="chat", document=None, headers=headers)
        return as_variant(request, self._settings.system, self._settings.params)

    def _document(self, request: CallRequest) -> dict[str, Any]:
        if request.document is not None:
            return {**request.document, "model": self._settings.model}
        params = {name: value for name, value in request.params.items() if name not in _OURS}
        return {"model": self._settings.model, "messages": list(map(dict, request.chat())), **params}

    def _at(self, request: CallRequest) -> str:
        return self._url if request.endpoint == "chat" else self._settings.url(request.endpoint)

    def _read(self, data: bytes, status: int, request: CallRequest) -> CallReply:
        return read_reply(request.endpoint, data, status)

    def _accumulator(self, request: CallRequest) -> Accumulator:
        counts = asks_for_counts(request.params)
        return accumulate(request.endpoint, counts=counts, prompt_tokens=prompt_tokens(request))

    @asynccontextmanager
    async def _exchange(
        self,
        payload: bytes,
        passed_on: Mapping[str, str],
        *,
        url: str,
        accept: str = "application/json",
    ) -> AsyncGenerator[tuple[aiohttp.ClientResponse, AsyncGenerator[bytes, None]], None]:
        """Send the request, check the status and yield the body; always release the connection."""
        connection = _connection()
        session = self._open()
        with connection.translated():
            headers = {**passed_on, **self._headers, "Accept": accept}
            data = payload if len(payload) < _IN_PIECES_BYTES else io.BytesIO(payload)
            response = await session.post(url, data=data, headers=headers, allow_redirects=False)
            try:
                await _check_status(response, self._settings.api_key)
                async with aclosing(connection.body(response, self._limits.max_reply_bytes)) as pieces:
                    yield response, pieces
            finally:
                if not response.content.at_eof():  # unread data: the connection cannot be reused
                    response.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise CallFailure(Ending.SHUTDOWN, started=False)
        if self._session is None:
            self._session = _connection().open_session(lookup=self._lookup)
        return self._session


async def _until_finished(pieces: AsyncGenerator[bytes, None], answer: Accumulator) -> AsyncGenerator[bytes, None]:
    """The pieces of a stream. A finished answer stays finished if the connection then breaks, or falls silent."""
    while True:
        try:
            async with asyncio.timeout(_END_MARK_S if answer.finished else None):
                piece = await anext(pieces, None)
        except TimeoutError:
            return
        except CallFailure:
            if answer.finished:
                return
            raise
        if piece is None:
            return
        yield piece


async def _drain(pieces: AsyncGenerator[bytes, None]) -> None:
    """Read the rest of the body if it arrives promptly, so that the connection can be reused."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_S):
            async for _ in pieces:
                pass


async def _check_status(response: aiohttp.ClientResponse, secret: str) -> None:
    """Raise for any status but 2xx; the key is removed from the error document."""
    status = response.status
    if 200 <= status < 300:
        return
    if status < 400:
        raise CallFailure(Ending.REDIRECTED, status=status)
    raw = await _error_body(response)
    if raw is not None and secret:
        raw = raw.replace(secret.encode(), b"***")
    label, after = ending_of(status, read_error(raw)), retry_after_s(response.headers)
    started = label is not Ending.RATE_LIMITED
    raise CallFailure(label, f"status {status}", started=started, status=status, retry_after_s=after, raw=raw)


async def _error_body(response: aiohttp.ClientResponse) -> bytes | None:
    """The beginning of the error document, or ``None`` if it does not arrive promptly."""
    try:
        async with asyncio.timeout(_ERROR_BODY_S):
            return await response.content.read(_ERROR_BODY_BYTES)
    except (TimeoutError, OSError, _connection().aiohttp.ClientError):
        return None


def _connection() -> Any:
    try:
        from bot_orch.agents import connection
    except ImportError:
        raise MissingExtraError("an agent of kind openai", "service") from None
    return connection


class EventReader:
    r"""Converts a byte stream to the data of complete events; comments and other fields are skipped.

    Examples
    --------
    >>> reader = EventReader()
    >>> reader.feed(b"data: a\ndata: b\r\n\r\n: ping\n\ndata: c"), reader.feed(b"d\n\n")
    ([b'a\nb'], [b'cd'])
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # pieces of an unfinished line
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes; returns the data of the events they complete."""
        self._rest.append(data)
        if not (b"\n" in data or b"\r" in data or self._rest[0].endswith(b"\r")):
            return []
        *lines, rest = _LINE_END.split(b"".join(self._rest))
        self._rest = [rest]
        events: list[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif line == b"data":
                self._data.append(b"")
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds from ``retry-after-ms`` or ``Retry-After`` (a number or a date); ``None`` if there is neither.

    Examples
    --------
    >>> retry_after_s({"Retry-After": "7"}), retry_after_s({"retry-after-ms": "1500"}), retry_after_s({})
    (7.0, 1.5, None)
    >>> retry_after_s({"Retry-After": "Fri, 01 Jan 2027 00:00:30 GMT"}, datetime(2027, 1, 1, tzinfo=UTC))
    30.0
    """
    known = {name.lower(): value.strip() for name, value in headers.items()}
    milliseconds, seconds = _number(known.get("retry-after-ms", "")), _number(known.get("retry-after", ""))
    if milliseconds is not None:
        return milliseconds / 1e3
    if seconds is not None or "retry-after" not in known:
        return seconds
    try:
        until = parsedate_to_datetime(known["retry-after"])
    except (ValueError, TypeError, OverflowError):
        return None
    until = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    return max(0.0, (until - (now or datetime.now(UTC))).total_seconds())


def _number(text: str) -> float | None:
    whole, _, part = text.partition(".")
    plain = text.isascii() and whole.isdecimal() and (not part or part.isdecimal())
    return float(text) if plain and len(text) < 12 else None


def as_variant(request: CallRequest, system: str, params: Mapping[str, Any]) -> CallRequest:
    """The request with a variant's system prefix and parameters, which override the caller's.

    Examples
    --------
    >>> asked = CallRequest("r-1", text="2 + 2?", params={"temperature": 1.0, "seed": 7})
    >>> variant = as_variant(asked, "Be brief.", {"temperature": 0.2})
    >>> variant.chat()[0], dict(variant.params)
    ({'role': 'system', 'content': 'Be brief.'}, {'temperature': 0.2, 'seed': 7})
    """
    if not system and not params:
        return request
    messages = _with_prefix(request.chat(), system) if system else request.chat()
    document = request.document
    if document is not None:
        document = {**document, **params}
        field = _INSTRUCTIONS.get(request.endpoint)
        if field is not None and system:
            document[field] = _joined(system, document.get(field))
    return replace(request, messages=tuple(messages), params={**request.params, **params}, document=document)


def _with_prefix(messages: tuple[Mapping[str, Any], ...], system: str) -> list[Mapping[str, Any]]:
    first = messages[0]
    if first.get("role") in ("system", "developer") and isinstance(first.get("content"), str):
        return [{**first, "content": _joined(system, first["content"])}, *messages[1:]]
    return [{"role": "system", "content": system}, *messages]


def _joined(system: str, own: Any) -> Any:
    if isinstance(own, list):
        return [{"type": "text", "text": system}, *own]
    return f"{system}\n\n{own}" if isinstance(own, str) and own else system
