"""``bot-orch mcp``: serve tools to a model, over MCP on stdio."""

from __future__ import annotations

import argparse
import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING

from bot_orch.errors import InvalidInputError

if TYPE_CHECKING:
    from bot_orch.router import Router

DESCRIPTION = """\
Serve the tools decide, observe, explain and agents on standard input and output (Model Context Protocol), over the log
of a router (one process at a time) or over a running service. The token of a service is read from BOT_ORCH_TOKEN."""
EXAMPLES = """\
examples:
  bot-orch mcp --log router.sqlite --agents small large
  bot-orch mcp --url http://127.0.0.1:8080 --router support"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--log", type=Path, metavar="LOG", help="the file of a router; new with --agents")
    where.add_argument("--url", metavar="URL", help="a running service")
    parser.add_argument("--agents", nargs="+", metavar="NAME", help="of a new log; default: those of the log")
    parser.add_argument("--router", metavar="NAME", help="a router of the service")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.integrations.mcp import mcp_server

    if arguments.url is not None:
        from bot_orch.integrations.client import Client

        with Client(arguments.url, token=os.environ.get("BOT_ORCH_TOKEN"), router=arguments.router) as client:
            mcp_server(client).run("stdio")
    else:
        with _router(arguments.log, arguments.agents) as router:
            mcp_server(router).run("stdio")
    return 0


def _router(path: Path, agents: list[str] | None) -> Router:
    """The router of a file with its saved settings; a new file needs agents."""
    from bot_orch.core.events import Configured
    from bot_orch.core.orchestrator import Orchestrator
    from bot_orch.log.stores.open import open_file
    from bot_orch.router import Router

    if not path.exists():
        if agents is None:
            raise InvalidInputError("--log", f"{path} does not exist", "name the agents of a new one with --agents")
        return Router(agents, path=path)
    log = open_file(path)
    try:
        documents = [event.document for row in log.read() if isinstance(event := row.event(), Configured)]
    finally:
        log.close()
    if not documents:
        raise InvalidInputError("--log", f"{path} holds no settings", "pass the file of a router")
    kept = Orchestrator.from_json(documents[-1])
    names = [name for name in inspect.signature(Orchestrator).parameters if hasattr(kept.settings, name)]
    settings = {name: getattr(kept.settings, name) for name in names}
    return Router(agents or kept.members, path=path, **settings)
