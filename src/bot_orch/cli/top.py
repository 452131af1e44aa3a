"""``bot-orch top``: a live view of a running service in the terminal."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import time
from typing import Any

from bot_orch.errors import InvalidInputError

_DESCRIPTION = """\
Watch a running service: each agent's share, propensity, reward, dollars, seconds, failures and circuit, what was spent
in the last day, and alarms (load that diverts calls, drift, open circuits). Ctrl-C ends it. Without a terminal it
prints frame after frame. NO_COLOR is respected.

The token, with the scope admin, is in BOT_ORCH_TOKEN or --token. A service with several routers: URL/r/NAME."""
_EXAMPLE = """\
examples:
  bot-orch top
  bot-orch top http://127.0.0.1:9000 --last 15m
  bot-orch top http://127.0.0.1:9000/r/support --once"""
_LAST = re.compile(r"[1-9][0-9]{0,3}[mhd]|all")


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "top",
        help="watch shares, rewards, spend and alarms of a running service",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = os.environ.get("BOT_ORCH_URL", "http://127.0.0.1:8080")
    parser.add_argument("url", nargs="?", default=default, metavar="URL", help=f"of the service (default: {default})")
    parser.add_argument("--token", help="with the scope admin (default: BOT_ORCH_TOKEN)")
    parser.add_argument("--last", default="1h", metavar="TIME", help="range: 15m, 6h, 7d or all (default: 1h)")
    parser.add_argument("--every", type=float, default=2.0, metavar="S", help="seconds between frames (default: 2)")
    parser.add_argument("--once", action="store_true", help="print one frame and end")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.cli.asking import ServiceAddress, ServiceAnswerError
    from bot_orch.cli.frames import draw, look

    if not _LAST.fullmatch(arguments.last):
        raise InvalidInputError("--last", f"is {arguments.last}", "write 15m, 6h, 7d or all")
    if not 0.1 <= arguments.every <= 3600:
        raise InvalidInputError("--every", f"is {arguments.every:g}", "pass seconds, 0.1 to 3600")
    service = ServiceAddress(arguments.url, arguments.token or os.environ.get("BOT_ORCH_TOKEN", ""))
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
