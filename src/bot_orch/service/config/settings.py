"""The settings of the service: types, bounds and meanings. docs/reference/settings.md is generated from them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, get_args

from bot_orch.agents.capabilities import Interface, Prefill
from bot_orch.errors import MissingExtraError

try:
    import msgspec
except ImportError as _error:  # pragma: no cover
    raise MissingExtraError("a configuration file", "service") from _error

__all__ = [
    "REFERENCES",
    "SCOPES",
    "AgentConfig",
    "AlignmentConfig",
    "AuditConfig",
    "BudgetConfig",
    "ClusterConfig",
    "Config",
    "EndpointConfig",
    "JudgeConfig",
    "LimitsConfig",
    "ListenConfig",
    "ObserveConfig",
    "PassthroughConfig",
    "RetentionConfig",
    "RouterConfig",
    "RuleConfig",
    "SubjectToConfig",
    "TokenConfig",
    "TokenLimitsConfig",
]

Scope = Literal["decide", "feedback", "queue", "metrics", "admin"]
SCOPES: tuple[str, ...] = get_args(Scope)
REFERENCES: tuple[Literal["task", "tasks", "accepted"], ...] = ("task", "tasks", "accepted")
_MONTH_S = 31 * 86_400
Tag = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._:/=-]{1,64}$")]


def _is(text: str, low: float | None = None, high: float = 10**15) -> msgspec.Meta:
    """Metadata of a setting: its description, and the bounds of a number."""
    return msgspec.Meta(description=text) if low is None else msgspec.Meta(description=text, ge=low, le=high)


def _share(text: str) -> msgspec.Meta:
    """Metadata of a share: above 0, and 1 at most."""
    return msgspec.Meta(description=text, gt=0.0, le=1.0)


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class ListenConfig(_Part, frozen=True, kw_only=True):
    """Where the service listens. Without tokens only loopback is allowed."""

    host: Annotated[str, _is("Address to listen at.")] = "127.0.0.1"
    port: Annotated[int, _is("Port to listen at; 0 lets the system choose.", 0, 65_535)] = 8080


class TokenLimitsConfig(_Part, frozen=True, kw_only=True):
    """Limits of one token."""

    requests_per_minute: Annotated[int, _is("Requests that decide (429 beyond).", 0)] | None = None
    usd_per_day: Annotated[float, _is("Dollars in 24 hours.", 0)] | None = None


class TokenConfig(_Part, frozen=True, kw_only=True):
    """A caller and its scopes."""

    name: Annotated[str, _is("Who calls.")]
    scopes: Annotated[tuple[Scope, ...], _is("Any of `decide`, `feedback`, `queue`, `metrics`, `admin`.")]
    env: Annotated[str | None, _is("The environment variable that holds the token.")] = None
    sha256: Annotated[str | None, _is("Instead of `env`: the hash of the token.")] = None
    limits: Annotated[TokenLimitsConfig | None, _is("What the token may use.")] = None
    tags: Annotated[tuple[Tag, ...], _is("Tags of all its decisions, for reports of spending.")] = ()


class BudgetConfig(_Part, frozen=True, kw_only=True):
    """Spending limits."""

    per_request_usd: (
        Annotated[
            float,
            _is("Agents whose expected price, with what the round has spent, would exceed it are excluded.", 0),
        ]
        | None
    ) = None
    window_usd: Annotated[float, _is("Dollars in `window_s` seconds.", 0)] | None = None
    window_s: Annotated[float, _is("Seconds of that window.", 60, _MONTH_S)] = 86_400.0
    on_exhausted: Annotated[
        Literal["refuse", "cheapest", "warn"],
        _is("With the money used up: `refuse` (503), leave the `cheapest` agent, or `warn` alone."),
    ] = "refuse"
    pace: Annotated[
        bool,
        _is(
            "Once half of the money is used, leave the cheapest agent while the last fifth of the window has "
            "used a fifth of the other half."
        ),
    ] = False


class SubjectToConfig(_Part, frozen=True, kw_only=True):
    """Limits of the objective."""

    quality_within: Annotated[float | None, _is("Largest relative loss of quality.")] = None
    usd_per_task: Annotated[float | None, _is("Dollars per task on average.")] = None
    usd_per_day: Annotated[float, _is("Dollars in 24 hours.", 1e-9)] | None = None
    p95_seconds: Annotated[float | None, _is("Seconds that 95 % of the answers keep.")] = None
    p95_first_token_seconds: Annotated[float | None, _is("Seconds until they begin that 95 % of the answers keep.")] = (
        None
    )
    shares: Annotated[dict[str, float], _is("Largest shares of the tasks, by agent.")] = {}


class RuleConfig(_Part, frozen=True, kw_only=True):
    """A hard rule for tasks of one kind."""

    kind: Annotated[str | None, _is("The kind of task that the rule is for; all if not given.")] = None
    allow: Annotated[tuple[str, ...] | None, _is("Only these agents.")] = None
    deny: Annotated[tuple[str, ...], _is("Not these agents.")] = ()
    pin: Annotated[str | None, _is("Only this agent.")] = None


class AlignmentConfig(_Part, frozen=True, kw_only=True):
    """Reference and distance of outputs. Without it the first measure seen determines the geometry."""

    latency_target_s: Annotated[float | None, _is("A target in seconds; or `geometry`.")] = None
    geometry: Annotated[dict[str, Any] | None, _is("The type of the outputs.")] = None
    reference: Annotated[
        str,
        _is(
            "What outputs are compared with: the reference of the `task`, the barycenter of past `tasks`, `accepted` "
            "outputs of the other agents (a reward in the upper half of the range), or the outputs of a trusted "
            "agent, by its name."
        ),
    ] = "task"


class ObserveConfig(_Part, frozen=True, kw_only=True):
    """Watch first: the router decides in the background, and the agents that it would have chosen are asked, too."""

    baseline: Annotated[str, _is("The agent that serves, unless a request names another one.")]
    usd_per_day: Annotated[
        float, _is("Dollars a day for answers of those that the router would have chosen, spread over the day.", 0)
    ]


class RouterConfig(_Part, frozen=True, kw_only=True):
    """How agents are chosen and how outcomes count."""

    policy: Annotated[str, _is("The policy, by its name in `bot_orch.available_policies()`.")] = "auto"
    settings: Annotated[dict[str, Any], _is("Settings of the policy.")] = {}
    lambda_: Annotated[
        float | Literal["auto"], _is("Weight of the distance in units of reward: a number, or `auto`, a dual variable.")
    ] = msgspec.field(default="auto", name="lambda")
    alignment: Annotated[AlignmentConfig | None, _is("Reference and distance of outputs.")] = None
    seed: Annotated[int, _is("Same seed, tasks and outcomes: same decisions.")] = 0
    n_features: (
        Annotated[
            int,
            _is(
                "Number of `features` of a task, 0 to leave them unused; the first task says it unless given. Of "
                "features by name a number counts 1, a category 8.",
                0,
                10_000,
            ),
        ]
        | None
    ) = None
    floor: Annotated[
        float, _is("Share of all traffic that explores, evenly or where the policy is in doubt.", 0, 1)
    ] = 0.02
    reference: Annotated[
        dict[str, Any] | None,
        _is("The reference of tasks without one, such as `{kind: labels, probabilities: [0, 1]}`."),
    ] = None
    reward: Annotated[
        dict[str, Any] | None,
        _is(
            "The range of reported rewards, `{low: 1, high: 5}`, 0 to 1 unless given; or `{id: survival}`, which "
            "rewards speed: outcomes need times, not rewards."
        ),
    ] = None
    horizon_s: Annotated[float, _is("Without feedback for this long, the outcome is right-censored.", 1e-3)] = 86_400.0
    patience_s: Annotated[float, _is("Silence that lasted this long has the lowest reward.", 1e-3)] | None = None
    sticky_s: Annotated[float, _is("Seconds for which a session or conversation stays with its agent.", 0)] = 0.0
    attempts: Annotated[
        int,
        _is(
            "Agents called in one round, at most: another one after a failure, after silence at the patience of one "
            "that a task with a `deadline_s` is waiting for, and after an answer that is not good enough by `checks` "
            "or `signal`.",
            1,
            100,
        ),
    ] = 3
    checks: Annotated[
        tuple[str, ...],
        _is("Judges by name that look at every answer before it is delivered; another agent may be asked then."),
    ] = ()
    signal: Annotated[
        Literal["none", "logprobs"],
        _is("How sure an answer is: `none`, or `logprobs` (the geometric mean of its tokens' probabilities)."),
    ] = "none"
    midstream: Annotated[
        Literal["error", "restart", "continue"],
        _is(
            "When a stream of a chat breaks off: end it with an error event (`error`), let another agent begin again "
            "after a marker (`restart`), or go on where `capabilities.prefill` allows it, else restart (`continue`)."
        ),
    ] = "error"
    success_reward: (
        Annotated[
            float,
            _is(
                "Reward of a successful answer without feedback; it counts the less the larger the share of "
                "answers with feedback is."
            ),
        ]
        | None
    ) = None
    budget: Annotated[BudgetConfig, _is("Spending limits.")] = BudgetConfig()
    rules: Annotated[tuple[RuleConfig, ...], _is("Hard rules.")] = ()
    aliases: Annotated[
        dict[str, str], _is("Further names of models that callers may ask for: `auto` or an agent, by name.")
    ] = {}
    encoder: Annotated[str | None, _is("`builtin` or `wordllama`: the text of a task or chat becomes context.")] = None
    on_alarm: Annotated[
        Literal["count", "restart"], _is("What a drift alarm does: `count`, or `restart` the agent.")
    ] = "count"
    objective: Annotated[
        dict[str, float], _is("Reward that a dollar, a second and a second until the first token are worth.")
    ] = {}
    minimise: Annotated[
        Literal["usd"] | None, _is("`usd`: the least dollars within `subject_to`, which then needs `quality_within`.")
    ] = None
    subject_to: Annotated[SubjectToConfig, _is("Limits of the objective.")] = SubjectToConfig()
    constraints: Annotated[tuple[dict[str, Any], ...], _is("Budgets, capacities, quotas, deadlines.")] = ()
    guarantee: Annotated[
        dict[str, Any],
        _is(
            "`{baseline, loss_at_most, confidence, control}`: other agents serve only while the loss against "
            "the baseline, as a share of the range of rewards, is certified."
        ),
    ] = {}
    observe: Annotated[
        ObserveConfig | None, _is("The router serves nobody: its choices are compared with what is served.")
    ] = None

    @property
    def looks(self) -> bool:
        """Whether answers are looked at before they are delivered."""
        return bool(self.checks) or self.signal != "none"

    @property
    def max_calls(self) -> int:
        """Calls to agents in one round, retries included, at most: one more than agents may be asked."""
        return self.attempts + 1


class EndpointConfig(_Part, frozen=True, kw_only=True):
    """One of several places with the same model; what it leaves out is that of the agent."""

    base_url: Annotated[str, _is("URL including `/v1`.")]
    api_key: Annotated[str, _is("Its key; write `${NAME}`.")] = ""
    model: Annotated[str, _is("The model's name there.")] = ""


class AgentConfig(_Part, frozen=True, kw_only=True):
    """One agent: what it calls, its limits and its rollout.

    ``base_url``, ``model`` and the like are for the kinds `openai` and `anthropic`, ``path`` is for `python`.
    """

    id: Annotated[str, _is("Its name.")]
    kind: Annotated[str, _is("Its kind.")]
    base_url: Annotated[str, _is("URL of an endpoint, including `/v1`.")] = ""
    model: Annotated[str, _is("Name of the model at the endpoint.")] = ""
    api_key: Annotated[str, _is("Key of the endpoint; write `${NAME}`.")] = ""
    headers: Annotated[dict[str, str], _is("Further headers of every call.")] = {}
    endpoints: Annotated[
        tuple[EndpointConfig, ...],
        _is("Instead of `base_url`: several places with the same model, each asked if those before it failed."),
    ] = ()
    check_model: Annotated[
        bool,
        _is(
            "Whether an answer that names another model is an alarm and starts the agent afresh; `false` for a name "
            "behind which the endpoint chooses models."
        ),
    ] = True
    path: Annotated[str, _is("The function, `module:function` or `folder/module:function` next to the file.")] = ""
    params: Annotated[
        dict[str, Any],
        _is(
            "Parameters that count before those of the caller, such as `temperature`; `system` precedes the "
            "instructions. Of a simulated agent: `quality`, `median_s`, `sigma`, `spread`, `crash`, `seed`, ..."
        ),
    ] = {}
    timeout_s: (
        Annotated[
            float,
            _is("Seconds for a whole answer, or until a stream begins; 600 by default, 3600 of a person.", 1e-3, 10**7),
        ]
        | None
    ) = None
    first_byte_s: Annotated[float, _is("Seconds until a stream begins.", 1e-3, 10**7)] = 30.0
    concurrency: (
        Annotated[
            int, _is("Calls at the same time; 16 of a function, which holds a thread, and 1000 of others.", 1, 10**6)
        ]
        | None
    ) = None
    price: Annotated[dict[str, Any], _is("Dollars per call and token; by default the list price of its model.")] = {}
    cost: Annotated[float, _is("Cost of one call, in units of reward.")] = 0.0
    context_tokens: Annotated[int, _is("Tokens of request and answer together; any number by default.", 1)] | None = (
        None
    )
    lacks: Annotated[tuple[Literal["vision", "tools", "json"], ...], _is("What it cannot take.")] = ()
    interfaces: (
        Annotated[
            tuple[Interface, ...],
            _is("Interfaces that the endpoint has, `[chat]` by default. Of a person: `[chat]` for chats, too."),
        ]
        | None
    ) = None
    prefill: Annotated[
        Prefill,
        _is(
            "How it continues an answer that another agent began: a last `message`, one marked `prefix` (Mistral, "
            "DeepSeek), `continue_final_message` (vLLM, SGLang), or `none`."
        ),
    ] = "none"
    profile: Annotated[dict[str, Any] | None, _is("A measure: the known distribution of its outputs.")] = None
    canary: Annotated[float, _share("Its largest propensity, while it is new.")] | None = None


class JudgeConfig(_Part, frozen=True, kw_only=True):
    """One judge; the order of the list is their rank."""

    name: Annotated[str, _is("Its name.")]
    kind: Annotated[str, _is("Its kind.")]
    settings: Annotated[dict[str, Any], _is("Settings of its kind.")] = {}
    rate: Annotated[float, _is("Share of the answers that it sees.", 0, 1)] = 1.0


class AuditConfig(_Part, frozen=True, kw_only=True):
    """Random audits of judges."""

    rate: Annotated[float, _is("Share of decisions, drawn at random, about which the truth is asked.", 0, 1)]
    by: Annotated[str, _is("Who tells it: `human`, `caller` or the name of a judge.")] = "human"


class LimitsConfig(_Part, frozen=True, kw_only=True):
    """When snapshots are written, and how long a stop may take; limits on requests and connections are fixed."""

    client_timeout_s: ClassVar[float] = 15.0
    """Seconds that a client has for a head, for a body (one more for each 100 kB; 408) and for reading an answer."""
    idle_s: ClassVar[float] = 30.0
    """Seconds between requests of a connection."""
    connections: ClassVar[int] = 10_000
    """Open connections; beyond, the one that waits longest is closed, and if none waits a new one gets 503."""
    failed_logins: ClassVar[int] = 20
    """Unknown tokens per address and minute before it must wait (429); 0 for any number."""
    body_bytes: ClassVar[int] = 20_000_000
    """Bytes of a chat's body; other bodies have a megabyte at most (413), all together 20 times this (503)."""
    snapshot_tail_s: ClassVar[float] = 1.0
    """Seconds that folding events since the last snapshot may take."""

    snapshot_every: Annotated[int, _is("Events between snapshots, at most.", 1)] = 20_000
    grace_s: Annotated[
        float,
        _is(
            "Seconds for requests and streams to end after a signal to stop; what stops the service must wait longer.",
            0,
            3600,
        ),
    ] = 60.0


