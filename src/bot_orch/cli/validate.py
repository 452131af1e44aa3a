"""``bot-orch validate``: check a configuration file, and whether its agents answer."""

from __future__ import annotations

import argparse
from pathlib import Path

from bot_orch.errors import InvalidInputError

DESCRIPTION = """\
Check a configuration file as serve does before it starts: unknown keys, missing variables, agents that cannot be built,
a host that others reach without tokens, a log or an access log that cannot be written. --online also contacts what the
file names: does the endpoint of every agent answer, accept the key and list the model; can PostgreSQL be reached.
Nothing is changed, and it is safe while the service runs.

Exit status 2 if serve would refuse the file, 1 if only an endpoint has failed."""
EXAMPLES = """\
examples:
  bot-orch validate bot-orch.yaml
  bot-orch validate bot-orch.yaml --online
  bot-orch validate bot-orch.yaml --host 0.0.0.0    # as in a container
  bot-orch validate --schema > bot-orch.schema.json"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("config", type=Path, metavar="FILE", nargs="?")
    given.add_argument("--schema", action="store_true", help="print the JSON Schema of the file, for editors, instead")
    parser.add_argument("--online", action="store_true", help="also contact the endpoints and the database")
    parser.add_argument("--timeout", type=float, default=10.0, metavar="S", help="seconds per endpoint (default: 10)")
    parser.add_argument("--host", help="as for serve: overrides the host in FILE")
    parser.add_argument("--port", type=int, metavar="N", help="as for serve: overrides the port in FILE")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    import json

    if arguments.schema:
        from bot_orch.service.operations.schema import config_schema

        print(json.dumps(config_schema(), indent=2))  # noqa: T201
        return 0
    if not 0 < arguments.timeout <= 600:
        raise InvalidInputError("--timeout", f"is {arguments.timeout:g}", "pass seconds, up to 600")
    return validated(
        arguments.config,
        host=arguments.host,
        port=arguments.port,
        online=arguments.online,
        timeout_s=arguments.timeout,
    )


def validated(
    path: Path, *, host: str | None = None, port: int | None = None, online: bool = False, timeout_s: float = 10.0
) -> int:
    """Check a file and print its contents, or what is wrong with it; returns the exit status."""
    import sys

    from bot_orch.service.build import check
    from bot_orch.service.config.reading import ConfigFile
    from bot_orch.service.configuring import ADD_TOKENS
    from bot_orch.service.validation import findings
    from bot_orch.service.web.auth import Gate

    file = ConfigFile(path, host=host, port=port)
    config = file.read()
    check(config)
    Gate(config.tokens)
    found = findings(config, file, online=online, timeout_s=timeout_s)
    for each in found:
        if each.state == "ok":
            print(f"{each.check}: {each.detail}")  # noqa: T201
        else:
            print(f"bot-orch: {each.check}: {each.detail}; {each.remedy}", file=sys.stderr)  # noqa: T201
    failed = [each.check for each in found if each.state == "failed"]
    if failed:
        return 1 if all(each.startswith("agent ") for each in failed) else 2
    names = ", ".join(f"{agent.id} ({agent.kind})" for agent in config.agents)
    print(f"{path}: ok; agents: {names}; policy: {config.router.policy}")  # noqa: T201
    if not config.tokens:
        print(f"without tokens it serves this machine alone; for --host 0.0.0.0, as in a container, {ADD_TOKENS}")  # noqa: T201
    return 0
