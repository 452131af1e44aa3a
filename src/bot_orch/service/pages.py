"""Pages for people: HTML that escapes whatever it is given, a strict content policy, and a way in by cookie."""

from __future__ import annotations

import hashlib
import html as _html
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, quote, unquote

from starlette.routing import BaseRoute, Route

from bot_orch.service.auth import Caller
from bot_orch.service.limits import ClientGoneError, read_body
from bot_orch.service.problems import Problem, problem_of
from bot_orch.service.runtime import Runtime

__all__ = [
    "CONTENT_POLICY",
    "Handler",
    "Page",
    "PageReply",
    "PageRequest",
    "Safe",
    "common_routes",
    "document",
    "escape",
    "html",
    "join",
    "redirect",
    "render",
]

_log = logging.getLogger("bot_orch.pages")
_COOKIE = "bot_orch_token"
_COOKIE_S = 12 * 3600
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}


class Safe(str):
    """Text that is HTML already. Only :func:`html`, :func:`join` and :func:`render` make it."""

    __slots__ = ()


def escape(value: object) -> str:
    """Any value as text inside an element or a double-quoted attribute.

    Examples
    --------
    >>> escape('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return value if isinstance(value, Safe) else _html.escape(str(value), quote=True)


def html(template: str, /, **values: object) -> Safe:
    """Fill a template; every value is escaped unless it is HTML of ours.

    Examples
    --------
    >>> html("<p>{who}</p>", who="<script>")
    '<p>&lt;script&gt;</p>'
    """
    return Safe(template.format_map({name: escape(value) for name, value in values.items()}))


def join(pieces: Iterable[Safe]) -> Safe:
    """Pieces of HTML, one after the other."""
    return Safe("".join(pieces))


def render(name: str, /, **values: object) -> Safe:
    """Fill a template file."""
    return html(_template(name), **values)


@dataclass(slots=True)
class PageRequest:
    """What the handler of a page gets."""

    runtime: Runtime
    caller: Caller
    params: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str]
    path: str


@dataclass(slots=True)
class PageReply:
    """What it gives back."""

    body: bytes
    status: int = 200
    media: str = "text/html; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)


def redirect(path: str, **headers: str) -> PageReply:
    """Go there with GET."""
    return PageReply(b"", 303, headers={"location": path, **headers})


def document(
    title: str, body: Safe, *, here: str = "", script: str = "", caller: Caller | None = None, status: int = 200
) -> PageReply:
    """A whole page around a body; ``here`` is the path of its place in the navigation."""
    links = [("/", "Dashboard"), ("/queue", "Queue")]
    nav = join(
        html(
            '<a href="{path}"{current}>{name}</a>', path=path, name=name, current=_CURRENT if path == here else Safe("")
        )
        for path, name in links
    )
    leave = html(_LEAVE, name=caller.name) if caller is not None and caller.name != "local" else Safe("")
    tag = html(_SCRIPT, name=script, version=_version()) if script else Safe("")
    page = render("base.html", title=title, nav=nav, leave=leave, script=tag, body=body, version=_version())
    return PageReply(page.encode(), status)


_CURRENT = Safe(' aria-current="page"')
_LEAVE = '<form method="post" action="/logout"><span>{name}</span> <button class="quiet">Sign out</button></form>'
_SCRIPT = '<script type="module" src="/static/{name}?v={version}"></script>'

Handler = Callable[[PageRequest], Awaitable[PageReply]]


class Page:
    """A page as an ASGI application.

    Parameters
    ----------
    runtime
        The service.
    handler
        What to show or do.
    route
        Its path, for metrics.
    scope
        What the token in the cookie (or the header) must allow; ``None`` for nothing.
    """

    def __init__(self, runtime: Runtime, handler: Handler, route: str, scope: str | None) -> None:
        self._runtime, self._handler, self._route, self._scope = runtime, handler, route, scope

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        started = time.perf_counter()
        headers: dict[bytes, bytes] = dict(scope["headers"])
        status = 499
        try:
            reply = await self._answer(scope, headers, receive)
            status = reply.status
            await _send(reply, send)
        except ClientGoneError:
            pass
        finally:
            self._runtime.metrics.request(self._route, status, time.perf_counter() - started)

    async def _answer(self, scope: Any, headers: dict[bytes, bytes], receive: Any) -> PageReply:
        try:
            caller = self._runtime.gate.admit(_with_cookie(headers), self._scope)
            form: dict[str, str] = {}
            if scope["method"] == "POST":
                _check_origin(headers)
                body = await read_body(headers, receive, self._runtime.config.limits)
                form = _fields(body.decode("utf-8"))
            query = _fields(scope.get("query_string", b"").decode("latin-1"))
            params = scope.get("path_params", {})
            request = PageRequest(self._runtime, caller, params, query, form, scope["path"])
            return await self._handler(request)
        except ClientGoneError:
            raise
        except Exception as error:  # the last line of defence: nothing leaves without an answer
            return self._failed(error, scope)

    def _failed(self, error: Exception, scope: Any) -> PageReply:
        problem = problem_of(error)
        if problem is None:
            _log.error("defect", exc_info=error, extra={"fields": {"route": self._route}})
            problem = Problem(500, "internal", "the service failed; the log has details")
        if problem.status == 401 and scope["method"] == "GET":
            return redirect(f"/login?next={quote(scope['path'])}")
        body = render("problem.html", status=problem.status, message=problem.message)
        return document("Problem", body, status=problem.status)


def common_routes(runtime: Runtime) -> list[BaseRoute]:
    """Style, scripts, and the way in for people who have a token."""
    return [
        Route("/static/{name}", Page(runtime, _static, "/static", None), methods=["GET"]),
        Route("/login", Page(runtime, _login_form, "/login", None), methods=["GET"]),
        Route("/login", Page(runtime, _login, "/login", None), methods=["POST"]),
        Route("/logout", Page(runtime, _logout, "/logout", None), methods=["POST"]),
    ]


async def _static(request: PageRequest) -> PageReply:
    found = _static_files().get(request.params["name"])
    if found is None:
        raise Problem(404, "unknown_path", "there is no such file")
    body, media = found
    age = "public, max-age=31536000, immutable" if request.query.get("v") == _version() else "no-cache"
    return PageReply(body, media=media, headers={"cache-control": age})


async def _login_form(request: PageRequest) -> PageReply:
    return _login_page(request.query.get("next", "/queue"), "")


async def _login(request: PageRequest) -> PageReply:
    """Put a valid token into a cookie that scripts and other sites cannot read."""
    token, goal = request.form.get("token", "").strip(), _own_path(request.form.get("next", ""))
    try:
        request.runtime.gate.admit({b"authorization": b"Bearer " + token.encode(), b"host": b"localhost"}, "queue")
    except Problem as problem:
        if problem.status != 403:  # a token for something else is a token
            return _login_page(goal, "This token is not known.", 401)
    cookie = f"{_COOKIE}={quote(token, safe='')}; HttpOnly; SameSite=Strict; Path=/; Max-Age={_COOKIE_S}"
    return redirect(goal, **{"set-cookie": cookie})


async def _logout(_: PageRequest) -> PageReply:
    return redirect("/login", **{"set-cookie": f"{_COOKIE}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0"})


def _login_page(goal: str, message: str, status: int = 200) -> PageReply:
    notice = html('<p class="notice bad" role="alert">{message}</p>', message=message) if message else Safe("")
    body = render("login.html", notice=notice, next=_own_path(goal))
    return document("Sign in", body, status=status)


def _own_path(path: str) -> str:
    plain = path.isascii() and path.isprintable() and "\\" not in path
    return path if plain and path.startswith("/") and not path.startswith("//") else "/queue"


def _with_cookie(headers: dict[bytes, bytes]) -> Mapping[bytes, bytes]:
    """The token in the cookie counts like one in the header."""
    if b"authorization" in headers:
        return headers
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == _COOKIE and value:
            return {**headers, b"authorization": b"Bearer " + unquote(value).encode()}
    return headers


def _check_origin(headers: Mapping[bytes, bytes]) -> None:
    """A form of another site must not act for a person who is signed in here."""
    origin = headers.get(b"origin", b"").decode("latin-1").partition("://")[2]
    if not origin or origin != headers.get(b"host", b"").decode("latin-1"):
        raise Problem(403, "wrong_origin", "this form was not sent from a page of this service")


def _fields(text: str) -> dict[str, str]:
    try:
        parsed = parse_qs(text, keep_blank_values=True, max_num_fields=50)
    except ValueError:
        raise Problem(400, "malformed_form", "the form cannot be read") from None
    return {name: values[-1] for name, values in parsed.items()}


async def _send(reply: PageReply, send: Any) -> None:
    headers = {
        "content-type": reply.media,
        "content-security-policy": CONTENT_POLICY,
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "same-origin",
        "cache-control": "no-store",
        "content-length": str(len(reply.body)),
        **reply.headers,
    }
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": pairs})
    await send({"type": "http.response.body", "body": reply.body})


@cache
def _template(name: str) -> str:
    return (files("bot_orch.service") / "templates" / name).read_text(encoding="utf-8")


@cache
def _static_files() -> dict[str, tuple[bytes, str]]:
    entries = sorted((files("bot_orch.service") / "static").iterdir(), key=lambda entry: entry.name)
    known = [(entry, _TYPES.get(entry.name.rpartition(".")[2])) for entry in entries]
    return {entry.name: (entry.read_bytes(), media) for entry, media in known if media is not None}


@cache
def _version() -> str:
    """Changes with the files, so that a browser may keep them for ever."""
    return hashlib.blake2b(b"".join(body for body, _ in _static_files().values()), digest_size=6).hexdigest()
