"""Immutable value types: task, agent, decision, outcome. They are validated on construction."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from types import MappingProxyType
from typing import Any, Protocol, Self, runtime_checkable
from unicodedata import normalize

import numpy as np

from bot_orch.arrays import Floats, null_for_nan
from bot_orch.checks import check_number, check_text, is_number
from bot_orch.display import html_table
from bot_orch.errors import InvalidInputError, TaskIdWarning, require_type
from bot_orch.records import builder

#: Why an outcome is not a completion: observation stopped before the end.
_CENSORED = ("timeout", "deadline", "cancelled", "unanswered", "shutdown", "horizon", "not_applicable")
#: Why an outcome is not a completion: it never will be.
_FAILED = ("crashed", "out_of_memory", "failed")
#: What ``Outcome.reason`` may be, words of other programs included; :mod:`bot_orch.survival.causes` has their meaning.
REASONS = frozenset({*_CENSORED, *_FAILED, "crash", "error", "memout", "oom", "other", "ok", "completed"})
_BOOLEANS = (bool, np.bool_)
REWARD_ROUNDING = 1e-9  # how far beyond its range a reward may lie: a mean of ones can be 1.0000000000000002
_NO_FEATURES: tuple[float, ...] = ()
_NO_PROFILES: Mapping[str, Measure] = MappingProxyType({})
_NO_CLAIMS: Mapping[str, float] = MappingProxyType({})


@runtime_checkable
class Measure(Protocol):
    """A distribution over outcomes. The concrete kinds live in :mod:`bot_orch.transport`."""

    @property
    def kind(self) -> str:
        """Type of the measure: ``labels``, ``samples``, ..."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """JSON values, including ``kind``."""
        ...


@dataclass(frozen=True, slots=True)
class Agent:
    """A model, tool or person that can do tasks.

    Parameters
    ----------
    id
        Name, unique within an orchestrator: printable text, kept in one form of Unicode (NFC).
    cost
        Cost per call in units of reward; it is subtracted from the score.
    profile
        Outcome distribution mu_i, if known in advance.
    price
        Dollars per call, if known in advance; otherwise, and where calls differ, they are learned from
        ``outcome.cost_usd``. It counts through an objective, a budget or ``Quality``; otherwise it breaks ties alone.
    """

    id: str
    cost: float = 0.0
    profile: Measure | None = None
    _: KW_ONLY
    price: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise InvalidInputError("agent.id", f"is {self.id!r}", "give every agent a name")
        if not self.id.isprintable():
            raise InvalidInputError("agent.id", f"{self.id!r} has a control character", "give a name of printable text")
        object.__setattr__(self, "id", normalize("NFC", self.id))
        check_number("agent.cost", self.cost, "pass what a call costs, zero or more")
        if self.price is not None:
            check_number("agent.price", self.price, "pass dollars per call, zero or more")
        _check_measure("agent.profile", self.profile)


@dataclass(frozen=True, slots=True)
class Task:
    """A unit of work to be routed to an agent.

    Parameters
    ----------
    id
        The caller's identifier. One with spaces and no ``text`` gives a :class:`~bot_orch.errors.TaskIdWarning`.
    kind
        Free-form description; policies ignore it.
    text
        The request. Unless ``encoder=None``, it is context: an orchestrator appends the encoder's numbers to the
        features. Neither the log nor the state keeps it.
    features
        Feature vector for contextual policies; NaN where a number is missing. Or numbers and categories by name,
        ``{"tokens": 312, "lang": "de"}``: the first task says which there are; what a later one lacks is missing.
    reference
        Reference distribution nu_t of good outcomes for this task.
    profiles
        Outcome distributions mu_i for this task by agent id, if known before the choice (a classifier's predicted
        probabilities, say). They take precedence over the agents' profiles.
    claims
        Probability of being right that an agent states of itself for this task, by agent id. A profile over labels
        states one too, its largest probability; the number given here takes precedence.
    encoded
        Version of the encoder whose numbers end ``features``, for a task that comes from a log; empty otherwise.
    names
        What the numbers of ``features`` were by name, for a task that comes from a log; empty otherwise.
    time_s
        When the task came, in seconds of any clock that does not go back: a :class:`bot_orch.Quota` needs it. A
        :class:`bot_orch.Router` and the service fill it in.
    """

    id: str = ""
    kind: str = ""
    text: str | None = None
    features: tuple[float, ...] | Mapping[str, Any] = _NO_FEATURES
    reference: Measure | None = None
    profiles: Mapping[str, Measure] = field(default_factory=lambda: _NO_PROFILES)
    claims: Mapping[str, float] = field(default_factory=lambda: _NO_CLAIMS, kw_only=True)
    encoded: str = field(default="", kw_only=True)
    names: tuple[str, ...] = field(default=(), kw_only=True)
    time_s: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not (type(self.id) is type(self.kind) is type(self.encoded) is str):  # tasks are made for every decision
            check_text("task.id", self.id, "pass a text; str(number) will do")
            check_text("task.kind", self.kind, "pass a text")
            check_text("task.encoded", self.encoded, "pass the encoder of a logged decision")
        if self.text is not None:
            check_text("task.text", self.text, "pass a text or None")
        elif " " in self.id and not self.encoded:
            _warn_of_id()
        if self.names and not (isinstance(self.names, tuple) and all(isinstance(each, str) for each in self.names)):
            raise InvalidInputError("task.names", f"is {self.names!r}", "pass the names of a logged decision")
        if self.time_s is not None:
            check_number("task.time_s", self.time_s, "pass seconds, zero or more")
        if self.claims is not _NO_CLAIMS:
            object.__setattr__(self, "claims", _checked_claims(self.claims))
        if self.features is not _NO_FEATURES:
            object.__setattr__(self, "features", _features(self.features))
        if self.reference is not None:
            _check_measure("task.reference", self.reference)
        if self.profiles is not _NO_PROFILES:
            _check_profiles(self.profiles)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a decision: completed, or right-censored with a reason.

    ``reward`` lies in [0, 1], or in the range of the router's :class:`bot_orch.BoundedReward`. Use
    :meth:`completed` and :meth:`censored`. A censored outcome means "not finished after ``elapsed_s``"; it differs from
    a reward of zero. Its ``reason`` is one of ``timeout``, ``deadline``, ``cancelled``, ``unanswered``,
    ``shutdown``, ``horizon``, ``not_applicable``, or for a failure ``crashed``, ``out_of_memory``, ``failed``.

    Examples
    --------
    >>> Outcome.completed(reward=1.0, elapsed_s=0.3).event
    True
    >>> Outcome.censored(elapsed_s=30.0, reason="timeout").event
    False
    """

    event: bool
    reward: float | None = None
    elapsed_s: float | None = None
    reason: str | None = None
    output: Measure | None = None
    cost_usd: float | None = None
    reset_s: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.event, _BOOLEANS):
            raise InvalidInputError("outcome.event", f"is {self.event!r}", "pass True (completed) or False (censored)")
        if self.cost_usd is not None:
            check_number("outcome.cost_usd", self.cost_usd, "pass dollars, zero or more")
        if self.reset_s is not None:
            check_number("outcome.reset_s", self.reset_s, "pass seconds, zero or more")
        if self.reward is not None:
            object.__setattr__(self, "reward", _finite_reward(self.reward))
        if self.elapsed_s is not None:
            check_number("outcome.elapsed_s", self.elapsed_s, "pass seconds, zero or more")
        if self.reason is not None:
            check_text("outcome.reason", self.reason, _REASON_REMEDY)
        if self.output is not None:
            _check_measure("outcome.output", self.output)
        if not self.event:
            check_reason(self.reason)

    @classmethod
    def completed(
        cls,
        reward: float | None = None,
        *,
        elapsed_s: float | None = None,
        output: Measure | None = None,
        cost_usd: float | None = None,
        reset_s: float | None = None,
    ) -> Self:
        """An outcome of a finished task; without a reward, nobody has judged it, and its quality teaches nothing.

        ``reset_s`` are the seconds until the agent's next window of a quota.
        """
        if cls is not Outcome:
            return cls(True, reward, elapsed_s, None, output, cost_usd, reset_s)
        made: Self = _outcome(True, reward, elapsed_s, None, output, cost_usd, reset_s)
        usual = type(reward) is float and elapsed_s is None and output is None and cost_usd is None and reset_s is None
        if not (usual and 0.0 <= reward <= 1.0):  # type: ignore[operator]  # a float
            made.__post_init__()
        return made

    @classmethod
    def censored(
        cls, *, elapsed_s: float, reason: str, cost_usd: float | None = None, reset_s: float | None = None
    ) -> Self:
        """An outcome whose observation stopped after ``elapsed_s`` seconds because of ``reason``, unfinished."""
        return cls(False, None, elapsed_s, reason, None, cost_usd, reset_s)


