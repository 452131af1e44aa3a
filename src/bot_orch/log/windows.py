"""Sums over a sliding window of time, in small grains: of requests, tokens and dollars, spent or set aside."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

LONGEST_WINDOW_S = 31 * 86_400
_MINUTE_S, _BRIEF_S = 60.0, 600.0
_UNITS = 1e9  # sums of whole units are exact, in any order


class SlidingSum:
    """Sum over the last ``span_s`` seconds; an amount may count up to ``grain_s`` longer.

    Examples
    --------
    >>> used = SlidingSum(60.0, 1.0)
    >>> used.add(0, 2.0)
    >>> used.add(30_000_000, 3.0)
    >>> used.within(31_000_000), used.within(61_000_000), used.within(91_000_000)
    (5.0, 3.0, 0.0)
    >>> used.add(100_000_000, 3.0)
    >>> used.free_s(110_000_000, 3.0)
    51.0
    """

    def __init__(self, span_s: float, grain_s: float) -> None:
        self._span_us, self._grain_us = round(span_s * 1e6), round(grain_s * 1e6)
        self._grains: deque[tuple[int, float]] = deque()  # end of a grain, amount
        self._total = 0.0
        self._recent: tuple[int, float, float] | None = None  # grain, window and sum of the last time

    def add(self, time_us: int, amount: float) -> None:
        """Add an amount, which may be of an earlier time."""
        if not amount:
            return
        end_us = (time_us // self._grain_us + 1) * self._grain_us
        place = len(self._grains)
        while place and self._grains[place - 1][0] > end_us:
            place -= 1
        if place and self._grains[place - 1][0] == end_us:
            self._grains[place - 1] = (end_us, self._grains[place - 1][1] + amount)
        else:
            self._grains.insert(place, (end_us, amount))
        self._total += amount
        self._recent = None

    def within(self, now_us: int) -> float:
        """The sum now."""
        while self._grains and self._grains[0][0] + self._span_us <= now_us:
            self._total -= self._grains.popleft()[1]
        if not self._grains:
            self._total = 0.0  # without what rounding has left
        return self._total

    def recent(self, now_us: int, window_s: float) -> float:
        """The sum of the last ``window_s`` seconds, which are fewer than ``span_s``, in whole grains."""
        grain, window = now_us // self._grain_us, max(1, round(window_s * 1e6) // self._grain_us)
        if self._recent is None or self._recent[:2] != (grain, window):
            first_us, total = (grain - window + 2) * self._grain_us, 0.0
            for end_us, amount in reversed(self._grains):
                if end_us < first_us:
                    break
                total += amount
            self._recent = grain, window, total
        return self._recent[2]

    def grains(self, now_us: int) -> list[tuple[int, float]]:
        """Current amounts with their expiry times, earliest first."""
        self.within(now_us)
        return [(end_us + self._span_us, amount) for end_us, amount in self._grains]

    def replace(self, grains: Iterable[tuple[int, float]]) -> None:
        """Replace the amounts by those of :meth:`grains`."""
        self._grains = deque((until_us - self._span_us, amount) for until_us, amount in grains)
        self._total = sum(amount for _, amount in self._grains)

    def free_s(self, now_us: int, limit: float) -> float:
        """Seconds until the sum falls below ``limit`` if nothing is added; at least a tenth."""
        left, until_us = self.within(now_us), now_us
        for end_us, amount in self._grains:
            if left < limit:
                break
            left, until_us = left - amount, end_us + self._span_us
        return max(0.1, (until_us - now_us) / 1e6)


def spending(grains: Iterable[tuple[int, float]] = ()) -> SlidingSum:
    """Dollars per minute over the last 31 days; ``grains`` restores an earlier sum.

    Examples
    --------
    >>> spent = spending()
    >>> spent.add(0, 0.25)
    >>> spent.add(120_000_000, 0.5)
    >>> spent.recent(120_000_000, 60.0), spent.recent(120_000_000, 3600.0)
    (0.5, 0.75)
    """
    found = SlidingSum(LONGEST_WINDOW_S, _MINUTE_S)
    found.replace(grains)
    return found


class Reservations:
    """Dollars reserved for calls in progress, by decision, so that concurrent calls do not overdraw a budget.

    Brief reservations count for ten minutes: they belong to callers who call the agent themselves and may never report
    its cost.

    Examples
    --------
    >>> held = Reservations()
    >>> held.hold("d-1", 0, 0.25)
    >>> held.hold("d-2", 120_000_000, 0.5)
    >>> held.within(120_000_000, 60.0), held.within(120_000_000, 3600.0)
    (0.5, 0.75)
    >>> held.release("d-2")
    >>> held.within(120_000_000, 3600.0)
    0.25
    """

    def __init__(self, entries: Iterable[tuple[str, int, int, bool]] = ()) -> None:
        self._held: dict[str, tuple[int, int, bool]] = {}
        self._sums = {brief: SlidingSum(LONGEST_WINDOW_S, _MINUTE_S) for brief in (False, True)}
        for decision_id, time_us, units, brief in entries:
            self._put(decision_id, time_us, units, brief=brief)

    def hold(self, decision_id: str, time_us: int, usd: float, *, brief: bool = False) -> None:
        """Set dollars aside."""
        units = round(usd * _UNITS)
        if units > 0:
            self.release(decision_id)
            self._put(decision_id, time_us, units, brief=brief)

    def release(self, decision_id: str) -> None:
        """Release the reservation of a decision, if any."""
        found = self._held.pop(decision_id, None)
        if found is not None:
            time_us, units, brief = found
            self._sums[brief].add(time_us, -units)

    def within(self, now_us: int, window_s: float) -> float:
        """Dollars set aside in the last ``window_s`` seconds, counted in whole minutes like spending."""
        brief = self._sums[True].recent(now_us, min(window_s, _BRIEF_S))
        return (self._sums[False].recent(now_us, window_s) + brief) / _UNITS

    def _put(self, decision_id: str, time_us: int, units: int, *, brief: bool) -> None:
        self._held[decision_id] = time_us, units, brief
        self._sums[brief].add(time_us, units)

    def __len__(self) -> int:
        return len(self._held)

    def to_list(self) -> list[tuple[str, int, int, bool]]:
        """Plain values for the constructor."""
        return [(decision_id, *entry) for decision_id, entry in self._held.items()]
