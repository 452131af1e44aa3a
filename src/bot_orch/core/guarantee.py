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
same way from those that it got, or by the largest that they can be. Nothing is assumed of tasks, agents or drift; an
error of the reward itself is not covered.

In a round of several attempts the answers seen are part of what is known before the draw. The draw that counts is the
one between accepting an answer and asking the baseline, whose answer is then delivered; p and m belong to that step.

Every kind of decision has a certificate of its own: an agent, by what it was expected to earn (the estimate at
decision time; after an answer, that of the answer given its signal and check). Where the baseline was drawn, X is
divided among the agents in proportion to their propensities.

References
----------
.. [1] Fan, Grama, Liu. Exponential inequalities for martingales with applications. Electronic J. of Probability 2015.
.. [2] Howard, Ramdas, McAuliffe, Sekhon. Time-uniform, nonparametric, nonasymptotic confidence sequences. Annals of
   Statistics 2021.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bot_orch.arrays import Arrays, Bools, Field, Floats, Ints, Schema
from bot_orch.checks import check_number, check_text
from bot_orch.errors import InvalidInputError, require_type

_RATES = 0.9 * 0.5 ** np.arange(12.0)  # of the supermartingales, relative to 1 / B
_PSI = -np.log1p(-_RATES) - _RATES
_NEWTON = 6
_MAIN = 0.9  # of the risk, for the loss; the rest is for its squares
_LONGEST = 10_000_000  # rounds beyond which a guarantee counts as out of reach
_VARIANCE, _ENOUGH = 0.16, 50.0  # of rewards, before so many rounds have measured it
_PRIOR = 10.0  # rounds without loss, for the mean loss of a kind of decision
_PLENTY = 4.0  # inverse of the share of the credit that has to be left for all kinds to serve
#: Least expected rewards of the kinds of decisions.
_LEVELS = np.array([0.0, 0.5, 0.75, 0.9])
#: X, squares where the baseline was drawn, estimated squares of other rounds, the squares of those estimates' errors,
#: the largest squares of other rounds, and their number.
_SUMS = ("loss", "seen", "unseen", "unseen_squares", "worst", "others")


@dataclass(frozen=True, slots=True)
class KindCertificate:
    """The certificate of one kind of decision: ``agent``, where it was expected to earn ``expected`` or more.

    Parameters
    ----------
    agent, expected
        The kind: up to the next level, of 0, 0.5, 0.75 and 0.9.
    rounds
        Tasks that the agent served.
    loss
        Estimate of its total loss on them.
    loss_bound
        Upper bound of that at all times, with the confidence of the guarantee for each kind alone.
    serves
        Whether it serves while no more of the credit is left than now.
    """

    agent: str
    expected: float
    rounds: int
    loss: float
    loss_bound: float
    serves: bool = True

    def __str__(self) -> str:
        found = f"loss {self.loss:+.1f}, at most {self.loss_bound:.1f}, on {self.rounds} tasks"
        return f"{self.agent}, expected to earn {self.expected:g} or more: {found}"


