"""Configuration: typed settings, read from strict, versioned YAML.

An unknown key is an error that names the nearest valid one; ``${NAME}`` stands for an environment variable, which must
be set; secrets in plain text are refused.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from bot_orch.errors import InvalidInputError, MissingExtraError
from bot_orch.service.trials import CanaryConfig, HealthConfig, ShadowConfig, check_trial
from bot_orch.strict import parse_yaml, read_text

try:
    import msgspec
except ImportError as _error:  # pragma: no cover
    raise MissingExtraError("a configuration file", "service") from _error

__all__ = [
    "ALARMS",
    "SCOPES",
    "AgentConfig",
    "AuditConfig",
    "BudgetConfig",
    "CacheConfig",
    "Config",
    "GuardrailConfig",
    "JudgeConfig",
    "LimitsConfig",
    "ListenConfig",
    "QueueConfig",
    "RouterConfig",
    "RouterPartConfig",
    "RuleConfig",
    "SubjectToConfig",
    "TokenConfig",
    "TokenLimitsConfig",
    "TracesConfig",
    "WebhookConfig",
    "check_keys",
    "load_config",
    "parse_config",
]

Scope = Literal["decide", "feedback", "queue", "admin"]
SCOPES: tuple[str, ...] = get_args(Scope)
AlarmName = Literal["drift", "circuit_open", "circuit_closed", "budget", "audit"]
ALARMS: tuple[AlarmName, ...] = get_args(AlarmName)
Tag = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._:/=-]{1,64}$")]

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET = re.compile(
    r"(?:[._-]|(?<=api))(tokens?|(key|secret|password|passwd|passphrase|authorization|credential)s?(\[\d+\])*)$",
    re.IGNORECASE,
)
_PASSWORD_IN_URL = re.compile(r"://[^/@:]*:[^/@$]+@|[?&](ssl)?password=[^&$]", re.IGNORECASE)


_DATABASE = re.compile(r"config\.(routers\..*\.)?database")
_ROUTER_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class ListenConfig(_Part, frozen=True, kw_only=True):
    """Where the service listens. Without tokens only loopback is allowed."""

    host: str = "127.0.0.1"
    port: int = 8080


class TokenLimitsConfig(_Part, frozen=True, kw_only=True):
    """Limits of one token: requests that decide and tokens of agents per minute, dollars in ``window_s`` seconds."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    usd: float | None = None
    window_s: float = 86_400.0


class TokenConfig(_Part, frozen=True, kw_only=True):
    """A caller and its scopes. The token is in the environment, or its SHA-256 is in the file.

    ``limits`` bound what it may use; ``tags`` are written to all its decisions, for reports of spending. A token with
    a ``router`` is for that one alone.
    """

    name: str
    scopes: tuple[Scope, ...]
    env: str | None = None
    sha256: str | None = None
    limits: TokenLimitsConfig | None = None
    tags: tuple[Tag, ...] = ()
    router: str | None = None


class BudgetConfig(_Part, frozen=True, kw_only=True):
    """Spending limits; agents whose expected price would exceed one are not eligible.

    If the window's money is used up for all of them, ``on_exhausted`` refuses the request or leaves the cheapest one.
    ``pace`` leaves the cheapest one already when a tenth of the window has used a tenth of its money.
    """

    per_request_usd: float | None = None
    window_usd: float | None = None
    window_s: float = 86_400.0
    on_exhausted: Literal["refuse", "cheapest"] = "refuse"
    pace: bool = False


class SubjectToConfig(_Part, frozen=True, kw_only=True):
    """Limits of the objective: relative loss of quality, dollars, times that 95 % of answers keep, shares of agents."""

    quality_within: float | None = None
    usd_per_task: float | None = None
    usd_per_day: float | None = None
    p95_seconds: float | None = None
    p95_first_token_seconds: float | None = None
    shares: dict[str, float] = {}


class RuleConfig(_Part, frozen=True, kw_only=True):
    """A hard rule for tasks of one ``kind`` (all kinds if not given): allow only, deny, or pin to one agent."""

    kind: str | None = None
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    pin: str | None = None


