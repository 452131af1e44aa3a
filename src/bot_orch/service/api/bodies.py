"""Bodies of requests and answers as typed structs; the OpenAPI document is made from these."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from bot_orch.service.config.settings import Scope, Tag

Name = Annotated[str, Meta(max_length=256)]
Key = Annotated[str, Meta(min_length=1, max_length=256)]
Share = Annotated[float, Meta(ge=0, le=1)]
Reward = Annotated[float, Meta(ge=-1e12, le=1e12)]  # the range in use is checked with the settings
Seconds = Annotated[float, Meta(ge=0, le=1e12)]
Dollars = Annotated[float, Meta(ge=0, le=1e9)]
Numbers = Annotated[tuple[float | None, ...], Meta(max_length=10_000)]  # null: a missing one
_VALUE = {"anyOf": [{"type": each} for each in ("number", "boolean", "string", "null")]}
FeatureName = Annotated[str, Meta(min_length=1, max_length=256, pattern="[^=]$")]
#: Values are checked where they become a task, so that an error names the feature.
NamedFeatures = Annotated[
    dict[FeatureName, Any], Meta(max_length=1000, extra_json_schema={"additionalProperties": _VALUE})
]
Features = Numbers | NamedFeatures


class RequestBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, kw_only=True):
    """Base of request bodies: unknown fields are refused."""


class TaskBody(RequestBody, frozen=True, kw_only=True):
    """The task, as far as the choice of an agent depends on it.

    ``features`` are numbers in a fixed order, or by name numbers and categories (texts, true and false), such as
    ``{"tokens": 312, "lang": "de"}``: the first task says which there are; what a later one lacks is missing.
    """

    id: Name = ""
    kind: Name = ""
    text: str = ""
    features: Features = ()
    reference: dict[str, Any] | None = None
    profiles: dict[str, dict[str, Any]] | None = None
    claims: dict[str, Share] | None = None


class ChatHints(RequestBody, frozen=True, kw_only=True):
    """Hints for the router, in addition to the fields of OpenAI's API; ``features`` as of a task."""

    kind: Name = ""
    session: Name | None = None
    features: Features = ()
    reference: dict[str, Any] | None = None
    profiles: dict[str, dict[str, Any]] | None = None
    claims: dict[str, Share] | None = None


class ChatAside(msgspec.Struct, frozen=True, gc=False):
    """The part of a chat request that is for the router and not passed on to the agent."""

    bot_orch: ChatHints | None = None


class AnswerBody(RequestBody, frozen=True, kw_only=True):
    """What is known of an answer before it is delivered: see ``bot_orch.Answer``; the decision says whose it is."""

    decision_id: Key
    signal: Share | None = None
    check: Share | None = None
    label: Key | int | None = None
    key: Key | int | None = None
    cost_usd: Dollars | None = None
    elapsed_s: Seconds | None = None


class DecisionRequest(RequestBody, frozen=True, kw_only=True):
    """Choose an agent for a task. ``id`` is the caller's own id for the decision: a version 7 UUID.

    With ``attempts`` the caller looks at answers: after each one it decides again, with the answers so far as ``seen``
    and the same ``attempts``. The action is then to ask the agent, or to accept its answer.
    """

    task: TaskBody = TaskBody()
    eligible: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=1000)] | None = None
    session: Key | None = None
    id: Annotated[str, Meta(min_length=36, max_length=36)] | None = None
    attempts: Annotated[int, Meta(ge=1, le=100)] = 1
    seen: Annotated[tuple[AnswerBody, ...], Meta(max_length=100)] = ()


class OutcomeReport(RequestBody, frozen=True, kw_only=True):
    """The outcome of a decision. ``reward`` is from 0 to 1, or in the range that ``router.reward`` in the configuration
    states. ``completed: false`` needs a ``reason``; silence is censored at the horizon.

    ``audit: true`` reports the truth about a decision that is marked with ``audit``. ``shown: true`` reports the
    ``output`` alone, before its outcome is known; the decision stays pending.
    """

    decision_id: Key = ""
    id: Key | None = None
    reward: Reward | None = None
    elapsed_s: Seconds | None = None
    reset_s: Seconds | None = None
    completed: bool = True
    reason: Key | None = None
    output: dict[str, Any] | None = None
    cost_usd: Dollars = 0.0
    audit: bool = False
    shown: bool = False


