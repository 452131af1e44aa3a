"""Checks of settings beyond their types."""

from __future__ import annotations

import difflib
import math
import re
from importlib.util import find_spec
from typing import Any

import msgspec
from msgspec import inspect

from bot_orch.clock import seconds_of
from bot_orch.errors import InvalidInputError, MissingExtraError
from bot_orch.service.config.settings import REFERENCES, Config

#: Where all settings are, with or without the documentation.
SEE_SETTINGS = "see the settings in: bot-orch validate --schema"

#: Paths that go to the agent of ``passthrough``, with all below them; its ``paths`` add to them.
PASSED_PATHS = (
    *("/v1/audio/speech", "/v1/audio/transcriptions", "/v1/audio/translations", "/v1/completions", "/v1/embeddings"),
    *("/v1/files", "/v1/images/edits", "/v1/images/generations", "/v1/moderations"),
)
#: What is below ``/v1`` in the service itself.
OWN_PATHS = frozenset(
    {
        *("admin", "agents", "chat", "decisions", "feedback", "judges", "key", "messages", "models", "objective"),
        *("queue", "responses", "spend", "tasks"),
    }
)
_SHORTEST_S, _DAY_S = 3600.0, 86_400.0


def check_config(config: Config) -> None:
    """Refuse settings that contradict each other or refer to something undefined."""
    _check_router(config)
    _check_retention(config)


def _check_retention(config: Config) -> None:
    events, folder = config.retention.events, config.retention.archive
    if events is None:
        if folder is not None:
            raise InvalidInputError("config.retention.events", "is missing", "say how long events stay, such as 90d")
        return
    if seconds_of(events, "config.retention.events") < _SHORTEST_S:
        raise InvalidInputError("config.retention.events", f"is {events}", "keep events for an hour or longer, 1h")
    daily = [index for index, each in enumerate(config.tokens) if each.limits and each.limits.usd_per_day is not None]
    if daily and seconds_of(events, "config.retention.events") < _DAY_S:
        where = f"config.tokens[{daily[0]}].limits"
        problem = f"is {events}, and {where} counts the dollars of a day, which a start adds up from the log"
        raise InvalidInputError("config.retention.events", problem, "keep events for a day or longer, 1d")
    if not folder:
        raise InvalidInputError("config.retention.archive", "is missing", "name a folder that old events move to")
    if config.database == ":memory:":
        raise InvalidInputError("config.retention", "has no log to move events from", "name a database")
    if find_spec("pyarrow") is None:
        raise MissingExtraError("config.retention", "parquet")


def _check_router(config: Config) -> None:
    ids = [agent.id for agent in config.agents]
    if not ids:
        raise InvalidInputError("config.agents", "is empty", "name at least one agent")
    if len(set(ids)) != len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise InvalidInputError("config.agents", f"holds the id {twice!r} twice", "give every agent its own id")
    named: list[tuple[str, str | None]] = []
    if config.router.alignment is not None and config.router.alignment.reference not in REFERENCES:
        named.append(("alignment.reference", config.router.alignment.reference))
    for index, rule in enumerate(config.router.rules):
        named += [(f"rules[{index}]", name) for name in (*(rule.allow or ()), *rule.deny, rule.pin)]
    named += [(f"aliases.{alias}", name) for alias, name in config.router.aliases.items() if name != "auto"]
    if taken := config.router.aliases.keys() & {*ids, "auto"}:
        raise InvalidInputError(f"config.router.aliases.{min(taken)}", "is the name of an agent", "choose another name")
    named += [("subject_to.shares", name) for name in config.router.subject_to.shares]
    if config.router.minimise is not None and config.router.subject_to.quality_within is None:
        remedy = "add quality_within, such as 0.02; without it the cheapest agent would do everything"
        raise InvalidInputError("config.router.subject_to", "has no quality_within beside minimise", remedy)
    named.append(("observe.baseline", None if config.router.observe is None else config.router.observe.baseline))
    if isinstance(promised := config.router.guarantee.get("baseline"), str):
        named.append(("guarantee.baseline", promised))
    _check_baselines(config)
    for where, name in named:
        if name is not None and name not in ids:
            near = difflib.get_close_matches(name, ids, 1)
            remedy = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(ids)}"
            raise InvalidInputError(f"config.router.{where}", f"{name!r} is not an agent", remedy)
    for agent in config.agents:
        if agent.canary is not None and agent.id == config.router.guarantee.get("baseline"):
            problem = "is set for the baseline of router.guarantee, which must be able to take every request"
            raise InvalidInputError(
                f"config.agents.{agent.id}.canary", problem, "remove it, or choose another baseline"
            )
    for index, token in enumerate(config.tokens):
        if (token.env is None) == (token.sha256 is None):
            raise InvalidInputError(f"config.tokens[{index}]", "needs one of env and sha256", "keep exactly one")
        if token.sha256 is not None and not re.fullmatch(r"[0-9a-f]{64}", token.sha256):
            raise InvalidInputError(
                f"config.tokens[{index}].sha256", "is not 64 hex digits", "see docs/how-to/serve.md"
            )
    _check_passthrough(config)
    check_numbers(config)


