"""What tokens have used of their limits: requests and tokens of agents in the last minute, dollars in a window.

Requests count when they arrive. Tokens and dollars count when an attempt or a report says what it has cost: calls under
way when a limit is reached are finished. After a restart the use is added up again from the log. All routers of a
service count together: a token has one limit, wherever it is used.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bot_orch.eventlog.events import AttemptEnded, DecisionMade, Event, FeedbackGiven
from bot_orch.eventlog.log import Log, Row
from bot_orch.eventlog.times import first_since
from bot_orch.service.config import TokenConfig, TokenLimitsConfig
from bot_orch.service.operations.sliding import SlidingSum
from bot_orch.service.problems import Problem

__all__ = ["TokenUsage"]

_MINUTE_S = 60.0
_MOST_OWNERS = 100_000


@dataclass(slots=True)
class _Used:
    requests: SlidingSum
    tokens: SlidingSum
    usd: SlidingSum


class TokenUsage:
    """The use of all tokens that have limits.

    Parameters
    ----------
    refused
        Called with the name of a token and of the limit that it has reached, unless the caller of :meth:`admit` wants
        to be told itself.
    """

    def __init__(self, refused: Callable[[str, str], None]) -> None:
        self._refused, self._lock = refused, threading.RLock()  # logs are read in threads
        self._limits: dict[str, TokenLimitsConfig] = {}
        self._used: dict[str, _Used] = {}
        self._owners: dict[str, str] = {}  # token by decision
        self._logs: list[Log] = []

    def track(self, tokens: Iterable[TokenConfig]) -> None:
        """Count the use of these tokens, as far as they have limits; what is known of them is kept."""
        limits = {token.name: token.limits for token in tokens if token.limits is not None}
        for name, limit in limits.items():
            known, before = self._used.get(name), self._limits.get(name)
            if known is None:
                self._used[name] = _Used(SlidingSum(_MINUTE_S, 0.25), SlidingSum(_MINUTE_S, 0.25), _dollars(limit))
            elif before is None or before.window_s != limit.window_s:
                known.usd = _dollars(limit)
        self._limits = limits

    def spent(self) -> Iterable[tuple[str, SlidingSum, float]]:
        """(token, dollars, limit) of tokens with a limit on dollars."""
        return [(name, self._used[name].usd, each.usd) for name, each in self._limits.items() if each.usd is not None]

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
            if isinstance(event, DecisionMade) and event.token in self._limits and not event.round:
                with self._lock:
                    self._used[event.token].requests.add(row.time_us, 1)
            self.take(row.time_us, event)
        elif self._limits and (row.holds(AttemptEnded) or row.holds(FeedbackGiven)):
            self.take(row.time_us, row.event())

    def take(self, time_us: int, event: Event) -> None:
        """Take an event of this process."""
        if not self._limits:
            return
        if isinstance(event, DecisionMade):
            if event.token in self._limits:
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
        name: str,
        limits: TokenLimitsConfig,
        now_us: int,
        *,
        refused: Callable[[str, str], None] | None = None,
    ) -> dict[str, str]:
        """Count a request; headers that say what is left. Raises a :class:`Problem` if a limit is reached."""
        with self._lock:
            return self._admitted(name, limits, now_us, refused=refused or self._refused)

    def _admitted(
        self, name: str, limits: TokenLimitsConfig, now_us: int, *, refused: Callable[[str, str], None]
    ) -> dict[str, str]:
        used = self._used[name]
        if limits.usd is not None and used.usd.within(now_us) >= limits.usd:
            refused(name, "usd")
            raise _over(name, "usd", used.usd.free_s(now_us, limits.usd), most=f"{limits.usd:g} dollars")
        headers: dict[str, str] = {}
        for what, spent, most in (
            ("requests", used.requests, limits.requests_per_minute),
            ("tokens", used.tokens, limits.tokens_per_minute),
        ):
            if most is None:
                continue
            left = most - spent.within(now_us)
            if left <= 0:
                refused(name, what)
                raise _over(name, what, spent.free_s(now_us, most), most=f"{most} {what} per minute")
            headers[f"x-ratelimit-limit-{what}"] = str(most)
            headers[f"x-ratelimit-remaining-{what}"] = str(max(0, math.ceil(left) - (what == "requests")))
        if limits.requests_per_minute is not None:
            used.requests.add(now_us, 1)
        return headers

    def _add(self, time_us: int, decision_id: str, usd: float, *, tokens: int = 0) -> None:
        if not usd and not tokens:
            return
        owner = self._owners.get(decision_id) or self._look_up(decision_id)
        used = self._used.get(owner) if owner in self._limits else None
        if used is not None:
            with self._lock:
                used.tokens.add(time_us, tokens)
                used.usd.add(time_us, usd)

    def _look_up(self, decision_id: str) -> str:
        """The token of a decision that was made before what is remembered."""
        rows = [row for log in self._logs for row in log.about(decision_id)]
        made = [event for row in rows if row.holds(DecisionMade) and isinstance(event := row.event(), DecisionMade)]
        return made[0].token if made else ""


def _dollars(limits: TokenLimitsConfig) -> SlidingSum:
    return SlidingSum(limits.window_s, min(60.0, limits.window_s / 60))


def _over(name: str, limit: str, wait_s: float, *, most: str) -> Problem:
    wait_s = math.ceil(wait_s)
    message = f"the token {name!r} has used its {most}; try again in {wait_s} seconds, or raise tokens[].limits"
    headers, quota = {"retry-after": str(wait_s)}, limit == "usd"
    if quota:
        headers["x-should-retry"] = "false"  # clients would retry in vain
    code, kind = ("insufficient_quota", "insufficient_quota") if quota else ("rate_limit_exceeded", limit)
    return Problem(429, code, message, headers=headers, kind=kind)
