"""Usage of tokens against their limits: requests of the last minute, dollars of the last day.

Requests count when they arrive. Dollars count when an attempt or a report says what it has cost: calls under way when
a limit is reached are finished. After a restart, or at a new owner, the use is added up again from the log.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from bot_orch.core.events import AttemptEnded, DecisionMade, Event, FeedbackGiven
from bot_orch.log.archive import first_since
from bot_orch.log.log import Log, Row
from bot_orch.log.windows import SlidingSum
from bot_orch.recent import Newest
from bot_orch.service.config import TokenConfig, TokenLimitsConfig
from bot_orch.service.problems import Problem

_MINUTE_S, _DAY_S = 60.0, 86_400.0
_MOST_OWNERS = 100_000
TAGS = b"x-bot-orch-tags"
_TAG = re.compile(r"[A-Za-z0-9._:/=-]{1,64}")
_MOST = 16


@dataclass(slots=True)
class _Used:
    requests: SlidingSum = field(default_factory=lambda: SlidingSum(_MINUTE_S, 0.25))
    usd: SlidingSum = field(default_factory=lambda: SlidingSum(_DAY_S, _MINUTE_S))


class TokenUsage:
    """The use of all tokens that have limits.

    Parameters
    ----------
    refused
        Called with the name of a token and of the limit that it has reached.
    """

    def __init__(self, refused: Callable[[str, str], None]) -> None:
        self._refused, self._lock = refused, threading.RLock()  # logs are read in threads
        self._limits: dict[str, TokenLimitsConfig] = {}
        self._used: dict[str, _Used] = {}
        self._owners = Newest[str, str](_MOST_OWNERS)  # token by decision
        self._log: Log | None = None
        self._late = ThreadPoolExecutor(1, "usage")

    def track(self, tokens: Iterable[TokenConfig]) -> None:
        """Track the usage of these tokens where they have limits; known usage is kept."""
        self._limits = {each.name: each.limits for each in tokens if each.limits is not None}

    def spent(self, now_us: int) -> Iterable[tuple[str, float, float]]:
        """(token, dollars, limit) for every limit on dollars."""
        limits = [(token, each.usd_per_day) for token, each in self._limits.items() if each.usd_per_day is not None]
        with self._lock:
            return [(token, self._of(token).usd.within(now_us), usd) for token, usd in limits]

    def recall(self, log: Log, now_us: int) -> None:
        """Add up what the log says of the last minute and day."""
        self._log = log
        if self._limits:
            longest_s = _DAY_S if any(each.usd_per_day is not None for each in self._limits.values()) else _MINUTE_S
            for row in log.read(first_since(log, now_us - round(longest_s * 1e6)) - 1):
                self._follow(row)

    def admit(self, token: str, limits: TokenLimitsConfig, now_us: int) -> dict[str, str]:
        """Count a request; returns headers with the remaining allowance.

        Raises a :class:`Problem` if a limit is reached; then nothing is counted.
        """
        with self._lock:
            used = self._of(token)
            usd, most = limits.usd_per_day, limits.requests_per_minute
            if usd is not None and used.usd.within(now_us) >= usd:
                self._refused(token, "usd")
                raise _over(token, "usd", used.usd.free_s(now_us, usd), most=f"{usd:g} dollars per day")
            if most is None:
                return {}
            left = most - used.requests.within(now_us)
            if left <= 0:
                self._refused(token, "requests")
                raise _over(token, "requests", used.requests.free_s(now_us, most), most=f"{most} requests per minute")
            used.requests.add(now_us, 1)
        remaining = max(0, math.ceil(left) - 1)
        return {"x-ratelimit-limit-requests": str(most), "x-ratelimit-remaining-requests": str(remaining)}

    def take(self, time_us: int, event: Event) -> None:
        """Count an event of this process."""
        if not self._limits:
            return
        if isinstance(event, DecisionMade):
            if event.token in self._limits:
                self._owners[event.id] = event.token
        elif isinstance(event, AttemptEnded | FeedbackGiven) and event.cost_usd:
            self._add(time_us, event.decision_id, event.cost_usd)

    def _follow(self, row: Row) -> None:
        """Count a row that was written before this process served the router."""
        if row.holds(DecisionMade):
            event = row.event()
            if isinstance(event, DecisionMade) and not event.round and event.token in self._limits:
                self._of(event.token).requests.add(row.time_us, 1)
            self.take(row.time_us, event)
        elif row.holds(AttemptEnded) or row.holds(FeedbackGiven):
            self.take(row.time_us, row.event())

    def _of(self, token: str) -> _Used:
        return self._used.setdefault(token, _Used())

    def _add(self, time_us: int, decision_id: str, usd: float) -> None:
        """Charge a token; a forgotten one is looked up, in a thread if its log is on a server."""
        if decision_id not in self._owners and getattr(self._log, "shared", False):
            self._late.submit(self._charge, time_us, decision_id, usd)
        else:
            self._charge(time_us, decision_id, usd)

    def _charge(self, time_us: int, decision_id: str, usd: float) -> None:
        token = self._owners.get(decision_id) or self._look_up(decision_id)
        with self._lock:
            if token in self._limits:
                self._of(token).usd.add(time_us, usd)

    def _look_up(self, decision_id: str) -> str:
        """Look up the token of a decision in the log."""
        rows = [] if self._log is None else (row for row in self._log.about(decision_id) if row.holds(DecisionMade))
        made = [event for row in rows if isinstance(event := row.event(), DecisionMade)]
        return made[0].token if made else ""


def _over(token: str, limit: str, wait_s: float, *, most: str) -> Problem:
    wait_s = math.ceil(wait_s)
    message = f"the token {token!r} has used its {most}; try again in {wait_s} seconds, or raise tokens[].limits"
    headers, quota = {"retry-after": str(wait_s)}, limit == "usd"
    if quota:
        headers["x-should-retry"] = "false"  # clients would retry in vain
    code, kind = ("insufficient_quota", "insufficient_quota") if quota else ("rate_limit_exceeded", limit)
    return Problem(429, code, message, headers=headers, kind=kind)


def with_tags(own: tuple[str, ...], header: bytes | None) -> tuple[str, ...]:
    """Tags of a token, then those of the request's header, without duplicates.

    Examples
    --------
    >>> with_tags(("team-a",), b"checkout, team-a")
    ('team-a', 'checkout')
    """
    if not header:
        return own
    found = dict.fromkeys((*own, *(part.strip() for part in header.decode("latin-1").split(","))))
    if len(found) > _MOST or not all(map(_TAG.fullmatch, found)):
        name = TAGS.decode()
        message = f"{name}: must be up to {_MOST} tags of 1 to 64 letters, digits and ._:/=- with commas between them"
        raise Problem(400, "bad_tags", message, param=name)
    return tuple(found)
