"""``bot-orch top``: watch shares, rewards, spend and alarms of a running service."""

from __future__ import annotations

import argparse
import csv
import os
import re
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from io import StringIO
from typing import Any

from bot_orch.cli._service import DEFAULT_URL, ServiceAddress, ServiceAnswerError
from bot_orch.cli._terminal import plain, table
from bot_orch.errors import InvalidInputError

DESCRIPTION = """\
Watch a running service: each agent's share, propensity, reward, dollars, seconds, failures and circuit, what was spent
in the last day, and alarms (load that diverts calls, drift, open circuits). Ctrl-C ends it. Without a terminal it
prints frame after frame. NO_COLOR is respected.

The token, with the scope admin, is in BOT_ORCH_TOKEN or --token. A service with several routers: URL/r/NAME."""
EXAMPLES = """\
examples:
  bot-orch top
  bot-orch top http://127.0.0.1:9000 --last 15m
  bot-orch top http://127.0.0.1:9000/r/support --once"""
_BAR = 12
_HEAD = ("agent", "share", "p", "reward", "$ each", "seconds", "failed", "spent", "calls", "circuit")
_ALARMS_SHOWN = 6
_COLORS = {"bad": "31", "good": "32", "warn": "33", "dim": "2", "bold": "1"}
_LAST = re.compile(r"[1-9][0-9]{0,3}[mhd]|all")


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "url", nargs="?", default=DEFAULT_URL, metavar="URL", help=f"of the service (default: {DEFAULT_URL})"
    )
    parser.add_argument("--token", help="with the scope admin (default: BOT_ORCH_TOKEN)")
    parser.add_argument("--last", default="1h", metavar="TIME", help="range: 15m, 6h, 7d or all (default: 1h)")
    parser.add_argument("--every", type=float, default=2.0, metavar="S", help="seconds between frames (default: 2)")
    parser.add_argument("--once", action="store_true", help="print one frame and end")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if not _LAST.fullmatch(arguments.last):
        raise InvalidInputError("--last", f"is {arguments.last}", "write 15m, 6h, 7d or all")
    if not 0.1 <= arguments.every <= 3600:
        raise InvalidInputError("--every", f"is {arguments.every:g}", "pass seconds, 0.1 to 3600")
    service = ServiceAddress(arguments.url, arguments.token)
    live = sys.stdout.isatty() and not arguments.once
    color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    seen = look(service, arguments.last)
    problem = ""
    try:
        while True:
            size = shutil.get_terminal_size((110, 40))
            lines = draw(seen, size.columns, color=color)
            lines += [problem[: size.columns] if live else problem] if problem else []
            _show(_fitted(lines, size.lines - 1) if live else lines, live=live)
            if arguments.once:
                return 0
            time.sleep(arguments.every)
            try:
                seen, problem = look(service, arguments.last), ""
            except ServiceAnswerError as error:
                problem = f"{time.strftime('%H:%M:%S')}  {error}"
    except KeyboardInterrupt:
        return 0
    finally:
        if live:
            sys.stdout.write("\x1b[?25h")


def _fitted(lines: list[str], most: int) -> list[str]:
    """The frame without the agents that a low terminal has no room for; alarms stay."""
    if len(lines) <= most:
        return lines
    keep = max(most // 2, 5)
    return [*lines[:keep], *lines[len(lines) - max(most - keep, 1) :]]


def _show(lines: list[str], *, live: bool) -> None:
    """Draw over the frame before, or print it below."""
    if live:
        sys.stdout.write("\x1b[?25l\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
    else:
        sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class Glance:
    """Data of the service: agents, totals by agent over the range, the objective, drift alarms."""

    url: str
    last: str
    _: KW_ONLY
    agents: Sequence[Mapping[str, Any]]
    rows: Mapping[str, Mapping[str, str]]
    objective: Mapping[str, Any]
    alarms: Sequence[Mapping[str, Any]]


def look(service: ServiceAddress, last: str) -> Glance:
    """Query the service."""
    agents = service.document("/v1/agents")
    table = service.fetch(f"/dashboard/agents.csv?last={last}").decode("utf-8", "replace")
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
        raise service.unexpected() from None
    return glance


def draw(glance: Glance, width: int, *, color: bool = False) -> list[str]:
    """The frame as lines of at most ``width`` characters."""
    ink = _Ink(color)
    head, *rows = _table(glance, _BAR)
    if (excess := max(map(len, (head, *rows))) - width) > 0:
        head, *rows = _table(glance, max(_BAR - excess, 0))
    lines = [
        ink("bold", _cut(f"bot-orch  {plain(glance.url)}  {time.strftime('%H:%M:%S')}  last {glance.last}", width)),
        _cut(_summary(glance), width),
        "",
        ink("dim", _cut(head, width)),
    ]
    for each, row in zip(glance.agents, rows, strict=True):
        lines.append(ink("" if each["available"] else "bad", _cut(row, width)))
    lines += ["", *(ink(tone, _cut(text, width)) for tone, text in _alarms(glance))]
    return lines


def _table(glance: Glance, bar: int) -> list[str]:
    """The header and a line per agent, with bars of this width."""
    return table([_HEAD, *(_row(each, glance.rows.get(each["id"], {}), bar) for each in glance.agents)], left=2)


class _Ink:
    """Terminal colours, if supported."""

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
        plain(agent["id"])[:28],
        "#" * filled + "." * (bar - filled) + f" {100 * (share or 0.0):3.0f} %",
        _number(known("propensity")),
        _number(known("reward")),
        "-" if usd is None else f"{usd:.4f}",
        "-" if seconds is None else f"{seconds:.2f}",
        f"{failed}/{ended}",
        f"{cost or 0.0:.4f}",
        f"{int(agent['in_flight'])}/{int(agent['concurrency'])}",
        plain(str(agent["circuit"])).replace("_", " "),
    )


def _alarms(glance: Glance) -> list[tuple[str, str]]:
    """Alarms, newest first, each with a tone."""
    found = []
    for agent in glance.agents:
        if not agent["available"]:
            again = f", again in {float(agent['retry_in_s']):.0f} s" if agent.get("retry_in_s") else ""
            reason = plain(str(agent.get("reason") or "circuit " + str(agent["circuit"])))
            found.append(("bad", f"! {plain(agent['id'])} takes no calls: {reason}{again}"))
        diverted = int(glance.rows.get(agent["id"], {}).get("diverted") or 0)
        if diverted:
            kept = f"! load kept {diverted:,} calls from {plain(agent['id'])}"
            found.append(("bad", f"{kept}: raise its limits.concurrency"))
        if agent.get("draining"):
            found.append(("warn", f"! {plain(agent['id'])} is draining"))
    drifted = sorted(glance.alarms, key=lambda each: -each["t"])
    for each in drifted[:_ALARMS_SHOWN]:
        at = datetime.fromtimestamp(each["t"], UTC).strftime("%H:%M:%S")
        found.append(("warn", f"! drift: the outputs of {plain(each['agent'])} changed at {at} UTC"))
    return found or [("good", "no alarms")]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 1)] + "~"