class MemoryConfig(_Part, frozen=True, kw_only=True):
    """Past outputs that count: ``all``, a ``window`` of ``size``, or exponential ``decay`` with a ``half_life``."""

    mode: Literal["all", "window", "decay"] = "window"
    size: int = 256
    half_life: float | None = None


class ReferenceConfig(_Part, frozen=True, kw_only=True):
    """Source of references: the task, one fixed measure, past tasks, accepted outputs, a trusted agent."""

    source: Literal["task", "fixed", "tasks", "accepted", "agent"] = "task"
    memory: MemoryConfig = MemoryConfig()
    measure: dict[str, Any] | None = None
    threshold: float = 0.5
    agent: str | None = None


class WatchConfig(_Part, frozen=True, kw_only=True):
    """Drift test: ``recent`` outputs of an agent against ``older`` ones, at level ``alpha``."""

    recent: int = 32
    older: int = 96
    alpha: float = 0.01


class AlignmentConfig(_Part, frozen=True, kw_only=True):
    """Reference and distance of outputs. Without it the first measure seen determines the geometry."""

    latency_target_s: float | None = None
    geometry: dict[str, Any] | None = None
    memory: MemoryConfig = MemoryConfig()
    reference: ReferenceConfig = ReferenceConfig()
    distance: Literal["lower", "plug_in", "debiased", "upper"] = "lower"
    units: Literal["reference", "native"] = "reference"
    watch: WatchConfig | None = None


class AbConfig(_Part, frozen=True, kw_only=True):
    """A test: another policy makes a random ``share`` of the decisions; each learns from its own."""

    policy: str
    settings: dict[str, Any] = {}
    share: float = 0.5


class RouterConfig(_Part, frozen=True, kw_only=True):
    """How agents are chosen and how outcomes count."""

    policy: str = "auto"
    settings: dict[str, Any] = {}
    lambda_: float | Literal["auto"] = msgspec.field(default="auto", name="lambda")
    alignment: AlignmentConfig | None = None
    seed: int = 0
    n_features: int = 0
    floor: float = 0.02
    reference: dict[str, Any] | None = None
    reward: dict[str, Any] | None = None
    horizon_s: float = 86_400.0
    patience_s: float | None = None
    sticky_s: float = 0.0
    sticky_by: Literal["session", "user", "conversation"] = "session"
    max_attempts: int = 3
    max_calls: int = 4
    attempts: int = 1
    attempt_patience: Literal["learned", "half"] = "learned"
    success_reward: float | None = None
    kill_switch: str | None = None
    budget: BudgetConfig = BudgetConfig()
    rules: tuple[RuleConfig, ...] = ()
    encoder: str | None = None
    audit_rate: float = 0.0
    on_alarm: Literal["count", "restart"] = "count"
    objective: dict[str, float] = {}
    minimise: Literal["usd"] | None = None
    subject_to: SubjectToConfig = SubjectToConfig()
    constraints: tuple[dict[str, Any], ...] = ()
    ab: AbConfig | None = None


class AgentConfig(_Part, frozen=True, kw_only=True):
    """One agent. ``settings`` belong to its kind; ``limits``, ``retry``, ``price``, ``breaker``
    to its guard; ``capabilities`` are what it can serve.

    ``canary``, ``shadow`` and ``health`` say how it is rolled out and checked.
    """

    id: str
    kind: str
    cost: float = 0.0
    profile: dict[str, Any] | None = None
    settings: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    retry: dict[str, Any] = {}
    price: dict[str, Any] = {}
    breaker: dict[str, Any] = {}
    canary: CanaryConfig | None = None
    shadow: ShadowConfig | None = None
    health: HealthConfig | None = None
    capabilities: dict[str, Any] = {}


