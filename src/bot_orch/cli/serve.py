"""``bot-orch serve``: run the service."""

from __future__ import annotations

import argparse
from pathlib import Path

DESCRIPTION = """\
Serve decisions, feedback, whole rounds and an OpenAI-compatible gateway over HTTP. Acknowledged events are on disk; a
restart continues from the same state. SIGHUP (or bot-orch apply) applies a changed FILE, SIGTERM drains and stops.

On PostgreSQL the configuration is shared. A start with a changed FILE applies it to all processes. A start with an
earlier one uses the stored version and says so, unless the revision in FILE is higher."""
EXAMPLES = """\
examples:
  bot-orch quickstart --write bot-orch.yaml && bot-orch serve bot-orch.yaml
  bot-orch serve bot-orch.yaml --port 9000
  bot-orch serve bot-orch.yaml --workers 2    # an owner and a front behind one port
  bot-orch serve bot-orch.yaml --stored"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("config", type=Path, metavar="FILE", help="configuration; see bot-orch quickstart")
    parser.add_argument("--host", help="overrides the host in FILE")
    parser.add_argument("--port", type=int, metavar="N", help="overrides the port in FILE")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes behind one port (default: 1)")
    parser.add_argument(
        "--stored",
        action="store_true",
        help="on PostgreSQL: start with the stored configuration; FILE only has to say database and listen",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.service.config.documents import ConfigFile
    from bot_orch.service.configuring import starting
    from bot_orch.service.server import serve

    file = ConfigFile(arguments.config, host=arguments.host, port=arguments.port)
    config, stored = starting(file, stored=arguments.stored)

    def say(address: str) -> None:
        version = "" if stored is None else f", version {stored.version.number} of the configuration"
        print(f"bot-orch: {address}{version}", flush=True)  # noqa: T201

    return serve(config, file.read, say, stored=stored, workers=arguments.workers)
