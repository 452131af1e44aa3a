"""Links to other pages and other views of a page."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from bot_orch.service.web.pages import Safe, html


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
