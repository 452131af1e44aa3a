"""Spending read from a log: by token, tag, agent or day."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from typing import Literal, get_args

from bot_orch.core.events import AttemptEnded, DecisionMade, FeedbackGiven
from bot_orch.errors import InvalidInputError
from bot_orch.log.archive import first_since
from bot_orch.log.log import Log, Row

SpendKey = Literal["token", "tag", "agent", "day"]
SPEND_KEYS: tuple[str, ...] = get_args(SpendKey)


@dataclass(slots=True)
class SpendLine:
    """Usage under one key: the name of a token, tag or agent, or a UTC day; empty if there is none."""

    key: str
    requests: int = 0
    attempts: int = 0
    errors: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class _Owner:
    token: str
    tags: tuple[str, ...]
    agent: str


def spent(log: Log, by: SpendKey, *, from_us: int = 0, to_us: int | None = None) -> list[SpendLine]:
    """Lines of a report, highest cost first (days in order); ``to_us`` is exclusive.

    A request counts when it is decided, tokens and dollars when they are known. With ``tag`` a request counts under
    each of its tags, so lines may add up to more than was spent; :func:`total_usd` counts every dollar once.
    """
    lines: dict[str, SpendLine] = {}
    for row, owner, event in _events(log, from_us, to_us):
        for key in _keys(by, row, owner):
            _add(lines.setdefault(key, SpendLine(key)), event)
    if by == "day":
        return sorted(lines.values(), key=lambda line: line.key)
    return sorted(lines.values(), key=lambda line: (-line.cost_usd, -line.requests, line.key))


def total_usd(log: Log, *, from_us: int = 0, to_us: int | None = None) -> float:
    """Dollars of attempts and reports."""
    return sum(line.cost_usd for line in spent(log, "day", from_us=from_us, to_us=to_us))


def time_of(text: str, name: str) -> int:
    """Parse an ISO 8601 date or time to microseconds, in UTC unless it has an offset.

    Examples
    --------
    >>> time_of("1970-01-02", "from"), time_of("1970-01-01T00:00:01Z", "to")
    (86400000000, 1000000)
    >>> time_of("yesterday", "from")
    Traceback (most recent call last):
    ...
    bot_orch.errors.InvalidInputError: from: 'yesterday' is no date; write 2026-11-30 or 2026-11-30T12:00:00Z
    """
    try:
        found = datetime.fromisoformat(text)
        return round((found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp() * 1e6)
    except (ValueError, OverflowError):
        shown = text[:40]
        raise InvalidInputError(name, f"{shown!r} is no date", "write 2026-11-30 or 2026-11-30T12:00:00Z") from None


def _events(
    log: Log, from_us: int, to_us: int | None
) -> Iterator[tuple[Row, _Owner, DecisionMade | AttemptEnded | FeedbackGiven]]:
    owners: dict[str, _Owner] = {}
    for row in log.read(first_since(log, from_us) - 1):
        if to_us is not None and row.time_us >= to_us:
            return
        if row.holds(DecisionMade):
            event = row.event()
            if isinstance(event, DecisionMade):
                owners[event.id] = _Owner(event.token, event.tags, event.agent)
                if not event.round:
                    yield row, owners[event.id], event
        elif row.holds(AttemptEnded) or row.holds(FeedbackGiven):
            event = row.event()
            if isinstance(event, AttemptEnded) or (isinstance(event, FeedbackGiven) and event.cost_usd):
                yield row, _owner(log, owners, event.decision_id), event


def _owner(log: Log, owners: dict[str, _Owner], decision_id: str) -> _Owner:
    """The owner of a decision, which may have been made before the reported period."""
    if decision_id not in owners:
        made = [row.event() for row in log.about(decision_id) if row.holds(DecisionMade)]
        found = [_Owner(each.token, each.tags, each.agent) for each in made if isinstance(each, DecisionMade)]
        owners[decision_id] = found[0] if found else _Owner("", (), "")
    return owners[decision_id]


def _keys(by: SpendKey, row: Row, owner: _Owner) -> tuple[str, ...]:
    if by == "tag":
        return owner.tags or ("",)
    if by == "day":
        return (datetime.fromtimestamp(row.time_us / 1e6, UTC).date().isoformat(),)
    return (owner.token if by == "token" else owner.agent,)


def _add(line: SpendLine, event: DecisionMade | AttemptEnded | FeedbackGiven) -> None:
    if isinstance(event, DecisionMade):
        line.requests += 1
        return
    line.cost_usd += event.cost_usd or 0.0
    if isinstance(event, AttemptEnded):
        line.attempts += 1
        line.errors += event.ending != "completed"
        line.input_tokens += event.input_tokens
        line.output_tokens += event.output_tokens


def rows_of(lines: list[SpendLine]) -> list[tuple[str, ...]]:
    """The lines as texts, for a table.

    Examples
    --------
    >>> rows_of([SpendLine("app", 2, 3, 1, 10, 20, 0.25)])
    [('app', '2', '3', '1', '10', '20', '0.250000')]
    """
    return [tuple(f"{each:.6f}" if isinstance(each, float) else str(each) for each in astuple(line)) for line in lines]
