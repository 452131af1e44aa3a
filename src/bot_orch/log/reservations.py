"""Money set aside for calls that are under way, so that many at once do not overdraw a budget."""

from __future__ import annotations

__all__ = ["Reservations"]

_MINUTE_US = 60_000_000
_UNITS = 1e9  # sums of whole units are exact, in any order
_BRIEF = 10


class Reservations:
    """Dollars set aside, by decision. Time comes with each entry.

    What is held briefly counts for ten minutes: for decisions of callers who ask the agent themselves and may never say
    what it has cost.

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

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, int, bool]] = {}
        self._minutes: dict[tuple[int, bool], int] = {}

    def hold(self, decision_id: str, time_us: int, usd: float, *, brief: bool = False) -> None:
        """Set dollars aside."""
        units = round(usd * _UNITS)
        if units > 0:
            self.release(decision_id)
            self._put(decision_id, time_us // _MINUTE_US, units, brief=brief)

    def release(self, decision_id: str) -> None:
        """Give back what is held for a decision, if anything."""
        found = self._held.pop(decision_id, None)
        if found is None:
            return
        minute, units, brief = found
        self._minutes[minute, brief] -= units
        if not self._minutes[minute, brief]:
            del self._minutes[minute, brief]

    def within(self, now_us: int, window_s: float) -> float:
        """Dollars set aside in the last ``window_s`` seconds, counted in whole minutes like spending."""
        minute = now_us // _MINUTE_US
        first = min(minute - int(window_s // 60) + 1, minute)
        recent = max(first, minute - _BRIEF + 1)
        entries = self._minutes.items()
        return sum(units for (each, brief), units in entries if each >= (recent if brief else first)) / _UNITS

    def _put(self, decision_id: str, minute: int, units: int, *, brief: bool) -> None:
        self._held[decision_id] = minute, units, brief
        self._minutes[minute, brief] = self._minutes.get((minute, brief), 0) + units

    def __len__(self) -> int:
        return len(self._held)

    def held(self) -> dict[str, tuple[int, int, bool]]:
        """(minute, units, whether briefly) by decision, in a copy."""
        return dict(self._held)

    def to_list(self) -> list[tuple[str, int, int, bool]]:
        """Plain values."""
        return [(decision_id, *entry) for decision_id, entry in self._held.items()]

    @classmethod
    def from_list(cls, entries: list[tuple[str, int, int, bool]]) -> Reservations:
        """The inverse of :meth:`to_list`."""
        held = cls()
        for decision_id, minute, units, brief in entries:
            held._put(decision_id, minute, units, brief=brief)
        return held
