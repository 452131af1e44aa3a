"""Kinds of tasks: a list with counts, each linking to the dashboard filtered by that kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bot_orch.service.dashboard.buckets import OTHERS
from bot_orch.service.web.pages import Safe, html, join
from bot_orch.service.web.paging import link

_SHOWN = 24
_KIND = '<li><a href="{href}"{current}>{kind} <small>{count}</small></a></li>'
_UNNAMED = "<li><span>{kind} <small>{count}</small></span></li>"
_CURRENT = Safe(' aria-current="true"')


def kind_counts(kinds: Mapping[str, int]) -> list[tuple[str, int]]:
    """Kinds with their numbers of decisions, most frequent first.

    Examples
    --------
    >>> kind_counts({"refund": 1, "order": 2})
    [('order', 2), ('refund', 1)]
    """
    return sorted(kinds.items(), key=lambda each: (-each[1], each[0]))


def kinds_part(counts: Sequence[tuple[str, int]], query: Mapping[str, str]) -> Safe:
    """Links to all kinds; empty if tasks have no kinds."""
    chosen = query.get("kind", "")
    if not chosen and not any(name for name, _ in counts):
        return Safe("")
    shown = list(counts[:_SHOWN])
    if chosen and chosen not in dict(shown):
        shown.append((chosen, dict(counts).get(chosen, 0)))
    left = len({name for name, _ in counts} - {name for name, _ in shown})
    every = _link("all", sum(number for _, number in counts), link("/", query, kind=None), current=not chosen)
    items = [every, *(_item(name, number, query) for name, number in shown)]
    if left:
        items.append(html('<li class="muted">{n} more: see the CSV</li>', n=left))
    return join(items)


def _item(name: str, number: int, query: Mapping[str, str]) -> Safe:
    if name in ("", OTHERS):
        return html(_UNNAMED, kind=name or "(none)", count=f"{number:,}")
    return _link(name, number, link("/", query, kind=name), current=query.get("kind") == name)


def _link(text: str, number: int, href: str, *, current: bool) -> Safe:
    return html(_KIND, href=href, kind=text, count=f"{number:,}", current=_CURRENT if current else Safe(""))
