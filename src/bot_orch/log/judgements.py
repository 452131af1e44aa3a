"""Values of judges, per judge and agent, and their errors on audited decisions."""

from __future__ import annotations

from dataclasses import KW_ONLY, astuple, dataclass
from typing import Any

from bot_orch.core.events import FeedbackGiven
from bot_orch.recent import Newest

#: The name under which the truth about audited decisions is counted.
AUDIT = "audit"
_MOST_OPEN = 4096


@dataclass(slots=True)
class JudgeTally:
    """Values of a judge for one agent, and differences ``judge - truth`` where both are known.

    Examples
    --------
    >>> tally = JudgeTally()
    >>> tally.see(0.5); tally.see(1.0); tally.compare(0.25); tally.compare(0.75)
    >>> tally.count, tally.mean, tally.pairs, tally.gap, tally.square
    (2, 0.75, 2, 0.5, 0.125)
    """

    count: int = 0
    mean: float = 0.0
    _: KW_ONLY
    pairs: int = 0
    gap: float = 0.0
    square: float = 0.0

    def see(self, value: float) -> None:
        """Count a value."""
        self.count += 1
        self.mean += (value - self.mean) / self.count

    def compare(self, gap: float) -> None:
        """Count a difference: its mean, and the sum of squared deviations from that."""
        self.pairs += 1
        before = gap - self.gap
        self.gap += before / self.pairs
        self.square += before * (gap - self.gap)


@dataclass(slots=True)
class _Marked:
    """An audited decision: its agent, the truth once known, the judges' values until then."""

    agent: str
    truth: float | None
    values: dict[str, float]


class Judgements:
    """Tallies by judge and agent. Each judge is compared once per audited decision, by its last value.

    Examples
    --------
    >>> judgements = Judgements()
    >>> judgements.mark("d", "cheat")
    >>> judgements.take(FeedbackGiven("1", "d", "learned", 0.9, judge="model", agent="cheat"))
    >>> judgements.take(FeedbackGiven("2", "d", "audited", 0.1, audit=True))
    >>> round(judgements.tallies["model", "cheat"].gap, 6), judgements.tallies["audit", "cheat"].mean
    (0.8, 0.1)
    """

    def __init__(self) -> None:
        self.tallies: dict[tuple[str, str], JudgeTally] = {}
        self._marked = Newest[str, _Marked](_MOST_OPEN)

    def __bool__(self) -> bool:
        return bool(self.tallies or self._marked)

    def mark(self, decision_id: str, agent: str) -> None:
        """Note a decision that is to be audited; the oldest is forgotten if too many are."""
        self._marked[decision_id] = _Marked(agent, None, {})

    def take(self, event: FeedbackGiven) -> None:
        """Count a judge's value, or the truth."""
        marked, value = self._marked.get(event.decision_id), event.reward
        agent = event.agent or ("" if marked is None else marked.agent)
        if value is None or not agent:
            return
        judge = AUDIT if event.audit else event.judge
        self._tally(judge, agent).see(value)
        if marked is None:
            return
        if event.audit and marked.truth is None:
            marked.truth = value
            for name, given in marked.values.items():
                self._tally(name, agent).compare(given - value)
        elif not event.audit:
            if marked.truth is not None and judge not in marked.values:
                self._tally(judge, agent).compare(value - marked.truth)
            marked.values[judge] = value

    def _tally(self, judge: str, agent: str) -> JudgeTally:
        return self.tallies.setdefault((judge, agent), JudgeTally())

    def to_list(self) -> tuple[list[Any], list[Any]]:
        """Plain values; :meth:`from_list` is the inverse."""
        return (
            [[*key, *astuple(tally)] for key, tally in sorted(self.tallies.items())],
            [[key, each.agent, each.truth, dict(each.values)] for key, each in self._marked.items()],
        )

    @classmethod
    def from_list(cls, values: Any) -> Judgements:
        """The inverse of :meth:`to_list`."""
        found, (tallies, marked) = cls(), values
        for judge, agent, count, mean, pairs, gap, square in tallies:
            found.tallies[judge, agent] = JudgeTally(count, mean, pairs=pairs, gap=gap, square=square)
        for key, agent, truth, given in marked:
            found._marked[key] = _Marked(agent, truth, dict(given))
        return found