class JudgeConfig(_Part, frozen=True, kw_only=True):
    """One judge; the order of the list is their rank. ``settings`` belong to its kind.

    ``rate`` is the share of answers that it judges; ``only`` names kinds of tasks, all if empty. ``timeout_s`` and
    ``concurrency`` limit its calls.
    """

    name: str
    kind: str
    settings: dict[str, Any] = {}
    rate: float = 1.0
    only: tuple[str, ...] = ()
    timeout_s: float = 60.0
    concurrency: int = 4


class AuditConfig(_Part, frozen=True, kw_only=True):
    """Share of decisions about which the truth is asked, and ``by`` whom: people, a judge, or the caller.

    ``answer_within_s`` is how long people have.
    """

    rate: float
    by: str = "human"
    answer_within_s: float = 86_400.0


class QueueConfig(_Part, frozen=True, kw_only=True):
    """The queue of people: length of a claim's lease and of the undo window, whether drafts are hidden."""

    lease_s: float = 300.0
    undo_s: float = 8.0
    blind: bool = False


class LimitsConfig(_Part, frozen=True, kw_only=True):
    """Limits on requests and connections, and on what the service keeps in memory."""

    head_bytes: int = 32_768
    headers: int = 100
    url_bytes: int = 8_192
    head_timeout_s: float = 10.0
    idle_s: float = 30.0
    write_timeout_s: float = 30.0
    connections: int = 10_000
    failed_logins: int = 20
    body_bytes: int = 20_000_000
    record_bytes: int = 1_000_000
    bodies_bytes: int = 400_000_000
    body_timeout_s: float = 10.0
    values: int = 50_000
    points: int = 1_000
    depth: int = 32
    early_feedback: int = 10_000
    judgements: int = 1_000
    open_tasks: int = 10_000
    snapshot_every: int = 50_000
    grace_s: float = 5.0


class WebhookConfig(_Part, frozen=True, kw_only=True):
    """A URL that is told of alarms, signed with ``secret`` (write ``${NAME}``, a variable of the environment)."""

    url: str
    events: tuple[AlarmName, ...] = ALARMS
    secret: str | None = None


class TracesConfig(_Part, frozen=True, kw_only=True):
    """OpenTelemetry traces: the URL of an OTLP collector over HTTP; without it the process's own provider is used."""

    endpoint: str | None = None
    service_name: str = "bot-orch"


class RouterPartConfig(_Part, frozen=True, kw_only=True):
    """A further router of the service, with agents, policy, log and queue of its own.

    Without ``judges`` it has those on top of the file, with their ``audit``.
    """

    agents: tuple[AgentConfig, ...]
    database: str | None = None
    router: RouterConfig = RouterConfig()
    queue: QueueConfig | None = None
    judges: tuple[JudgeConfig, ...] | None = None
    audit: AuditConfig | None = None


class GuardrailConfig(_Part, frozen=True, kw_only=True):
    """A function (``path``, found in ``folder``) or program (``command``) that sees requests or answers."""

    when: Literal["before", "after"]
    path: str | None = None
    folder: str | None = None
    command: tuple[str, ...] = ()
    timeout_s: float = 10.0
    on_refusal: Literal["zero", "nothing"] = "zero"
    on_error: Literal["refuse", "pass"] = "refuse"


class CacheConfig(_Part, frozen=True, kw_only=True):
    """Answers kept for exactly the same request; off unless ``ttl_s`` is set."""

    ttl_s: float = 0.0
    max_entries: int = 1_000
    max_bytes: int = 64_000_000


