"""``bot-orch init``: write a commented example configuration."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bot_orch.errors import ResultsExistError


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "init",
        help="write a commented configuration file",
        description="Write a commented, runnable configuration with simulated agents to replace by your own.",
        epilog="example: bot-orch init bot-orch.yaml && bot-orch serve bot-orch.yaml",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", type=Path, nargs="?", default=Path("bot-orch.yaml"), metavar="FILE")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.files import write_atomically
    from bot_orch.service.starter import STARTER

    if arguments.config.exists() and not arguments.force:
        raise ResultsExistError(f"{arguments.config}: exists; pass --force to overwrite it")
    write_atomically(arguments.config, STARTER.encode())
    print(f"wrote {arguments.config}; next: bot-orch serve {arguments.config}")  # noqa: T201
    return 0
