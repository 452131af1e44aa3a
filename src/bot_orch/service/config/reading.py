"""Reads a configuration from YAML: unknown keys and secrets in plain text are refused, variables replaced."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from bot_orch.agents.prices import PriceRow, price_of, read_prices, shipped_prices
from bot_orch.codec import parse_yaml, read_text
from bot_orch.errors import InvalidInputError
from bot_orch.service.config.checks import check_config, check_numbers, invalid
from bot_orch.service.config.dropped import instead_of
from bot_orch.service.config.settings import AgentConfig, Config, JudgeConfig

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET = re.compile(
    r"(?:[._-]|(?<=api))(tokens?|(key|secret|password|passwd|passphrase|authorization|credential)s?(\[\d+\])*)$",
    re.IGNORECASE,
)
_PASSWORD_IN_URL = re.compile(r"://[^/@:]*:[^/@$]+@|[?&](ssl)?password=[^&$]", re.IGNORECASE)
_DATABASE = re.compile(r"config\.database")


class ConfigFile:
    """The file of a process.

    Parameters
    ----------
    path, environment
        Where it is, and the variables that it may name; by default those of the process.
    host, port
        Override the file's values.
    """

    def __init__(
        self,
        path: str | Path,
        environment: Mapping[str, str] | None = None,
        *,
        host: str | None = None,
        port: int | None = None,
    ) -> None:
        self.path, self.host, self.port = Path(path), host, port
        self.environment = os.environ if environment is None else environment

    def text(self) -> str:
        """The current text of the file."""
        return read_text(self.path)

    def read(self) -> Config:
        """The current settings of the file."""
        return load_config(self.path, self.environment, host=self.host, port=self.port)


def load_config(
    path: str | Path,
    environment: Mapping[str, str] | None = None,
    *,
    host: str | None = None,
    port: int | None = None,
) -> Config:
    """Read a file; relative paths are resolved against its folder, ``host`` and ``port`` override it."""
    file = Path(path)
    return placed(parse_config(read_text(file), environment, name=str(file)), file, host=host, port=port)


def placed(config: Config, file: Path, *, host: str | None = None, port: int | None = None) -> Config:
    """A configuration with its paths resolved against the folder of ``file``."""
    listen = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    config = msgspec.structs.replace(config, listen=msgspec.structs.replace(config.listen, **listen))
    check_numbers(config)
    config = msgspec.structs.replace(config, database=_resolved(file, config.database))
    if config.access_log is not None:
        config = msgspec.structs.replace(config, access_log=str(file.resolve().parent / config.access_log))
    if config.retention.archive is not None:
        beside = str(file.resolve().parent / config.retention.archive)
        config = msgspec.structs.replace(config, retention=msgspec.structs.replace(config.retention, archive=beside))
    listed = () if config.prices is None else read_prices(file.resolve().parent / config.prices)
    prices = (*listed, *shipped_prices())
    agents = tuple(_priced(_beside(file, agent), prices) for agent in config.agents)
    judges = tuple(_judge_beside(file, judge) for judge in config.judges)
    return msgspec.structs.replace(config, agents=agents, judges=judges)


def _resolved(file: Path, database: str) -> str:
    return database if "://" in database or database == ":memory:" else str(file.resolve().parent / database)


def _beside(file: Path, agent: AgentConfig) -> AgentConfig:
    """Make the module of a ``python`` agent importable from the folder of the file."""
    if agent.kind != "python" or not agent.path:
        return agent
    return msgspec.structs.replace(agent, path=str(file.resolve().parent / agent.path))


def _priced(agent: AgentConfig, prices: Sequence[PriceRow]) -> AgentConfig:
    """Give a model without a price that of its host's price list, if that is known."""
    url = agent.base_url or (agent.endpoints[0].base_url if agent.endpoints else "")
    found = None if agent.price or not url else price_of(url, agent.model, prices)
    return agent if found is None else msgspec.structs.replace(agent, price=asdict(found))


def _judge_beside(file: Path, judge: JudgeConfig) -> JudgeConfig:
    """Resolve a judge's function relative to the folder of the file."""
    if judge.kind != "python":
        return judge
    folder = str(file.resolve().parent / judge.settings.get("folder", ""))
    return msgspec.structs.replace(judge, settings={**judge.settings, "folder": folder})


def parse_config(text: str, environment: Mapping[str, str] | None = None, *, name: str = "config") -> Config:
    r"""Parse YAML; ``name`` replaces the path in syntax errors.

    Examples
    --------
    >>> parse_config("version: 1\nagents: [{id: a, kind: simulated}]").router.floor
    0.02
    >>> parse_config("version: 1\nagents: []\nrooter: {}")
    Traceback (most recent call last):
    ...
    bot_orch.errors.InvalidInputError: config.rooter: is not a setting; did you mean 'router'?
    """
    config = _typed(_parsed(text, name), os.environ if environment is None else environment)
    check_config(config)
    return config


