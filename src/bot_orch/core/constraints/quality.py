"""Least dollars at almost the best quality: the cheapest agent, or mix of two, that is good enough for the task.

Preferences act on posterior means with an indifference zone: a difference between agents counts as far as it exceeds a
part of its standard error, which is the larger the dearer the agent is. Mean rewards are the engine's own, the same
under every policy; what the policy expects of the task beyond its usual estimates is added to them.

Uncertainty is for exploration alone. A dearer agent is asked in proportion to its expected improvement over what is
acceptable, times the dollars of the mix over its own; a cheaper one with the probability that it is good enough. At
first every agent is tried, the dear ones less often, until it is unlikely to take part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from bot_orch.arrays import Arrays, Bools, Field, Floats, Ints, Schema

__all__ = ["AgentMix", "Frugality", "QualityPlan", "apart", "cheapest_mix"]

_MEMORY = 1000.0  # outcomes, of all agents, after which evidence has lost most of its weight
_NOISE, _NOISE_OUTCOMES, _NOISE_MEMORY = 0.2, 5.0, 500.0  # variance of a reward before outcomes, and its weight
_LEAST_NOISE = 1e-4
_ZONE, _NARROW, _WIDE = 0.8, 0.5, 1.0  # standard errors of the zone per tenfold price; range of powers of ten
_RESERVE = 0.03  # standard deviations of a reward that a mix leaves of the allowance, for exploration
_TRIAL, _TRIALS = 40.0, 360.0  # outcomes of a trial per agent, and of all trials together
_FEW, _UNLIKELY = 20.0, 0.1  # outcomes before a trial may end early, and the probability at which it does
_RATIO = 40.0  # price over the cheapest one's from which on a trial is shorter, in proportion
_CURIOSITY = 0.32  # share of a dearer agent whose improvement is the allowance, at the price of the mix
_THRIFT = 1.25  # power of the dollars of the mix over its own that multiplies that share
_MOST = 0.5  # largest share of exploration
_KINDS = 8.0  # outcomes of an agent per outcome on a kind of task, where tasks have features
_FREE = 100.0  # mean price over what is at stake in a mix that is free
_LEAST = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class AgentMix:
    """Propensities of the cheapest mix, ``batch + (M,)``, its value and dollars, and the reward a dollar more earns."""

    propensities: Floats
    value: Floats
    dollars: Floats
    multiplier: Floats


@dataclass(frozen=True, slots=True, eq=False)
class QualityPlan:
    """Evidence before a decision, ``batch + (M,)`` each.

    Mean rewards, their squared standard errors, outcomes including those awaited, and the dollars of the task;
    ``kinds`` is how many kinds of tasks an agent's outcomes are spread over, ``reserve`` that of the mix, ``batch``.
    """

    within: float
    means: Floats
    variance: Floats
    count: Floats
    dollars: Floats
    kinds: float
    reserve: Floats

    def values(self, beyond: Floats, trust: Floats) -> Floats:
        """Mean rewards plus the policy's task-specific deviations, weighted by trust."""
        return np.asarray(self.means + trust[..., None] * beyond)

    def mix(self, value: Floats, penalty: Floats, eligible: Bools | None) -> AgentMix:
        """The cheapest mix that is good enough by ``value`` less penalties."""
        found = apart(value, self.variance, zone=self._zone, eligible=eligible)
        doubt = np.maximum(_largest(value, eligible) - _largest(found, eligible), 0.0)
        loss = self.within * np.maximum(_largest(found, eligible), 0.0)
        return cheapest_mix(found - penalty, self.dollars, loss, reserve=self.reserve + doubt, eligible=eligible)

    def explored(self, mix: AgentMix, worth: Floats, *, eligible: Bools | None, instead: Floats) -> Floats:
        """Propensities: the mix with exploration, from values less penalties; ``instead`` where all cost the same."""
        able = np.ones(worth.shape, dtype=bool) if eligible is None else np.broadcast_to(eligible, worth.shape)
        dearer = self.dollars > mix.dollars[..., None]
        loss = self.within * np.maximum(_largest(worth, eligible), 0.0)[..., None]
        sd = np.sqrt(self.variance * np.where(dearer, 1.0, self.kinds))
        z = (worth - mix.value[..., None] - np.where(dearer, loss, 0.0)) / sd
        chance = ndtr(z)
        improvement = sd * (np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi) + z * chance) / np.maximum(loss, 1e-9)
        cheap = np.minimum(1.0, self.stake(mix) / np.maximum(self.dollars, _LEAST)) ** _THRIFT
        shares = np.where(dearer, _CURIOSITY * improvement * cheap, chance) * able
        shares = np.maximum(shares - mix.propensities, 0.0)
        shares = shares * np.minimum(1.0, _MOST / np.maximum(np.add.reduce(shares, axis=-1, keepdims=True), _LEAST))
        p = (1.0 - np.add.reduce(shares, axis=-1, keepdims=True)) * mix.propensities + shares
        trial = able & self._on_trial((chance > _UNLIKELY) | (mix.propensities > 0.0))
        trials = np.add.reduce(trial, axis=-1, keepdims=True)
        p = np.where(trials > 0, trial / np.maximum(trials, 1), p)
        most = np.maximum.reduce(np.where(able, self.dollars, -np.inf), axis=-1, keepdims=True)
        least = np.minimum.reduce(np.where(able, self.dollars, np.inf), axis=-1, keepdims=True)
        return np.asarray(np.where(most > least, p, instead))

    def floor(self, mix: AgentMix, shares: Floats, usage: float) -> Floats:
        """The floor's ``shares``, reduced where they would exceed the fraction ``usage`` of the mix's dollars."""
        total = np.add.reduce(shares, axis=-1, keepdims=True)
        return np.asarray(shares * np.minimum(1.0, usage * self.stake(mix) / np.maximum(total * self.dollars, _LEAST)))

    def stake(self, mix: AgentMix) -> Floats:
        """Reference amount for exploration costs, ``batch + (1,)``: the mix's dollars, or a little if it is free."""
        little = np.add.reduce(self.dollars, axis=-1, keepdims=True) / (self.dollars.shape[-1] * _FREE)
        return np.asarray(np.maximum(mix.dollars[..., None], little))

    def _on_trial(self, likely: Bools) -> Bools:
        most = min(_TRIAL, max(_FEW, _TRIALS / self.dollars.shape[-1]))
        most = most * np.minimum(1.0, _RATIO / self._fold)
        return np.asarray((self.count < most) & (likely | (self.count < _FEW)))

    @property
    def _fold(self) -> Floats:
        """Price relative to the cheapest agent with a price."""
        priced = np.where(self.dollars > 0.0, self.dollars, np.inf)
        least = np.minimum.reduce(priced, axis=-1, keepdims=True)
        return np.asarray(np.where(self.dollars > 0.0, self.dollars / least, 1.0))

    @property
    def _zone(self) -> Floats:
        return np.asarray(_ZONE * np.clip(np.log10(self._fold), _NARROW, _WIDE))


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
        variance = state["noise"][..., None] / (count + 1.0)
        kinds, reserve = _KINDS if self.contextual else 1.0, _RESERVE * np.sqrt(state["noise"])
        tried = state["tried"] + waiting
        return QualityPlan(self.within, self._means(state), variance, tried, dollars, kinds, reserve)

    def see(
        self, state: Arrays, agent: Ints, reward: Floats, *, estimate: Floats | None, before: Floats | None
    ) -> None:
        """Count one reward per batch element, NaN where unknown, replacing the one counted ``before``."""
        known = np.isfinite(reward)
        at = (*np.indices(np.shape(agent), sparse=True), agent)
        value = np.where(known, reward, 0.0)
        if before is not None:
            again = known & np.isfinite(before)
            state["total"][at] += np.where(again, value - np.where(again, before, 0.0), 0.0)
            known = known & ~again
        expected = self._means(state)[at] if estimate is None else estimate
        error = np.where(known, value - expected, 0.0)
        state["errors"] += known
        rate = known / np.minimum(state["errors"], _NOISE_MEMORY)
        state["noise"][...] = np.maximum(state["noise"] + rate * (error * error - state["noise"]), _LEAST_NOISE)
        state["tried"][at] += known
        keep = np.where(known, 1.0 - 1.0 / _MEMORY, 1.0)[..., None]
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


