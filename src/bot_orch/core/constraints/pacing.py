"""All constraints together: penalties, affordable agents and floors for a decision, and their state after it.

One dual variable per limit (:mod:`~bot_orch.core.constraints.curve`), each moved with the others held fixed; quality is
kept in closed form (:mod:`~bot_orch.core.constraints.quality`). Two safeguards act in addition to the multipliers:

- an agent whose call would use more than the balance plus a hundred tasks' allowance is not eligible, nor, while
  dollars of five tasks are owed, one that would cost those of more than ten;
- the *guard*: if features stop predicting rewards (the slope of rewards on the estimates' deviations from their mean
  falls to zero), choices move to the agents' mean estimates, so that a policy led astray by useless features falls no
  lower than the best mix of two fixed agents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Arrays, Bools, Field, Floats, Ints, Schema, chosen_entries
from bot_orch.core.constraints.curve import GRID, Multiplier, Step
from bot_orch.core.constraints.limits import Budget, Capacity, Constraint, Deadline, Quality, Quota
from bot_orch.core.constraints.quality import Frugality, QualityPlan
from bot_orch.core.constraints.times import Lates
from bot_orch.core.constraints.windows import Windows
from bot_orch.core.pipeline import Draw, chosen
from bot_orch.errors import InvalidInputError
from bot_orch.numerics.choice import argmax_ties, mixed_draw
from bot_orch.policies.base import Choice, Policy, Situation

_CREDIT = 100.0  # tasks' allowance that a single call may exceed the balance by
_DEBT, _LARGE = 5.0, 10.0  # beyond this debt, no call that costs the allowance of more than ten tasks
_FLOOR_USAGE = 0.1  # largest part of an allowance that the floor may use
_MEMORY = 100.0
_GUARD_MEMORY = 1000.0
_GUARD_PRIOR = 0.5  # worth 200 outcomes whose estimates deviate by 0.05
_FULL_TRUST = 0.2  # slope from which on estimates are used as they are
_LARGEST_BONUS = 1.0  # bonus of an agent never tried, in the usage curve

Parts = dict[str, Arrays]


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """Expected usage per agent in units of the limit, the direction that the multiplier penalises, and pending usage.

    ``expected`` and ``direction`` are ``batch + (M,)``, ``pending`` is ``batch``.
    """

    expected: Floats
    direction: Floats
    pending: Floats


@dataclass(frozen=True, slots=True, eq=False)
class PacingPlan:
    """Effect of the constraints on one decision; ``quality`` is None without a quality constraint."""

    penalties: tuple[Floats, ...]
    steps: tuple[Step, ...]
    usage: tuple[Demand, ...]
    _: KW_ONLY
    eligible: Bools | None
    floor: Floats | float
    trust: Floats
    typical: Floats
    quality: QualityPlan | None
    contextual: bool

    @property
    def penalty(self) -> Floats:
        """Sum of the penalties, ``batch + (M,)``."""
        total = np.zeros(self.typical.shape)
        for each in self.penalties:
            total = total + each
        return total

    def values(self, estimate: Floats) -> Floats:
        """Estimates, shrunk towards the agents' means by the guard's trust, ``batch + (M,)``."""
        trust = self.trust[..., None]
        return np.asarray(trust * estimate + (1.0 - trust) * self.typical)


@dataclass(frozen=True, slots=True, eq=False)
class Means:
    """Expected dollars of the task, mean dollars and names of the agents; None where no constraint needs them."""

    dollars: Floats | None
    mean_dollars: Floats | None
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Used:
    """Usage of outcomes: reward, dollars and, per constraint, whether late (1) or in time (0); NaN where unknown.

    ``reset_s`` are seconds until the next window of a quota.
    """

    reward: Floats
    usd: Floats
    late: tuple[Floats, ...]
    reset_s: Floats | None = None


@dataclass(frozen=True)
class Pacing:
    """The constraints of an engine.

    Parameters
    ----------
    constraints
        The constraints, in order. The state of each is in a part named after its settings.
    contextual
        Whether tasks have features, so that the guard has something to judge.
    """

    constraints: tuple[Constraint, ...]
    contextual: bool = False

    @cached_property
    def limits(self) -> tuple[Budget | Capacity | Quota | Deadline, ...]:
        """The constraints with a dual variable: all except the quality constraint."""
        return tuple(each for each in self.constraints if not isinstance(each, Quality))

    @cached_property
    def frugality(self) -> Frugality | None:
        """The constraint of quality."""
        found = [each for each in self.constraints if isinstance(each, Quality)]
        return Frugality(found[0].within, self.contextual) if found else None

    @cached_property
    def multipliers(self) -> tuple[Multiplier, ...]:
        """One dual variable per limit."""
        return tuple(_multiplier(each) for each in self.limits)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Names of the limits' parts. A changed limit makes a new name, so that its state starts afresh."""
        return tuple(f"constraint {each!r}" for each in self.limits)

    @property
    def plans_commits(self) -> bool:
        """Whether a commit needs the plan again: for dual variables, and where tasks differ."""
        return bool(self.limits) or self.contextual

    @property
    def schemas(self) -> dict[str, Schema]:
        """State schemas by part: one per constraint, the agents' mean estimates, and late outcomes."""
        found: dict[str, Schema] = {
            "guard": {
                "estimate": Field(),
                "reward": Field(),
                "outcomes": Field(),
                "tasks": Field(per_agent=False),
                "explained": Field(per_agent=False, fill=_GUARD_PRIOR),
                "spread": Field(per_agent=False, fill=_GUARD_PRIOR),
            }
        }
        for name, constraint, multiplier in zip(self.parts, self.limits, self.multipliers, strict=True):
            own = Lates(constraint.late).schema if isinstance(constraint, Deadline) else {}
            own = _windows(constraint).schema if isinstance(constraint, Quota) else own
            found[name] = {**multiplier.schema, **own}
        return found if self.frugality is None else found | {"evidence": self.frugality.schema}

    def plan(
        self,
        parts: Parts,
        means: Means,
        *,
        eligible: Bools | None,
        pending: Floats | None,
        floor: float,
        time_s: float | None = None,
    ) -> PacingPlan:
        """Compute multipliers, penalties and eligible agents from the state alone."""
        guard = parts["guard"]
        shape = guard["estimate"].shape
        waiting = np.zeros(shape) if pending is None else np.broadcast_to(pending, shape)
        usage = tuple(self._usage(parts, index, means, waiting=waiting) for index in range(len(self.limits)))
        steps = tuple(self._step(parts, index, each.pending, time_s) for index, each in enumerate(usage))
        penalties = tuple(step.multiplier[..., None] * each.direction for step, each in zip(steps, usage, strict=True))
        trust = np.ones(shape[:-1])
        if self.contextual:
            slope = _trust(guard)
            binds = np.full(shape[:-1], self.frugality is not None)
            trust = np.where(np.logical_or.reduce([binds, *(step.multiplier > 0.0 for step in steps)]), slope, trust)
        mask = self._affordable(usage, steps, eligible, shape=shape)
        shares = self._floor(usage, floor, mask, shape=shape)
        typical = guard["estimate"].copy()
        quality = None
        if self.frugality is not None:
            dollars = np.zeros(shape) if means.dollars is None else np.broadcast_to(means.dollars, shape)
            usual = dollars if means.mean_dollars is None else np.broadcast_to(means.mean_dollars, shape)
            quality = self.frugality.plan(parts["evidence"], dollars, usual, waiting)
        return PacingPlan(
            penalties,
            steps,
            usage,
            eligible=mask,
            floor=shares,
            trust=trust,
            typical=typical,
            quality=quality,
            contextual=self.contextual,
        )

    def natural(self, plan: PacingPlan, per_usd: Floats | None) -> Floats:
        """Multipliers in reward per unit of the constraint (a dollar, a task, a late outcome), ``batch + (K,)``.

        ``per_usd`` is that of the constraint of quality.
        """
        steps = iter(plan.steps)
        none = np.zeros(plan.trust.shape) if per_usd is None else per_usd
        found = [
            none if isinstance(each, Quality) else next(steps).multiplier / each.limit for each in self.constraints
        ]
        return np.stack(found, axis=-1)

    def commit(
        self,
        parts: Parts,
        plan: PacingPlan | None,
        choice: Choice,
        *,
        base: Floats,
        agent: Ints,
        eligible: Bools | None,
        time_s: float | None = None,
    ) -> None:
        """Update curves, balances and mean estimates after a decision; ``base`` is alignment plus configured cost."""
        guard = parts["guard"]
        guard["tasks"] += 1.0
        if self.frugality is not None and plan is not None and plan.quality is not None:
            self.frugality.commit(parts["evidence"], plan.quality, choice.estimate, guard["tasks"])
        rate = np.maximum(1.0 / _MEMORY, 1.0 / guard["tasks"])
        guard["estimate"] += rate[..., None] * (choice.estimate - guard["estimate"])
        if plan is None or not self.limits:
            return
        score = plan.values(choice.estimate + np.minimum(choice.exploration, _LARGEST_BONUS)) - base
        if plan.quality is not None:
            penalty = base + plan.penalty
            _, per_usd = plan.quality.decide(
                plan.quality.beyond(choice.estimate),
                plan.trust,
                penalty=penalty,
                eligible=plan.eligible,
                floor=plan.floor,
            )
            score = score - per_usd[..., None] * plan.quality.dollars
        if eligible is not None:
            score = np.where(eligible, score, -np.inf)
        for index, name in enumerate(self.parts):
            others = score
            for other, penalty in enumerate(plan.penalties):
                others = others if other == index else others - penalty
            self._commit_one(parts, index, plan, others=others, choice=choice)
            constraint = self.limits[index]
            if isinstance(constraint, Capacity | Quota):
                used = chosen_entries(np.broadcast_to(plan.usage[index].expected, guard["estimate"].shape), agent)
                if isinstance(constraint, Quota):
                    _windows(constraint).pass_task(parts[name], _known(time_s), used)
                else:
                    self.multipliers[index].charge(parts[name], used)

    def learn(
        self,
        parts: Parts,
        agent: Ints,
        means: Means,
        *,
        usage: Used,
        estimate: Floats | None,
        before: Used | None = None,
        seen: bool = False,
    ) -> None:
        """Charge the real usage of outcomes, ``batch`` each; unknown usage (NaN) is charged as expected.

        Where outcomes replace others of the same decisions, ``before``, the difference is charged. ``seen``: whether
        outcomes are late was learned before, by :meth:`see_late`.
        """
        guard = parts["guard"]
        if usage.reset_s is not None:
            for name, constraint in zip(self.parts, self.limits, strict=True):
                if isinstance(constraint, Quota):
                    mine = np.asarray(means.names)[agent] == constraint.agent
                    _windows(constraint).told(parts[name], np.where(mine, usage.reset_s, np.nan))
        if self.frugality is not None:
            usual = self._usual(parts, agent, estimate)
            earlier = None if before is None else before.reward - usual
            self.frugality.see(parts["evidence"], agent, usage.reward - usual, before=earlier, beyond=usual)
        for index, (name, constraint) in enumerate(zip(self.parts, self.limits, strict=True)):
            state = parts[name]
            if isinstance(constraint, Budget) and means.dollars is not None:
                expected = chosen_entries(np.broadcast_to(means.dollars, guard["estimate"].shape), agent)
                due = _due(usage.usd, expected, None if before is None else before.usd)
                self.multipliers[index].charge(state, due / constraint.limit)
            elif isinstance(constraint, Deadline):
                lates = Lates(constraint.late)
                expected = chosen_entries(lates.means(state), agent)
                late, known = usage.late[index], None if before is None else before.late[index]
                self.multipliers[index].charge(state, _due(late, expected, known) / constraint.late)
                if not seen:
                    lates.see(state, agent, late if known is None else np.where(np.isfinite(known), np.nan, late))
        if estimate is not None:
            self._judge(guard, agent, usage.reward, estimate=estimate)

    def _usual(self, parts: Parts, agent: Ints, estimate: Floats | None) -> Floats:
        """What the estimate of the task lies above the agent's usual one: tasks that it is chosen for are no sample."""
        if estimate is None or not self.contextual:
            return np.zeros(np.shape(agent))
        trust = _trust(parts["guard"])
        return np.asarray(trust * (estimate - chosen_entries(parts["evidence"]["typical"], agent)))

    def see_late(self, parts: Parts, agent: Ints, late: Sequence[Floats]) -> None:
        """Learn whether answers were late (1) or in time (0) before their outcomes are known; nothing is charged."""
        for name, constraint, each in zip(self.parts, self.limits, late, strict=True):
            if isinstance(constraint, Deadline):
                Lates(constraint.late).see(parts[name], agent, each)

    def newest(self, parts: Parts) -> float | None:
        """Time of the newest task, where a quota needs it."""
        pairs = zip(self.parts, self.limits, strict=True)
        return max((float(parts[name]["newest"]) for name, c in pairs if isinstance(c, Quota)), default=None)

    def expected_late(self, parts: Parts) -> dict[str, Floats]:
        """P(late) per agent, ``batch + (M,)``, by the names of the deadlines."""
        pairs = zip(self.parts, self.limits, strict=True)
        return {f"late: {c.name}": Lates(c.late).means(parts[name]) for name, c in pairs if isinstance(c, Deadline)}

    def _judge(self, guard: Arrays, agent: Ints, reward: Floats, *, estimate: Floats) -> None:
        """Slope of rewards on estimates, both as deviations from the agent's recent means."""
        known = np.isfinite(reward)
        at = (*np.indices(np.shape(agent), sparse=True), agent)
        guard["outcomes"][at] += known
        rate = np.where(known, np.maximum(1.0 / _MEMORY, 1.0 / np.maximum(guard["outcomes"][at], 1.0)), 0.0)
        predicted = np.where(known, estimate - guard["estimate"][at], 0.0)
        came = np.where(known, reward, 0.0) - np.where(known, guard["reward"][at], 0.0)
        guard["reward"][at] += rate * came
        keep = np.where(known, 1.0 - 1.0 / _GUARD_MEMORY, 1.0)
        for name, value in (("explained", predicted * came), ("spread", predicted * predicted)):
            guard[name][...] = _GUARD_PRIOR + keep * (guard[name] - _GUARD_PRIOR) + value

    def _usage(self, parts: Parts, index: int, means: Means, *, waiting: Floats) -> Demand:
        constraint, state, shape = self.limits[index], parts[self.parts[index]], waiting.shape
        nothing = np.zeros(shape[:-1])
        if isinstance(constraint, Capacity):
            mine = np.array([name == constraint.agent for name in means.names], dtype=float) / constraint.share
            return Demand(mine, mine, nothing)
        if isinstance(constraint, Quota):
            mine = np.array([name == constraint.agent for name in means.names], dtype=float)
            return Demand(mine, mine, nothing)
        if isinstance(constraint, Deadline):
            expected = Lates(constraint.late).means(state) / constraint.late
            return Demand(expected, expected, np.add.reduce(waiting * expected, axis=-1))
        dollars = np.zeros(shape) if means.dollars is None else means.dollars
        usual = dollars if means.mean_dollars is None else means.mean_dollars
        owed = np.add.reduce(waiting * usual, axis=-1) / constraint.limit
        expected = dollars / constraint.limit
        return Demand(expected, expected, owed)

    def _step(self, parts: Parts, index: int, pending: Floats, time_s: float | None) -> Step:
        """The multiplier of a limit: what was spent so far decides, or what is left of a window."""
        constraint, state = self.limits[index], parts[self.parts[index]]
        if isinstance(constraint, Quota):
            left, share = _windows(constraint).left(state, _known(time_s))
            return self.multipliers[index].meet(state, share, left)
        return self.multipliers[index].step(state, pending)

    def _commit_one(self, parts: Parts, index: int, plan: PacingPlan, *, others: Floats, choice: Choice) -> None:
        multiplier, usage, shape = self.multipliers[index], plan.usage[index], others.shape
        direction, expected = np.broadcast_to(usage.direction, shape), np.broadcast_to(usage.expected, shape)
        best = np.argmax(others[..., None, :] - GRID[:, None] * direction[..., None, :], axis=-1)
        used = np.take_along_axis(expected, best, axis=-1)
        mean = np.add.reduce(choice.propensities * expected, axis=-1)
        lump = np.add.reduce(choice.propensities * expected * expected, axis=-1)
        state, step = parts[self.parts[index]], plan.steps[index]
        multiplier.commit(state, step, used, expected=mean, lump=lump, pending=usage.pending)

    def _affordable(
        self, usage: Sequence[Demand], steps: Sequence[Step], eligible: Bools | None, *, shape: tuple[int, ...]
    ) -> Bools | None:
        """Eligible agents whose usage the balance plus the credit covers; always includes the least demanding one."""
        mask = eligible
        for constraint, each, step in zip(self.limits, usage, steps, strict=True):
            allowed = np.ones(shape, dtype=bool) if mask is None else np.broadcast_to(mask, shape)
            demand = np.where(allowed, np.broadcast_to(each.expected, shape), np.inf)
            least = demand == np.minimum.reduce(demand, axis=-1, keepdims=True)
            balance = step.balance[..., None]
            fine = demand <= balance + _CREDIT
            if isinstance(constraint, Quota):
                fine = demand <= balance
            elif isinstance(constraint, Budget):
                fine &= (balance >= -_DEBT) | (demand <= _LARGE)
            else:  # rare use of a scarce agent may come in bursts
                fine |= demand <= balance + 3.0 * demand
            fits = allowed & (fine | least)
            mask = mask if fits.all() else fits
        return mask

    def _floor(
        self, usage: Sequence[Demand], floor: float, mask: Bools | None, *, shape: tuple[int, ...]
    ) -> Floats | float:
        """Share of the floor per agent, less for agents that would use much of an allowance by it."""
        if floor <= 0.0:
            return 0.0
        able = np.ones(shape) if mask is None else np.broadcast_to(mask, shape).astype(float)
        shares = able * (floor / np.add.reduce(able, axis=-1, keepdims=True))
        demand = np.ones(shape)
        for each in usage:
            demand = np.maximum(demand, each.expected)
        return np.asarray(np.minimum(shares, _FLOOR_USAGE * shares / (floor * demand)))