class Config(_Part, frozen=True, kw_only=True):
    """All settings of the service. ``name`` is that of the router that they describe, beside further ``routers``."""

    version: Literal[1]
    agents: tuple[AgentConfig, ...]
    database: str = "bot-orch.sqlite"
    listen: ListenConfig = ListenConfig()
    tokens: tuple[TokenConfig, ...] = ()
    router: RouterConfig = RouterConfig()
    judges: tuple[JudgeConfig, ...] = ()
    audit: AuditConfig | None = None
    queue: QueueConfig = QueueConfig()
    limits: LimitsConfig = LimitsConfig()
    guards: tuple[GuardrailConfig, ...] = ()
    cache: CacheConfig = CacheConfig()
    access_log: str | None = None
    webhooks: tuple[WebhookConfig, ...] = ()
    traces: TracesConfig | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    name: str = "default"
    routers: dict[str, RouterPartConfig] = {}

    def split(self) -> dict[str, Config]:
        """The settings of every router by name, each without the others; the default one comes first."""
        alone = msgspec.structs.replace(self, routers={})
        rest = {
            name: msgspec.structs.replace(
                alone,
                name=name,
                agents=part.agents,
                router=part.router,
                queue=part.queue or self.queue,
                judges=self.judges if part.judges is None else part.judges,
                audit=part.audit or (self.audit if part.judges is None else None),
                database=part.database or _database_beside(self.database, name),
                access_log=None,  # the default router writes the lines of all
            )
            for name, part in self.routers.items()
        }
        return {self.name: alone, **rest}


def _database_beside(database: str, name: str) -> str:
    """The file of another router: ``bot-orch.support.sqlite`` beside ``bot-orch.sqlite``."""
    if database == ":memory:":
        return database
    if "://" in database:
        remedy = "name a database of its own"
        raise InvalidInputError(f"config.routers.{name}.database", "is needed on PostgreSQL", remedy)
    file = Path(database)
    return str(file.with_name(f"{file.stem}.{name}{file.suffix}"))


def load_config(
    path: str | Path,
    environment: Mapping[str, str] | None = None,
    *,
    host: str | None = None,
    port: int | None = None,
) -> Config:
    """Read a file; relative paths are resolved against its folder, ``host`` and ``port`` override it."""
    file = Path(path)
    config = parse_config(read_text(file), environment, name=str(file))
    listen = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    config = msgspec.structs.replace(config, listen=msgspec.structs.replace(config.listen, **listen))
    _check_numbers(config)
    config = msgspec.structs.replace(config, database=_resolved(file, config.database))
    if config.access_log is not None:
        config = msgspec.structs.replace(config, access_log=str(file.resolve().parent / config.access_log))
    routers = {
        name: msgspec.structs.replace(
            part,
            agents=tuple(_beside(file, agent) for agent in part.agents),
            database=None if part.database is None else _resolved(file, part.database),
            judges=None if part.judges is None else tuple(_judge_beside(file, judge) for judge in part.judges),
        )
        for name, part in config.routers.items()
    }
    agents = tuple(_beside(file, agent) for agent in config.agents)
    judges = tuple(_judge_beside(file, judge) for judge in config.judges)
    found = (str(file.resolve().parent / (each.folder or "")) for each in config.guards)
    guards = tuple(
        msgspec.structs.replace(each, folder=where) for each, where in zip(config.guards, found, strict=True)
    )
    return msgspec.structs.replace(config, agents=agents, routers=routers, judges=judges, guards=guards)


def _resolved(file: Path, database: str) -> str:
    return database if "://" in database or database == ":memory:" else str(file.resolve().parent / database)


def _beside(file: Path, agent: AgentConfig) -> AgentConfig:
    """An agent of kind python finds its module beside the file."""
    if agent.kind != "python":
        return agent
    folder = str(file.resolve().parent / agent.settings.get("folder", ""))
    return msgspec.structs.replace(agent, settings={**agent.settings, "folder": folder})


def _judge_beside(file: Path, judge: JudgeConfig) -> JudgeConfig:
    """A judge that is a function or a program lies beside the file."""
    if judge.kind not in ("python", "program", "unit_test"):
        return judge
    folder = str(file.resolve().parent / judge.settings.get("folder", ""))
    return msgspec.structs.replace(judge, settings={**judge.settings, "folder": folder})


