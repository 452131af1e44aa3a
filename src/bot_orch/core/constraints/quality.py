"""Least dollars at almost the best quality: the cheapest agent that is good enough for the task.

Preferences act on posterior means. A dearer agent is preferred once the odds that it is better than a cheaper one by
more than the allowance exceed the ratio of their prices: within that zone of indifference the cheaper one is chosen.
Mean rewards are the engine's own, the same under every policy; what the policy expects of the task beyond its usual
estimates is added to them.

Uncertainty is for exploration alone. At first every agent is tried, until it is unlikely to be chosen. After that a
cheaper agent is asked with the probability that it is as good as the chosen one. One dearer agent is studied, by
expected improvement over the square root of its price, for dollars in proportion to those of the choice and to that
improvement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from bot_orch.arrays import Arrays, Bools, Field, Floats, Ints, Schema

_MEMORY = 600.0  # outcomes of an agent that is asked all the time that count; a random walk of mean rewards
_NOISE, _NOISE_OUTCOMES, _NOISE_MEMORY = 0.2, 5.0, 500.0  # variance of a reward before outcomes, and its weight
_LEAST_NOISE = 1e-4
_TRIAL, _TRIALS = 45.0, 240.0  # outcomes of a trial per agent, and of all trials together
_UNLIKELY = 0.1  # probability of being chosen below which a trial ends
_RATIO = 30.0  # price over the cheapest one's from which on a trial is shorter, in proportion
_ODDS = 15.0  # largest odds that a dearer agent has to show
_STUDY, _MOST = 0.5, 3.0  # dollars for a dearer agent over those of the choice: per allowance it may gain, and at most
_KINDS = 8.0  # outcomes of an agent per outcome on a kind of task, where tasks have features
_FREE = 100.0  # mean price over what is at stake in a choice that is free
_LEAST = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The cheapest agent that is good enough, or its mix with a cheaper one.

    Its propensities are ``batch + (M,)``. Value, variance of that, dollars and the reward that a dollar more earns are
    ``batch``.
    """

    propensities: Floats
    value: Floats
    variance: Floats
    dollars: Floats
    multiplier: Floats


@dataclass(frozen=True, slots=True, eq=False)
class QualityPlan:
    """Evidence before a decision, ``batch + (M,)`` each.

    Mean rewards, the squared standard errors of those of a kind of task, outcomes including those awaited, and the
    dollars of the task.
    """

    within: float
    means: Floats
    variance: Floats
    count: Floats
    dollars: Floats

    def values(self, beyond: Floats, trust: Floats) -> Floats:
        """Mean rewards plus the policy's task-specific deviations, weighted by trust."""
        return np.asarray(self.means + trust[..., None] * beyond)

    def select(self, value: Floats, penalty: Floats, eligible: Bools | None) -> Selection:
        """The cheapest agent that is good enough by ``value`` less penalties."""
        loss = self._allowance(value, eligible)
        return cheapest_good_enough(value - penalty, self.variance, self.dollars, loss=loss, eligible=eligible)

    def explored(self, choice: Selection, worth: Floats, *, eligible: Bools | None, instead: Floats) -> Floats:
        """Propensities: choice and exploration, from values less penalties; ``instead`` where all cost the same."""
        able = np.ones(worth.shape, dtype=bool) if eligible is None else np.broadcast_to(eligible, worth.shape)
        loss = self._allowance(worth, eligible)[..., None]
        dearer = self.dollars > choice.dollars[..., None]
        sd = np.sqrt(self.variance + choice.variance[..., None])
        z = (worth - choice.value[..., None] - np.where(dearer, loss, 0.0)) / sd
        chance = ndtr(z)
        gain = sd * (np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi) + z * chance) / np.maximum(loss, 1e-9)
        part = np.minimum(1.0, self.stake(choice) / np.maximum(self.dollars, _LEAST))
        study = np.where(dearer & able & (choice.propensities == 0.0), np.sqrt(part) * gain, 0.0)
        study = np.where(study >= np.maximum.reduce(study, axis=-1, keepdims=True), dearer, 0.0)
        shares = np.where(dearer, study * part * np.minimum(_STUDY * gain, _MOST), chance)
        shares = np.where(able & (choice.propensities == 0.0), shares, 0.0)
        shares = shares / np.maximum(np.add.reduce(shares, axis=-1, keepdims=True), 1.0)
        p = (1.0 - np.add.reduce(shares, axis=-1, keepdims=True)) * choice.propensities + shares
        trial = able & self._on_trial & ((chance > _UNLIKELY) | (choice.propensities > 0.0))
        trials = np.add.reduce(trial, axis=-1, keepdims=True)
        p = np.where(trials > 0, trial / np.maximum(trials, 1), p)
        most = np.maximum.reduce(np.where(able, self.dollars, -np.inf), axis=-1, keepdims=True)
        least = np.minimum.reduce(np.where(able, self.dollars, np.inf), axis=-1, keepdims=True)
        return np.asarray(np.where(most > least, p, instead))

    def floor(self, choice: Selection, shares: Floats, usage: float) -> Floats:
        """The floor's ``shares``, reduced where they would exceed the fraction ``usage`` of the choice's dollars."""
        paid = np.add.reduce(shares, axis=-1, keepdims=True) * self.dollars
        return np.asarray(shares * np.minimum(1.0, usage * self.stake(choice) / np.maximum(paid, _LEAST)))

    def stake(self, choice: Selection) -> Floats:
        """Reference amount for exploration costs, ``batch + (1,)``: the choice's dollars, or a little if it is free."""
        little = np.add.reduce(self.dollars, axis=-1, keepdims=True) / (self.dollars.shape[-1] * _FREE)
        return np.asarray(np.maximum(choice.dollars[..., None], little))

    def _allowance(self, value: Floats, eligible: Bools | None) -> Floats:
        value = value if eligible is None else np.where(eligible, value, -np.inf)
        return np.asarray(self.within * np.maximum(np.maximum.reduce(value, axis=-1), 0.0))

    @property
    def _on_trial(self) -> Bools:
        priced = np.where(self.dollars > 0.0, self.dollars, np.inf)
        ratio = self.dollars / np.minimum.reduce(priced, axis=-1, keepdims=True)
        part = 1.0 / np.maximum(ratio / _RATIO, 1.0)
        return np.asarray(self.count < part * min(_TRIAL, _TRIALS / self.dollars.shape[-1]))


