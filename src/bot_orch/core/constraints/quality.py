"""Least dollars at almost the best quality: the cheapest mix of agents that keeps the floor, as far as evidence shows.

The *surplus* of a mix over agent j is its mean reward minus that of j plus the allowance ``within * best mean``. It has
a posterior mean and a standard error ``s``, from the engine's own sums of outcomes per agent. The mix that serves is
the cheapest one whose surplus over every agent is at least ``z * s``, where

    z = 2 - 4 * s / allowance,   at least -2.

Where evidence measures the allowance well (s is small beside it), the mix has to prove that it keeps the floor; where
it cannot tell (s is larger), the dearer agent has to prove that it is needed: z is negative only while the next dearer
option has not shown that it earns more. So an agent for which evidence is
missing is itself part of the mix, unless it cannot be compared at a sensible price. Then the *study* pays for evidence:
a dearer agent j whose surplus is not decided is asked until it has ``7 * (t * noise_j * stake / dollars_j)**(2/3)``
outcomes.

Where tasks have features or texts, what the policy expects of a task beyond its usual estimates is added to the means.
The mix then assigns recent tasks by one price of reward, and the floor counts over all of them.

"Why the floor holds" in ``docs/concepts/objective.md`` derives this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from math import sqrt

import numpy as np

from bot_orch.arrays import Arrays, Bools, Field, Floats, Ints, Schema

PROOF, DOUBT = 2.0, -2.0  # standard errors that a mix has to show, and those of the benefit of the doubt
RESOLVED = 0.5  # standard error over the allowance at which nobody has to prove anything
STUDY, DECIDED = 7.0, 3.0  # scale of the study, and standard errors beyond which none is needed
MOST, STAKES = 0.3, 0.5  # largest share of study, and its dollars over the stake
TRIAL, TRIALS, RATIO = 40.0, 240.0, 60.0  # outcomes of a trial per agent, of all, price over the least that shortens it
RECENT = 64  # tasks over which the floor counts where tasks differ
_MEMORY = 2000.0  # outcomes of an agent that is asked all the time that count; a random walk of mean rewards
_NOISE, _NOISE_OUTCOMES = 0.2, 5.0  # variance of a reward before outcomes; outcomes that all agents count as in one
_TYPICAL = 1.0 / 30.0  # rate of the usual estimates, which move while a policy learns
_FLOOR_USAGE = 0.1  # dollars of the floor's exploration over the stake
_FREE = 100.0  # mean price over what is at stake where the mix is free
_LEAST = 1e-300
_PARTS = 8  # steps between two options of the frontier
_PRICES: Floats = np.concatenate([[1e12], np.geomspace(1e5, 1e-3, 60), [0.0]])  # reward per largest price of an agent


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """Shares of the agents, mean reward and dollars of a rule that assigns recent tasks; ``agents`` gets this one."""

    shares: Sequence[float]
    value: float
    dollars: float
    agent: int


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Means of one router's agents, variances of these means, outcomes, and which agents are eligible."""

    within: float
    means: Sequence[float]
    variance: Sequence[float]
    outcomes: Sequence[float]
    _: KW_ONLY
    able: Sequence[int]
    top: float | None = None

    @property
    def best(self) -> float:
        """Mean of the best agent, at least what it earned on its own tasks, which may be the hard ones."""
        return max(self.means[i] for i in self.able) if self.top is None else self.top

    @property
    def allowance(self) -> float:
        """Reward that may be lost."""
        return max(self.within * self.best, 1e-9)

    def against(self, full: Sequence[float], value: float) -> list[tuple[float, float]]:
        """Surplus over each eligible agent, and its standard error, of agents in the shares ``full``."""
        kept, allowance, most = 1.0 - self.within, self.allowance, max(self.means[i] for i in self.able)
        common = sum(p * p * v for p, v in zip(full, self.variance, strict=True))
        found = []
        for j in self.able:
            spread = common + (kept * kept - 2.0 * kept * full[j]) * self.variance[j]
            rival = self.best if self.means[j] == most else self.means[j]
            found.append((value - rival + allowance, sqrt(max(spread, 1e-18))))
        return found

    def margin(self, full: Sequence[float], value: float, *, least: float = DOUBT) -> float:
        """By how much these shares exceed what they have to show; negative if they do not."""
        allowance = self.allowance
        return min(
            surplus - max(PROOF * (1.0 - sd / (RESOLVED * allowance)), least) * sd
            for surplus, sd in self.against(full, value)
        )

    def proved(self, low: Option, high: Option) -> bool:
        """Whether the dearer of two options has shown that it earns more."""
        shift = zip(low.shares, high.shares, self.variance, strict=True)
        return high.value - low.value > PROOF * sqrt(sum((q - p) ** 2 * v for p, q, v in shift))


