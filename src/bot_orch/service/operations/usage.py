"""Usage of tokens against their limits: requests and tokens per minute, dollars per window.

Requests count when they arrive. Tokens and dollars count when an attempt or a report says what it has cost: calls under
way when a limit is reached are finished. After a restart the use is added up again from the log. All routers of a
service count together: a token has one limit, wherever it is used.

The use is kept by router, because routers move between processes: the process that serves a router knows its use, and
tells the others (:mod:`bot_orch.service.cluster.sharing`).
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec

from bot_orch.core.events import AttemptEnded, DecisionMade, Event, FeedbackGiven
from bot_orch.log.archive import first_since
from bot_orch.log.log import Log, Row
from bot_orch.log.windows import SlidingSum, free_s
from bot_orch.recent import Newest
from bot_orch.service.config import TokenConfig, TokenLimitsConfig
from bot_orch.service.problems import Problem

_MINUTE_S = 60.0
_MOST_OWNERS = 100_000
TAGS = b"x-bot-orch-tags"
_TAG = re.compile(r"[A-Za-z0-9._:/=-]{1,64}")
_MOST = 16


class SharedUse(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """Usage of a token at one router, as reported by the process that serves it.

    Amounts are (time in microseconds at which it no longer counts, amount).
    """

    router: str
    token: str
    requests: list[tuple[int, float]]
    tokens: list[tuple[int, float]]
    usd: list[tuple[int, float]]


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
        to be sent itself.
    """

    def __init__(self, refused: Callable[[str, str], None]) -> None:
        self._refused, self._lock = refused, threading.RLock()  # logs are read in threads
        self._limits: dict[str, TokenLimitsConfig] = {}
        self._used: dict[str, dict[str, _Used]] = {}  # by router
        self._here: dict[str, Log] = {}  # routers that this process serves
        self._news: set[tuple[str, str]] = set()
        self.changed: Callable[[], None] | None = None  # of who tells others; called in any thread

    @property
    def limited(self) -> bool:
        """Whether any limit is configured."""
        return bool(self._limits)

    def track(self, tokens: Iterable[TokenConfig]) -> None:
        """Track the usage of these tokens where they have limits; known usage is kept."""
        limits = {each.name: each.limits for each in tokens if each.limits is not None}
        with self._lock:
            for key, limit in limits.items():
                before = self._limits.get(key)
                if before is None or before.window_s != limit.window_s:
                    for used in self._all(key):
                        used.usd = _dollars(limit)
            self._limits = limits

    def spent(self, now_us: int) -> Iterable[tuple[str, float, float]]:
        """(token, dollars, limit) for every limit on dollars."""
        limits = [(key, each.usd) for key, each in self._limits.items() if each.usd is not None]
        with self._lock:
            return [(key, _within((used.usd for used in self._all(key)), now_us), usd) for key, usd in limits]

    def recall(self, router: str, log: Log, now_us: int) -> RouterUsage:
        """Take over a router: usage in its log replaces what other processes reported for the last windows."""
        with self._lock:
            self._here[router] = log
            for by_router in self._used.values():
                by_router.pop(router, None)
            limits = [*self._limits.values()]
        found = RouterUsage(self, router, log)
        if limits:
            longest_s = max(limit.window_s if limit.usd is not None else _MINUTE_S for limit in limits)
            for row in log.read(first_since(log, now_us - round(longest_s * 1e6)) - 1):
                found.follow(row)
        return found

    def forget(self, router: str, log: Log) -> None:
        """Note that this process no longer serves a router; the usage of its tokens still counts."""
        with self._lock:
            if self._here.get(router) is log:
                del self._here[router]

    def news(self, now_us: int, *, everything: bool = False) -> list[SharedUse]:
        """Usage that changed since the last call at the routers served here, or all of it."""
        with self._lock:
            known = {(key, router) for key, found in self._used.items() for router in found}
            asked = known if everything else known & self._news
            self._news = set()
            return [
                SharedUse(
                    router=router,
                    token=key,
                    requests=used.requests.summary(now_us),
                    tokens=used.tokens.summary(now_us),
                    usd=used.usd.summary(now_us),
                )
                for key, router in asked
                if router in self._here and key in self._limits
                for used in (self._used[key][router],)
            ]

    def merge(self, uses: Iterable[SharedUse]) -> None:
        """Store usage reported by other processes for the routers that they serve."""
        with self._lock:
            for each in uses:
                if each.router not in self._here and each.token in self._limits:
                    used = self._of(each.token, each.router)
                    used.requests.replace(each.requests)
                    used.tokens.replace(each.tokens)
                    used.usd.replace(each.usd)

    def admit(
        self,
        token: str,
        limits: TokenLimitsConfig,
        now_us: int,
        *,
        router: str,
        refused: Callable[[str, str], None] | None = None,
    ) -> dict[str, str]:
        """Count a request; returns headers with the remaining allowance.

        Raises a :class:`Problem` if a limit is reached; then nothing is counted.
        """
        with self._lock:
            left = self._left(token, limits, now_us, refused=refused or self._refused)
            if limits.requests_per_minute is not None:
                self._of(token, router).requests.add(now_us, 1)
                self._tell(token, router)
        headers: dict[str, str] = {}
        for what, (rest, most) in left.items():
            headers |= {f"x-ratelimit-limit-{what}": str(most), f"x-ratelimit-remaining-{what}": str(rest)}
        return headers

    def limits(self, token: str) -> bool:
        """Whether a token has limits."""
        return token in self._limits

    def charge(
        self,
        router: str,
        token: str,
        time_us: int,
        *,
        requests: int = 0,
        tokens: int = 0,
        usd: float = 0.0,
    ) -> None:
        """Add usage at a router that is served here."""
        with self._lock:
            if token not in self._limits:
                return
            used = self._of(token, router)
            if requests:
                used.requests.add(time_us, requests)
            used.tokens.add(time_us, tokens)
            used.usd.add(time_us, usd)
            self._tell(token, router)

    def _left(
        self, key: str, limits: TokenLimitsConfig, now_us: int, *, refused: Callable[[str, str], None]
    ) -> dict[str, tuple[int, int]]:
        """The remainder of each limit after this request, and the limit."""
        used, found = self._all(key), dict[str, tuple[int, int]]()
        dollars = [each.usd for each in used]
        if limits.usd is not None and _within(dollars, now_us) >= limits.usd:
            refused(key, "usd")
            raise _over(key, "usd", free_s(dollars, now_us, limits.usd), most=f"{limits.usd:g} dollars")
        for what, spent, most in (
            ("requests", [each.requests for each in used], limits.requests_per_minute),
            ("tokens", [each.tokens for each in used], limits.tokens_per_minute),
        ):
            if most is None:
                continue
            left = most - _within(spent, now_us)
            if left <= 0:
                refused(key, what)
                raise _over(key, what, free_s(spent, now_us, most), most=f"{most} {what} per minute")
            found[what] = max(0, math.ceil(left) - (what == "requests")), most
        return found

    def _all(self, key: str) -> list[_Used]:
        return [*self._used.get(key, {}).values()]

    def _of(self, key: str, router: str) -> _Used:
        by_router = self._used.setdefault(key, {})
        if router not in by_router:
            minutes = SlidingSum(_MINUTE_S, 0.25), SlidingSum(_MINUTE_S, 0.25)
            by_router[router] = _Used(*minutes, _dollars(self._limits[key]))
        return by_router[router]

    def _tell(self, key: str, router: str) -> None:
        first = not self._news
        if self.changed is not None:
            self._news.add((key, router))
            if first:
                self.changed()


