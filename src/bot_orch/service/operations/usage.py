"""What tokens and tenants have used of their limits: requests and tokens of agents in a minute, dollars in a window.

Requests count when they arrive. Tokens and dollars count when an attempt or a report says what it has cost: calls under
way when a limit is reached are finished. After a restart the use is added up again from the log. All routers of a
service count together: a token has one limit, wherever it is used. The tokens of a tenant share the tenant's limits,
beside their own.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from bot_orch.eventlog.events import AttemptEnded, DecisionMade, Event, FeedbackGiven
from bot_orch.eventlog.ids import tenant_of
from bot_orch.eventlog.log import Log, Row
from bot_orch.eventlog.times import first_since
from bot_orch.service.config import TenantConfig, TokenConfig, TokenLimitsConfig
from bot_orch.service.operations.sliding import SlidingSum
from bot_orch.service.problems import Problem

__all__ = ["LimitKey", "TokenUsage"]

_MINUTE_S = 60.0
_MOST_OWNERS = 100_000


class LimitKey(NamedTuple):
    """Whose limits: those of a token (of a tenant, or of none), or without a token those that a tenant's tokens share.

    Examples
    --------
    >>> str(LimitKey("", "app")), str(LimitKey("acme", "app")), str(LimitKey("acme"))
    ('app', 'acme:app', 'tenant acme')
    """

    tenant: str
    token: str | None = None

    def __str__(self) -> str:
        if self.token is None:
            return f"tenant {self.tenant}"
        return f"{self.tenant}:{self.token}" if self.tenant else self.token


@dataclass(slots=True)
class _Used:
    requests: SlidingSum
    tokens: SlidingSum
    usd: SlidingSum


class TokenUsage:
    """The use of all tokens and tenants that have limits.

    Parameters
    ----------
    refused
        Called with the name of a token and of the limit that it has reached, unless the caller of :meth:`admit` wants
        to be told itself.
    """

    def __init__(self, refused: Callable[[str, str], None]) -> None:
        self._refused, self._lock = refused, threading.RLock()  # logs are read in threads
        self._limits: dict[LimitKey, TokenLimitsConfig] = {}
        self._used: dict[LimitKey, _Used] = {}
        self._owners: dict[str, str] = {}  # token by decision
        self._logs: list[Log] = []
        self._late = ThreadPoolExecutor(1, "usage")

    def track(self, tokens: Iterable[TokenConfig], tenants: Mapping[str, TenantConfig] | None = None) -> None:
        """Count the use of these, as far as they have limits; what is known of them is kept."""
        limits = {LimitKey(each.tenant or "", each.name): each.limits for each in tokens if each.limits is not None}
        limits |= {LimitKey(name): each.limits for name, each in (tenants or {}).items() if each.limits is not None}
        for name, limit in limits.items():
            known, before = self._used.get(name), self._limits.get(name)
            if known is None:
                self._used[name] = _Used(SlidingSum(_MINUTE_S, 0.25), SlidingSum(_MINUTE_S, 0.25), _dollars(limit))
            elif before is None or before.window_s != limit.window_s:
                known.usd = _dollars(limit)
        self._limits = limits

    def spent(self) -> Iterable[tuple[str, SlidingSum, float]]:
        """(token or tenant, dollars, limit) of those with a limit on dollars."""
        return [(str(key), self._used[key].usd, each.usd) for key, each in self._limits.items() if each.usd is not None]

    def recall(self, log: Log, now_us: int) -> None:
        """Add up what the log of a router says of the last windows."""
        self._logs.append(log)
        if not self._limits:
            return
        longest_s = max(limit.window_s if limit.usd is not None else _MINUTE_S for limit in self._limits.values())
        for row in log.read(first_since(log, now_us - round(longest_s * 1e6)) - 1):
            self.follow(row)

    def forget(self, log: Log) -> None:
        """Ask the log of a router that was removed no more; what its tokens have used still counts."""
        self._logs = [each for each in self._logs if each is not log]

    def follow(self, row: Row) -> None:
        """Take a row that another process, or this one before a restart, has written."""
        if self._limits and row.holds(DecisionMade):
            event = row.event()
            if isinstance(event, DecisionMade) and not event.round:
                with self._lock:
                    for used in self._used_by(event.id, event.token):
                        used.requests.add(row.time_us, 1)
            self.take(row.time_us, event)
        elif self._limits and (row.holds(AttemptEnded) or row.holds(FeedbackGiven)):
            self.take(row.time_us, row.event())

    def take(self, time_us: int, event: Event) -> None:
        """Take an event of this process."""
        if not self._limits:
            return
        if isinstance(event, DecisionMade):
            if self._used_by(event.id, event.token):
                with self._lock:
                    self._owners[event.id] = event.token
                    if len(self._owners) > _MOST_OWNERS:
                        del self._owners[next(iter(self._owners))]
        elif isinstance(event, AttemptEnded):
            self._add(time_us, event.decision_id, event.cost_usd, tokens=event.input_tokens + event.output_tokens)
        elif isinstance(event, FeedbackGiven) and event.cost_usd:
            self._add(time_us, event.decision_id, event.cost_usd)

    def admit(
        self,
        limits: Mapping[LimitKey, TokenLimitsConfig],
        now_us: int,
        *,
        refused: Callable[[str, str], None] | None = None,
    ) -> dict[str, str]:
        """Count a request; headers that say what is left, of the tighter limit if there are two.

        Raises a :class:`Problem` if a limit is reached; then nothing is counted.
        """
        with self._lock:
            left = [self._left(key, each, now_us, refused=refused or self._refused) for key, each in limits.items()]
            for key, each in limits.items():
                if each.requests_per_minute is not None:
                    self._used[key].requests.add(now_us, 1)
        headers: dict[str, str] = {}
        for what in ("requests", "tokens"):
            tightest = min((each[what] for each in left if what in each), default=None)
            if tightest is not None:
                headers[f"x-ratelimit-limit-{what}"] = str(tightest[1])
                headers[f"x-ratelimit-remaining-{what}"] = str(tightest[0])
        return headers

    def _left(
        self, key: LimitKey, limits: TokenLimitsConfig, now_us: int, *, refused: Callable[[str, str], None]
    ) -> dict[str, tuple[int, int]]:
        """What is left of each limit after this request, and the limit."""
        used, found = self._used[key], dict[str, tuple[int, int]]()
        if limits.usd is not None and used.usd.within(now_us) >= limits.usd:
            refused(str(key), "usd")
            raise _over(key, "usd", used.usd.free_s(now_us, limits.usd), most=f"{limits.usd:g} dollars")
        for what, spent, most in (
            ("requests", used.requests, limits.requests_per_minute),
            ("tokens", used.tokens, limits.tokens_per_minute),
        ):
            if most is None:
                continue
            left = most - spent.within(now_us)
            if left <= 0:
                refused(str(key), what)
                raise _over(key, what, spent.free_s(now_us, most), most=f"{most} {what} per minute")
            found[what] = max(0, math.ceil(left) - (what == "requests")), most
        return found

    def _add(self, time_us: int, decision_id: str, usd: float, *, tokens: int = 0) -> None:
        if not usd and not tokens:
            return
        owner = self._owners.get(decision_id)
        if owner is None and any(getattr(log, "shared", False) for log in self._logs):
            self._late.submit(self._charge, time_us, usd, decision_id=decision_id, tokens=tokens)
        else:
            self._charge(time_us, usd, decision_id=decision_id, tokens=tokens)

    def _charge(self, time_us: int, usd: float, *, decision_id: str, tokens: int) -> None:
        """Charge a token; one that is not remembered is looked up, in a thread if its log is on a server."""
        owner = self._owners.get(decision_id) or self._look_up(decision_id)
        with self._lock:
            for used in self._used_by(decision_id, owner):
                used.tokens.add(time_us, tokens)
                used.usd.add(time_us, usd)

    def _used_by(self, decision_id: str, token: str) -> list[_Used]:
        """The sums in which a decision counts: those of its token, and of its tenant."""
        tenant = tenant_of(decision_id.partition("/")[0])  # a draft for a ticket: ticket/agent
        keys = (LimitKey(tenant, token), LimitKey(tenant))
        return [self._used[key] for key in keys if key in self._limits]

    def _look_up(self, decision_id: str) -> str:
        """The token of a decision that was made before what is remembered."""
        rows = [row for log in self._logs for row in log.about(decision_id)]
        made = [event for row in rows if row.holds(DecisionMade) and isinstance(event := row.event(), DecisionMade)]
        return made[0].token if made else ""


def _dollars(limits: TokenLimitsConfig) -> SlidingSum:
    return SlidingSum(limits.window_s, min(60.0, limits.window_s / 60))


def _over(key: LimitKey, limit: str, wait_s: float, *, most: str) -> Problem:
    wait_s = math.ceil(wait_s)
    whose, where = (
        (f"token {key.token!r}", "tokens[]") if key.token is not None else (f"tenant {key.tenant!r}", "tenants")
    )
    message = f"the {whose} has used its {most}; try again in {wait_s} seconds, or raise {where}.limits"
    headers, quota = {"retry-after": str(wait_s)}, limit == "usd"
    if quota:
        headers["x-should-retry"] = "false"  # clients would retry in vain
    code, kind = ("insufficient_quota", "insufficient_quota") if quota else ("rate_limit_exceeded", limit)
    return Problem(429, code, message, headers=headers, kind=kind)