def apart(estimate: Floats, variance: Floats, *, zone: Floats | float, eligible: Bools | None = None) -> Floats:
    """Estimates whose distance from the common mean is less by ``zone`` standard errors, and zero within: a lasso.

    Examples
    --------
    >>> apart(np.array([0.8, 0.7]), np.array([0.01, 0.01]), zone=0.6).round(3)  # within the noise: no difference
    array([0.75, 0.75])
    >>> apart(np.array([0.8, 0.7]), np.array([0.0001, 0.0001]), zone=0.6).round(3)
    array([0.794, 0.706])
    """
    weight = 1.0 / variance if eligible is None else eligible / variance
    center = np.add.reduce(weight * estimate, axis=-1, keepdims=True) / np.add.reduce(weight, axis=-1, keepdims=True)
    away = estimate - center
    return np.asarray(center + np.sign(away) * np.maximum(np.abs(away) - zone * np.sqrt(variance), 0.0))


def cheapest_mix(
    value: Floats, dollars: Floats, loss: Floats, *, reserve: Floats | float = 0.0, eligible: Bools | None = None
) -> AgentMix:
    """The cheapest of: an agent at most ``loss`` below the best, or the best agent mixed with a cheaper one.

    Such a mix leaves ``reserve`` of the loss. Of those that cost the same, that with the larger value.

    Examples
    --------
    >>> found = cheapest_mix(np.array([0.7, 0.8, 0.81]), np.array([0.001, 0.01, 0.1]), np.array(0.02))
    >>> found.propensities, float(found.multiplier.round(2))
    (array([0., 1., 0.]), 0.11)
    """
    value = value if eligible is None else np.where(eligible, value, -np.inf)
    able = np.isfinite(value)
    best, room = np.maximum.reduce(value, axis=-1, keepdims=True), loss[..., None]
    top = np.argmax(np.where(able, value - 1e-12 * dollars, -np.inf), axis=-1)
    most, spent = _at(dollars, top)[..., None], np.maximum(loss - reserve, 0.0)[..., None]
    part = np.where(value >= best - room, 1.0, spent / np.maximum(best - value, _LEAST)) * able
    usd = part * dollars + (1.0 - part) * most
    rank = usd / np.maximum(most, _LEAST) - 1e-9 * np.where(able, value, 0.0)
    index = np.argmin(rank, axis=-1)
    share, units = _at(part, index)[..., None], np.eye(value.shape[-1])
    p = share * units[index] + (1.0 - share) * units[top]
    paid = np.add.reduce(p * dollars, axis=-1)
    got = np.add.reduce(p * np.where(able, value, 0.0), axis=-1)
    more = dollars - paid[..., None]
    slope = np.where(able & (more > 0.0), (np.where(able, value, 0.0) - got[..., None]) / np.maximum(more, _LEAST), 0.0)
    return AgentMix(p, got, paid, np.maximum.reduce(slope, axis=-1, initial=0.0))


def _largest(value: Floats, eligible: Bools | None) -> Floats:
    return np.asarray(np.maximum.reduce(value if eligible is None else np.where(eligible, value, -np.inf), axis=-1))


def _at(values: Floats, index: Ints) -> Floats:
    return np.asarray(np.take_along_axis(values, np.asarray(index)[..., None], axis=-1)[..., 0])