_outcome: Callable[..., Any] = builder(Outcome)
_REASON_REMEDY = f"use {', '.join(_CENSORED)}, or for a failure {', '.join(_FAILED)}"


@dataclass(frozen=True, slots=True)
class RandomKey:
    """Key of a random draw; ``uniform(stream, counter)`` reproduces it."""

    stream: int
    counter: int


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """The parts of every agent's score: ``estimate + exploration - alignment - cost - bias``.

    All but ``distance`` are in units of reward. ``alignment`` includes the factor lambda; ``distance`` is W itself;
    ``bias`` is that of the judge, None without audits. Field names are also the column names wherever scores are
    stored: see :data:`COLUMNS`.
    """

    estimate: Floats
    exploration: Floats
    distance: Floats
    alignment: Floats
    cost: Floats
    bias: Floats | None = None

    def columns(self) -> dict[str, Floats]:
        """Every term by name; ``bias`` only with audits."""
        found = ((name, getattr(self, name)) for name in TERMS)
        return {name: values for name, values in found if values is not None}

    def penalty(self) -> Floats:
        """The total penalty per agent: ``alignment + cost + bias``."""
        paid = self.alignment + self.cost
        return paid if self.bias is None else paid + self.bias

    def score(self) -> Floats:
        """Total score per agent."""
        return self.estimate + self.exploration - self.penalty()