@dataclass(frozen=True, slots=True, eq=False)
class Mix:
    """Part ``part`` of the tasks by the second of two rules, and the reward that a dollar more would earn."""

    low: Option
    high: Option
    part: float
    per_usd: float

    @property
    def dollars(self) -> float:
        """Mean dollars of a task."""
        return (1.0 - self.part) * self.low.dollars + self.part * self.high.dollars

    @property
    def value(self) -> float:
        """Mean reward of a task."""
        return (1.0 - self.part) * self.low.value + self.part * self.high.value

    def shares(self) -> list[float]:
        """Share of each agent, over recent tasks."""
        return _between(self.low.shares, self.high.shares, self.part)


@dataclass(frozen=True, slots=True, eq=False)
class QualityPlan:
    """Evidence before a decision, ``batch + (M,)`` each.

    Mean rewards, their variances, outcomes, outcomes including those awaited, the dollars of the task and those of a
    usual task. ``recent`` are deviations of estimates and relative dollars of recent tasks, ``batch + (M, K)``, where
    tasks differ.
    """

    within: float
    means: Floats
    variance: Floats
    outcomes: Floats
    count: Floats
    dollars: Floats
    usual: Floats
    recent: tuple[Floats, Floats] | None
    typical: Floats | None = None
    earned: Floats | None = None

    def beyond(self, estimate: Floats) -> Floats | None:
        """What the policy expects of the task beyond its usual estimates; None where tasks do not differ."""
        return None if self.typical is None else estimate - self.typical

    def decide(
        self, beyond: Floats | None, trust: Floats, *, penalty: Floats, eligible: Bools | None, floor: Floats | float
    ) -> tuple[Floats, Floats]:
        """Propensities of the mix, the study, trials and the floor, and the reward that a dollar more would earn.

        ``beyond`` is what the policy expects of the task beyond its usual estimates, None if it reads no features;
        ``floor`` are the shares of the floor.
        """
        shape = self.means.shape
        p, per_usd = np.empty(shape), np.empty(shape[:-1])
        penalty, floor = np.broadcast_to(penalty, shape), np.broadcast_to(floor, shape)
        able = np.ones(shape, dtype=bool) if eligible is None else np.broadcast_to(eligible, shape)
        for at in np.ndindex(shape[:-1]):
            x = None if beyond is None else beyond[at] * float(trust[at])
            p[at], per_usd[at] = self._one(at, x, float(trust[at]), penalty[at], able[at], floor[at])
        return p, per_usd

    def same_price(self, eligible: Bools | None) -> Bools:
        """Where all eligible agents cost the same, ``batch + (1,)``."""
        able = True if eligible is None else eligible
        most = np.maximum.reduce(np.where(able, self.dollars, -np.inf), axis=-1, keepdims=True)
        return np.asarray(most <= np.minimum.reduce(np.where(able, self.dollars, np.inf), axis=-1, keepdims=True))

    def _one(
        self, at: tuple[int, ...], beyond: Floats | None, trust: float, penalty: Floats, able: Bools, floor: Floats
    ) -> tuple[list[float], float]:
        means = (self.means[at] - penalty).tolist()
        eligible = np.flatnonzero(able).tolist()
        best = max(eligible, key=means.__getitem__)
        top = means[best] if self.earned is None else max(means[best], float(self.earned[at][best] - penalty[best]))
        spread, counts = self.variance[at].tolist(), self.outcomes[at].tolist()
        given = Evidence(self.within, means, spread, counts, able=eligible, top=top)
        dollars, usual = self.dollars[at].tolist(), self.usual[at].tolist()
        stake = _stake(given, usual)
        fixed = [
            min(share, _FLOOR_USAGE * stake / max(len(eligible) * usd, _LEAST)) if usd else share
            for share, usd in zip(floor.tolist(), dollars, strict=True)
        ]
        if beyond is None or self.recent is None:
            options = frontier(means, dollars, eligible)
        else:
            rows, relative = self.recent[0][at] * trust, self.recent[1][at]
            options = assignments(np.array(means), self.usual[at], rows, relative, beyond, self.dollars[at], able)
        mix = cheapest(given, options, fixed)
        p = [0.0] * len(means)
        p[mix.low.agent] += 1.0 - mix.part
        p[mix.high.agent] += mix.part
        trials = self._trials(self.count[at].tolist(), usual, eligible)
        if trials:
            p = [float(i in trials) / len(trials) for i in range(len(means))]
        else:
            agent, share = study(given, mix, dollars, stake=stake)
            p = [(1.0 - share) * each for each in p]
            p[agent] += share
        rest = 1.0 - sum(fixed)
        return [rest * each + more for each, more in zip(p, fixed, strict=True)], mix.per_usd

    @staticmethod
    def _trials(count: Sequence[float], usual: Sequence[float], able: Sequence[int]) -> list[int]:
        """Agents that are tried first: all, a few times, and fewer where they are much dearer than the cheapest."""
        least = min((usual[i] for i in able if usual[i] > 0.0), default=1.0)
        most = min(TRIAL, TRIALS / len(count))
        return [i for i in able if count[i] < most / max(usual[i] / (RATIO * least), 1.0)]


