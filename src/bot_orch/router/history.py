"""The most recent rounds of a router, as rows, as a DataFrame and as figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bot_orch.checks import check_count
from bot_orch.display import data_frame, html_table
from bot_orch.recent import Newest
from bot_orch.types import Decision, Outcome


class RecentRounds(list[dict[str, Any]]):
    """Rounds as rows, oldest first: decision, task, agent, propensity, estimate, distance, reward, ...

    ``reward`` and the columns after it are ``None`` while the outcome is awaited.
    """

    def frame(self) -> Any:
        """The rows as a ``pandas.DataFrame`` (extra ``notebook``)."""
        return data_frame(self)


@dataclass(slots=True)
class _Round:
    """A decision, and its outcome once it is known."""

    decision: Decision
    outcome: Outcome | None = None


class Ring:
    """The last ``size`` decisions, each with its outcome once it is known.

    Examples
    --------
    >>> Ring(0).rows()
    []
    """

    def __init__(self, size: int) -> None:
        self.size = check_count("history", size, "pass how many rounds to keep, 0 or more")
        self._rounds = Newest[str, _Round](self.size)

    def restore(self, rounds: Iterable[tuple[Decision, Outcome | None]]) -> None:
        """Begin with the rounds of an earlier router."""
        self._rounds = Newest(self.size, ((decision.id, _Round(decision, outcome)) for decision, outcome in rounds))

    def decided(self, decision: Decision) -> None:
        """Add a decision, dropping the oldest one beyond the size."""
        self._rounds[decision.id] = _Round(decision)

    def observed(self, decision_id: str, outcome: Outcome) -> None:
        """Add the outcome to its decision, if it is still stored."""
        if decision_id in self._rounds:
            self._rounds[decision_id].outcome = outcome

    def rounds(self) -> list[tuple[Decision, Outcome | None]]:
        """Decisions with their outcomes, oldest first."""
        return [(each.decision, each.outcome) for each in self._rounds.values()]

    def table(self, caption: str, agents: Iterable[str]) -> str:
        """Share of the decisions and mean reward of each agent in these rounds, as an HTML table."""
        lines = []
        for agent in agents:
            mine = [each.outcome for each in self._rounds.values() if each.decision.agent == agent]
            rewards = [outcome.reward for outcome in mine if outcome is not None and outcome.reward is not None]
            share = len(mine) / len(self._rounds) if self._rounds else None
            lines.append((agent, share, sum(rewards) / len(rewards) if rewards else None))
        return html_table(caption, ("agent", "share", "mean reward"), lines)

    def rows(self) -> RecentRounds:
        """One row per round."""
        return RecentRounds(_row(decision, outcome) for decision, outcome in self.rounds())


def _row(decision: Decision, outcome: Outcome | None) -> dict[str, Any]:
    index = decision.agents.index(decision.agent)
    return {
        "decision": decision.id,
        "task": decision.task_id,
        "agent": decision.agent,
        "propensity": decision.propensity,
        "estimate": float(decision.terms.estimate[index]),
        "distance": float(decision.terms.distance[index]),
        "completed": None if outcome is None else bool(outcome.event),
        "reward": None if outcome is None else outcome.reward,
        "elapsed_s": None if outcome is None else outcome.elapsed_s,
        "reason": None if outcome is None else outcome.reason,
        "cost_usd": None if outcome is None else outcome.cost_usd,
    }
