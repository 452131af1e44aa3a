"""Histograms with fixed bounds, as Prometheus counts them: cumulative buckets, a sum and a count."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

__all__ = ["CALL_BOUNDS_S", "REQUEST_BOUNDS_S", "Histogram"]

REQUEST_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
CALL_BOUNDS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
"""Seconds of calls to agents: the bounds reach further, for long answers and for people."""


class Histogram:
    """One series.

    Examples
    --------
    >>> seconds = Histogram((0.1, 1.0))
    >>> for value in (0.1, 0.5, 7.0):
    ...     seconds.observe(value)
    >>> list(seconds.buckets()), seconds.count, seconds.total
    ([('0.1', 1), ('1.0', 2), ('+Inf', 3)], 3, 7.6)
    """

    __slots__ = ("_counts", "bounds", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.total = bounds, 0.0
        self._counts = [0] * (len(bounds) + 1)

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """Number of values."""
        return sum(self._counts)

    def buckets(self) -> Iterator[tuple[str, int]]:
        """(upper bound, values up to it)."""
        running = 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self._counts, strict=True):
            running += count
            yield bound, running