@dataclass(frozen=True, slots=True)
class Frugality:
    """The quality constraint: its statistics, independent of the policy's, and its plan for a decision."""

    within: float
    contextual: bool = False

    @property
    def schema(self) -> Schema:
        """Discounted outcomes, rewards and their squares per agent; where tasks differ, the recent ones."""
        found = {name: Field() for name in ("outcomes", "total", "square", "tried")}
        if not self.contextual:
            return found
        return found | {
            "earned": Field(),
            "typical": Field(),
            "beyond": Field(shape=(RECENT,)),
            "relative": Field(shape=(RECENT,), fill=1.0),
        }

    def plan(self, state: Arrays, dollars: Floats, usual: Floats, waiting: Floats) -> QualityPlan:
        """Evidence before a decision; ``waiting`` are pending decisions per agent."""
        means, variance = self._posterior(state)
        recent = (state["beyond"].copy(), state["relative"].copy()) if self.contextual else None
        count, tried = state["outcomes"].copy(), state["tried"] + waiting
        typical = state["typical"].copy() if self.contextual else None
        earned = state["earned"] / np.maximum(count, 1.0) if self.contextual else None
        return QualityPlan(self.within, means, variance, count, tried, dollars, usual, recent, typical, earned)

    def commit(self, state: Arrays, plan: QualityPlan, estimate: Floats, tasks: Floats) -> None:
        """Keep what the policy expected of the task, and its dollars relative to usual ones."""
        if not self.contextual:
            return
        state["typical"] += np.maximum(_TYPICAL, 1.0 / tasks)[..., None] * (estimate - state["typical"])
        slot = (np.asarray(tasks, dtype=int) % RECENT)[..., None, None]
        for name, value in (
            ("beyond", estimate - state["typical"]),
            ("relative", np.where(plan.usual > 0.0, plan.dollars / np.maximum(plan.usual, _LEAST), 1.0)),
        ):
            column = np.broadcast_to(slot, (*value.shape, 1))
            np.put_along_axis(state[name], column, value[..., None], axis=-1)

    def see(
        self, state: Arrays, agent: Ints, reward: Floats, *, before: Floats | None, beyond: Floats | float = 0.0
    ) -> None:
        """Count one reward per batch element, NaN where unknown, replacing the one counted ``before``.

        ``beyond`` is what was expected of the task beyond the usual, and taken out of both.
        """
        known = np.isfinite(reward)
        at = (*np.indices(np.shape(agent), sparse=True), agent)
        value = np.where(known, reward, 0.0)
        if before is not None:
            again = known & np.isfinite(before)
            old = np.where(again, before, 0.0)
            state["total"][at] += np.where(again, value - old, 0.0)
            state["square"][at] += np.where(again, value * value - old * old, 0.0)
            known = known & ~again
            value = np.where(known, value, 0.0)
        state["tried"][at] += known
        keep = 1.0 / (1.0 + known * state["outcomes"][at] / _MEMORY**2)  # a random walk adds to the variance
        sums = {"outcomes": known, "total": value, "square": value * value}
        if self.contextual:
            sums["earned"] = np.where(known, value + beyond, 0.0)
        for name, more in sums.items():
            state[name][at] = state[name][at] * keep + more

    def teach(self, state: Arrays, rewards: Floats, weight: Floats | float) -> None:
        """Count evaluations (n, M), NaN where missing, like outcomes; with more than are remembered, scaled down."""
        known = np.isfinite(rewards)
        each = np.where(known, np.broadcast_to(weight, rewards.shape[:1])[:, None], 0.0)
        each *= min(1.0, _MEMORY / max(float(each.sum()), _LEAST))
        value = np.where(known, rewards, 0.0)
        sums = {"outcomes": each, "tried": each, "total": each * value, "square": each * value * value}
        if self.contextual:
            sums["earned"] = sums["total"]
        for name, more in sums.items():
            state[name] += more.sum(axis=0)

    def _posterior(self, state: Arrays) -> tuple[Floats, Floats]:
        """Mean rewards and the variances of these; the mean of all agents counts as one outcome of each."""
        count, total = state["outcomes"], state["total"]
        every = np.add.reduce(total, axis=-1, keepdims=True) + 0.5
        every = every / (np.add.reduce(count, axis=-1, keepdims=True) + 1.0)
        means = (total + every) / (count + 1.0)
        errors = np.maximum(state["square"] - total * total / np.maximum(count, 1.0), 0.0)
        more = _NOISE_OUTCOMES
        usual = np.add.reduce(errors, axis=-1, keepdims=True) + _NOISE * more
        usual = usual / (np.add.reduce(count, axis=-1, keepdims=True) + more)
        noise = (errors + usual * more) / (count + more)
        return np.asarray(means), np.asarray(noise / (count + 1.0))