def is_own_path(path: str) -> bool:
    """Whether a path is one of the service itself, or below one."""
    return not path.startswith("/v1/") or path.split("/")[2] in ("", *OWN_PATHS)


def _check_passthrough(config: Config) -> None:
    """Require an agent with an endpoint, and paths that are not the service's own."""
    wanted = config.passthrough
    if wanted is None:
        return
    if wanted.agent not in [each.id for each in config.agents if each.kind in ("openai", "anthropic")]:
        raise InvalidInputError(
            "config.passthrough.agent", f"{wanted.agent!r} is no agent with an endpoint", "name one"
        )
    for path in wanted.paths:
        if is_own_path(path) or path.endswith("/") or ".." in path.split("/"):
            problem = f"{path!r} is a path of the service, or not one below /v1"
            raise InvalidInputError("config.passthrough.paths", problem, "write paths such as /v1/fine_tuning")


def _check_baselines(config: Config) -> None:
    """Refuse comparisons without an effect, and a guarantee that could not see its rewards."""
    router = config.router
    if router.observe is not None and len(config.agents) < 2:
        raise InvalidInputError("config.router.observe", "has no other agent to ask", "add one, or remove observe")
    if not router.guarantee:
        return
    if len(config.agents) < 2:
        raise InvalidInputError("config.router.guarantee", "has no other agent to serve", "add one, or remove it")
    baseline = router.guarantee.get("baseline")
    for index, rule in enumerate(router.rules):
        kept = baseline in (rule.allow or (baseline,)) and baseline not in rule.deny and rule.pin in (None, baseline)
        if rule.kind is None and not kept:
            problem = f"keeps all requests from {baseline}, the baseline of router.guarantee: nothing would be promised"
            raise InvalidInputError(f"config.router.rules[{index}]", problem, "let the baseline take them")
    if router.observe is not None:
        remedy = "remove guarantee until observe is removed"
        raise InvalidInputError("config.router.guarantee", "has no effect beside router.observe", remedy)


def check_numbers(config: Config) -> None:
    """Refuse numbers out of range in settings that did not come from a file."""
    lambda_ = config.router.lambda_
    if lambda_ != "auto" and not 0 <= lambda_ < math.inf:
        raise InvalidInputError("config.router.lambda", f"is {lambda_}", "set auto, or a finite number, 0 or more")
    try:
        msgspec.convert(msgspec.to_builtins(config), Config)
    except msgspec.ValidationError as error:
        raise invalid(error, Config) from None


def invalid(error: msgspec.ValidationError, type_: Any, within: str = "config") -> InvalidInputError:
    """Convert a validation error about a value of ``type_`` to one that names the setting and the choices."""
    problem, _, where = str(error).partition(" - at `$")
    where = where.rstrip("`")
    remedy = SEE_SETTINGS
    if problem.startswith("Invalid enum value") and (choices := _choices(type_, where)):
        remedy = f"choose from {', '.join(choices)}"
    return InvalidInputError(f"{within}{where}", problem[:1].lower() + problem[1:], remedy)


def _choices(type_: Any, where: str) -> list[str]:
    """The values that a setting takes, by its path in a value of ``type_``; none if they cannot be listed.

    Examples
    --------
    >>> _choices(Config, ".router.midstream")
    ['continue', 'error', 'restart']
    """
    level = [inspect.type_info(type_)]
    for name in re.findall(r"\.([^.\[]+)|\[[^\]]*\]", where):
        level = [part for each in level for found in _flat(each) for part in _inside(found, name)]
    found = [each for one in level for each in _flat(one)]
    return [str(value) for each in found if isinstance(each, inspect.LiteralType) for value in each.values]


def _flat(type_: inspect.Type) -> list[inspect.Type]:
    """The members of a union, without annotations."""
    if isinstance(type_, inspect.Metadata):
        return _flat(type_.type)
    if isinstance(type_, inspect.UnionType):
        return [found for each in type_.types for found in _flat(each)]
    return [type_]


def _inside(type_: inspect.Type, name: str) -> list[inspect.Type]:
    """The types of a field, or of the entries of a list or mapping if there is no name."""
    match type_:
        case inspect.StructType() | inspect.DataclassType() if name:
            return [each.type for each in type_.fields if each.encode_name == name]
        case inspect.ListType() | inspect.VarTupleType() if not name:
            return [type_.item_type]
        case inspect.DictType() if not name:
            return [type_.value_type]
        case _:
            return []
