"""Parts of the reference that are made from the code: commands, routes and metrics.

A page says ``<!-- generated: NAME -->`` where such a part belongs.
"""

import argparse
import re

from bot_orch.cli.main import build_parser
from bot_orch.service.api.routes import API_ROUTES
from bot_orch.service.operations.catalogue import CATALOGUE

MARK = re.compile(r"<!-- generated: (\w+) -->")


def filled(markdown: str) -> str:
    """Replace the marks of a page by what the code says."""
    return MARK.sub(lambda match: PARTS[match[1]](), markdown)


def commands() -> str:
    """Render the help text of every command."""
    (found,) = (each for each in build_parser()._actions if isinstance(each, argparse._SubParsersAction))
    width = {"formatter_class": lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=100)}
    parts = []
    for name, parser in sorted(found.choices.items()):
        parser.formatter_class = width["formatter_class"]
        parts.append(f"## bot-orch {name}\n\n```text\n{parser.format_help().rstrip()}\n```")
    return "\n\n".join(parts)


def routes() -> str:
    """Render the table of HTTP routes."""
    rows = [
        f"| `{route.method} {route.path.replace(':path}', '}')}` | {route.scope or 'none'} | {route.summary} "
        f"| {', '.join(map(str, route.statuses))} |"
        for route in API_ROUTES
    ]
    return "\n".join(["| Route | Scope | What it does | Statuses of its own |", "| --- | --- | --- | --- |", *rows])


def metrics() -> str:
    """Render the table of metrics."""
    rows = [f"| `{name}` | {kind} | {text} |" for name, (kind, text) in sorted(CATALOGUE.items())]
    return "\n".join(["| Metric | Type | What it counts |", "| --- | --- | --- |", *rows])


PARTS = {"commands": commands, "routes": routes, "metrics": metrics}