def frontier(values: Sequence[float], dollars: Sequence[float], able: Sequence[int]) -> list[Option]:
    """Agents that some price of reward makes the best ones, from the cheapest on.

    Examples
    --------
    >>> [each.agent for each in frontier([0.5, 0.6, 0.9, 0.8], [1.0, 2.0, 3.0, 4.0], [0, 1, 2, 3])]
    [0, 2]
    """
    found: list[int] = []
    for i in sorted(able, key=lambda i: (dollars[i], -values[i])):
        if found and values[i] <= values[found[-1]]:
            continue
        while len(found) > 1 and _slope(values, dollars, found[-1], i) >= _slope(values, dollars, *found[-2:]):
            found.pop()
        found.append(i)
    return [Option([float(j == i) for j in range(len(values))], values[i], dollars[i], i) for i in found]


def assignments(
    means: Floats, usual: Floats, rows: Floats, relative: Floats, beyond: Floats, dollars: Floats, able: Bools
) -> list[Option]:
    """Each task to the agent with the largest reward less a price times its dollars, from high prices on.

    ``rows`` and ``relative``, (M, K), are recent tasks; ``beyond`` and ``dollars`` the present one.
    """
    middle = rows.mean(axis=-1)
    value = np.concatenate([rows.T, beyond[None]]) - middle + means
    usd = np.concatenate([usual * relative.T, dollars[None]])
    prices = _PRICES / (float(usd.max()) or 1.0)
    score = np.where(able, value - prices[:, None, None] * usd, -np.inf)
    best = score.argmax(axis=-1)
    tasks = np.arange(len(value))
    paid, earned = usd[tasks, best].mean(axis=-1).tolist(), value[tasks, best].mean(axis=-1).tolist()
    shares = (best[..., None] == np.arange(len(means))).mean(axis=1).tolist()
    now = best[:, -1].tolist()
    changes = [k for k in range(len(prices)) if not k or earned[k] > earned[k - 1] or paid[k] > paid[k - 1]]
    return [Option(shares[k], earned[k], paid[k], now[k]) for k in changes]


