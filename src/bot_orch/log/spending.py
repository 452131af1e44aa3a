"""Money spent, by minute, for budgets over a rolling window."""

from __future__ import annotations

__all__ = ["LONGEST_WINDOW_S", "Spending"]

_MINUTE_US = 60_000_000
LONGEST_WINDOW_S = 31 * 86_400


class Spending:
    """Dollars per minute over the last 31 days. Time comes with each entry.

    Examples
    --------
    >>> spending = Spending()
    >>> spending.add(0, 0.25)
    >>> spending.add(120_000_000, 0.5)
    >>> spending.within(120_000_000, 60.0), spending.within(120_000_000, 3600.0)
    (0.5, 0.75)
    """

    def __init__(self) -> None:
        self._minutes: dict[int, float] = {}
        self._cached: tuple[int, float, float] | None = None

    def add(self, time_us: int, usd: float) -> None:
        """Record an expense."""
        if not usd:
            return
        minute = time_us // _MINUTE_US
        self._minutes[minute] = self._minutes.get(minute, 0.0) + usd
        self._cached = None
        while (oldest := next(iter(self._minutes))) < minute - LONGEST_WINDOW_S // 60:
            del self._minutes[oldest]

    def within(self, now_us: int, window_s: float) -> float:
        """Dollars spent in the last ``window_s`` seconds, counted in whole minutes."""
        minute = now_us // _MINUTE_US
        if self._cached is None or self._cached[:2] != (minute, window_s):
            first = minute - int(window_s // 60) + 1
            total = sum(usd for each, usd in self._minutes.items() if each >= min(first, minute))
            self._cached = (minute, window_s, total)
        return self._cached[2]

    def to_list(self) -> list[tuple[int, float]]:
        """Plain values."""
        return list(self._minutes.items())

    @classmethod
    def from_list(cls, entries: list[tuple[int, float]]) -> Spending:
        """The inverse of :meth:`to_list`."""
        spending = cls()
        spending._minutes = {int(minute): float(usd) for minute, usd in entries}
        return spending