class RouterUsage:
    """Tracks the usage at one router that this process serves.

    Parameters
    ----------
    usage
        Usage of all routers.
    router, log
        Its name, and its log.
    """

    def __init__(self, usage: TokenUsage, router: str, log: Log) -> None:
        self._usage, self._router, self._log = usage, router, log
        self._owners = Newest[str, str](_MOST_OWNERS)  # token by decision
        self._late = ThreadPoolExecutor(1, "usage")

    def follow(self, row: Row) -> None:
        """Count a row that was written before this process took over the router."""
        if self._usage.limited and row.holds(DecisionMade):
            event = row.event()
            if isinstance(event, DecisionMade) and not event.round:
                self._usage.charge(self._router, event.token, row.time_us, requests=1)
            self.take(row.time_us, event)
        elif self._usage.limited and (row.holds(AttemptEnded) or row.holds(FeedbackGiven)):
            self.take(row.time_us, row.event())

    def take(self, time_us: int, event: Event) -> None:
        """Count an event of this process."""
        if not self._usage.limited:
            return
        if isinstance(event, DecisionMade):
            if self._usage.limits(event.token):
                self._owners[event.id] = event.token
        elif isinstance(event, AttemptEnded):
            self._add(time_us, event.decision_id, event.cost_usd, tokens=event.input_tokens + event.output_tokens)
        elif isinstance(event, FeedbackGiven) and event.cost_usd:
            self._add(time_us, event.decision_id, event.cost_usd)

    def _add(self, time_us: int, decision_id: str, usd: float, *, tokens: int = 0) -> None:
        if not usd and not tokens:
            return
        if decision_id not in self._owners and getattr(self._log, "shared", False):
            self._late.submit(self._charge, time_us, usd, decision_id=decision_id, tokens=tokens)
        else:
            self._charge(time_us, usd, decision_id=decision_id, tokens=tokens)

    def _charge(self, time_us: int, usd: float, *, decision_id: str, tokens: int) -> None:
        """Charge a token; a forgotten one is looked up, in a thread if its log is on a server."""
        token = self._owners.get(decision_id) or self._look_up(decision_id)
        self._usage.charge(self._router, token, time_us, tokens=tokens, usd=usd)

    def _look_up(self, decision_id: str) -> str:
        """Look up the token of a decision in the log."""
        rows = (row for row in self._log.about(decision_id) if row.holds(DecisionMade))
        made = [event for row in rows if isinstance(event := row.event(), DecisionMade)]
        return made[0].token if made else ""


def _within(sums: Iterable[SlidingSum], now_us: int) -> float:
    return sum(each.within(now_us) for each in sums)


def _dollars(limits: TokenLimitsConfig) -> SlidingSum:
    return SlidingSum(limits.window_s, min(60.0, limits.window_s / 60))


def _over(key: str, limit: str, wait_s: float, *, most: str) -> Problem:
    wait_s = math.ceil(wait_s)
    message = f"the token {key!r} has used its {most}; try again in {wait_s} seconds, or raise tokens[].limits"
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
