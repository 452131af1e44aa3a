"""``bot-orch doctor``: check endpoints, keys, clock, disk, database and port."""

from __future__ import annotations

import argparse
from pathlib import Path

from bot_orch.errors import InvalidInputError

DESCRIPTION = """\
Check a configuration file and what it names: keys in the environment, endpoints (reachable, key accepted, model known,
time), a weight of dollars that moves nothing, the clock against those of endpoints and database, free space and the
time of a write, the database and its lock, the port, and whatever else would keep serve from starting. Nothing is
changed, and it is safe while the service runs. Every line is ok, a warning or failed, with the remedy. Exit status 1
if something has failed."""
EXAMPLES = """\
examples:
  bot-orch doctor
  bot-orch doctor bot-orch.yaml --json"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("config", type=Path, nargs="?", default=Path("bot-orch.yaml"), metavar="FILE")
    parser.add_argument("--timeout", type=float, default=10.0, metavar="S", help="seconds per endpoint (default: 10)")
    parser.add_argument("--host", help="as for serve: overrides the host in FILE")
    parser.add_argument("--port", type=int, metavar="N", help="as for serve: overrides the port in FILE")
    parser.add_argument("--json", action="store_true", help="print a JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    import json
    import os
    from dataclasses import asdict

    from bot_orch.service.doctor import CheckFinding, examine

    if not 0 < arguments.timeout <= 600:
        raise InvalidInputError("--timeout", f"is {arguments.timeout:g}", "pass seconds, up to 600")
    found: list[CheckFinding] = []
    where = {"host": arguments.host, "port": arguments.port}
    for each in examine(arguments.config, os.environ, timeout_s=arguments.timeout, **where):
        found.append(each)
        if not arguments.json:
            then = f"; {each.remedy}" if each.remedy else ""
            print(f"{each.state:<8} {each.check}: {each.detail}{then}", flush=True)  # noqa: T201
    bad = sum(each.state == "failed" for each in found)
    if arguments.json:
        document = {"file": str(arguments.config), "ok": not bad, "findings": list(map(asdict, found))}
        print(json.dumps(document, indent=2))  # noqa: T201
    else:
        warnings = sum(each.state == "warning" for each in found)
        print(f"checks: {len(found)}, failed: {bad}, to look at: {warnings}")  # noqa: T201
    return 1 if bad else 0