@dataclass(frozen=True, slots=True)
class Frugality:
    """The quality constraint: its statistics, independent of the policy's, and its plan for a decision."""

    within: float
    contextual: bool = False

    @property
    def schema(self) -> Schema:
        """Discounted outcomes and total rewards per agent, all outcomes, and the variance of rewards."""
        return {
            "outcomes": Field(),
            "total": Field(),
            "tried": Field(),
            "noise": Field(per_agent=False, fill=_NOISE),
            "errors": Field(per_agent=False, fill=_NOISE_OUTCOMES),
        }

    def plan(self, state: Arrays, dollars: Floats, waiting: Floats) -> QualityPlan:
        """Evidence before a decision; ``waiting`` are pending decisions per agent."""
        count = state["outcomes"]
        variance = (_KINDS if self.contextual else 1.0) * state["noise"][..., None] / (count + 1.0)
        return QualityPlan(self.within, self._means(state), variance, state["tried"] + waiting, dollars)

    def see(self, state: Arrays, agent: Ints, reward: Floats, *, before: Floats | None) -> None:
        """Count one reward per batch element, NaN where unknown, replacing the one counted ``before``."""
        known = np.isfinite(reward)
        at = (*np.indices(np.shape(agent), sparse=True), agent)
        value = np.where(known, reward, 0.0)
        if before is not None:
            again = known & np.isfinite(before)
            state["total"][at] += np.where(again, value - np.where(again, before, 0.0), 0.0)
            known = known & ~again
        error = np.where(known, value - self._means(state)[at], 0.0)
        state["errors"] += known
        rate = known / np.minimum(state["errors"], _NOISE_MEMORY)
        state["noise"][...] = np.maximum(state["noise"] + rate * (error * error - state["noise"]), _LEAST_NOISE)
        state["tried"][at] += known
        keep = 1.0 / (1.0 + known[..., None] * state["outcomes"] / _MEMORY**2)  # a random walk adds to each variance
        for name, each in (("outcomes", known), ("total", np.where(known, value, 0.0))):
            state[name] *= keep
            state[name][at] += each

    def teach(self, state: Arrays, rewards: Floats, weight: Floats | float) -> None:
        """Count evaluations (n, M), NaN where missing, like outcomes; with more than are remembered, scaled down."""
        known = np.isfinite(rewards)
        each = np.where(known, np.broadcast_to(weight, rewards.shape[:1])[:, None], 0.0)
        each *= min(1.0, _MEMORY / max(float(each.sum()), _LEAST))
        value, count = np.where(known, rewards, 0.0), each.sum(axis=0)
        total = (each * value).sum(axis=0)
        errors = (each * (value - total / np.maximum(count, _LEAST)) ** 2).sum()
        for name, more in (("outcomes", count), ("tried", count), ("total", total)):
            state[name] += more
        state["noise"][...] = (state["noise"] * state["errors"] + errors) / (state["errors"] + count.sum())
        state["errors"] += count.sum()

    def _means(self, state: Arrays) -> Floats:
        count, total = state["outcomes"], state["total"]
        every = np.add.reduce(total, axis=-1, keepdims=True) + 0.5
        every = every / (np.add.reduce(count, axis=-1, keepdims=True) + 1.0)
        return np.asarray((total + every) / (count + 1.0))


