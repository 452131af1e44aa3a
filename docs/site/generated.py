"""Parts of pages that are made from the code: commands, routes, metrics, endings, parameters.

A page says ``<!-- generated: NAME -->`` where such a part belongs.
"""

import argparse
import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

import msgspec

from bot_orch.agents import MEANING, Limits
from bot_orch.agents.breaker import BreakerSettings
from bot_orch.agents.limits import Retry
from bot_orch.agents.rejections import CODES
from bot_orch.cli.main import build_parser
from bot_orch.lab.arena.conditions.catalog import CONDITIONS
from bot_orch.lab.environments.matrix.npz import ANSWERS, ARRAYS
from bot_orch.lab.environments.synthetic.settings import declared
from bot_orch.policies.base import Feedback, Situation
from bot_orch.service.api.routes import API_ROUTES
from bot_orch.service.config import Config
from bot_orch.service.metrics import CATALOGUE

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


def arrays() -> str:
    """Render the table of the arrays of an archive."""
    rows = [
        f"| {', '.join(f'`{name}`' for name in names)} | {shape} | {text} |"
        for names, (shape, text) in (ARRAYS | ANSWERS).items()
    ]
    return "\n".join(["| array | shape | meaning |", "| --- | --- | --- |", *rows])


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


def call_limits() -> str:
    """Render limits, retries and circuit breaker of an agent."""
    rows = ["| Number | Value | Meaning |", "| --- | --- | --- |"]
    for type_ in (Limits, Retry, BreakerSettings):
        defaults = {field.name: field.default for field in dataclasses.fields(type_)}
        for names, text in _described(type_)[1].items():
            each = names.split(", ")
            values = ", ".join("none" if defaults[name] is None else f"`{shown(defaults[name])}`" for name in each)
            rows.append(f"| {', '.join(f'`{name}`' for name in each)} | {values} | {text} |")
    return "\n".join(rows)


def policy_inputs() -> str:
    """Render what a policy sees before the choice, and what it learns from."""
    parts = []
    for type_ in (Situation, Feedback):
        rows = [f"| `{names.replace(', ', '`, `')}` | {text} |" for names, text in _described(type_)[1].items()]
        parts.append("\n".join([f"| `{type_.__name__}` | Meaning |", "| --- | --- |", *rows]))
    return "\n\n".join(parts)


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


def settings() -> str:
    """Render every part of the configuration: what its docstring says, then its settings with defaults."""
    return "\n\n".join(_part(Config, "", set()))


def _part(type_: type[msgspec.Struct], prefix: str, known: set[type]) -> Iterator[str]:
    known.add(type_)
    fields = msgspec.structs.fields(type_)
    rows = [("Setting", "Default", "Meaning"), ("---", "---", "---")]
    rows += [(f"`{prefix}{f.encode_name}`", _default(f), _meaning(f.type)) for f in fields]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    yield f"## {prefix.rstrip('.') or 'The file'}\n\n{_plain(inspect.getdoc(type_) or '')}\n\n{table}"
    for field in fields:
        inner = next((each for each in _types(field.type) if issubclass(each, msgspec.Struct)), None)
        if inner is not None and inner not in known:
            bare = get_args(field.type)[0] if get_origin(field.type) is Annotated else field.type
            many = {tuple: "[]", dict: ".NAME"}.get(get_origin(bare), "")
            yield from _part(inner, f"{prefix}{field.encode_name}{many}.", known)


def _described(type_: type) -> tuple[str, dict[str, str]]:
    """Split a docstring into its text and what its section of parameters says of each."""
    about, _, listed = (inspect.getdoc(type_) or "").partition("\n\nParameters\n----------\n")
    found = re.findall(r"^([\w, ]+)\n((?:    .*\n?)+)", listed, re.MULTILINE)
    return _plain(about), {name: _plain(" ".join(text.split())) for name, text in found}


def _meaning(annotation: Any) -> str:
    """Find what a setting means, at its type or at one of its types."""
    if isinstance(annotation, msgspec.Meta):
        return _plain(annotation.description or "")
    return next(filter(None, map(_meaning, get_args(annotation))), "")


def _plain(text: str) -> str:
    return re.sub(r"``(.+?)``", r"`\1`", text).replace("|", "\\|")


def _types(type_: Any) -> list[type]:
    """List the classes in an annotation."""
    found = [type_] if isinstance(type_, type) and not get_args(type_) else []
    return found + [each for part in get_args(type_) for each in _types(part)]


def _default(field: msgspec.structs.FieldInfo) -> str:
    value = field.default
    if field.required:
        return "required"
    if isinstance(value, msgspec.Struct):
        return "see below"
    if value is None or value is msgspec.NODEFAULT or value == ():
        return "none"
    if isinstance(value, bool):
        return f"`{value}`".lower()
    return ", ".join(f"`{each:g}`" if isinstance(each, float) else f"`{each}`" for each in _many(value))


def _many(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def shown(value: object) -> str:
    """Format a parameter: numbers in short, laws and tuples as they are."""
    return f"{value:g}" if isinstance(value, float) else str(value).replace("|", "/")


PARTS = {
    "arrays": arrays,
    "call_limits": call_limits,
    "commands": commands,
    "conditions": conditions,
    "endings": endings,
    "metrics": metrics,
    "parameters": parameters,
    "policy_inputs": policy_inputs,
    "rejections": rejections,
    "routes": routes,
    "settings": settings,
}