#: Terms of a score.
TERMS = tuple(each.name for each in fields(Terms))
#: Columns of every decision: the propensity, then the terms. With audits ``bias`` is one more.
COLUMNS = ("propensity", *(name for name in TERMS if name != "bias"))


@dataclass(frozen=True, slots=True)
class Multiplier:
    """The multiplier of a constraint in a decision: reward per unit (a dollar, a task, a late outcome)."""

    constraint: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Facts about an agent's answer before it is delivered.

    Parameters
    ----------
    agent
        Who gave it.
    decision
        Id of the decision that asked for it.
    signal
        How sure the agent says it is of this answer, in [0, 1]; it need not be calibrated.
    check
        What a verifier said of it: True or 1 passed, False or 0 failed, a number in between how far; None unknown.
    label
        The class that it names. Answers with labels exclude each other: at most one label is right.
    key
        Equal for equal answers, for answers that do not exclude each other: a normalised text or its hash.
    cost_usd, elapsed_s
        What it cost.

    Examples
    --------
    >>> Answer("small", signal=0.7, label="B").label
    'B'
    """

    agent: str
    decision: str = ""
    _: KW_ONLY
    signal: float | None = None
    check: float | None = None
    label: str | int | None = None
    key: str | int | None = None
    cost_usd: float | None = None
    elapsed_s: float | None = None

    def __post_init__(self) -> None:
        check_text("answer.agent", self.agent, "pass the name of the agent that gave the answer")
        check_text("answer.decision", self.decision, "pass decision.id")
        for name in ("signal", "check"):
            value = getattr(self, name)
            if value is not None:
                value = float(value) if isinstance(value, _BOOLEANS) else value
                number = check_number(f"answer.{name}", value, "pass a number in [0, 1], or None", high=1.0)
                object.__setattr__(self, name, number)
        for name in ("cost_usd", "elapsed_s"):
            if getattr(self, name) is not None:
                check_number(f"answer.{name}", getattr(self, name), "pass a number, zero or more, or None")
        for name in ("label", "key"):
            if not isinstance(getattr(self, name), str | int | None):
                remedy = "pass a text or a whole number, or None"
                raise InvalidInputError(f"answer.{name}", f"is {getattr(self, name)!r}", remedy)

    def covariates(self) -> dict[str, float]:
        """The available numbers by name; ``label`` and ``key`` only if they are integers."""
        names = ("signal", "check", "label", "key", "cost_usd", "elapsed_s")
        found = ((name, getattr(self, name)) for name in names)
        return {name: float(value) for name, value in found if value is not None}


def answer_of(agent: str, decision: str, covariates: Mapping[str, float]) -> Answer:
    """The inverse of :meth:`Answer.covariates`."""
    numbers = {name: int(covariates[name]) for name in ("label", "key") if name in covariates}
    return Answer(agent, decision, **dict(covariates) | numbers)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The chosen agent, with all data needed to explain, reproduce and evaluate the choice.

    ``audit`` asks for the truth in addition to the judge's verdict; ``audit_probability`` is the probability of that.

    A decision is a step of a round. ``action`` is ``ask`` (the agent) or ``accept`` (deliver its answer), ``answers``
    are those known by then, with labels numbered in the order of appearance, ``attempts`` is how many agents the round
    may ask.
    """

    id: str
    task_id: str
    agent: str
    agents: tuple[str, ...]
    propensities: Floats
    terms: Terms
    policy: str
    lambda_: float
    state_seq: int
    key: RandomKey
    features: tuple[float, ...] = field(default=(), repr=False)
    claims: tuple[float, ...] = field(default=(), repr=False)  # one per agent, NaN if not stated; empty: none stated
    encoder: str = field(default="", repr=False)  # whose numbers end the features
    _: KW_ONLY
    audit: bool = False
    audit_probability: float = 0.0
    multipliers: tuple[Multiplier, ...] = ()
    names: tuple[str, ...] = field(default=(), repr=False)  # of the features, for the first task that has them by name
    action: str = "ask"
    answers: tuple[Answer, ...] = field(default=(), repr=False)
    attempts: int = 1

    def __repr__(self) -> str:
        return (
            f"<Decision {self.id} task {self.task_id!r}: {self.agent!r} of {len(self.agents)} agents, "
            f"p={self.propensity:.3f}, {self.policy}>"
        )

    def _repr_html_(self) -> str:
        head = ("", "agent", *COLUMNS)
        rows = ([">" if row[0] == self.agent else "", *row] for row in self.rows())
        return html_table(f"task {self.task_id!r}, {self.policy}, lambda {self.lambda_:.3g}", head, rows)

    @property
    def propensity(self) -> float:
        """Probability of the chosen agent."""
        return float(self.propensities[self.agents.index(self.agent)])

    @property
    def round(self) -> str:
        """Id of the first decision of the round; empty for that decision itself."""
        return self.answers[0].decision if self.answers else ""

    @property
    def step(self) -> int:
        """Number of the step in its round, from 0."""
        return len(self.answers)

    def columns(self) -> dict[str, Floats]:
        """Every column by name, in the order of :data:`COLUMNS`, then ``bias`` if there are audits."""
        return {"propensity": self.propensities, **self.terms.columns()}

    def rows(self) -> Iterator[tuple[str, float, float, float, float, float, float, float]]:
        """One row per agent: its name, its values of :data:`COLUMNS`, and its bias (0 without audits)."""
        columns = {"bias": np.zeros(len(self.agents))} | self.columns()
        bias = columns.pop("bias")
        for index, agent in enumerate(self.agents):
            a, b, c, d, e, f = (float(column[index]) for column in columns.values())
            yield agent, a, b, c, d, e, f, float(bias[index])

    def explain(self) -> str:
        """A text table of the terms of every agent's score; the chosen agent is marked.

        Penalties of constraints are part of the cost; their multipliers follow the table.
        """
        audited = self.terms.bias is not None
        head = f"{'':2}{'agent':<16}{'p':>7}{'estimate':>10}{'explore':>9}{'-lambda*W':>10}{'-cost':>7}"
        lines = [head + (f"{'-bias':>7}" if audited else "")]
        for agent, p, estimate, exploration, _, alignment, cost, bias in self.rows():
            mark = "> " if agent == self.agent else "  "
            bonus = "unseen" if exploration > 1e6 else f"{exploration:.3f}"
            line = f"{mark}{agent:<16}{p:>7.3f}{estimate:>10.3f}{bonus:>9}{0.0 - alignment:>10.3f}{0.0 - cost:>7.3f}"
            lines.append(line + (f"{0.0 - round(bias, 3):>7.3f}" if audited else ""))
        lines += [f"  {each.constraint}: multiplier {each.value:.4g} per {each.unit}" for each in self.multipliers]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """JSON values; ``decision_from_dict`` in :mod:`bot_orch.core.state` is the inverse."""
        claims = null_for_nan(self.claims)
        return {
            "id": self.id,
            "task_id": self.task_id,
            "agent": self.agent,
            "agents": list(self.agents),
            "propensities": self.propensities.tolist(),
            "terms": {name: column.tolist() for name, column in self.terms.columns().items()},
            "policy": self.policy,
            "lambda": self.lambda_,
            "state_seq": self.state_seq,
            "key": {"stream": self.key.stream, "counter": self.key.counter},
            "features": null_for_nan(self.features),
            **({"claims": claims} if claims else {}),
            **({"encoder": self.encoder} if self.encoder else {}),
            **({"names": list(self.names)} if self.names else {}),
            **({"audit": self.audit, "audit_probability": self.audit_probability} if self.audit_probability else {}),
            **self._multiplied(),
            **self._stepped(),
        }

    def _stepped(self) -> dict[str, Any]:
        if self.attempts == 1 and not self.answers:
            return {}
        answers = [[each.agent, each.decision, each.covariates()] for each in self.answers]
        return {"action": self.action, "answers": answers, "attempts": self.attempts}

    def _multiplied(self) -> dict[str, Any]:
        if not self.multipliers:
            return {}
        return {"multipliers": [[each.constraint, each.value, each.unit] for each in self.multipliers]}