class FeedbackRequest(OutcomeReport, frozen=True, kw_only=True):
    """The outcome of a decision, named by ``decision_id`` or by ``completion_id``, the ``id`` of an answer.

    ``reward`` is from 0 to 1, or in the range that ``router.reward`` in the configuration states.
    ``session`` credits a ``reward`` to the decisions of a session, or to its ``last`` ones. ``completed: false`` needs
    a ``reason``; silence is censored at the horizon. ``audit: true`` reports the truth about a decision that is marked
    with ``audit``. ``shown: true`` reports the ``output`` alone, before its outcome is known.
    """

    completion_id: Key | None = None
    session: Key | None = None
    last: Annotated[int, Meta(ge=1, le=1000)] | None = None


class TaskRequest(RequestBody, frozen=True, kw_only=True):
    """Do a task: decide, call the agent, fall back, learn. With ``background`` the answer is an id to poll."""

    task: TaskBody
    eligible: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=1000)] | None = None
    session: Key | None = None
    params: dict[str, Any] = {}
    deadline_s: Annotated[float, Meta(gt=0, le=1e7)] | None = None
    background: bool = False


class KillSwitchRequest(RequestBody, frozen=True, kw_only=True):
    """Send all tasks to one agent; ``null`` lets the policy decide again."""

    agent: Name | None


class KeyRequest(RequestBody, frozen=True, kw_only=True):
    """A key for a caller; without ``days`` it does not expire."""

    name: Annotated[str, Meta(min_length=1, max_length=64)]
    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1)]
    days: Annotated[float, Meta(gt=0, le=3660)] | None = None
    tags: tuple[Tag, ...] = ()


class ResponseView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Base of answers."""


class KeyView(ResponseView, frozen=True, kw_only=True):
    """A key in use, without the key itself; ``by`` is who made it."""

    id: str
    name: str
    scopes: tuple[str, ...]
    by: str
    tags: tuple[str, ...] | None = None
    expires_us: int | None = None


class NewKeyView(KeyView, frozen=True, kw_only=True):
    """A key that was just made; ``token`` is not shown again."""

    token: str


class TermsView(ResponseView, frozen=True, kw_only=True):
    """The terms of one agent's score, in units of reward but for ``distance``."""

    estimate: float
    exploration: float
    distance: float
    alignment: float
    cost: float
    bias: float = 0.0


class DecisionView(ResponseView, frozen=True, kw_only=True):
    """The chosen agent, the propensities and the terms of all scores.

    ``audit`` asks for the truth as well as the judge's value; it was drawn with ``audit_probability``. ``multipliers``
    are those of the objective's limits: the reward that one more dollar, task or late answer would earn.
    """

    id: str
    agent: str
    propensity: float
    propensities: dict[str, float]
    terms: dict[str, TermsView]
    policy: str
    state_seq: int
    by: str = "policy"
    audit: bool = False
    audit_probability: float = 0.0
    multipliers: dict[str, float] = {}
    action: str = "ask"


class AttemptView(ResponseView, frozen=True, kw_only=True):
    """One attempt at one agent."""

    agent: str
    decision_id: str
    number: int
    ending: str
    elapsed_s: float
    first_byte_s: float | None = None
    status: int | None = None
    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False


class OutcomeView(ResponseView, frozen=True, kw_only=True):
    """One reported outcome, and how it counted."""

    effect: str
    time_us: int
    id: str | None = None
    reward: float | None = None
    elapsed_s: float | None = None
    completed: bool = False
    reason: str | None = None
    cost_usd: float = 0.0
    audit: bool = False
    judge: str = ""


class Explanation(ResponseView, frozen=True, kw_only=True):
    """A decision with its attempts and outcomes.

    ``round`` names all decisions of its round, in order, and ``attempts`` lists the attempts of all of them: after a
    failure the next agent is another decision. ``steps`` says in words what a round did that looked at its answers.
    """

    decision: DecisionView
    time_us: int
    task_id: str
    kind: str
    session: str | None
    excluded: dict[str, str]
    attempts: list[AttemptView]
    outcomes: list[OutcomeView]
    pending: bool
    why: str
    round: list[str] = []
    steps: list[str] = []


