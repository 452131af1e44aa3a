"""The settings of the service, as typed values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from bot_orch.errors import MissingExtraError
from bot_orch.log.stores.postgres.timing import with_stream
from bot_orch.service.trials import CanaryConfig, HealthConfig, ShadowConfig

try:
    import msgspec
except ImportError as _error:  # pragma: no cover
    raise MissingExtraError("a configuration file", "service") from _error

__all__ = [
    "ALARMS",
    "SCOPES",
    "AbConfig",
    "AgentConfig",
    "AlignmentConfig",
    "AuditConfig",
    "BudgetConfig",
    "CacheConfig",
    "ClusterConfig",
    "Config",
    "GuardrailConfig",
    "JudgeConfig",
    "LimitsConfig",
    "ListenConfig",
    "MemoryConfig",
    "QueueConfig",
    "ReferenceConfig",
    "RouterConfig",
    "RouterPartConfig",
    "RuleConfig",
    "SubjectToConfig",
    "TenantConfig",
    "TokenConfig",
    "TokenLimitsConfig",
    "TracesConfig",
    "WatchConfig",
    "WebhookConfig",
]

Scope = Literal["decide", "feedback", "queue", "admin"]
SCOPES: tuple[str, ...] = get_args(Scope)
AlarmName = Literal["drift", "circuit_open", "circuit_closed", "budget", "audit", "load"]
ALARMS: tuple[AlarmName, ...] = get_args(AlarmName)
Tag = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._:/=-]{1,64}$")]


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
    a ``router`` is for that one alone. One with a ``tenant`` sees and changes only what is that tenant's.
    """

    name: str
    scopes: tuple[Scope, ...]
    env: str | None = None
    sha256: str | None = None
    limits: TokenLimitsConfig | None = None
    tags: tuple[Tag, ...] = ()
    router: str | None = None
    tenant: str | None = None


class TenantConfig(_Part, frozen=True, kw_only=True):
    """An application beside others: its tokens share ``limits``, ``tags`` and ids, and see nothing of other tenants.

    With a ``router`` it uses that one alone, and tenants that do not name it cannot; without one it shares the others.
    """

    limits: TokenLimitsConfig | None = None
    tags: tuple[Tag, ...] = ()
    router: str | None = None


class BudgetConfig(_Part, frozen=True, kw_only=True):
    """Spending limits; agents whose expected price would exceed one are not eligible.

    If the window's money is used up for all of them, ``on_exhausted`` refuses the request or leaves the cheapest one.
    ``pace`` leaves the cheapest one already when half of the money is used, while a fifth of the window has used a
    fifth of the other half.
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
    """How agents are chosen and how outcomes count.

    Parameters
    ----------
    policy
        The policy.
    settings
        Settings of the policy (``bot-orch sweep --list``).
    lambda
        Weight of the distance: a number, or ``auto``, a dual variable.
    alignment
        How outputs are compared with a reference.
    seed
        Same seed, tasks and outcomes: same decisions.
    n_features
        Number of ``features`` of a task.
    floor
        Share of all traffic that explores, evenly or where the policy is in doubt.
    reference
        The reference of tasks without one, such as ``{kind: labels, probabilities: [0, 1]}``.
    reward
        ``{id: survival}`` rewards speed: outcomes need times, not rewards.
    horizon_s
        Without feedback for this long, the outcome is right-censored.
    patience_s
        Silence that lasted this long has reward zero.
    sticky_s
        A session stays with its agent for this long.
    sticky_by
        What the session of a chat is, if it names none: nothing (``session``), its ``user``, or its first
        messages (``conversation``).
    max_attempts
        Maximum number of agents called in one round.
    max_calls
        Maximum number of calls to agents in one round, retries included.
    attempts
        Tasks with a ``deadline_s``: agents that share it. With 2 or more an agent that is still silent at its
        patience is given up for another one, within ``max_attempts``.
    attempt_patience
        How long each but the last is waited for: ``learned``, or ``half`` of the time left.
    success_reward
        Reward of a successful answer without feedback; it counts the less the larger the share of answers with
        feedback is.
    kill_switch
        The agent that gets all traffic.
    budget
        Spending limits.
    rules
        Hard rules by kind of task.
    encoder
        ``builtin`` or ``wordllama``: the text of a task or chat becomes context.
    audit_rate
        Share of decisions, drawn at random, that are marked for an audit.
    on_alarm
        What a drift alarm does: ``count``, or ``restart`` the agent.
    objective
        Reward that a dollar (``usd``), a second (``seconds``) and a second until the first token
        (``first_token``) are worth, and the weight of ``quality``.
    minimise
        ``usd``: the least dollars within ``subject_to``, which then needs ``quality_within``.
    subject_to
        Limits of the objective.
    constraints
        Budgets, capacities, deadlines, as ``{kind: budget, usd: 5, per: 1000}``.
    guarantee
        ``{baseline, loss_at_most, confidence, control}``: other agents serve only while the loss against the
        baseline is certified.
    ab
        Another policy that makes a share of the decisions.
    """

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
    guarantee: dict[str, Any] = {}
    ab: AbConfig | None = None


class AgentConfig(_Part, frozen=True, kw_only=True):
    """One agent: its kind and settings, what it costs, how it is called, rolled out and checked.

    Parameters
    ----------
    id
        Its name.
    kind
        ``openai``, ``anthropic``, ``python``, ``subprocess``, ``human`` or ``simulated``.
    cost
        Cost of one call, in units of reward.
    profile
        A measure: the known distribution of its outputs.
    settings
        Settings of the kind.
    limits
        Timeouts, concurrency and sizes of its calls.
    retry
        Retries.
    price
        Dollars: ``per_call_usd``, ``input_usd_per_million``, ``output_usd_per_million``.
    breaker
        The circuit breaker.
    canary
        A cap while it is on trial.
    shadow
        Asked without being shown.
    health
        Health checks.
    capabilities
        What it can serve: ``context_tokens``, ``vision``, ``tools``, ``json``, ``region``, ``endpoints``.
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
    """Limits on requests and connections, and on what the service keeps in memory.

    Parameters
    ----------
    head_bytes
        Bytes of a request's head, which may have 100 headers (431).
    client_timeout_s
        Seconds that a client has for a head, for a body (one more for each 100 kB; 408) and for reading an answer.
    idle_s
        Seconds between requests of a connection.
    connections
        Open connections, as far as the system's limit on open files allows; beyond, the one that has waited
        longest for a request is closed, and if none waits a new one gets 503.
    failed_logins
        Unknown tokens per address and minute before it must wait (429); 0 for any number.
    body_bytes
        Bytes of a chat's body, which may hold images; all other bodies have a megabyte at most (413), all
        together 20 times this (503).
    snapshot_every
        Events between snapshots, at most.
    grace_s
        Seconds for requests and streams to end after a signal to stop; then calls of agents are ended. What
        stops the service must wait longer.
    """

    head_bytes: int = 32_768
    client_timeout_s: float = 15.0
    idle_s: float = 30.0
    connections: int = 10_000
    failed_logins: int = 20
    body_bytes: int = 20_000_000
    snapshot_every: int = 20_000
    grace_s: float = 60.0


