"""Decisions and rewards per agent since an orchestrator was created or loaded; for display, no part of the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bot_orch.display import html_table

__all__ = ["Tally"]


@dataclass(slots=True)
class Tally:
    """Counts per agent.

    Examples
    --------
    >>> tally = Tally()
    >>> tally.decided("a"); tally.decided("b"); tally.rewarded("a", 0.5)
    >>> list(tally.rows({"a": 0, "b": 1}))
    [('a', 0.5, 0.5, 0), ('b', 0.5, None, 1)]
    """

    decisions: Counter[str] = field(default_factory=Counter)
    rewards: Counter[str] = field(default_factory=Counter)
    totals: dict[str, float] = field(default_factory=dict)

    def decided(self, agent: str) -> None:
        """Count a decision."""
        self.decisions[agent] += 1

    def rewarded(self, agent: str, reward: float | None) -> None:
        """Count a reward."""
        if reward is not None:
            self.rewards[agent] += 1
            self.totals[agent] = self.totals.get(agent, 0.0) + float(reward)

    def share(self, agent: str) -> float | None:
        """An agent's share of the decisions; None before the first one."""
        total = self.decisions.total()
        return self.decisions[agent] / total if total else None

    def mean(self, agent: str) -> float | None:
        """Mean reward of an agent; None without rewards."""
        return self.totals[agent] / self.rewards[agent] if self.rewards[agent] else None

    def rows(self, waiting: Mapping[str, int]) -> Iterator[tuple[str, float | None, float | None, int]]:
        """Agent, share of the decisions, mean reward and pending decisions of each agent."""
        for agent, pending in waiting.items():
            yield agent, self.share(agent), self.mean(agent), pending

    def table(self, caption: str, waiting: Mapping[str, int]) -> str:
        """The rows as an HTML table; ``waiting`` holds the pending decisions per agent."""
        return html_table(caption, ("agent", "share", "mean reward", "pending"), self.rows(waiting))