@dataclass(frozen=True, slots=True)
class RewardRange:
    """The rewards that may be reported, from ``low`` to ``high``; learners see them on the unit scale, from 0 to 1.

    Examples
    --------
    >>> stars = RewardRange(1.0, 5.0)
    >>> stars.unit(4.0), stars.natural(0.75), stars.check(5.0000000001)
    (0.75, 4.0, 5.0)
    """

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            value = check_number(f"reward.{name}", getattr(self, name), "pass a finite number", low=-math.inf)
            object.__setattr__(self, name, value)
        if not (self.low < self.high and math.isfinite(self.high - self.low)):
            raise InvalidInputError("reward.high", f"is {self.high:g}, low is {self.low:g}", "pass a high above low")

    @property
    def is_unit(self) -> bool:
        """Whether rewards lie in [0, 1], so that nothing is to be converted."""
        return self.low == 0.0 and self.high == 1.0

    @property
    def width(self) -> float:
        """Units of reward from the lowest to the highest reward."""
        return self.high - self.low

    def unit(self, reward: Any) -> Any:
        """Rewards on the unit scale."""
        return (reward - self.low) / self.width

    def natural(self, value: Any) -> Any:
        """The rewards of values on the unit scale."""
        return self.low + self.width * value

    def check(self, reward: float, name: str = "outcome.reward") -> float:
        """Return the reward, clipped where rounding exceeds the range; raise an error if it lies farther outside."""
        if type(reward) is float and self.low <= reward <= self.high:  # the usual case
            return reward
        spare = REWARD_ROUNDING * max(1.0, self.width)
        if not self.low - spare <= _finite_reward(reward, name) <= self.high + spare:
            remedy = "rescale it, or state the range that rewards have: BoundedReward(low=..., high=...)"
            raise InvalidInputError(name, f"is {reward!r}, outside of {self}", remedy)
        return float(min(max(reward, self.low), self.high))

    def __str__(self) -> str:
        return f"[{self.low:g}, {self.high:g}]"