def cheapest(given: Evidence, options: Sequence[Option], fixed: Sequence[float]) -> Mix:
    """The cheapest mix of two neighbouring options that shows what it has to; ``fixed`` shares explore besides.

    If there is none, the option that comes closest.

    Examples
    --------
    >>> sure = Evidence(0.1, [0.5, 0.9], [1e-8, 1e-8], [1e6, 1e6], able=[0, 1])
    >>> found = cheapest(sure, frontier(sure.means, [0.001, 0.01], [0, 1]), [0.0, 0.0])
    >>> round(found.part, 3), round(found.value, 3)
    (0.775, 0.81)
    """
    rest = 1.0 - sum(fixed)
    known = sum(share * mean for share, mean in zip(fixed, given.means, strict=True))

    def margin(number: int, part: float = 0.0) -> float:
        low, high = options[number], options[min(number + 1, len(options) - 1)]
        full = [rest * p + f for p, f in zip(_between(low.shares, high.shares, part), fixed, strict=True)]
        value = rest * ((1.0 - part) * low.value + part * high.value) + known
        return given.margin(full, value, least=0.0 if given.proved(low, high) else DOUBT)

    margins = [margin(0)]
    while margins[-1] < 0.0 and len(margins) < len(options):
        margins.append(margin(len(margins)))
    number = len(margins) - 1
    if margins[-1] < 0.0:
        number = margins.index(max(margins))
    low = options[number]
    if not number or margins[number] < 0.0:
        return Mix(low, low, 0.0, _rise(low, options[min(number + 1, len(options) - 1)]))
    below, part, before = options[number - 1], 1.0, margins[number - 1]
    for k in range(1, _PARTS + 1):
        now = margin(number - 1, k / _PARTS)
        if now >= 0.0:
            part = (k - 1.0 + before / (before - now)) / _PARTS
            break
        before = now
    return Mix(below, low, part, _rise(below, low))


def study(given: Evidence, mix: Mix, dollars: Sequence[float], *, stake: float) -> tuple[int, float]:
    """The dearer agent that is asked for evidence, and its share: the one with the fewest outcomes over the schedule.

    Only agents that may still break the floor are, or ones that may turn out not to be needed.
    """
    rounds = sum(given.outcomes)
    sides = given.against(mix.shares(), mix.value)
    chosen, most = 0, 0.0
    for j, (surplus, sd) in zip(given.able, sides, strict=True):
        if dollars[j] > mix.dollars * (1.0 + 1e-9) and abs(surplus) < DECIDED * sd:
            n = max(given.outcomes[j], 1.0)
            noise = sqrt(given.variance[j] * n)
            lacking = STUDY * (noise * rounds * stake / dollars[j]) ** (2.0 / 3.0) / n - 1.0
            if lacking > most:
                chosen, most = j, lacking
    if not most:
        return 0, 0.0
    share = STAKES * stake / max(dollars[chosen] - mix.dollars, _LEAST)
    return chosen, min(share, MOST) * min(1.0, 5.0 * most)


def _stake(given: Evidence, usual: Sequence[float]) -> float:
    """Dollars that evidence is paid in proportion to: those of the cheapest agent that keeps the floor by its mean."""
    least = max(given.means[i] for i in given.able) - given.allowance
    found = min(usual[i] for i in given.able if given.means[i] >= least)
    return max(found, sum(usual) / (len(usual) * _FREE))


def _slope(values: Sequence[float], dollars: Sequence[float], i: int, j: int) -> float:
    return (values[j] - values[i]) / max(dollars[j] - dollars[i], _LEAST)


def _rise(low: Option, high: Option) -> float:
    """Reward per dollar from one option to the next."""
    return max(high.value - low.value, 0.0) / (high.dollars - low.dollars) if high.dollars > low.dollars else 0.0


def _between(low: Sequence[float], high: Sequence[float], part: float) -> list[float]:
    return [(1.0 - part) * p + part * q for p, q in zip(low, high, strict=True)]
