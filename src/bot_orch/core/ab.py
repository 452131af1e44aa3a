"""A/B tests: a keyed random stream splits the traffic between two policies, and each learns only its own decisions."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal

from bot_orch.arrays import Arrays, Schema
from bot_orch.errors import InvalidInputError
from bot_orch.policies.base import Choice, Feedback, Policy, Situation
from bot_orch.policies.registry import register_policy
from bot_orch.rng import derive_key, uniform

__all__ = ["SplitTest"]

Arm = Literal["a", "b"]


@dataclass(frozen=True)
class SplitTest(Policy):
    """Arm ``b`` makes a random share of the decisions, arm ``a`` the others.

    The arm of a round is drawn from a separate random stream, so it depends only on the round: the
    propensities of a decision are those of its arm, and an outcome is learned by the arm that decided.

    Parameters
    ----------
    a, b
        The policies.
    share
        Share of the decisions of ``b``.
    seed
        Seed of the stream.

    Examples
    --------
    >>> from bot_orch.policies.registry import make_policy
    >>> test = SplitTest(make_policy("bot"), make_policy("ucb1"), share=0.25)
    >>> sum(test.arm(t) == "b" for t in range(1, 10_001)) / 10_000
    0.2407
    """

    a: Policy
    b: Policy
    share: float = 0.5
    _: KW_ONLY
    seed: int = 0
    id: ClassVar[str] = "ab"

    def __post_init__(self) -> None:
        if not 0.0 < self.share < 1.0:
            raise InvalidInputError("ab.share", f"is {self.share}", "set a share between 0 and 1")
        object.__setattr__(self, "uses_alignment", self.a.uses_alignment or self.b.uses_alignment)
        object.__setattr__(self, "predicts", self.a.predicts and self.b.predicts)
        object.__setattr__(self, "_key", derive_key(self.seed, "ab"))

    def arm(self, t: int) -> Arm:
        """The arm of round ``t`` (from 1)."""
        key: int = self._key  # type: ignore[attr-defined]
        return "b" if uniform(key, t) < self.share else "a"

    def schema(self, n_features: int) -> Schema:
        """The arrays of both arms."""
        arms: tuple[tuple[Arm, Policy], ...] = (("a", self.a), ("b", self.b))
        return {f"{arm}_{name}": field for arm, policy in arms for name, field in policy.schema(n_features).items()}

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """The choice of this round's arm."""
        arm = self.arm(situation.t)
        return self._policy(arm).choose(_half(state, arm), situation)

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Teach the arm that decided."""
        arm = self.arm(feedback.t)
        part = _half(state, arm)
        self._policy(arm).update(part, feedback)
        state.update({f"{arm}_{name}": array for name, array in part.items()})

    def adopt(self, state: Arrays, learned: Arrays) -> Arrays:
        """Restore each arm from its own part of the learned state."""
        a = self.a.adopt(_half(state, "a"), _half(learned, "a"))
        b = self.b.adopt(_half(state, "b"), _half(learned, "b"))
        halves = {"a": a, "b": b}
        return {f"{arm}_{name}": array for arm, half in halves.items() for name, array in half.items()}

    def _policy(self, arm: Arm) -> Policy:
        return self.a if arm == "a" else self.b


def _half(state: Arrays, arm: Arm) -> Arrays:
    return {name[2:]: array for name, array in state.items() if name.startswith(f"{arm}_")}


register_policy(SplitTest, listed=False)