def paced(
    policy: Policy,
    state: Arrays,
    situation: Situation,
    *,
    plan: PacingPlan,
    u: npt.ArrayLike,
    price: Floats | None = None,
) -> tuple[Draw, Floats | None]:
    """Like :func:`bot_orch.core.pipeline.decide`, with the plan's guard and floor; propensities are exact.

    The second value is the reward that a dollar more would earn, under a constraint of quality.
    """
    choice = chosen(policy, state, situation, price=price)
    p, per_usd, floor = choice.propensities, None, plan.floor
    if np.minimum.reduce(plan.trust, axis=None) < 1.0:
        trust = plan.trust[..., None]
        p = trust * p + (1.0 - trust) * argmax_ties(plan.typical - situation.penalty, situation.eligible)
    if plan.quality is not None:
        beyond = plan.quality.beyond(choice.estimate) if policy.predicts else None
        eligible = situation.eligible
        mixed, per_usd = plan.quality.decide(
            beyond, plan.trust, penalty=situation.penalty, eligible=eligible, floor=floor
        )
        same = plan.quality.same_price(eligible)
        if not same.any():
            p, agent = mixed_draw(mixed, u)
            return Draw(agent, p, choice, situation), per_usd
        if isinstance(floor, np.ndarray):
            p = (1.0 - np.add.reduce(floor, axis=-1, keepdims=True)) * p + floor
        p, agent = mixed_draw(np.where(same, p, mixed), u)
        return Draw(agent, p, choice, situation), per_usd
    if isinstance(floor, np.ndarray):
        p = (1.0 - np.add.reduce(floor, axis=-1, keepdims=True)) * p + floor
    p, agent = mixed_draw(p, u)
    return Draw(agent, p, choice, situation), per_usd


def _windows(quota: Quota) -> Windows:
    return Windows(float(quota.requests), quota.seconds)


def _known(time_s: float | None) -> float:
    """The time of a task, which a quota needs."""
    if time_s is None:
        raise InvalidInputError("task.time_s", "is missing", "a Quota needs the time of every task, in seconds")
    return time_s


def _trust(guard: Arrays) -> Floats:
    """How far estimates are trusted, from the slope of rewards on them."""
    return np.asarray(np.clip(guard["explained"] / guard["spread"], 0.0, _FULL_TRUST) / _FULL_TRUST)


def _multiplier(constraint: Constraint) -> Multiplier:
    if isinstance(constraint, Budget) and constraint.per > 1:
        return Multiplier(horizon=min(300.0, max(50.0, 0.25 * constraint.per)))
    return Multiplier()


def _due(now: Floats, expected: Floats | float, before: Floats | None) -> Floats:
    """The amount to charge: usage, or expected usage where unknown, minus an earlier charge."""
    if before is None:
        return np.where(np.isfinite(now), now, expected)
    return np.where(np.isfinite(now), now - np.where(np.isfinite(before), before, expected), 0.0)
