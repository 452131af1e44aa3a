"""``bot-orch serve``: run the service."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

_DESCRIPTION = """\
Serve decisions, feedback, whole rounds and an OpenAI-compatible gateway over HTTP. Acknowledged events are on disk; a
restart continues from the same state."""
_EXAMPLE = """\
examples:
  bot-orch init bot-orch.yaml && bot-orch serve bot-orch.yaml
  bot-orch serve bot-orch.yaml --port 9000"""


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "serve",
        help="run the service",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", type=Path, metavar="FILE", help="configuration; see bot-orch init")
    parser.add_argument("--host", help="overrides the host in FILE")
    parser.add_argument("--port", type=int, metavar="N", help="overrides the port in FILE")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.eventlog.stores.postgres.connect import hidden
    from bot_orch.service.build import check
    from bot_orch.service.config import load_config
    from bot_orch.service.server import serve

    config = load_config(arguments.config, host=arguments.host, port=arguments.port)
    check(config)
    print(f"bot-orch: http://{config.listen.host}:{config.listen.port} ({hidden(config.database)})", flush=True)  # noqa: T201
    return serve(config)