def parse_config(text: str, environment: Mapping[str, str] | None = None, *, name: str = "config") -> Config:
    r"""Parse YAML; ``name`` stands for the file in syntax errors.

    Examples
    --------
    >>> parse_config("version: 1\nagents: [{id: a, kind: simulated}]").router.floor
    0.02
    >>> parse_config("version: 1\nagents: []\nrooter: {}")
    Traceback (most recent call last):
    ...
    bot_orch.errors.InvalidInputError: config.rooter: is not a setting; did you mean 'router'?
    """
    document = parse_yaml(text, name)
    if not isinstance(document, dict):
        raise InvalidInputError("config", "is not a mapping", "start with 'version: 1'")
    check_keys(document, Config, "config")
    document = _with_default(_with_both(document))
    expanded = _expand(document, "config", os.environ if environment is None else environment)
    try:
        config = msgspec.convert(expanded, Config)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$")
        setting = f"config{where.rstrip('`')}"
        remedy = "see 'bot-orch init' for an example"
        raise InvalidInputError(setting, problem[:1].lower() + problem[1:], remedy) from None
    config = _with_daily_budgets(config)
    _check(config)
    return config


def _with_both(document: dict[str, Any]) -> dict[str, Any]:
    """A file that sets ``body_bytes`` alone means all bodies, as it did before there were two limits."""
    limits = document.get("limits")
    if not isinstance(limits, dict) or "body_bytes" not in limits or "record_bytes" in limits:
        return document
    return {**document, "limits": {**limits, "record_bytes": limits["body_bytes"]}}


def _with_daily_budget(config: Config) -> Config:
    """``usd_per_day`` is a window of a day, paced, which leaves the cheapest agent when it is used up."""
    usd, given = config.router.subject_to.usd_per_day, config.router.budget
    if usd is None:
        return config
    if given.window_usd is not None:
        where = "config.router.subject_to.usd_per_day"
        raise InvalidInputError(where, "is given beside budget.window_usd", "keep one of them")
    budget = msgspec.structs.replace(given, window_usd=usd, window_s=86_400.0, on_exhausted="cheapest", pace=True)
    return msgspec.structs.replace(config, router=msgspec.structs.replace(config.router, budget=budget))


def _with_daily_budgets(config: Config) -> Config:
    """The same for every router."""
    routers = {}
    for name, part in config.routers.items():
        with _named(f"config.routers.{name}"):
            alone = msgspec.structs.replace(config, router=part.router, routers={})
            routers[name] = msgspec.structs.replace(part, router=_with_daily_budget(alone).router)
    return msgspec.structs.replace(_with_daily_budget(config), routers=routers)


def _with_default(document: dict[str, Any]) -> dict[str, Any]:
    """A file that has only ``routers`` means the first of them by its settings on top."""
    routers = document.get("routers")
    if "agents" in document or not isinstance(routers, dict) or not routers:
        return document
    (name, first), *rest = routers.items()
    shared = {"judges": document.get("judges", []), "audit": document.get("audit")}
    others = {name: {**shared, **part} if isinstance(part, dict) else part for name, part in rest}
    return {**document, "name": name, **(first if isinstance(first, dict) else {}), "routers": others}


def check_keys(value: Any, type_: Any, where: str) -> None:
    """Refuse keys that ``type_`` (a struct or dataclass, or a tuple of them) does not know, naming the nearest."""
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
            nearest = difflib.get_close_matches(str(key), known, 1, 0.5)
            remedy = f"did you mean {nearest[0]!r}?" if nearest else f"choose from {', '.join(sorted(known))}"
            raise InvalidInputError(f"{where}.{key}", "is not a setting", remedy)
        check_keys(entry, known[key], f"{where}.{key}")


def _fields(type_: Any) -> dict[str, Any] | None:
    if get_origin(type_) in (Union, UnionType):  # optional
        return next((found for part in get_args(type_) if (found := _fields(part)) is not None), None)
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return {field.encode_name: field.type for field in msgspec.structs.fields(type_)}
    if hasattr(type_, "__dataclass_fields__"):
        return {name: get_type_hints(type_)[name] for name in type_.__dataclass_fields__}
    return None


def _expand(value: Any, where: str, environment: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _expand(entry, f"{where}.{key}", environment) for key, entry in value.items()}
    if isinstance(value, list):
        return [_expand(entry, f"{where}[{index}]", environment) for index, entry in enumerate(value)]
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