def cheapest_good_enough(
    value: Floats, variance: Floats, dollars: Floats, *, loss: Floats, eligible: Bools | None = None
) -> Selection:
    """The cheapest agent that no dearer one surpasses by more than ``loss``, at odds of more than the ratio of prices.

    ``variance`` is that of ``value``. As far as the mean less a standard error
    permits, a cheaper agent is mixed in. Of agents that cost the same, the one with the largest value.

    Examples
    --------
    >>> value, usd = np.array([0.7, 0.8, 0.81]), np.array([0.001, 0.01, 0.1])
    >>> found = cheapest_good_enough(value, np.full(3, 1e-6), usd, loss=np.array(0.011))
    >>> found.propensities, float(found.multiplier.round(2))
    (array([0., 1., 0.]), 0.11)
    >>> cheapest_good_enough(value, np.full(3, 0.01), usd, loss=np.array(0.02)).propensities  # too few outcomes
    array([1., 0., 0.])
    """
    able = np.ones(value.shape, dtype=bool) if eligible is None else np.broadcast_to(eligible, value.shape)
    dearer = able[..., None, :] & (dollars[..., None, :] > dollars[..., :, None])
    ratio = np.clip(dollars[..., None, :] / np.maximum(dollars[..., :, None], _LEAST), 1.0, _ODDS)
    zone = ndtri(ratio / (1.0 + ratio)) * np.sqrt(variance[..., None, :] + variance[..., :, None])
    surpassed = dearer & (value[..., None, :] - value[..., :, None] > loss[..., None, None] + zone)
    good = able & ~np.logical_or.reduce(surpassed, axis=-1)
    most = np.maximum.reduce(dollars, axis=-1, keepdims=True)
    rank = np.where(good, dollars / np.maximum(most, _LEAST) - 1e-9 * value, np.inf)
    index = np.argmin(rank, axis=-1)
    top, sd = _at(value, index)[..., None], np.sqrt(variance + _at(variance, index)[..., None])
    least = np.maximum.reduce(np.where(able, value, -np.inf), axis=-1) - loss  # what the mix must earn
    room = np.maximum(top - least[..., None] - np.sqrt(2.0 * _at(variance, index))[..., None], 0.0)
    saved = np.where(able, _at(dollars, index)[..., None] - dollars, 0.0)
    part = np.where(saved > 0.0, room / np.maximum(room, np.maximum(top - value + sd, _LEAST)), 0.0)
    other, units = np.argmax(part * saved, axis=-1), np.eye(value.shape[-1])
    share = _at(part, other)[..., None]
    p = (1.0 - share) * units[index] + share * units[other]
    got, paid, spread = (np.add.reduce(each, axis=-1) for each in (p * value, p * dollars, p * p * variance))
    more = dollars - paid[..., None]
    slope = np.where(able & (more > 0.0), (value - got[..., None]) / np.maximum(more, _LEAST), 0.0)
    multiplier = np.maximum.reduce(slope, axis=-1, initial=0.0)
    return Selection(p, got, spread, paid, multiplier)


def _at(values: Floats, index: Ints) -> Floats:
    return np.asarray(np.take_along_axis(values, np.asarray(index)[..., None], axis=-1)[..., 0])