def check_reward(reward: float, name: str = "outcome.reward") -> float:
    """Return a reward in [0, 1], clipped where rounding exceeds that; raise an error if it lies farther outside.

    Examples
    --------
    >>> check_reward(0.1 * 3 + 0.7 + 2e-16)
    1.0
    """
    return _UNIT.check(reward, name)


_UNIT = RewardRange()


def _finite_reward(reward: Any, name: str = "outcome.reward") -> float:
    if isinstance(reward, _BOOLEANS):  # right or wrong
        return float(reward)
    return check_number(name, reward, "pass a number", low=-math.inf)


def check_reason(reason: str | None, name: str = "outcome.reason") -> None:
    """Refuse a reason of a censored outcome that is missing or unknown.

    Examples
    --------
    >>> check_reason("timeout")
    """
    if not reason:
        raise InvalidInputError(name, "is missing", _REASON_REMEDY)
    if reason.strip().lower() not in REASONS:
        raise InvalidInputError(name, f"{reason!r} is not known", _REASON_REMEDY)


def _warn_of_id() -> None:
    """Warn the caller of ``Task(...)``, once per line of code."""
    frame = inspect.currentframe()
    for _ in range(3):  # this function, __post_init__, __init__
        frame = None if frame is None else frame.f_back
    if frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("bot_orch", "dataclasses"):
        return
    what = "task.id: has spaces, and the task has no text, which is what agents and encoders read; pass Task(text=...)"
    warnings.warn(what, TaskIdWarning, stacklevel=4)