def _check(config: Config) -> None:
    _check_one(config)
    parts = config.split()
    for name, part in parts.items():
        if not _ROUTER_NAME.fullmatch(name):
            raise InvalidInputError(f"config.routers.{name}", "is not a name", "use letters a to z, digits, - and _")
        if name != config.name:
            with _named(f"config.routers.{name}"):
                _check_one(part)
    if config.name in config.routers:
        raise InvalidInputError(f"config.routers.{config.name}", "is the default router, too", "choose another name")
    files = [part.database for part in parts.values() if part.database != ":memory:"]
    if len(set(files)) != len(files):
        raise InvalidInputError("config.routers", "share a database", "give every router a database of its own")
    for index, token in enumerate(config.tokens):
        if token.router is not None and token.router not in parts:
            remedy = f"choose from {', '.join(parts)}"
            raise InvalidInputError(f"config.tokens[{index}].router", f"{token.router!r} is not a router", remedy)


@contextmanager
def _named(where: str) -> Iterator[None]:
    """Name the settings of a router in errors about it."""
    try:
        yield
    except InvalidInputError as error:
        field = error.field.replace("config", where, 1)
        raise InvalidInputError(field, error.problem, error.remedy) from None


def _check_one(config: Config) -> None:
    ids = [agent.id for agent in config.agents]
    if not ids:
        raise InvalidInputError("config.agents", "is empty", "name at least one agent")
    if len(set(ids)) != len(ids):
        raise InvalidInputError("config.agents", "holds an id twice", "give every agent its own id")
    named = [("kill_switch", config.router.kill_switch)]
    if config.router.alignment is not None:
        named.append(("alignment.reference.agent", config.router.alignment.reference.agent))
    for index, rule in enumerate(config.router.rules):
        named += [(f"rules[{index}]", name) for name in (*(rule.allow or ()), *rule.deny, rule.pin)]
    named += [("subject_to.shares", name) for name in config.router.subject_to.shares]
    if config.router.minimise is not None and config.router.subject_to.quality_within is None:
        remedy = "add quality_within, such as 0.02; without it the cheapest agent would do everything"
        raise InvalidInputError("config.router.subject_to", "has no quality_within beside minimise", remedy)
    for where, name in named:
        if name is not None and name not in ids:
            near = difflib.get_close_matches(name, ids, 1)
            remedy = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(ids)}"
            raise InvalidInputError(f"config.router.{where}", f"{name!r} is not an agent", remedy)
    for agent in config.agents:
        where = f"config.agents.{agent.id}"
        check_trial(where, agent.kind, canary=agent.canary, shadow=agent.shadow, health=agent.health)
    if all(agent.shadow is not None for agent in config.agents):
        raise InvalidInputError("config.agents", "are all shadows", "leave at least one that may answer clients")
    for index, token in enumerate(config.tokens):
        if (token.env is None) == (token.sha256 is None):
            raise InvalidInputError(f"config.tokens[{index}]", "needs one of env and sha256", "keep exactly one")
        if token.sha256 is not None and not re.fullmatch(r"[0-9a-f]{64}", token.sha256):
            raise InvalidInputError(f"config.tokens[{index}].sha256", "is not 64 hex digits", "see docs/operating.md")
    for index, hook in enumerate(config.webhooks):
        if not re.fullmatch(r"https?://[^\s/@]+(/\S*)?", hook.url):
            where = f"config.webhooks[{index}].url"
            raise InvalidInputError(where, "is no URL of a web server", "write https://host/path, without a password")
    _check_numbers(config)


