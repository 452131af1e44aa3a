"""Parts of pages that are made from the code: commands, routes, metrics, endings, parameters.

A page says ``<!-- generated: NAME -->`` where such a part belongs.
"""

import argparse
import re

from bot_orch.agents import MEANING
from bot_orch.agents.rejections import CODES
from bot_orch.cli.main import build_parser
from bot_orch.lab.arena.conditions.catalog import CONDITIONS
from bot_orch.lab.environments.synthetic.settings import declared
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


def endings() -> str:
    """Render the table of endings of a call."""
    rows = [
        f"| `{ending}` | {meaning.what} | {meaning.cause.name.lower() if meaning.attempted else 'nothing'} "
        f"| {'yes' if meaning.trips else ''} | {'yes' if meaning.retryable else ''} |"
        for ending, meaning in MEANING.items()
    ]
    return "\n".join(
        ["| ending | what happened | learned | trips | retried |", "| --- | --- | --- | --- | --- |", *rows]
    )


def rejections() -> str:
    """Render the codes from which a rejection that depends on the agent is read."""
    reasons = dict.fromkeys(CODES.values())
    rows = [f"| {why} | {', '.join(f'`{code}`' for code in CODES if CODES[code] == why)} |" for why in reasons]
    return "\n".join(["| why | `code` or `type` |", "| --- | --- |", *rows])


def parameters() -> str:
    """Render the parameters of the synthetic environments."""
    rows = [f"| {p.environment} | `{p.name}` | {shown(p.value)} | {p.source} | {p.why} |" for p in declared()]
    head = ["| environment | parameter | value | source | why |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([*head, *rows])


def conditions() -> str:
    """Render the conditions under which the arena replays."""
    rows = [f"| `{condition.name}` | {condition.about} |" for condition in CONDITIONS.values()]
    return "\n".join(["| condition | what happens |", "| --- | --- |", *rows])


def shown(value: object) -> str:
    """Format a parameter: numbers in short, laws and tuples as they are."""
    return f"{value:g}" if isinstance(value, float) else str(value).replace("|", "/")


PARTS = {
    "commands": commands,
    "conditions": conditions,
    "endings": endings,
    "metrics": metrics,
    "parameters": parameters,
    "rejections": rejections,
    "routes": routes,
}
