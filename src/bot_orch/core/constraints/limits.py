"""The objective and constraints in the user's units: dollars, seconds, shares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass
from math import inf
from typing import Any, ClassVar

from bot_orch.checks import check_count, check_number, is_number
from bot_orch.errors import InvalidInputError, require_type


@dataclass(frozen=True, slots=True)
class Objective:
    """``quality * estimate - usd * E[dollars] - seconds * E[seconds]``; only the ratios of the weights matter.

    ``first_token`` times the expected seconds until the first token of an answer are subtracted too.

    Parameters
    ----------
    quality
        Weight of the expected reward.
    usd
        Weight of a dollar: with ``quality`` 1, the units of reward that a dollar is worth.
    seconds
        Weight of a second, likewise.
    first_token
        Weight of a second until the first token, likewise; see :meth:`bot_orch.Orchestrator.observe_usage`.

    Examples
    --------
    >>> Objective(usd=10.0)  # a reward of 0.1 is worth a cent
    Objective(quality=1.0, usd=10.0, seconds=0.0, first_token=0.0)
    """

    quality: float = 1.0
    usd: float = 0.0
    seconds: float = 0.0
    _: KW_ONLY
    first_token: float = 0.0

    def __post_init__(self) -> None:
        for name in ("quality", "usd", "seconds", "first_token"):
            value = _number(f"objective.{name}", getattr(self, name), low=0.0)
            object.__setattr__(self, name, value)
        if not self.quality > 0.0:
            raise InvalidInputError("objective.quality", "is 0", "pass a positive weight: only ratios matter")

    @property
    def per_usd(self) -> float:
        """Reward that a dollar is worth."""
        return self.usd / self.quality

    @property
    def per_second(self) -> float:
        """Reward that a second is worth."""
        return self.seconds / self.quality

    @property
    def per_first_second(self) -> float:
        """Reward that a second until the first token is worth."""
        return self.first_token / self.quality

    @classmethod
    def from_spec(cls, document: Mapping[str, Any]) -> Objective:
        """Read JSON or YAML values; ``dataclasses.asdict`` is the inverse."""
        made: Objective = _built(cls, document, "objective")
        return made


@dataclass(frozen=True, slots=True)
class Budget:
    """Mean spending: at most ``usd`` dollars per ``per`` tasks.

    Spending is paced: it is smooth over the tasks, savings are carried over for about twenty tasks only, and debts (an
    expensive call, a rise of prices) are paid back.

    Parameters
    ----------
    usd
        Dollars.
    per
        Number of tasks that they are for.
    """

    usd: float
    per: int = 1
    kind: ClassVar[str] = "budget"

    def __post_init__(self) -> None:
        object.__setattr__(self, "usd", _number("budget.usd", self.usd, low=0.0, strict=True))
        check_number("budget.per", self.per, "pass a number of tasks, 1 or more", low=1.0)
        check_count("budget.per", self.per, "pass a number of tasks, 1 or more", low=1)

    @property
    def limit(self) -> float:
        """Dollars per task."""
        return self.usd / self.per

    @property
    def name(self) -> str:
        """Name shown to users."""
        return "budget"

    @property
    def unit(self) -> str:
        """Unit of the multiplier."""
        return "dollar"


@dataclass(frozen=True, slots=True)
class Capacity:
    """At most this share of the tasks goes to one agent, such as a person with other duties.

    Parameters
    ----------
    agent
        Name of the agent.
    share
        Largest share, between 0 and 1.
    """

    agent: str
    share: float
    kind: ClassVar[str] = "capacity"

    def __post_init__(self) -> None:
        if not isinstance(self.agent, str) or not self.agent:
            raise InvalidInputError("capacity.agent", f"is {self.agent!r}", "pass the name of an agent")
        object.__setattr__(self, "share", _share("capacity.share", self.share))

    @property
    def limit(self) -> float:
        """The share."""
        return self.share

    @property
    def name(self) -> str:
        """Name shown to users."""
        return f"capacity of {self.agent}"

    @property
    def unit(self) -> str:
        """Unit of the multiplier."""
        return "task"


@dataclass(frozen=True, slots=True)
class Quota:
    """At most ``requests`` tasks go to one agent in each window of ``every``, such as those of a subscription.

    Windows follow each other from the first task on; an outcome with ``reset_s`` says when the next one begins. A
    window that is used up leaves the agent out until then. Before that, its shadow price keeps what is left for the
    tasks that need it. Tasks bring their time: see :class:`bot_orch.Task`.

    Parameters
    ----------
    agent
        Name of the agent.
    requests
        Tasks per window.
    every
        Length of a window: seconds, or a number with s, m, h or d.

    Examples
    --------
    >>> Quota("claude", requests=45, every="5h").seconds
    18000.0
    """

    agent: str
    requests: int
    every: str | float
    kind: ClassVar[str] = "quota"

    def __post_init__(self) -> None:
        if not isinstance(self.agent, str) or not self.agent:
            raise InvalidInputError("quota.agent", f"is {self.agent!r}", "pass the name of an agent")
        check_count("quota.requests", self.requests, "pass a number of tasks, 1 or more", low=1)
        if not 0.0 < self.seconds < inf:
            raise InvalidInputError("quota.every", f"is {self.every!r}", _EVERY)

    @property
    def seconds(self) -> float:
        """Length of a window."""
        number, unit = (self.every[:-1], self.every[-1:]) if isinstance(self.every, str) else (self.every, "s")
        try:
            return float(number) * _UNITS[unit]
        except (KeyError, TypeError, ValueError, OverflowError):
            raise InvalidInputError("quota.every", f"is {self.every!r}", _EVERY) from None

    @property
    def limit(self) -> float:
        """One task."""
        return 1.0

    @property
    def name(self) -> str:
        """Name shown to users."""
        return f"quota of {self.agent}"

    @property
    def unit(self) -> str:
        """Unit of the multiplier."""
        return "task"


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_EVERY = "pass seconds, or a number with s, m, h or d, such as '5h'"


@dataclass(frozen=True, slots=True)
class Deadline:
    """At most a share ``late`` of the tasks takes longer than ``seconds``.

    Parameters
    ----------
    seconds
        The deadline.
    late
        Largest share beyond it, between 0 and 1.
    """

    seconds: float
    late: float = 0.05
    kind: ClassVar[str] = "deadline"

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", _number(f"{self.kind}.seconds", self.seconds, low=0.0, strict=True))
        object.__setattr__(self, "late", _share(f"{self.kind}.late", self.late))

    @property
    def limit(self) -> float:
        """The allowed share of late outcomes."""
        return self.late

    @property
    def name(self) -> str:
        """Name shown to users."""
        return f"deadline of {self.seconds:g} s"

    @property
    def unit(self) -> str:
        """Unit of the multiplier."""
        return "late outcome"


@dataclass(frozen=True, slots=True)
class FirstToken(Deadline):
    """At most a share ``late`` of the answers begins later than after ``seconds``.

    Times to the first token come from :meth:`bot_orch.Orchestrator.observe_usage`; the service reports them by itself.
    """

    kind: ClassVar[str] = "first_token"

    @property
    def name(self) -> str:
        """Name shown to users."""
        return f"first token within {self.seconds:g} s"

    @property
    def unit(self) -> str:
        """Unit of the multiplier."""
        return "late answer"


@dataclass(frozen=True, slots=True)
class Quality:
    """Least dollars such that the mean reward is within ``within`` of the best agent's, once evidence can tell.

    Where tasks have features or texts: the cheapest agent that is good enough for the task.

    Parameters
    ----------
    within
        Relative loss that is acceptable, between 0 and 1: 0.02 is 2 % of what the best agent earns above the lowest
        reward.
    """

    within: float = 0.02
    kind: ClassVar[str] = "quality"

    def __post_init__(self) -> None:
        object.__setattr__(self, "within", _share("quality.within", self.within))

    @property
    def limit(self) -> float:
        """The relative loss."""
        return self.within

    @property
    def name(self) -> str:
        """Name shown to users."""
        return "quality"

    @property
    def unit(self) -> str:
        """Unit of the multiplier."""
        return "dollar"


Constraint = Budget | Capacity | Quota | Deadline | Quality
_KINDS: dict[str, type[Budget] | type[Capacity] | type[Quota] | type[Deadline] | type[Quality]] = {
    each.kind: each for each in (Budget, Capacity, Quota, Deadline, FirstToken, Quality)
}


def as_constraints(given: Any) -> tuple[Constraint, ...]:
    """One constraint or several, as a tuple.

    Examples
    --------
    >>> as_constraints(Quality(0.1))
    (Quality(within=0.1),)
    """
    if isinstance(given, Constraint):
        return (given,)
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InvalidInputError(
            "constraints", f"is {given!r}", "pass a list of Budget, Capacity, Quota, Deadline or Quality"
        )
    return tuple(given)


def constraint_to_spec(constraint: Constraint) -> dict[str, Any]:
    """JSON values; :func:`constraint_from_spec` is the inverse.

    Examples
    --------
    >>> constraint_to_spec(Capacity("person", 0.2))
    {'kind': 'capacity', 'agent': 'person', 'share': 0.2}
    """
    return {"kind": constraint.kind, **asdict(constraint)}


def constraint_from_spec(document: Mapping[str, Any]) -> Constraint:
    """Read JSON or YAML values.

    Examples
    --------
    >>> constraint_from_spec({"kind": "budget", "usd": 5, "per": 1000}).limit
    0.005
    """
    if not isinstance(document, Mapping) or document.get("kind") not in _KINDS:
        kind = document.get("kind") if isinstance(document, Mapping) else document
        raise InvalidInputError("constraint.kind", f"is {kind!r}", f"choose from {', '.join(_KINDS)}")
    rest = {key: value for key, value in document.items() if key != "kind"}
    made: Constraint = _built(_KINDS[document["kind"]], rest, str(document["kind"]))
    return made


def _built(type_: type[Any], document: Mapping[str, Any], where: str) -> Any:
    require_type(where, document, Mapping, "pass settings by name")
    known = tuple(type_.__dataclass_fields__)
    for key in document:
        if key not in known:
            raise InvalidInputError(f"{where}.{key}", "is not a setting", f"choose from {', '.join(known)}")
    try:
        return type_(**document)
    except TypeError as error:
        raise InvalidInputError(where, f"is incomplete ({error})", f"pass {', '.join(known)}") from error


def _number(name: str, value: Any, *, low: float, strict: bool = False) -> float:
    remedy = f"pass a number {'above' if strict else 'of at least'} {low:g}"
    found = check_number(name, value, remedy, low=low)
    if strict and not found > low:
        raise InvalidInputError(name, f"is {value!r}", remedy)
    return found


def _share(name: str, value: Any) -> float:
    if not (is_number(value) and 0.0 < value < 1.0):
        raise InvalidInputError(name, f"is {value!r}", "pass a share between 0 and 1, such as 0.2")
    return float(value)
