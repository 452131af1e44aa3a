"""Sums over time intervals at several widths: fine ones for the recent past, coarse ones for long ranges."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np

from bot_orch.arrays import Floats

OTHERS = "(others)"
_MOST_NAMES = 100
_WIDTHS_S = (1, 10, 120, 1800, 21600)  # with 720 of each: 12 minutes, 2 hours, a day, 15 days, half a year
_KEPT = 720
_KEPT_NUMBERS = 36_000  # with more than fifty agents fewer buckets, so that memory is bounded
_SHOWN_S = (1, 2, 5, 10, 20, 30, 60, 120, 240, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_MOST_SHOWN = 90
_SUMS = (
    "decisions",
    "propensity",
    "reward",
    "rewarded",
    "cost_usd",
    "ended",
    "failed",
    "diverted",
    "completed",
    "seconds",
    "audited",
    "judged",
    "truth",
    "gap_squares",
    "rounds",
    "asked_again",
    "changed",
    "later_usd",
)
_ROWS = {name: row for row, name in enumerate(_SUMS)}


@dataclass(slots=True)
class Names:
    """The first hundred names that were seen; callers choose names, and memory is bounded.

    Examples
    --------
    >>> names = Names(1)
    >>> names.known("a"), names.known("b"), names.known("a")
    ('a', '(others)', 'a')
    """

    most: int = _MOST_NAMES
    seen: set[str] = field(default_factory=set)

    def known(self, name: str) -> str:
        """The name, or ``(others)`` if there are too many names."""
        if name not in self.seen:
            if len(self.seen) >= self.most:
                return OTHERS
            self.seen.add(name)
        return name


@dataclass(slots=True)
class Bucket:
    """Sums over one interval; ``bucket["reward"]`` has an entry per agent.

    - ``decisions`` for the agent; ``propensity`` over all decisions
    - ``reward``, ``rewarded``: sum and number of the rewards observed
    - ``cost_usd``: money spent
    - ``ended``, ``failed``, ``diverted``: attempts that ended, those of them that did not complete, and calls that load
      kept from the agent
    - ``completed``, ``seconds``: number of tasks completed, and the sum of their durations
    - ``audited``, ``judged``, ``truth``, ``gap_squares``: number of audited answers, sums of the judge's values and of
      the truth, and of their squared differences
    - ``rounds``, ``asked_again``, ``changed``, ``later_usd``: rounds that looked before they delivered the agent's
      answer, those that asked several agents, those whose first answer it was not, dollars of answers after the first

    Parameters
    ----------
    start_us
        Begin of the interval.
    sums
        One row per name above.
    kinds
        Decisions by kind of task.
    """

    start_us: int
    sums: Floats
    _: KW_ONLY
    kinds: Counter[str] = field(default_factory=Counter)

    @classmethod
    def empty(cls, start_us: int, n: int) -> Bucket:
        """A bucket of zeros for ``n`` agents."""
        return cls(start_us, np.zeros((len(_SUMS), n)))

    def __getitem__(self, name: str) -> Floats:
        row: Floats = self.sums[_ROWS[name]]
        return row

    def add(self, other: Bucket) -> None:
        """Add the sums of another bucket."""
        self.sums += other.sums
        self.kinds.update(other.kinds)


@dataclass(frozen=True, slots=True)
class BucketView:
    """Buckets of a time range; intervals without events have none."""

    buckets: list[Bucket]
    width_us: int
    _: KW_ONLY
    from_us: int
    to_us: int
    n: int

    def total(self, name: str) -> Floats:
        """The sum of one field over the range, per agent."""
        total: Floats = sum((bucket[name] for bucket in self.buckets), start=np.zeros(self.n))
        return total

    def kinds(self) -> Counter[str]:
        """Decisions of the range by kind of task."""
        return sum((bucket.kinds for bucket in self.buckets), start=Counter())


@dataclass(slots=True)
class BucketSeries:
    """Buckets of a whole log: one list per width, each limited in length."""

    n: int
    tiers: list[list[Bucket]] = field(default_factory=lambda: [[] for _ in _WIDTHS_S])
    dropped: list[bool] = field(default_factory=lambda: [False for _ in _WIDTHS_S])
    _: KW_ONLY
    first_us: int = 0
    _now: Bucket | None = None

    @property
    def kept(self) -> int:
        """Minimum number of buckets kept per width."""
        return max(_MOST_SHOWN, min(_KEPT, _KEPT_NUMBERS // max(self.n, 1)))

    def at(self, time_us: int) -> Bucket:
        """The bucket of a time; a time before the last one counts as the last one."""
        start_us = _start(time_us, _WIDTHS_S[0])
        if self._now is None or self._now.start_us < start_us:
            self._close()
            self.first_us = self.first_us or start_us
            self._now = Bucket.empty(start_us, self.n)
        return self._now

    def holding(self, start_us: int) -> list[Bucket]:
        """The kept buckets, one per width, that contain the finest bucket starting at ``start_us``."""
        if self._now is not None and self._now.start_us <= start_us:
            return [self._now]
        found = []
        for buckets, width_s in zip(self.tiers, _WIDTHS_S, strict=True):
            wanted = _start(start_us, width_s)
            place = bisect_left(buckets, wanted, key=lambda each: each.start_us)
            if place < len(buckets) and buckets[place].start_us == wanted:
                found.append(buckets[place])
        return found

    def view(self, from_us: int, to_us: int) -> BucketView:
        """About ninety buckets or fewer that cover the range, at the finest width that reaches back far enough."""
        from_us = max(from_us, self.first_us)
        tier = self._tier_for(from_us)
        span_s = max(to_us - from_us, 1) / 1e6
        base_s = _WIDTHS_S[tier]
        fits = (each for each in _SHOWN_S if each % base_s == 0 and span_s / each <= _MOST_SHOWN)
        days = -(-span_s // (86400 * _MOST_SHOWN))
        width_s = next(fits, round(days) * 86400)
        inside = [each for each in self._all(tier) if from_us - width_s * 1_000_000 < each.start_us <= to_us]
        return BucketView(_merged(inside, width_s, self.n), width_s * 1_000_000, from_us=from_us, to_us=to_us, n=self.n)

    def _close(self) -> None:
        """Add the finest bucket to the lists of all widths."""
        if self._now is None:
            return
        for tier, width_s in enumerate(_WIDTHS_S):
            buckets, start_us = self.tiers[tier], _start(self._now.start_us, width_s)
            if not buckets or buckets[-1].start_us < start_us:
                buckets.append(Bucket.empty(start_us, self.n))
            buckets[-1].add(self._now)
            if len(buckets) > 2 * self.kept:  # in halves, because dropping one by one moves the whole list
                del buckets[: self.kept]
                self.dropped[tier] = True
        self._now = None

    def _all(self, tier: int) -> list[Bucket]:
        return self.tiers[tier] if self._now is None else [*self.tiers[tier], self._now]

    def _tier_for(self, from_us: int) -> int:
        for tier, buckets in enumerate(self.tiers):
            if not self.dropped[tier] or (buckets and buckets[0].start_us <= from_us):
                return tier
        return len(_WIDTHS_S) - 1


def _merged(buckets: Sequence[Bucket], width_s: int, n: int) -> list[Bucket]:
    merged: list[Bucket] = []
    for bucket in buckets:
        start_us = _start(bucket.start_us, width_s)
        if not merged or merged[-1].start_us < start_us:
            merged.append(Bucket.empty(start_us, n))
        merged[-1].add(bucket)
    return merged


def _start(time_us: int, width_s: int) -> int:
    return time_us - time_us % (width_s * 1_000_000)
