"""HTML pages: templates that escape all values, a strict content security policy, and sign-in by token."""

from __future__ import annotations

import hashlib
import html as _html
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from urllib.parse import parse_qs, quote, urlencode

from starlette.routing import BaseRoute

from bot_orch.service.problems import Problem, Reply
from bot_orch.service.web.auth import TOKEN_COOKIE, Caller, Gate, Visit
from bot_orch.service.web.endpoint import Handler, Request, RouteSpec, Site

_COOKIE_S = 12 * 3600
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HTML = "text/html; charset=utf-8"
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}


class Safe(str):
    """Text that is HTML and needs no escaping. Only :func:`html`, :func:`join` and :func:`render` make it."""

    __slots__ = ()


CONNECTION = Safe(
    '<span id="pulse" class="pulse" aria-hidden="true"></span><span id="connection" role="status"></span>'
)
"""Where the script of a page says whether the server answers."""


def escape(value: object) -> str:
    """Any value as text inside an element or a double-quoted attribute.

    Examples
    --------
    >>> escape('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return value if isinstance(value, Safe) else _html.escape(str(value), quote=True)


def html(template: str, /, **values: object) -> Safe:
    """Fill a template; values are escaped unless they are :class:`Safe`.

    Examples
    --------
    >>> html("<p>{who}</p>", who="<script>")
    '<p>&lt;script&gt;</p>'
    """
    return Safe(template.format_map({name: escape(value) for name, value in values.items()}))


def join(pieces: Iterable[Safe]) -> Safe:
    """Concatenate pieces of HTML."""
    return Safe("".join(pieces))


def moment(time_us: int, now_us: int) -> str:
    """The time of day in UTC, with the date if it differs from that of ``now_us``.

    Examples
    --------
    >>> moment(5_000_000, 9_000_000), moment(5_000_000, 100_000_000_000)
    ('00:00:05', '1970-01-01 00:00:05')
    """
    at, now = (datetime.fromtimestamp(each / 1e6, UTC) for each in (time_us, now_us))
    return at.strftime("%H:%M:%S" if at.date() == now.date() else "%Y-%m-%d %H:%M:%S")


def render(name: str, /, **values: object) -> Safe:
    """Fill a template file."""
    return html(_template(name), **values)


def reply(body: bytes, status: int = 200, *, media: str = _HTML, headers: Mapping[str, str] | None = None) -> Reply:
    """A reply with a media type, by default an HTML page."""
    pairs = {"content-type": media, **(headers or {})}
    return Reply(status, body, [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs.items()])


def redirect(path: str, **headers: str) -> Reply:
    """Redirect (303) to a path."""
    return reply(b"", 303, headers={"location": path, **headers})


def document(
    title: str,
    body: Safe,
    *,
    here: str = "",
    script: str = "",
    caller: Caller | None = None,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """A whole page around a body; ``here`` is the path of its entry in the navigation."""
    links = [("/", "Dashboard"), ("/decisions", "Decisions"), ("/queue", "Queue")]
    nav = join(
        html(
            '<a href="{path}"{current}>{name}</a>', path=path, name=name, current=_CURRENT if path == here else Safe("")
        )
        for path, name in links
    )
    leave = html(_LEAVE, name=caller.name) if caller is not None and caller.name != "local" else Safe("")
    tag = html(_SCRIPT, name=script, version=_version()) if script else Safe("")
    whole = render("base.html", title=title, nav=nav, leave=leave, script=tag, body=body, version=_version())
    return reply(whole.encode(), status, headers=headers)


_CURRENT = Safe(' aria-current="page"')
_LEAVE = '<form method="post" action="/logout"><span>{name}</span> <button class="quiet">Sign out</button></form>'
_SCRIPT = '<script type="module" src="/static/{name}?v={version}"></script>'


class HtmlFace:
    """Face of pages: forms in, HTML out."""

    people = True

    def takes_body(self, method: str) -> bool:
        """See :class:`bot_orch.service.web.endpoint.Face`."""
        return method == "POST"

    async def decode(self, raw: bytes | bytearray) -> dict[str, str]:
        """See :class:`bot_orch.service.web.endpoint.Face`."""
        return _fields(raw.decode("utf-8"))

    def query(self, written: bytes) -> dict[str, str]:
        """See :class:`bot_orch.service.web.endpoint.Face`."""
        return _fields(written.decode("latin-1"))

    def headers(self) -> list[tuple[bytes, bytes]]:
        """See :class:`bot_orch.service.web.endpoint.Face`."""
        return [(b"content-security-policy", CONTENT_POLICY.encode()), *_SECURITY]

    def problem(self, problem: Problem, method: str, path: str) -> Reply:
        """See :class:`bot_orch.service.web.endpoint.Face`."""
        if problem.status == 401 and method == "GET":
            return redirect(f"/login?next={quote(path)}")
        body = render("problem.html", status=problem.status, message=problem.message)
        return document("Problem", body, status=problem.status, headers=problem.headers)


_SECURITY = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
_FACE = HtmlFace()


def page(site: Site, handler: Handler, path: str, *, scope: str | None, method: str = "GET") -> BaseRoute:
    """The route of a page."""
    return RouteSpec(method, path, handler, scope=scope, face=lambda _: _FACE).route(site)


def common_routes(site: Site) -> list[BaseRoute]:
    """Style sheets and scripts, sign-in and sign-out."""

    async def login(request: Request) -> Reply:
        return _login(request, site.gate)

    return [
        page(site, _static, "/static/{name}", scope=None),
        page(site, _login_form, "/login", scope=None),
        page(site, login, "/login", scope=None, method="POST"),
        page(site, _logout, "/logout", scope=None, method="POST"),
    ]


async def _static(request: Request) -> Reply:
    found = _static_files().get(request.params["name"])
    if found is None:
        raise Problem(404, "unknown_path", "there is no such file")
    body, media = found
    age = "public, max-age=31536000, immutable" if request.query.get("v") == _version() else "no-cache"
    return reply(body, media=media, headers={"cache-control": age})


async def _login_form(request: Request) -> Reply:
    return _login_page(request.query.get("next", "/queue"), "")


def _login(request: Request, gate: Gate) -> Reply:
    """Set a cookie with a valid token; scripts and other sites cannot read it."""
    token, goal = request.form.get("token", "").strip(), _own_path(request.form.get("next", ""))
    try:
        visit = Visit(request.address, request.path)
        gate.admit({b"authorization": b"Bearer " + token.encode(), b"host": b"localhost"}, "queue", visit)
    except Problem as problem:
        if problem.status == 429:
            raise
        if problem.status != 403:  # valid, but without the scope for the queue
            return _login_page(goal, "This token is not known.", 401)
    cookie = f"{TOKEN_COOKIE}={quote(token, safe='')}; HttpOnly; SameSite=Strict; Path=/; Max-Age={_COOKIE_S}"
    return redirect(goal, **{"set-cookie": cookie})


async def _logout(_: Request) -> Reply:
    return redirect("/login", **{"set-cookie": f"{TOKEN_COOKIE}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0"})


def _login_page(goal: str, message: str, status: int = 200) -> Reply:
    notice = html('<p class="notice bad" role="alert">{message}</p>', message=message) if message else Safe("")
    body = render("login.html", notice=notice, next=_own_path(goal))
    return document("Sign in", body, status=status)


def _own_path(path: str) -> str:
    plain = path.isascii() and path.isprintable() and "\\" not in path
    return path if plain and path.startswith("/") and not path.startswith("//") else "/queue"


def _fields(text: str) -> dict[str, str]:
    try:
        parsed = parse_qs(text, keep_blank_values=True, max_num_fields=50)
    except ValueError:
        raise Problem(400, "malformed_form", "the form cannot be read") from None
    return {name: values[-1] for name, values in parsed.items()}


@cache
def _template(name: str) -> str:
    return (files("bot_orch.service.web") / "templates" / name).read_text(encoding="utf-8")


@cache
def _static_files() -> dict[str, tuple[bytes, str]]:
    entries = sorted((files("bot_orch.service.web") / "static").iterdir(), key=lambda entry: entry.name)
    known = [(entry, _TYPES.get(entry.name.rpartition(".")[2])) for entry in entries]
    return {entry.name: (entry.read_bytes(), media) for entry, media in known if media is not None}


@cache
def _version() -> str:
    """A digest of the static files, so that browsers can cache them indefinitely."""
    return hashlib.blake2b(b"".join(body for body, _ in _static_files().values()), digest_size=6).hexdigest()


def link(path: str, query: Mapping[str, str], **changes: object) -> str:
    """A path with a changed query; ``None`` or an empty text removes a field.

    Examples
    --------
    >>> link("/", {"last": "6h", "kind": "code"}, last=None, sort="usd")
    '/?kind=code&sort=usd'
    """
    fields = {**query, **{name: "" if value is None else str(value) for name, value in changes.items()}}
    written = urlencode({name: value for name, value in fields.items() if value != ""})
    return f"{path}?{written}" if written else path


_STEP = '<a class="button" rel="{rel}" href="{href}">{text}</a>'
_END = '<span class="button off" aria-disabled="true">{text}</span>'


def step(text: str, href: str | None, rel: str) -> Safe:
    """A link to a neighbouring page, disabled without an address."""
    return html(_END, text=text) if href is None else html(_STEP, rel=rel, text=text, href=href)