class RetentionConfig(_Part, frozen=True, kw_only=True):
    """How long events stay in the log; older ones move daily to files."""

    events: Annotated[str | None, _is("How long events stay in the log, such as `90d`.")] = None
    archive: Annotated[str | None, _is("The folder of those files.")] = None


class ClusterConfig(_Part, frozen=True, kw_only=True):
    """How the processes of a service on PostgreSQL reach each other."""

    address: Annotated[
        str | None,
        _is(
            "`host` or `host:port` where the other processes reach this one; by default the host and port of `listen`."
        ),
    ] = None
    port: Annotated[int, _is("Workers are reached at this port and those behind it; 0 lets the system choose.")] = 0


class PassthroughConfig(_Part, frozen=True, kw_only=True):
    """Paths below ``/v1`` that go unchanged to one agent: those of embeddings, moderations, images, sound and files."""

    agent: Annotated[str, _is("The agent, of kind `openai` or `anthropic`.")]
    paths: Annotated[tuple[str, ...], _is("Further paths, with all below them, such as `/v1/fine_tuning`.")] = ()


class Config(_Part, frozen=True, kw_only=True):
    """All settings of the service: one router with its agents, and its log."""

    version: Annotated[Literal[1], _is("1.")]
    agents: Annotated[tuple[AgentConfig, ...], _is("The agents.")]
    revision: Annotated[
        int,
        _is("Number of this version of the file; a lower one than the log has seen is refused.", 0),
    ] = 0
    database: Annotated[str, _is("A file next to this one, `:memory:`, or `postgresql://...`.")] = "bot-orch.sqlite"
    listen: Annotated[ListenConfig, _is("Where to listen.")] = ListenConfig()
    tokens: Annotated[tuple[TokenConfig, ...], _is("Who may call.")] = ()
    router: Annotated[RouterConfig, _is("How agents are chosen.")] = RouterConfig()
    judges: Annotated[tuple[JudgeConfig, ...], _is("Judges of answers, the highest rank first.")] = ()
    audit: Annotated[AuditConfig | None, _is("Audits of judges.")] = None
    passthrough: Annotated[PassthroughConfig | None, _is("Paths that go unchanged to one agent.")] = None
    limits: Annotated[LimitsConfig, _is("Limits of the service.")] = LimitsConfig()
    retention: Annotated[RetentionConfig, _is("What becomes of old events.")] = RetentionConfig()
    cluster: Annotated[ClusterConfig, _is("Processes on PostgreSQL.")] = ClusterConfig()
    prices: Annotated[
        str | None,
        _is("A file of prices (CSV, or LiteLLM's JSON), next to this one, before the shipped table."),
    ] = None
    access_log: Annotated[str | None, _is("A file for the access log, next to this one.")] = None
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], _is("`debug`, `info`, `warning` or `error`.")
    ] = "info"
