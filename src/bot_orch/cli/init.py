"""``bot-orch init``: write a commented configuration file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from bot_orch.errors import ResultsExistError

DESCRIPTION = """\
Write a commented, runnable configuration with simulated agents to replace by your own, and next to it its JSON Schema
(bot-orch.schema.json), with which editors complete and check it."""
EXAMPLES = "example: bot-orch init bot-orch.yaml && bot-orch serve bot-orch.yaml"


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("config", type=Path, nargs="?", default=Path("bot-orch.yaml"), metavar="FILE")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.service.starter import STARTER

    if arguments.config.exists() and not arguments.force:
        raise ResultsExistError(f"{arguments.config}: exists; pass --force to overwrite it")
    write_configuration(arguments.config, STARTER)
    print(f"wrote {arguments.config}; next: bot-orch serve {arguments.config}")  # noqa: T201
    return 0


def write_configuration(path: Path, text: str) -> None:
    """Write a configuration, and its JSON Schema into the same folder."""
    from bot_orch.files import write_atomically
    from bot_orch.service.operations.schema import SCHEMA_FILE, config_schema

    schema = json.dumps(config_schema(), indent=2) + "\n"
    write_atomically(path.with_name(SCHEMA_FILE), schema.encode())
    write_atomically(path, text.encode())