class FeedbackView(ResponseView, frozen=True, kw_only=True):
    """How a report counts: ``effect`` is learned, noted, replaced, early, revision, late, audited, shown or outranked.

    ``duplicate``: it was logged before; the effect is ``archived`` if that event is in an archive.
    """

    id: str
    decision_id: str
    effect: str
    duplicate: bool = False


class SessionView(ResponseView, frozen=True, kw_only=True):
    """How the reward of a session counts for each of its decisions, oldest first."""

    session: str
    credited: list[FeedbackView]


class TaskView(ResponseView, frozen=True, kw_only=True):
    """A round and its status: running, completed or failed; ``decisions`` are those made in it, in order."""

    id: str
    status: str
    task_id: str = ""
    kind: str = ""
    submitted_us: int = 0
    ended_us: int | None = None
    decisions: list[str] = []
    agent: str = ""
    decision_id: str = ""
    output: str = ""
    error: str = ""
    attempts: list[AttemptView] = []


class AgentView(ResponseView, frozen=True, kw_only=True):
    """An agent and the state of its circuit breaker.

    ``reason`` says why it takes no calls, ``retry_in_s`` for how long (0: not known). ``held_s`` is what is left of a
    ``Retry-After`` of its own; ``waiting`` calls wait for one of its slots. A ``draining`` agent gets no new work; the
    propensity of one on trial is at most its ``canary_share``.
    """

    id: str
    kind: str
    circuit: str
    available: bool
    in_flight: int
    concurrency: int
    waiting: int = 0
    held_s: float = 0.0
    reason: str = ""
    retry_in_s: float = 0.0
    draining: bool = False
    canary_share: float | None = None


class LimitView(ResponseView, frozen=True, kw_only=True):
    """A limit of the objective; ``multiplier`` is the reward that one more ``unit`` would earn, 0 where it is slack."""

    name: str
    limit: float
    unit: str
    multiplier: float


class KindCertificateView(ResponseView, frozen=True, kw_only=True):
    """The certificate of one kind of decision: an agent, where it was expected to earn ``expected`` or more."""

    agent: str
    expected: float
    rounds: int
    loss: float
    loss_bound: float
    serves: bool = True


class CertificateView(ResponseView, frozen=True, kw_only=True):
    """What a guarantee certifies: bound of the loss so far and the loss allowed, in widths of the range of rewards."""

    baseline: str
    rounds: int
    loss_bound: float
    credit: float
    serves_others: bool
    rounds_needed: int | None = None
    kinds: list[KindCertificateView] = []


class BudgetView(ResponseView, frozen=True, kw_only=True):
    """Dollars spent of a window's budget; ``decides`` is ``pace`` or ``exhausted`` while it narrows the choice."""

    limit_usd: float
    window_s: float
    spent_usd: float
    decides: str


class ObjectiveView(ResponseView, frozen=True, kw_only=True):
    """What the router optimises now, and what it expects of each agent: dollars, seconds, shares of late answers."""

    weights: dict[str, float]
    minimise: str | None
    limits: list[LimitView]
    expected: dict[str, dict[str, float]]
    spent_last_day_usd: float | None
    usd_per_day: float | None = None
    budget: BudgetView | None = None
    certificate: CertificateView | None = None


class ReloadView(ResponseView, frozen=True, kw_only=True):
    """Settings that were changed, and those that only a restart changes."""

    changed: list[str]
    after_restart: list[str]


class StateView(ResponseView, frozen=True, kw_only=True):
    """The state; ``fingerprint`` equals what ``bot-orch replay`` prints for the same log.

    ``process`` is the one of several processes that serves the router: machine and number.
    """

    process: str
    seq: int
    time_us: int
    fingerprint: str
    pending: int
    kill_switch: str | None
    spent_usd: float


class SpendLineView(ResponseView, frozen=True, kw_only=True):
    """What was used under one key: a token, tag, agent or day. The key is empty for what has none."""

    key: str
    requests: int
    attempts: int
    errors: int
    input_tokens: int
    output_tokens: int
    cost_usd: float


class SpendView(ResponseView, frozen=True, kw_only=True):
    """Spending from one time (inclusive) to another (exclusive), in UTC; ``cost_usd`` counts every dollar once."""

    by: str
    from_: str = msgspec.field(name="from")
    to: str
    lines: list[SpendLineView]
    cost_usd: float
