"""Pagination: the entries of a page, and links to the other pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Generic, TypeVar
from urllib.parse import urlencode

from bot_orch.service.web.pages import Safe, html

_T = TypeVar("_T")
_MOST_PAGES = 1_000_000


@dataclass(frozen=True, slots=True)
class Paged(Generic[_T]):
    """One page of a list; ``total`` counts the entries of all pages."""

    entries: list[_T]
    number: int
    pages: int
    _: KW_ONLY
    total: int


def paged(entries: Sequence[_T], number: int, size: int) -> Paged[_T]:
    """Page ``number`` (from 1) of a list; the last one if there are fewer.

    Examples
    --------
    >>> paged("abcde", 2, 2)
    Paged(entries=['c', 'd'], number=2, pages=3, total=5)
    >>> paged("", 7, 2)
    Paged(entries=[], number=1, pages=1, total=0)
    """
    pages = max(1, -(-len(entries) // size))
    number = min(number, pages)
    return Paged(list(entries[(number - 1) * size : number * size]), number, pages, total=len(entries))


def page_number(query: Mapping[str, str], name: str) -> int:
    """The page number in a query string; 1 if missing or invalid."""
    text = query.get(name, "")
    return min(max(1, int(text)), _MOST_PAGES) if text.isdecimal() and text.isascii() and len(text) < 10 else 1


def link(path: str, query: Mapping[str, str], **changes: object) -> str:
    """A path with a changed query; ``None`` or an empty text removes a field.

    Examples
    --------
    >>> link("/queue", {"page": "2", "closed": "3"}, page=None, closed=4)
    '/queue?closed=4'
    """
    fields = {**query, **{name: "" if value is None else str(value) for name, value in changes.items()}}
    written = urlencode({name: value for name, value in fields.items() if value != ""})
    return f"{path}?{written}" if written else path


_PAGER = '<nav class="pager" aria-label="{label}">{back}<span>Page {number} of {pages}</span>{on}</nav>'
_STEP = '<a class="button" rel="{rel}" href="{href}">{text}</a>'
_END = '<span class="button off" aria-disabled="true">{text}</span>'


def step(text: str, href: str | None, rel: str) -> Safe:
    """A link to a neighbouring page, disabled without an address."""
    return html(_END, text=text) if href is None else html(_STEP, rel=rel, text=text, href=href)


def pager(
    shown: Paged[_T],
    path: str,
    query: Mapping[str, str],
    *,
    name: str,
    label: str,
    words: tuple[str, str] = ("Newer", "Older"),
) -> Safe:
    """Links to the neighbouring pages; empty if there is only one page."""
    if shown.pages == 1:
        return Safe("")

    def address(number: int) -> str | None:
        inside = 1 <= number <= shown.pages
        return link(path, query, **{name: number if number > 1 else None}) if inside else None

    back, on = step(words[0], address(shown.number - 1), "prev"), step(words[1], address(shown.number + 1), "next")
    return html(_PAGER, label=label, back=back, number=shown.number, pages=shown.pages, on=on)
