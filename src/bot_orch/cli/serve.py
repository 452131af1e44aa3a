"""``bot-orch serve``: run the service."""

from __future__ import annotations

import argparse
from pathlib import Path

DESCRIPTION = """\
Serve decisions, feedback, whole rounds and an OpenAI-compatible gateway over HTTP. Acknowledged events are on disk; a
restart continues from the same state. SIGHUP reads a changed FILE again and applies it, SIGTERM drains and stops.

With several processes each reads its own FILE; the one that owns the router logs what the file changes."""
EXAMPLES = """\
examples:
  bot-orch quickstart --write bot-orch.yaml && bot-orch serve bot-orch.yaml
  bot-orch serve bot-orch.yaml --port 9000
  bot-orch serve bot-orch.yaml --workers 2    # an owner and a front behind one port"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("config", type=Path, metavar="FILE", help="configuration; see bot-orch quickstart")
    parser.add_argument("--host", help="overrides the host in FILE")
    parser.add_argument("--port", type=int, metavar="N", help="overrides the port in FILE")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes behind one port (default: 1)")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.service.config.reading import ConfigFile
    from bot_orch.service.configuring import check_file
    from bot_orch.service.server import serve

    file = ConfigFile(arguments.config, host=arguments.host, port=arguments.port)

    def say(address: str) -> None:
        print(f"bot-orch: {address}", flush=True)  # noqa: T201

    return serve(check_file(file), file.read, say, workers=arguments.workers)
