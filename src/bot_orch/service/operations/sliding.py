"""Sums over a sliding window of time, in small grains."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

__all__ = ["SlidingSum", "free_s"]


class SlidingSum:
    """What was added in the last ``span_s`` seconds; an amount may count up to ``grain_s`` longer.

    Examples
    --------
    >>> used = SlidingSum(60.0, 1.0)
    >>> used.add(0, 2.0)
    >>> used.add(30_000_000, 3.0)
    >>> used.within(31_000_000), used.within(61_000_000), used.within(91_000_000)
    (5.0, 3.0, 0.0)
    >>> used.add(100_000_000, 3.0)
    >>> free_s([used], 110_000_000, 3.0)
    51.0
    """

    def __init__(self, span_s: float, grain_s: float) -> None:
        self._span_us, self._grain_us = round(span_s * 1e6), round(grain_s * 1e6)
        self._grains: deque[tuple[int, float]] = deque()  # end of a grain, amount
        self._total = 0.0

    def add(self, time_us: int, amount: float) -> None:
        """Count an amount; quick if times do not go back, as when several logs are added one after the other."""
        end_us = (time_us // self._grain_us + 1) * self._grain_us
        place = len(self._grains)
        while place and self._grains[place - 1][0] > end_us:
            place -= 1
        if place and self._grains[place - 1][0] == end_us:
            self._grains[place - 1] = (end_us, self._grains[place - 1][1] + amount)
        else:
            self._grains.insert(place, (end_us, amount))
        self._total += amount

    def within(self, now_us: int) -> float:
        """The sum now."""
        while self._grains and self._grains[0][0] + self._span_us <= now_us:
            self._total -= self._grains.popleft()[1]
        if not self._grains:
            self._total = 0.0  # without what rounding has left
        return self._total

    def grains(self, now_us: int) -> list[tuple[int, float]]:
        """What counts now: (time at which it no longer does, amount), the earliest first."""
        self.within(now_us)
        return [(end_us + self._span_us, amount) for end_us, amount in self._grains]

    def told(self, now_us: int, most: int = 8) -> list[tuple[int, float]]:
        """The same for another process in at most so many amounts; each may count somewhat longer there."""
        found = self.grains(now_us)
        size = max(1, -(-len(found) // most))
        parts = (found[start : start + size] for start in range(0, len(found), size))
        return [(part[-1][0], sum(amount for _, amount in part)) for part in parts]

    def replace(self, grains: Iterable[tuple[int, float]]) -> None:
        """Take what another process has told in place of what was known."""
        self._grains = deque((until_us - self._span_us, amount) for until_us, amount in grains)
        self._total = sum(amount for _, amount in self._grains)


def free_s(sums: Iterable[SlidingSum], now_us: int, limit: float) -> float:
    """Seconds until these together are below ``limit``, if nothing is added; never less than a tenth."""
    grains = sorted(grain for each in sums for grain in each.grains(now_us))
    left, until_us = sum(amount for _, amount in grains), now_us
    for end_us, amount in grains:
        if left < limit:
            break
        left, until_us = left - amount, end_us
    return max(0.1, (until_us - now_us) / 1e6)
