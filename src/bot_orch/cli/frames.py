"""One frame of ``bot-orch top``: what the service says, as lines of text."""

from __future__ import annotations

import csv
import time
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from io import StringIO
from typing import Any

from bot_orch.cli.asking import ServiceAddress

__all__ = ["Glance", "draw", "look"]

_BAR = 12
_HEAD = ("agent", "share", "p", "reward", "$ each", "seconds", "failed", "spent", "calls", "circuit")
_ALARMS_SHOWN = 6
_COLORS = {"bad": "31", "good": "32", "warn": "33", "dim": "2", "bold": "1"}


@dataclass(frozen=True, slots=True)
class Glance:
    """What the service said: agents, sums by agent over the range, the objective, drift alarms."""

    url: str
    last: str
    _: KW_ONLY
    agents: Sequence[Mapping[str, Any]]
    rows: Mapping[str, Mapping[str, str]]
    objective: Mapping[str, Any]
    alarms: Sequence[Mapping[str, Any]]


def look(service: ServiceAddress, last: str) -> Glance:
    """Ask the service."""
    agents = service.document("/v1/agents")
    table = service.get(f"/dashboard/agents.csv?last={last}").decode("utf-8", "replace")
    objective = service.document("/v1/objective")
    live = service.document(f"/dashboard/live?last={last}")
    try:
        rows = {row["agent"]: row for row in csv.DictReader(StringIO(table))}
        glance = Glance(
            service.url,
            last,
            agents=[{"id": str(each["id"]), **each} for each in agents],
            rows=rows,
            objective=dict(objective),
            alarms=[{"t": float(each["t"]), "agent": str(each["agent"])} for each in live["charts"]["alarms"]],
        )
        draw(glance, 80)  # raises if something is not as it should be
    except (KeyError, TypeError, ValueError):
        raise service.strange() from None
    return glance


def draw(glance: Glance, width: int, *, color: bool = False) -> list[str]:
    """The frame as lines of at most ``width`` characters."""
    ink = _Ink(color)
    rows, widths = _table(glance, _BAR)
    if (excess := sum(widths) + 2 * (len(widths) - 1) - width) > 0:
        rows, widths = _table(glance, max(_BAR - excess, 0))
    lines = [
        ink("bold", _cut(f"bot-orch  {_plain(glance.url)}  {time.strftime('%H:%M:%S')}  last {glance.last}", width)),
        _cut(_summary(glance), width),
        "",
        ink("dim", _cut(_joined(_HEAD, widths), width)),
    ]
    for each, row in zip(glance.agents, rows, strict=True):
        line = _cut(_joined(row, widths), width)
        tone = "" if each["available"] else "bad"
        lines.append(ink(tone, line))
    lines += ["", *(ink(tone, _cut(text, width)) for tone, text in _alarms(glance))]
    return lines


def _table(glance: Glance, bar: int) -> tuple[list[tuple[str, ...]], list[int]]:
    """The rows of the agents, with bars of this width, and the widths of the columns."""
    rows = [_row(each, glance.rows.get(each["id"], {}), bar) for each in glance.agents]
    return rows, [max(map(len, column)) for column in zip(_HEAD, *rows, strict=True)]


class _Ink:
    """Colours, if there are any."""

    def __init__(self, color: bool) -> None:
        self._color = color

    def __call__(self, tone: str, text: str) -> str:
        return f"\x1b[{_COLORS[tone]}m{text}\x1b[0m" if self._color and tone else text


def _summary(glance: Glance) -> str:
    rows, objective = glance.rows.values(), glance.objective
    decisions = sum(int(row["decisions"] or 0) for row in rows)
    rewards = [(float(row["reward"]), int(row["decisions"])) for row in rows if row["reward"]]
    mean = sum(r * n for r, n in rewards) / max(sum(n for _, n in rewards), 1) if rewards else None
    spent, daily = float(objective["spent_last_day_usd"]), objective.get("usd_per_day")
    of = f" of ${float(daily):,.2f}" if daily is not None else ""
    said = f"{decisions:,} decisions   reward {_number(mean)}   spent ${spent:,.4f}{of} in 24 h"
    active = [f"{each['name']} {float(each['multiplier']):.3g}" for each in objective.get("limits", ())]
    return said + (f"   multipliers: {', '.join(active)}" if active else "")


def _row(agent: Mapping[str, Any], sums: Mapping[str, str], bar: int) -> tuple[str, ...]:
    def known(name: str) -> float | None:
        return float(sums[name]) if sums.get(name) else None

    share, usd, seconds, cost = known("share"), known("usd"), known("seconds"), known("cost_usd")
    filled = round(bar * min(max(share or 0.0, 0.0), 1.0))
    failed, ended = sums.get("failed") or "0", sums.get("ended") or "0"
    return (
        _plain(agent["id"])[:28],
        "#" * filled + "." * (bar - filled) + f" {100 * (share or 0.0):3.0f} %",
        _number(known("propensity")),
        _number(known("reward")),
        "-" if usd is None else f"{usd:.4f}",
        "-" if seconds is None else f"{seconds:.2f}",
        f"{failed}/{ended}",
        f"{cost or 0.0:.4f}",
        f"{int(agent['in_flight'])}/{int(agent['concurrency'])}",
        _plain(str(agent["circuit"])).replace("_", " "),
    )


def _alarms(glance: Glance) -> list[tuple[str, str]]:
    """Alarms, the newest first, with a tone each."""
    found = []
    for agent in glance.agents:
        if not agent["available"]:
            again = f", again in {float(agent['retry_in_s']):.0f} s" if agent.get("retry_in_s") else ""
            reason = _plain(str(agent.get("reason") or "circuit " + str(agent["circuit"])))
            found.append(("bad", f"! {_plain(agent['id'])} takes no calls: {reason}{again}"))
        diverted = int(glance.rows.get(agent["id"], {}).get("diverted") or 0)
        if diverted:
            kept = f"! load kept {diverted:,} calls from {_plain(agent['id'])}"
            found.append(("bad", f"{kept}: raise its limits.concurrency"))
        if agent.get("draining"):
            found.append(("warn", f"! {_plain(agent['id'])} is draining"))
    drifted = sorted(glance.alarms, key=lambda each: -each["t"])
    for each in drifted[:_ALARMS_SHOWN]:
        at = datetime.fromtimestamp(each["t"], UTC).strftime("%H:%M:%S")
        found.append(("warn", f"! drift: the outputs of {_plain(each['agent'])} changed at {at} UTC"))
    return found or [("good", "no alarms")]


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (
        cell.ljust(w) if place < 2 else cell.rjust(w) for place, (cell, w) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join((first, *rest)).rstrip()


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 1)] + "~"


def _plain(text: str) -> str:
    """Text of others without control characters of terminals."""
    return "".join(each if each.isprintable() else "?" for each in text)
