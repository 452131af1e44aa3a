"""One dual variable: the usage as a function of the multiplier, the balance so far, and the current multiplier.

For each of a fixed grid of multipliers the *usage curve* holds the mean usage of recent tasks, had they gone to the
agent with the largest score under that multiplier. That needs the scores of a decision only and no exploration of the
multiplier, so the dual variable jumps to where the curve meets the target instead of creeping there: a Newton step on
the dual function, in place of a gradient step whose size depends on units and prices.

Usage is in units of the limit. The *balance* is the allowance so far minus the usage so far, in tasks; it is corrected
by real usage when an outcome arrives. The target is the limit plus a small share of the balance, and the multiplier is
scaled by a power of the balance, which is quicker than the curve where estimates move. Between two neighbouring
multipliers of the grid the mechanism alternates such that the mean usage equals the target: with agents that are equal
for every task, this is the optimal mix of two of them.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from bot_orch.arrays import Arrays, Field, Floats, Ints, Schema

#: Multipliers per unit of usage, from 0; nine per decade.
GRID: Floats = np.concatenate([[0.0], 10.0 ** np.linspace(-8.0, 3.0, 100)])
GRID.flags.writeable = False
_SAVED = 20.0  # largest positive balance, in tasks: unused allowance beyond it lapses
_SLOWEST = 300.0  # effective number of tasks of the usage curve
_PROMPT = 15.0  # typical calls of balance that change the multiplier by a factor of e
_FACTOR = 3.0  # largest power of e
_LEAST, _MOST = 0.1, 2.0  # range of the target
_RATIO = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """The multiplier of one decision, ``batch``, and the values needed at commit.

    ``weight`` is the share of decisions that take the smaller of the two multipliers, ``foreseen`` the usage expected
    on the curve, ``balance`` the allowance left.
    """

    multiplier: Floats
    weight: Floats
    foreseen: Floats
    _: KW_ONLY
    balance: Floats


@dataclass(frozen=True, slots=True)
class Multiplier:
    """State and steps of one dual variable.

    Parameters
    ----------
    horizon
        Tasks within which a balance is evened out.
    """

    horizon: float = 300.0

    @property
    def schema(self) -> Schema:
        """Usage curve, balance, phase of the alternation, usage foreseen and expected, number of tasks."""
        one = Field(per_agent=False)
        return {
            "curve": Field(per_agent=False, shape=(len(GRID),)),
            "balance": one,
            "phase": one,
            "foreseen": Field(per_agent=False, fill=1.0),
            "expected": Field(per_agent=False, fill=1.0),
            "lump": Field(per_agent=False, fill=1.0),
            "tasks": one,
        }

    def meet(self, state: Arrays, target: Floats, balance: Floats) -> Step:
        """The multiplier whose mean usage is ``target``, ``batch``, with ``balance`` left."""
        curve = np.minimum.accumulate(state["curve"], axis=-1)
        more, less, weight = _around(curve, target)
        fires = np.floor(state["phase"] + weight) > np.floor(state["phase"])
        chosen = np.where(state["tasks"] > 0.0, GRID[np.where(fires, more, less)], 0.0)
        return Step(chosen, weight, np.ones(np.shape(weight)), balance=balance)

    def step(self, state: Arrays, pending: Floats) -> Step:
        """The multiplier now; ``pending`` is the usage expected of decisions without an outcome, ``batch``."""
        balance = np.minimum(state["balance"] - pending, _SAVED)
        target = np.clip(1.0 + balance / self.horizon, _LEAST, _MOST)
        ratio = np.clip(state["expected"] / np.maximum(state["foreseen"], 1e-9), 1.0 / _RATIO, _RATIO)
        curve = np.minimum.accumulate(state["curve"], axis=-1) * ratio[..., None]
        more, less, weight = _around(curve, target)
        high, low = _at(curve, more), _at(curve, less)
        fires = np.floor(state["phase"] + weight) > np.floor(state["phase"])
        chosen = np.where(state["tasks"] > 0.0, GRID[np.where(fires, more, less)], 0.0)
        prompt = self.horizon * _PROMPT / 300.0 * np.maximum(state["lump"], 1.0)
        power = np.clip(balance / prompt, -_FACTOR, _FACTOR)
        chosen = chosen * np.exp(-power)
        return Step(chosen, weight, (weight * high + (1.0 - weight) * low) / ratio, balance=balance)

    def commit(
        self, state: Arrays, step: Step, used: Floats, *, expected: Floats, lump: Floats, pending: Floats
    ) -> None:
        """Count one task; ``used`` is its usage under each multiplier of the grid, ``batch + (G,)``.

        ``expected`` is the usage expected under the decision's propensities, ``batch``, ``lump`` its second moment.
        Where policies do not choose the largest score, mean expected usage differs from the usage foreseen on the
        curve, and corrects it.
        """
        state["tasks"] += 1.0
        rate = np.maximum(1.0 / _SLOWEST, 1.0 / (1.0 + 0.5 * (state["tasks"] - 1.0)))
        state["curve"] += rate[..., None] * (used - state["curve"])
        state["balance"][...] = np.minimum(state["balance"], _SAVED + pending) + 1.0
        state["phase"][...] = np.mod(state["phase"] + step.weight, 1.0)
        state["foreseen"] += (step.foreseen - state["foreseen"]) / _SLOWEST
        state["expected"] += (expected - state["expected"]) / _SLOWEST
        state["lump"] += rate * (lump - state["lump"])

    def charge(self, state: Arrays, used: Floats) -> None:
        """Subtract the real usage of one decision, ``batch``, from the balance; NaN where missing."""
        state["balance"] -= np.where(np.isfinite(used), used, 0.0)


def _around(curve: Floats, target: Floats) -> tuple[Ints, Ints, Floats]:
    """The multipliers of the grid on both sides of the target, and the share of the smaller one."""
    above = np.add.reduce(curve > target[..., None], axis=-1)
    more, less = np.maximum(above - 1, 0), np.minimum(above, len(GRID) - 1)
    high, low = _at(curve, more), _at(curve, less)
    weight = np.clip((target - low) / np.maximum(high - low, 1e-12), 0.0, 1.0)
    return more, less, np.where((above == 0) | (above == len(GRID)), 0.0, weight)


def _at(curve: Floats, index: Ints) -> Floats:
    return np.asarray(np.take_along_axis(curve, np.asarray(index)[..., None], axis=-1)[..., 0])
