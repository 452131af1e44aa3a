r"""Anytime quality guarantee: the loss against a baseline agent stays within a credit.

With probability ``confidence``, at every round t, the total reward that was served is at least that of the baseline on
the same tasks less ``loss_at_most`` times t. Other agents are served only while an upper bound of the loss so far, with
the worst case for calls whose reward is not known yet, leaves room for one more total loss. The baseline keeps the
share ``control`` of the tasks even then: its rewards on them are the only evidence of what it would have earned.

Let p be the baseline's propensity in a round, m its estimate before the draw, r its reward and s that of another agent.
The round adds :math:`X = (1/p - 1)(r - m)` if the baseline was drawn, otherwise :math:`X = m - s`. The difference
between the true loss and X has mean zero over the draw, whatever the rewards are, and is at least :math:`-B` with
:math:`B = 1/control - 1`. Fan's inequality [1]_ bounds its sum at all times by its sum of squares, with a mixture over
the rates of the exponential supermartingale [2]_. Squares of rounds that the baseline did not get are bounded in the
same way from those that it got. Nothing is assumed of tasks, agents or drift; an error of the reward itself is not
covered.

References
----------
.. [1] Fan, Grama, Liu. Exponential inequalities for martingales with applications. Electronic J. of Probability 2015.
.. [2] Howard, Ramdas, McAuliffe, Sekhon. Time-uniform, nonparametric, nonasymptotic confidence sequences. Annals of
   Statistics 2021.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bot_orch.arrays import Arrays, Bools, Field, Floats, Schema
from bot_orch.checks import check_number, check_text
from bot_orch.errors import InvalidInputError, require_type

__all__ = ["Certificate", "Guarantee", "uniform_bound"]

_RATES = 0.6 ** np.arange(1.0, 16.0)  # of the supermartingales, relative to 1 / B
_PSI = -np.log1p(-_RATES) - _RATES
_NEWTON = 6
_LONGEST = 10_000_000  # rounds beyond which a guarantee counts as out of reach


@dataclass(frozen=True, slots=True)
class Certificate:
    """The current certificate of a guarantee.

    Parameters
    ----------
    rounds
        Decisions in which the baseline could be asked.
    loss_bound
        Upper bound of the total loss so far, calls without a reward counted as lost.
    credit
        The loss that is allowed so far.
    serves_others
        Whether the next task may go to another agent than the baseline.
    """

    rounds: int
    loss_bound: float
    credit: float
    serves_others: bool

    def __str__(self) -> str:
        state = "other agents are served" if self.serves_others else "the baseline alone is served"
        return f"loss at most {self.loss_bound:.1f} of {self.credit:.1f} allowed after {self.rounds} rounds; {state}"


@dataclass(frozen=True, slots=True)
class Guarantee:
    """At every moment, mean reward at most ``loss_at_most`` below that of ``baseline`` on the same tasks.

    Parameters
    ----------
    baseline
        The agent to compare with.
    loss_at_most
        Units of reward per task, absolute.
    confidence
        Probability that the promise holds at all times.
    control
        Share of tasks that the baseline keeps while others are served. With less, evidence comes more slowly.

    Examples
    --------
    >>> Guarantee("large", 0.02).first_round()  # tasks for the baseline alone before another agent is tried
    1883
    """

    baseline: str
    loss_at_most: float
    confidence: float = 0.95
    control: float = 0.25

    def __post_init__(self) -> None:
        check_text("guarantee.baseline", self.baseline, "pass the name of an agent")
        for name, remedy in (
            ("loss_at_most", "pass units of reward per task, such as 0.02"),
            ("confidence", "pass a probability, such as 0.95"),
            ("control", "pass a share of tasks, such as 0.25"),
        ):
            value = check_number(f"guarantee.{name}", getattr(self, name), remedy, high=1.0)
            if not 0.0 < value < 1.0:
                raise InvalidInputError(f"guarantee.{name}", f"is {value:g}", f"{remedy}, between 0 and 1")

    @classmethod
    def from_spec(cls, document: Mapping[str, Any]) -> Guarantee:
        """Read JSON or YAML values; :meth:`spec` is the inverse."""
        require_type("guarantee", document, Mapping, "pass baseline and loss_at_most")
        unknown = sorted(map(str, document.keys() - cls.__dataclass_fields__.keys()))
        missing = sorted({"baseline", "loss_at_most"} - document.keys())
        for name, problem in ((unknown, "is not known"), (missing, "is missing")):
            if name:
                names = ", ".join(cls.__dataclass_fields__)
                raise InvalidInputError(f"guarantee.{name[0]}", problem, f"pass {names}")
        return cls(**document)

    def spec(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)

    @property
    def schema(self) -> Schema:
        """Rounds, and sums of X, its squares, estimated squares of unseen rounds, and the squares of those."""
        return {name: Field(per_agent=False) for name in ("rounds", "loss", "seen", "unseen", "unseen_squares")}

    def first_round(self) -> int:
        """Number of tasks that the baseline gets alone before there is credit for another agent."""
        least = float(self._total(np.zeros(()), np.zeros(()), np.zeros(()), np.zeros(()))) + 1.0
        return int(np.ceil(least / self.loss_at_most)) - 1

    def rounds_needed(self, variance: float = 0.16) -> int | None:
        """Tasks until an equally good agent is served all the time; None if that takes more than ten million.

        ``variance`` is that of the baseline's rewards around their estimates.
        """
        w, rest = 1.0 / self.control - 1.0, 1.0 - self.control
        n = np.geomspace(1.0, _LONGEST, 400)
        seen, unseen = self.control * variance * w * w, self.control * variance * w
        squares = self.control * (variance * w) ** 2 + rest * 0.5
        fine = self._total(np.zeros(n.shape), seen * n, unseen * n, squares * n) + 1.0 <= self.loss_at_most * n
        return int(np.ceil(n[np.argmax(fine)])) if fine.any() else None

    def certificate(self, state: Arrays) -> Certificate:
        """The certificate for the state of one router."""
        credit = float(self.loss_at_most * state["rounds"])
        return Certificate(int(state["rounds"]), float(self._loss(state)), credit, bool(self.serves_others(state)))

    def serves_others(self, state: Arrays) -> Bools:
        """Whether the credit covers the loss so far and a total loss of the next task, ``batch``."""
        return np.asarray(self._loss(state) + 1.0 <= self.loss_at_most * (state["rounds"] + 1.0))

    def restrict(self, state: Arrays, propensities: Floats, index: int) -> Floats:
        """Propensities with the control share for the baseline at ``index``, or the baseline alone.

        Where the baseline cannot be asked they stay as they are.
        """
        alone, able = np.eye(propensities.shape[-1])[index], propensities[..., index] > 0.0
        lacking = np.clip(
            (self.control - propensities[..., index]) / (1.0 - propensities[..., index] + 1e-300), 0.0, 1.0
        )
        share = np.where(self.serves_others(state), lacking, 1.0) * able
        return np.asarray((1.0 - share[..., None]) * propensities + share[..., None] * alone)

    def count(
        self,
        state: Arrays,
        propensity: Floats,
        estimate: Floats,
        *,
        drawn: Bools,
        reward: Floats,
        before: Floats | None,
    ) -> None:
        """Add rounds to the sums, ``batch`` each.

        Parameters
        ----------
        propensity, estimate
            Of the baseline when the decision was made.
        drawn
            Whether the baseline was chosen.
        reward
            Of the chosen agent; NaN while it is not known, which counts as the worst case.
        before
            What was counted for these rounds earlier; None for new rounds.
        """
        able = propensity > 0.0
        new = _sums(propensity, np.clip(estimate, 0.0, 1.0), drawn, reward)
        old = None if before is None else _sums(propensity, np.clip(estimate, 0.0, 1.0), drawn, before)
        for number, name in enumerate(("loss", "seen", "unseen", "unseen_squares")):
            state[name] += np.where(able, new[number] - (0.0 if old is None else old[number]), 0.0)
        if before is None:
            state["rounds"] += able

    def _loss(self, state: Arrays) -> Floats:
        return self._total(state["loss"], state["seen"], state["unseen"], state["unseen_squares"])

    def _total(self, loss: Floats, seen: Floats, unseen: Floats, unseen_squares: Floats) -> Floats:
        """Upper bound of the total loss, from the sums of :func:`_sums`."""
        widest, risk = 1.0 / self.control - 1.0, 0.5 * (1.0 - self.confidence)
        squares = seen + np.maximum(unseen, 0.0) + uniform_bound(unseen_squares, widest, risk)
        return np.asarray(loss + uniform_bound(squares, widest, risk))


def uniform_bound(squares: Floats, widest: float, risk: float) -> Floats:
    """Bound of a sum of martingale differences at all times, from the sum of their squares.

    Parameters
    ----------
    squares
        Sum of squares so far.
    widest
        No difference is below minus this.
    risk
        Probability that the bound is ever exceeded.

    Examples
    --------
    >>> uniform_bound(np.array([0.0, 100.0, 10_000.0]), 1.0, 0.05).round(1)
    array([  9.2,  36. , 324.6])
    """
    v = np.asarray(squares, dtype=float)[..., None] / widest**2
    level = np.log(len(_RATES) / risk)
    u = np.minimum.reduce((level + _PSI * v) / _RATES, axis=-1)
    for _ in range(_NEWTON):  # on a convex function from the right of its root: every step is a valid bound
        exponent = _RATES * u[..., None] - _PSI * v
        top = np.maximum.reduce(exponent, axis=-1, keepdims=True)
        weight = np.exp(exponent - top)
        total = np.add.reduce(weight, axis=-1)
        slope = np.add.reduce(weight * _RATES, axis=-1) / total
        u = u - (top[..., 0] + np.log(total) - level) / slope
    return np.asarray(u * widest)


def _sums(p: Floats, m: Floats, drawn: Bools, reward: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Increments of the sums: X, squares where the baseline was drawn, an estimate for other rounds, their squares.

    Nothing where the baseline was certain. A reward that is not known is the worst one.
    """
    w = 1.0 / np.where(p > 0.0, p, 1.0) - 1.0
    known, spread = np.isfinite(reward), np.maximum(m, 1.0 - m) ** 2
    away = np.where(known, reward - m, 1.0 - m)
    square = np.where(known, away**2, spread)
    x = np.where(drawn, w * away, m - np.where(known, reward, 0.0))
    unseen = np.where(drawn, w * square, 0.0)
    chance = w > 0.0
    return (
        np.where(chance, x, 0.0),
        np.where(drawn, w * w * square, 0.0),
        unseen,
        np.where(chance, np.where(drawn, unseen**2, spread**2), 0.0),
    )
