"""The time range of the dashboard, encoded in the URL so that links can be shared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime

from bot_orch.service.problems import Problem
from bot_orch.service.web.pages import Safe, html, join, link, render

_UNITS_S = {"m": 60, "h": 3600, "d": 86400}
_PRESETS = (("15m", "15 min"), ("1h", "1 h"), ("6h", "6 h"), ("24h", "24 h"), ("7d", "7 days"), ("all", "all"))
_DEFAULT = "24h"
_LAST = re.compile(r"([1-9][0-9]{0,3})([mhd])")
_FORMATS = ("%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d")
_REMEDY = "write it as 2026-01-31T14:05, in UTC"


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A range in microseconds since the epoch; ``query`` is its form in a URL."""

    from_us: int
    to_us: int
    query: Mapping[str, str]
    _: KW_ONLY
    live: bool


def parse_range(query: Mapping[str, str], now_us: int) -> TimeRange:
    """The range of an address: ``last=6h``, or ``from=2026-01-31T14:05`` and ``to=...``; the last day without both.

    Examples
    --------
    >>> day = parse_range({}, 200_000_000_000)
    >>> day.from_us, day.to_us, day.live
    (113600000000, 200000000000, True)
    >>> parse_range({"from": "1970-01-02", "to": "1970-01-02T06:00"}, 200_000_000_000).to_us
    108000000000
    """
    given = {name: query[name] for name in ("from", "to") if query.get(name)}
    if given:
        from_us = _moment("from", given["from"]) if "from" in given else 0
        to_us = _moment("to", given["to"]) if "to" in given else now_us
        if from_us >= to_us:
            raise Problem(422, "invalid_value", "the range ends before it begins: choose a later 'to'", param="to")
        return TimeRange(from_us, min(to_us, now_us), given, live="to" not in given)
    last = query.get("last") or _DEFAULT
    if last == "all":
        return TimeRange(0, now_us, {"last": last}, live=True)
    found = _LAST.fullmatch(last)
    if found is None:
        raise Problem(422, "invalid_value", "last is no duration: write it as 15m, 6h or 7d, or as all", param="last")
    return TimeRange(now_us - int(found[1]) * _UNITS_S[found[2]] * 1_000_000, now_us, {"last": last}, live=True)


def _moment(name: str, text: str) -> int:
    for written in _FORMATS:
        try:
            at = datetime.strptime(text.removesuffix("Z"), written).replace(tzinfo=UTC)
        except ValueError:
            continue
        return round(at.timestamp() * 1e6)
    raise Problem(422, "invalid_value", f"{name} is no date and time: {_REMEDY}", param=name)


_CHOICE = '<a href="{href}"{current}>{text}</a>'
_KEPT = '<input type="hidden" name="{name}" value="{value}">'
_CURRENT = Safe(' aria-current="true"')


def range_part(shown: TimeRange, query: Mapping[str, str]) -> Safe:
    """Links to the common ranges, and a form for others."""
    rest = {name: value for name, value in query.items() if name in ("agents", "kind", "sort")}
    choices = join(
        html(
            _CHOICE,
            href=link("/", rest, last=last),
            text=text,
            current=_CURRENT if shown.query.get("last") == last else Safe(""),
        )
        for last, text in _PRESETS
    )
    begin, end = shown.query.get("from", ""), shown.query.get("to", "")
    state = Safe(" open") if begin or end else Safe("")
    kept = join(html(_KEPT, name=name, value=rest[name]) for name in ("kind", "sort") if name in rest)
    return render(
        "range.html", choices=choices, begin=begin, end=end, state=state, agents=rest.get("agents", ""), kept=kept
    )