@dataclass(frozen=True, slots=True)
class Certificate:
    """The current certificate of a guarantee; losses are in widths of the range of rewards.

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
    rounds_needed
        Tasks with rewards, from the first on, until an equally good agent is served all the time, at the variance of
        the baseline's rewards that was measured; None beyond ten million.
    kinds
        Kinds of decisions that have occurred.
    """

    rounds: int
    loss_bound: float
    credit: float
    serves_others: bool
    rounds_needed: int | None = None
    kinds: tuple[KindCertificate, ...] = ()

    @property
    def held_back(self) -> tuple[str, ...]:
        """Agents that do not serve for what they lose, by a kind of decision that has served for a while."""
        return tuple(dict.fromkeys(each.agent for each in self.kinds if not each.serves and each.rounds >= _PRIOR))

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
        Mean loss per task as a share of the range of rewards: units of reward where they lie in [0, 1].
    confidence
        Probability that the promise holds at all times.
    control
        Share of tasks that the baseline keeps while others are served. With less, evidence comes more slowly.

    Examples
    --------
    >>> Guarantee("large", 0.02).first_round()  # tasks for the baseline alone before another agent is tried
    961
    """

    baseline: str
    loss_at_most: float
    confidence: float = 0.95
    control: float = 0.25

    def __post_init__(self) -> None:
        check_text("guarantee.baseline", self.baseline, "pass the name of an agent")
        for name, remedy in (
            ("loss_at_most", "pass a share of the range of rewards, such as 0.02"),
            ("confidence", "pass a probability, such as 0.95"),
            ("control", "pass a share of tasks, such as 0.25"),
        ):
            value = check_number(f"guarantee.{name}", getattr(self, name), remedy, high=1.0)
            if not 0.0 < value < 1.0:
                raise InvalidInputError(f"guarantee.{name}", f"is {value:g}", f"{remedy}, between 0 and 1")
        if self.rounds_needed() is None:
            problem = f"is {self.loss_at_most:g}, which ten million tasks with rewards cannot certify"
            raise InvalidInputError("guarantee.loss_at_most", problem, "allow a larger loss, or a larger control share")

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
        """Rounds and sums, in all, and per agent by its expected reward."""
        each = {f"kind_{name}": Field(shape=_LEVELS.shape) for name in _SUMS}
        return {name: Field(per_agent=False) for name in ("rounds", *_SUMS)} | each

    def first_round(self) -> int:
        """Number of tasks that the baseline gets alone before there is credit for another agent."""
        least = float(self._total({name: np.zeros(()) for name in _SUMS})) + 1.0
        return int(np.ceil(least / self.loss_at_most)) - 1

    def rounds_needed(self, variance: float = _VARIANCE) -> int | None:
        """Tasks until an equally good agent is served all the time; None if that takes more than ten million.

        ``variance`` is that of the baseline's rewards around their estimates.
        """
        w, rest = 1.0 / self.control - 1.0, 1.0 - self.control
        n = np.geomspace(1.0, _LONGEST, 400)
        a_round = {
            "loss": 0.0,
            "seen": self.control * variance * w * w,
            "unseen": self.control * variance * w,
            "unseen_squares": self.control * (variance * w) ** 2 + rest * 0.5,
            "worst": rest,
        }
        fine = self._total({name: n * mean for name, mean in a_round.items()}) + 1.0 <= self.loss_at_most * n
        return int(np.ceil(n[np.argmax(fine)])) if fine.any() else None

    def certificate(self, state: Arrays, names: Sequence[str] = ()) -> Certificate:
        """The certificate for the state of one router with agents ``names``."""
        others = float(state["others"])
        variance = _VARIANCE if others < _ENOUGH else min(max(float(state["unseen"]) / others, 0.0), 1.0)
        return Certificate(
            int(state["rounds"]),
            float(self._total(state)),
            float(self.loss_at_most * state["rounds"]),
            bool(self.serves_others(state)),
            self.rounds_needed(variance),
            self._kinds(state, names),
        )

    def _kinds(self, state: Arrays, names: Sequence[str]) -> tuple[KindCertificate, ...]:
        sums = {name: state[f"kind_{name}"] for name in _SUMS}
        bound = self._total(sums)
        serves = self._mean_losses(state) <= self._most_lost(self._credit_left(state))
        return tuple(
            KindCertificate(
                name,
                float(_LEVELS[level]),
                int(served),
                float(sums["loss"][place, level]),
                float(bound[place, level]),
                bool(serves[place, level]),
            )
            for place, name in enumerate(names)
            for level, served in enumerate(sums["others"][place].tolist())
            if served
        )

    def serves_others(self, state: Arrays) -> Bools:
        """Whether the credit covers the loss so far and a total loss of the next task, ``batch``."""
        return self._credit_left(state) >= 0.0

    def _credit_left(self, state: Arrays) -> Floats:
        """Share of the credit that a total loss of the next task would leave, ``batch``; below 0 if too much."""
        return np.asarray(1.0 - (self._total(state) + 1.0) / (self.loss_at_most * (state["rounds"] + 1.0)))

    def _open(self, state: Arrays, left: Floats, estimate: Floats) -> Bools:
        """Which agents may serve at these expected rewards, ``batch + (M,)``, given the share of the credit left.

        While that is small, kinds of decisions whose estimated loss is large do not serve, so that others need not
        wait.
        """
        loss = np.take_along_axis(self._mean_losses(state), _level(estimate)[..., None], axis=-1)[..., 0]
        return np.asarray(loss <= self._most_lost(left)[..., None])

    @staticmethod
    def _mean_losses(state: Arrays) -> Floats:
        return np.asarray(state["kind_loss"] / (state["kind_others"] + _PRIOR))

    @staticmethod
    def _most_lost(left: Floats) -> Floats:
        """The largest mean loss with which a kind serves, given the share of the credit left."""
        return np.asarray((_PLENTY * np.maximum(left, 0.0)) ** 2)

    def restrict(
        self, state: Arrays, propensities: Floats, index: int, *, estimate: Floats, eligible: Bools | None = None
    ) -> Floats:
        """Propensities with the control share for the baseline at ``index``, or the baseline alone.

        Where the baseline cannot be asked they stay as they are.
        """
        alone = np.eye(propensities.shape[-1])[index]
        able, left = True if eligible is None else eligible[..., index], self._credit_left(state)
        closed = ~self._open(state, left, estimate) & (alone == 0.0)
        p = np.where(closed, 0.0, propensities)
        p = p + alone * (1.0 - p.sum(axis=-1, keepdims=True))
        lacking = np.clip((self.control - p[..., index]) / (1.0 - p[..., index] + 1e-300), 0.0, 1.0)
        share = np.where(left >= 0.0, lacking, 1.0)[..., None]
        return np.where(np.asarray(able)[..., None], (1.0 - share) * p + share * alone, propensities)

    def restrict_step(
        self, state: Arrays, propensities: Floats, index: int, *, estimate: Floats, accept: int, left: int
    ) -> Floats:
        """Propensities of a step after an answer: accept that of ``accept``, or ask one of ``left`` more agents.

        The control share is one of the draws between accepting and asking the baseline. The last attempt is reserved
        for the baseline.
        """
        alone, credit = np.eye(len(propensities)), self._credit_left(state)
        if credit < 0.0:
            return np.asarray(alone[index])
        accepted, asked = propensities[accept], propensities[index]
        rest = 1.0 - accepted - asked
        if left == 1:
            asked, rest = asked + rest, 0.0
        here = accepted + asked
        share = max(self.control, asked / here) if here > 0.0 else 1.0
        share = share if self._open(state, credit, estimate)[accept] else 1.0
        p = np.where((alone[accept] + alone[index]) > 0.0, 0.0, propensities) * (rest > 0.0)
        return np.asarray(p + here * (share * alone[index] + (1.0 - share) * alone[accept]))

    def count(
        self,
        state: Arrays,
        index: int,
        agent: Ints,
        *,
        propensities: Floats,
        estimate: Floats,
        reward: Floats,
        before: Floats | None,
    ) -> None:
        """Add rounds to the sums, ``batch`` each.

        Parameters
        ----------
        index, agent
            The baseline, and who was chosen.
        propensities, estimate
            Of the agents when the decision was made, ``batch + (M,)``.
        reward
            Of the chosen agent; NaN while it is not known, which counts as the worst case.
        before
            What was counted for these rounds earlier; None for new rounds.
        """
        if before is None:
            state["rounds"] += propensities[..., index] > 0.0
        new = _sums(index, agent, propensities, np.clip(estimate, 0.0, 1.0), reward)
        old = None if before is None else _sums(index, agent, propensities, np.clip(estimate, 0.0, 1.0), before)
        kind = _level(estimate)[..., None] == np.arange(len(_LEVELS))
        for name in _SUMS:
            total, each = new[name]
            if old is not None:
                total, each = total - old[name][0], each - old[name][1]
            state[name] += total
            state[f"kind_{name}"] += each[..., None] * kind

    def _total(self, sums: Mapping[str, Floats]) -> Floats:
        """Upper bound of the total loss."""
        widest, risk = 1.0 / self.control - 1.0, 1.0 - self.confidence
        estimated = np.maximum(sums["unseen"], 0.0) + uniform_bound(
            sums["unseen_squares"], widest, (1.0 - _MAIN) * risk
        )
        squares = sums["seen"] + np.minimum(estimated, sums["worst"])
        return np.asarray(sums["loss"] + uniform_bound(squares, widest, _MAIN * risk))


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
    array([  5.9,  36.5, 328. ])
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


def _level(estimate: Floats) -> Ints:
    """Position of the expected rewards in the levels."""
    return np.maximum(np.searchsorted(_LEVELS, np.nan_to_num(estimate), side="right") - 1, 0)


def _sums(
    index: int, agent: Ints, propensities: Floats, estimate: Floats, reward: Floats
) -> dict[str, tuple[Floats, Floats]]:
    """Increments of the sums in all, ``batch``, and by agent, ``batch + (M,)``; zero where the baseline was certain.

    A reward that is not known is the worst one.
    """
    p, m, places = propensities[..., index], estimate[..., index], np.arange(propensities.shape[-1])
    drawn, known = np.asarray(agent) == index, np.isfinite(reward)
    w = 1.0 / np.where(p > 0.0, p, 1.0) - 1.0
    chance = w > 0.0
    mine = chance & drawn
    spread = np.maximum(m, 1.0 - m) ** 2
    away = w * np.where(known, reward - m, 1.0 - m) * mine
    square = np.where(known, (reward - m) ** 2, spread) * mine
    others = (chance & ~drawn).astype(float)
    lost = (m - np.where(known, reward, 0.0)) * others
    share = np.where(places == index, 0.0, propensities) / np.where(p < 1.0, 1.0 - p, 1.0)[..., None]
    served = (np.asarray(agent)[..., None] == places) * others[..., None]

    def both(where_drawn: Floats, elsewhere: Floats, power: int = 1) -> tuple[Floats, Floats]:
        each = share**power * where_drawn[..., None] + served * elsewhere[..., None]
        return np.asarray(where_drawn + elsewhere), each

    return {
        "loss": both(away, lost),
        "seen": both(w * w * square, 0.0 * others, 2),
        "unseen": both(w * square, 0.0 * others),
        "unseen_squares": both((w * square) ** 2, spread**2 * others, 2),
        "worst": both(0.0 * square, spread * others),
        "others": both(0.0 * square, others),
    }