def _checked_claims(claims: Any) -> Mapping[str, float]:
    """Claims as floats in [0, 1], by agent."""
    if not isinstance(claims, Mapping):
        raise InvalidInputError("task.claims", f"is {claims!r}", 'pass numbers by agent, such as {"cnn": 0.93}')
    for name, claim in claims.items():
        if not (is_number(claim) and 0.0 <= claim <= 1.0):  # also catches nan
            remedy = "pass a probability in [0, 1], and leave out agents that state none"
            raise InvalidInputError(f"task.claims.{name}", f"is {claim!r}", remedy)
    return MappingProxyType({name: float(claim) for name, claim in claims.items()})


def _check_profiles(profiles: Any) -> None:
    require_type("task.profiles", profiles, Mapping, 'pass measures by agent, such as {"a": Labels(...)}')
    for name, profile in profiles.items():
        _check_measure(f"task.profiles.{name}", profile, required=True)


def _features(values: Any) -> tuple[float, ...] | Mapping[str, Any]:
    if isinstance(values, Mapping):
        return {_name(name): _named(name, value) for name, value in values.items()}
    try:
        if isinstance(values, str | bytes | Mapping | set) or not {str, bool}.isdisjoint(map(type, values)):
            raise TypeError
        found = tuple(map(float, values))
    except (TypeError, ValueError, OverflowError) as error:
        remedy = "pass a sequence of numbers, or numbers and texts by name"
        raise InvalidInputError("task.features", f"is {values!r}", remedy) from error
    if any(map(math.isinf, found)):
        raise InvalidInputError("task.features", "holds a number that is not finite", "pass nan where one is missing")
    return found


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name or name.endswith("="):
        raise InvalidInputError("task.features", f"has the name {name!r}", "pass texts that do not end in '='")
    return name


def _named(name: str, value: Any) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    try:
        number = float(value) if is_number(value) else math.inf
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        remedy = "pass a finite number, a text, true or false, or None"
        raise InvalidInputError(f"task.features.{name}", f"is {value!r:.80}", remedy)
    return number


def _check_measure(name: str, value: Any, *, required: bool = False) -> None:
    if (required or value is not None) and not isinstance(value, Measure):
        remedy = "pass a measure: Labels, Samples, Cloud or Gaussian" + ("" if required else ", or None")
        raise InvalidInputError(name, f"is of type {type(value).__name__}", remedy)
