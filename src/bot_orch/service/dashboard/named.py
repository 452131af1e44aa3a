"""Sums by name over an interval: kinds of tasks, multipliers of constraints."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["OTHERS", "NamedSums", "Names"]

OTHERS = "(others)"
_MOST_NAMES = 100


@dataclass(slots=True)
class NamedSums:
    """Sum and number of values, by name.

    Examples
    --------
    >>> sums = NamedSums()
    >>> sums.see("budget", 2.0); sums.see("budget", 4.0)
    >>> sums.mean("budget"), sums.count("budget"), sums.mean("quality")
    (3.0, 2, None)
    """

    values: dict[str, tuple[float, int]] = field(default_factory=dict)

    def see(self, name: str, value: float = 1.0, count: int = 1) -> None:
        """Add a value, or the sum of ``count`` values."""
        total, number = self.values.get(name, (0.0, 0))
        self.values[name] = (total + value, number + count)

    def add(self, other: NamedSums) -> None:
        """Add the sums of another interval."""
        for name, (total, number) in other.values.items():
            self.see(name, total, number)

    def count(self, name: str) -> int:
        """Number of values under a name."""
        return self.values.get(name, (0.0, 0))[1]

    def mean(self, name: str) -> float | None:
        """Mean of the values under a name; None without any."""
        total, number = self.values.get(name, (0.0, 0))
        return total / number if number else None


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
