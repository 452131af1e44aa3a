"""The attempts of one call: who may be asked next, and how long each is waited for."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from bot_orch.agents.endings import Ending
from bot_orch.core.completion.patience import PATIENCE_RULES, PatienceRule
from bot_orch.errors import InvalidInputError
from bot_orch.router.calls import Call
from bot_orch.types import Decision

__all__ = ["CallAttempts"]


class _Patience(Protocol):
    def __call__(
        self, decision: Decision, deadline_s: float, *, eligible: Collection[str] | None, rule: PatienceRule
    ) -> float: ...


class CallAttempts:
    """State of one call with up to ``attempts`` attempts within ``timeout_s`` seconds.

    An attempt that is given up for another one ends as cancelled: silence at its patience. The last one ends as a
    timeout.
    """

    def __init__(
        self,
        agents: Collection[str],
        eligible: Collection[str] | None,
        timeout_s: float | None,
        *,
        attempts: int,
        rule: PatienceRule,
    ) -> None:
        if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
            raise InvalidInputError("attempts", f"is {attempts!r}", "pass a whole number, 1 or more")
        if attempts > 1 and timeout_s is None:
            raise InvalidInputError("timeout_s", "is missing", "attempts share the time that it gives")
        if rule not in PATIENCE_RULES:
            raise InvalidInputError("patience", f"is {rule!r}", f"choose one of {', '.join(PATIENCE_RULES)}")
        self.eligible = eligible
        self._agents, self._left_s, self._attempts, self._rule = agents, timeout_s, attempts, rule
        self._tried: list[str] = []
        self._last = attempts == 1

    @property
    def expiry(self) -> Ending:
        """How the current attempt ends if its time runs out."""
        return Ending.TIMEOUT_TOTAL if self._last else Ending.CANCELLED_BY_CALLER

    def wait_for(self, decision: Decision, patience: _Patience) -> float | None:
        """Seconds to wait for the agent of a decision; None for ever."""
        self._tried.append(decision.agent)
        others = self._others()
        self._last = len(self._tried) >= self._attempts or not others
        if self._last or self._left_s is None:
            return self._left_s
        wait_s = patience(decision, self._left_s, eligible=others, rule=self._rule)
        self._last = wait_s >= self._left_s
        return wait_s

    def goes_on(self, call: Call) -> bool:
        """Whether another agent is asked after this attempt."""
        if call.error is None or self._left_s is None or len(self._tried) >= self._attempts:
            return False
        self._left_s -= call.elapsed_s
        self.eligible = self._others()
        return self._left_s > 0.0 and bool(self.eligible)

    def _others(self) -> list[str]:
        allowed = self._agents if self.eligible is None else set(self.eligible).intersection(self._agents)
        return [name for name in self._agents if name in allowed and name not in self._tried]
