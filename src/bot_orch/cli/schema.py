"""``bot-orch schema``: print the JSON Schema of the configuration."""

from __future__ import annotations

import argparse
import json
from typing import Any

_DESCRIPTION = """\
Print the JSON Schema of the configuration. Editors complete and check a file whose first line is
  # yaml-language-server: $schema=bot-orch.schema.json
'bot-orch init' writes both. 'bot-orch validate' checks more than a schema can."""


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "schema",
        help="print the JSON Schema of the configuration",
        description=_DESCRIPTION,
        epilog="example: bot-orch schema > bot-orch.schema.json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)


def run(_: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.service.operations.schema import config_schema

    print(json.dumps(config_schema(), indent=2))  # noqa: T201
    return 0
