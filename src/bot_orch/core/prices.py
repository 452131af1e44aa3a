"""Expected cost of a call per agent, in units of reward."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bot_orch.arrays import Arrays, Field, Floats, Ints, Schema

__all__ = ["Prices"]

_PSEUDO_OUTCOMES = 2.0


@dataclass(frozen=True, slots=True)
class Prices:
    """Configured cost plus ``weight`` times the mean observed dollar cost, per agent.

    Means are shrunk towards the mean of all agents: with n outcomes an agent's own mean has weight n / (n + 2).

    Parameters
    ----------
    weight
        Reward units per dollar; 0 ignores dollar costs.

    Examples
    --------
    >>> from bot_orch.arrays import allocate
    >>> prices = Prices(weight=10.0)
    >>> state = allocate(prices.schema, (), 2)
    >>> for usd in (0.02, 0.04):
    ...     prices.see(state, np.array(1), np.array(usd))
    >>> prices.expected(state, np.array([0.0, 0.1])).round(3)
    array([0.3, 0.4])
    """

    weight: float = 0.0

    @property
    def schema(self) -> Schema:
        """Total dollars and number of outcomes per agent; empty if ``weight`` is 0."""
        return {"usd": Field(), "outcomes": Field()} if self.weight else {}

    def expected(self, state: Arrays, stated: Floats) -> Floats:
        """Expected costs ``batch + (M,)``, from configured costs ``(M,)``."""
        if not self.weight:
            return stated
        usd, n = state["usd"], state["outcomes"]
        usual = np.add.reduce(usd, axis=-1, keepdims=True) / np.maximum(np.add.reduce(n, axis=-1, keepdims=True), 1.0)
        mean = (usd + _PSEUDO_OUTCOMES * usual) / (n + _PSEUDO_OUTCOMES)
        return np.asarray(stated + self.weight * mean)

    def see(self, state: Arrays, agent: Ints, usd: Floats) -> None:
        """Record the dollar cost of one outcome per batch element; NaN where unknown."""
        if not self.weight:
            return
        at = (*np.indices(np.shape(agent), sparse=True), agent)
        known = np.isfinite(usd)
        state["usd"][at] += np.where(known, usd, 0.0)
        state["outcomes"][at] += known
