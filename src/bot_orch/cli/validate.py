"""``bot-orch validate``: check a configuration file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "validate",
        help="check a configuration file",
        description="Check a configuration file: unknown keys, missing variables, agents that cannot be built.",
        epilog="example: bot-orch validate bot-orch.yaml",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", type=Path, metavar="FILE")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.service.build import check
    from bot_orch.service.config import load_config
    from bot_orch.service.web.auth import Gate

    config = load_config(arguments.config)
    check(config)
    Gate(config.tokens, tenants=config.tenants)
    for name, part in config.split().items():
        names = ", ".join(f"{agent.id} ({agent.kind})" for agent in part.agents)
        which = f"; router: {name}" if config.routers else ""
        print(f"{arguments.config}: ok{which}; agents: {names}; policy: {part.router.policy}")  # noqa: T201
    return 0