def _parsed(text: str, name: str = "config") -> dict[str, Any]:
    """Parse a YAML text that holds a mapping."""
    document = parse_yaml(text, name)
    if not isinstance(document, dict):
        raise InvalidInputError("config", "is not a mapping", "start with 'version: 1'")
    return document


def _typed(document: dict[str, Any], environment: Mapping[str, str]) -> Config:
    """Convert a mapping to settings, checking types only."""
    check_keys(document, Config, "config")
    if "agents" not in document:
        remedy = "list at least one; bot-orch quickstart writes a file to begin with"
        raise InvalidInputError("config.agents", "is missing", remedy)
    found = _expanded(document, "config", environment)
    try:
        config = msgspec.convert(found, Config)
    except msgspec.ValidationError as error:
        raise invalid(error, Config) from None
    return _with_daily_budget(config)


def _with_daily_budget(config: Config) -> Config:
    """Expand ``usd_per_day`` to a paced window of one day that keeps only the cheapest agent when it is exhausted."""
    usd, given = config.router.subject_to.usd_per_day, config.router.budget
    if usd is None:
        return config
    if given.window_usd is not None:
        where = "config.router.subject_to.usd_per_day"
        raise InvalidInputError(where, "is given beside budget.window_usd", "keep one of them")
    budget = msgspec.structs.replace(given, window_usd=usd, window_s=86_400.0, on_exhausted="cheapest", pace=True)
    return msgspec.structs.replace(config, router=msgspec.structs.replace(config.router, budget=budget))


def check_keys(value: Any, type_: Any, where: str) -> None:
    """Refuse keys that ``type_`` (a struct or dataclass, or a tuple of them) does not know, naming the nearest."""
    if get_origin(type_) is Annotated:
        type_ = get_args(type_)[0]
    if get_origin(type_) is tuple:
        for index, entry in enumerate(value if isinstance(value, list) else ()):
            check_keys(entry, get_args(type_)[0], f"{where}[{index}]")
    if get_origin(type_) is dict and isinstance(value, dict):
        for key, entry in value.items():
            check_keys(entry, get_args(type_)[1], f"{where}.{key}")
    known = _fields(type_)
    if known is None or not isinstance(value, dict):
        return
    for key, entry in value.items():
        if key not in known:
            nearest = difflib.get_close_matches(str(key), known, 1)
            remedy = f"did you mean {nearest[0]!r}?" if nearest else f"choose from {', '.join(sorted(known))}"
            remedy = instead_of(f"{where}.{key}") or remedy
            raise InvalidInputError(f"{where}.{key}", "is not a setting", remedy)
        check_keys(entry, known[key], f"{where}.{key}")


def _fields(type_: Any) -> dict[str, Any] | None:
    if get_origin(type_) is Annotated:
        return _fields(get_args(type_)[0])
    if get_origin(type_) in (Union, UnionType):  # optional
        return next((found for part in get_args(type_) if (found := _fields(part)) is not None), None)
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return {field.encode_name: field.type for field in msgspec.structs.fields(type_)}
    if hasattr(type_, "__dataclass_fields__"):
        return {name: get_type_hints(type_)[name] for name in type_.__dataclass_fields__}
    return None


def _expanded(value: Any, where: str, environment: Mapping[str, str]) -> Any:
    """A value with its variables replaced; a secret in plain text is refused."""
    if isinstance(value, dict):
        return {key: _expanded(entry, f"{where}.{key}", environment) for key, entry in value.items()}
    if isinstance(value, list):
        return [_expanded(entry, f"{where}[{index}]", environment) for index, entry in enumerate(value)]
    if not isinstance(value, str):
        return value
    in_url = _DATABASE.fullmatch(where) and _PASSWORD_IN_URL.search(value)
    if in_url or (_SECRET.search(where) and value and not _VARIABLE.search(value)):
        raise InvalidInputError(where, "holds a secret in plain text", "put it into the environment and write ${NAME}")
    return _VARIABLE.sub(lambda match: _variable(match[1], where, environment), value)


def _variable(name: str, where: str, environment: Mapping[str, str]) -> str:
    if not environment.get(name):
        raise InvalidInputError(where, f"needs the environment variable {name}", f"set {name} before starting")
    return environment[name]


def variables_in(value: Any, where: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Settings that name variables, and the variables.

    Examples
    --------
    >>> list(variables_in({"a": ["${X}/${Y}", "plain"]}, "config"))
    [('config.a[0]', ('X', 'Y'))]
    """
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from variables_in(entry, f"{where}.{key}")
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from variables_in(entry, f"{where}[{index}]")
    elif isinstance(value, str) and (found := _VARIABLE.findall(value)):
        yield where, tuple(found)