def _check_numbers(config: Config) -> None:
    r, most = config.router, float("inf")
    bounds: list[tuple[str, float | None, float, float]] = [
        ("router.lambda", None if r.lambda_ == "auto" else r.lambda_, 0.0, most),
        ("router.floor", r.floor, 0.0, 1.0),
        ("router.audit_rate", r.audit_rate, 0.0, 1.0),
        ("router.horizon_s", r.horizon_s, 1e-3, most),
        ("router.patience_s", r.patience_s, 1e-3, most),
        ("router.sticky_s", r.sticky_s, 0.0, most),
        ("router.n_features", r.n_features, 0, 10_000),
        ("router.max_attempts", r.max_attempts, 1, 100),
        ("router.max_calls", r.max_calls, 1, 1000),
        ("router.attempts", r.attempts, 1, 100),
        ("router.success_reward", r.success_reward, 0.0, 1.0),
        ("router.subject_to.usd_per_day", r.subject_to.usd_per_day, 1e-9, most),
        ("router.budget.per_request_usd", r.budget.per_request_usd, 0.0, most),
        ("router.budget.window_usd", r.budget.window_usd, 0.0, most),
        ("router.budget.window_s", r.budget.window_s, 60.0, 31 * 86_400.0),
        ("queue.lease_s", config.queue.lease_s, 1.0, most),
        ("queue.undo_s", config.queue.undo_s, 0.0, 3600.0),
        ("cache.ttl_s", config.cache.ttl_s, 0.0, most),
        ("cache.max_entries", config.cache.max_entries, 1, most),
        ("cache.max_bytes", config.cache.max_bytes, 1, most),
        ("listen.port", config.listen.port, 0, 65_535),
        ("limits.head_bytes", config.limits.head_bytes, 1024, 1_000_000),
        ("limits.headers", config.limits.headers, 10, 10_000),
        ("limits.url_bytes", config.limits.url_bytes, 512, 65_000),
        ("limits.head_timeout_s", config.limits.head_timeout_s, 1e-3, most),
        ("limits.idle_s", config.limits.idle_s, 0.0, most),
        ("limits.write_timeout_s", config.limits.write_timeout_s, 1e-3, most),
        ("limits.connections", config.limits.connections, 1, 1_000_000),
        ("limits.failed_logins", config.limits.failed_logins, 0, 1_000_000),
        ("limits.body_bytes", config.limits.body_bytes, 1, most),
        ("limits.record_bytes", config.limits.record_bytes, 1, most),
        ("limits.bodies_bytes", config.limits.bodies_bytes, 1, most),
        ("limits.values", config.limits.values, 100, most),
        ("limits.body_timeout_s", config.limits.body_timeout_s, 1e-3, most),
        ("limits.points", config.limits.points, 1, most),
        ("limits.depth", config.limits.depth, 4, 500),
        ("limits.judgements", config.limits.judgements, 1, 1_000_000),
        ("limits.early_feedback", config.limits.early_feedback, 0, most),
        ("limits.open_tasks", config.limits.open_tasks, 1, most),
        ("limits.snapshot_every", config.limits.snapshot_every, 1, most),
        ("limits.grace_s", config.limits.grace_s, 0.0, 3600.0),
    ]
    for index, token in enumerate(config.tokens):
        where, limits = f"tokens[{index}].limits", token.limits or TokenLimitsConfig()
        bounds += [
            (f"{where}.requests_per_minute", limits.requests_per_minute, 0, most),
            (f"{where}.tokens_per_minute", limits.tokens_per_minute, 0, most),
            (f"{where}.usd", limits.usd, 0.0, most),
            (f"{where}.window_s", limits.window_s, 60.0, 31 * 86_400.0),
        ]
    for judge in config.judges:
        bounds += [
            (f"judges.{judge.name}.rate", judge.rate, 0.0, 1.0),
            (f"judges.{judge.name}.timeout_s", judge.timeout_s, 1e-3, 86_400.0),
            (f"judges.{judge.name}.concurrency", judge.concurrency, 1, 1000),
        ]
    if config.audit is not None:
        bounds.append(("audit.rate", config.audit.rate, 0.0, 1.0))
        bounds.append(("audit.answer_within_s", config.audit.answer_within_s, 1e-3, 31 * 86_400.0))
    for name, value, low, high in bounds:
        if value is not None and not (low <= value <= high and value < most):
            span = f"{low:g} or more" if high == most else f"from {low:g} to {high:g}"
            raise InvalidInputError(f"config.{name}", f"is {value}", f"set a finite number, {span}")
