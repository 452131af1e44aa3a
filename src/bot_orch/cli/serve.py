"""``bot-orch serve``: run the service."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

_DESCRIPTION = """\
Serve decisions, feedback, whole rounds and an OpenAI-compatible gateway over HTTP. Acknowledged events are on disk; a
restart continues from the same state. SIGHUP (or bot-orch reload) applies a changed FILE, SIGTERM drains and stops."""
_EXAMPLE = """\
examples:
  bot-orch init bot-orch.yaml && bot-orch serve bot-orch.yaml
  bot-orch serve bot-orch.yaml --port 9000
  bot-orch serve bot-orch.yaml --workers 2    # routers spread over two processes behind one port"""


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
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="processes that share the routers of FILE (default: 1)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from functools import partial

    from bot_orch.service.build import check
    from bot_orch.service.config import load_config
    from bot_orch.service.server import serve

    read = partial(load_config, arguments.config, host=arguments.host, port=arguments.port)
    config = read()
    check(config)
    say = lambda address: print(f"bot-orch: {address}", flush=True)  # noqa: E731, T201
    return serve(config, read, say, workers=arguments.workers)