class SnapshotsConfig(_Part, frozen=True, kw_only=True):
    """When snapshots are written: before folding the events since the last one would take ``tail_s``."""

    tail_s: float = 1.0


class RetentionConfig(_Part, frozen=True, kw_only=True):
    """How long events stay in the log, such as ``90d``; older ones move daily to files in ``archive``."""

    events: str | None = None
    archive: str | None = None


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


class ClusterConfig(_Part, frozen=True, kw_only=True):
    """How the processes of a service on PostgreSQL reach each other.

    ``address`` is where the others reach this one, as ``host`` or ``host:port``. Chats that they carry are taken at
    ``port``; worker i takes requests at ``port + 2 i`` and chats at the port after it. 0 lets the system choose.
    """

    address: str | None = None
    port: int = 0


class CacheConfig(_Part, frozen=True, kw_only=True):
    """Answers kept for exactly the same request; off unless ``ttl_s`` is set."""

    ttl_s: float = 0.0
    max_entries: int = 1_000
    max_bytes: int = 64_000_000


class Config(_Part, frozen=True, kw_only=True):
    """All settings of the service.

    Parameters
    ----------
    version
        1.
    agents
        The agents of the default router.
    revision
        On PostgreSQL: a higher one than that in force applies the file although it is an earlier version.
    database
        A file next to this one, ``:memory:``, or ``postgresql://...``.
    listen
        Where to listen.
    tokens
        Callers and their scopes.
    tenants
        Applications apart from each other, by name: each with ``limits`` as those of a token, ``tags`` and a
        ``router``.
    router
        How the default router chooses and learns.
    judges
        Judges of answers, the highest rank first.
    audit
        Which decisions are audited, and by whom.
    queue
        The queue of people.
    limits
        Limits on requests and connections.
    snapshots
        When snapshots are written.
    retention
        When old events are archived.
    guards
        Guardrails before and after calls.
    cache
        Answers kept for the same request.
    cluster
        How processes on PostgreSQL reach each other.
    access_log
        A file for the access log, next to this one.
    webhooks
        URLs that receive alarms.
    traces
        OpenTelemetry.
    log_level
        ``debug``, ``info``, ``warning`` or ``error``.
    name
        The name of the default router.
    routers
        Further ones by name, each with ``agents``, ``router``, ``database``, ``queue``, ``judges`` and
        ``audit``.
    """

    version: Literal[1]
    agents: tuple[AgentConfig, ...]
    revision: Annotated[int, msgspec.Meta(ge=0)] = 0
    database: str = "bot-orch.sqlite"
    listen: ListenConfig = ListenConfig()
    tokens: tuple[TokenConfig, ...] = ()
    tenants: dict[str, TenantConfig] = {}
    router: RouterConfig = RouterConfig()
    judges: tuple[JudgeConfig, ...] = ()
    audit: AuditConfig | None = None
    queue: QueueConfig = QueueConfig()
    limits: LimitsConfig = LimitsConfig()
    snapshots: SnapshotsConfig = SnapshotsConfig()
    retention: RetentionConfig = RetentionConfig()
    guards: tuple[GuardrailConfig, ...] = ()
    cache: CacheConfig = CacheConfig()
    cluster: ClusterConfig = ClusterConfig()
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
    """The log of another router: ``bot-orch.support.sqlite`` beside ``bot-orch.sqlite``, or a stream of PostgreSQL."""
    if database == ":memory:":
        return database
    if "://" in database:
        return with_stream(database, name)
    file = Path(database)
    return str(file.with_name(f"{file.stem}.{name}{file.suffix}"))
