"""auto: the default policy, one Bayesian linear model per agent with coupled RandUCB exploration.

The expected reward of agent i on a task is ``offset + z @ theta_i``. The offset is what the agent states of itself, its
claim, or zero. The inputs z are

- 1, for the agent's mean: a priori that of all agents, or zero beside a claim;
- the claim, and the claim on a logarithmic scale: a priori they are taken at face value;
- the task's features, prepared by :mod:`bot_orch.core.context`: a priori they say nothing, or the same of all agents;
- random cosines of these features [1]_, for what a line cannot say.

Inputs are scaled so that every prior precision is 1 relative to the noise. The noise is estimated per agent. The
model of an agent forgets slowly, and the mean of an agent that is not asked follows a random walk.

References
----------
.. [1] Rahimi, Recht. Random features for large-scale kernel machines. NeurIPS 2007.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from bot_orch.arrays import Arrays, Field, Floats, Schema
from bot_orch.errors import InvalidInputError
from bot_orch.numerics.choice import upper_envelope
from bot_orch.policies.base import Choice, Feedback, KeptRows, PerRouter, Situation

MEAN, MEAN_BESIDE = 1.5, 4.0  # prior precision of an agent's mean, without and with features
SLOPES, HURDLE = (
    (1.0, 4.0, 16.0),
    10.0,
)  # prior precisions of slopes to choose from; nats by which a larger one must win
CURVE = 0.04  # prior variance of what cosines add, relative to that of slopes
COSINES, FREQUENCY = 16, 2.0  # random cosines, and the standard deviation of their frequencies
CLAIM = 2.0  # prior precision of how a claim is recalibrated
TRIED = 4.0  # outcomes after which an agent counts half in the mean of all agents
START, OWN = 0.15, 5.0  # noise of an agent before its first outcome, and how many outcomes that counts for
KEPT, EVERY = 0.998, 16  # share of an agent's outcomes that is left after its next one; outcomes between discounts
WALK, DRIFT = 5e-3, 1e-3  # variance that a mean gains per round without outcome, over all agents: to explore, to learn
CALM = 0.3  # exploration of slopes and claims, relative to that of means
SMALL_TEAM, TEAM_POWER = 6.0, 0.4  # agents up to which exploration is full, and how it falls beyond
SETTLED = 1e-3  # likelihood of the rivals, all together, below which the floor need not go to them
NEWCOMERS = 2.0  # agents tried by round t: at most this times sqrt(t), plus one
TRUST = 8.0  # pseudo-outcomes that an agent is expected to be worth its cost for

_OWN = 3  # inputs before the features: 1, the claim, the claim on a logarithmic scale
_LOW, _HIGH = -0.25, 1.25  # predictions are clipped: rewards lie in [0, 1]
_LEAST_LEFT = 1e-3  # 1 - leverage up to which a lesson can be taken out


@dataclass(frozen=True, slots=True)
class Auto(PerRouter):
    """Coupled RandUCB over one Bayesian linear model per agent, see the top of the module.

    The score of an agent is its estimate, minus its penalty, plus a random multiple of its standard deviation: one draw
    per round, the same for all agents (:func:`~bot_orch.numerics.choice.coupled_randucb`). With more than six agents
    the multiple becomes smaller. Agents without outcomes are tried first: by round t about 2 sqrt(t) of them at most,
    and only where a reward of 1 minus the penalty would exceed the best estimate. The first outcomes of an agent are
    explored as if it cost nothing; otherwise an expensive agent would never be tried.

    Parameters
    ----------
    scale
        Degree of optimism: the root mean square of the random multiple with up to six agents.
    forgetting
        Whether models forget, and the means of agents that are not asked become uncertain.

    Examples
    --------
    >>> from bot_orch.arrays import allocate
    >>> policy = Auto()
    >>> state = allocate(policy.schema(0), (), 2)
    >>> policy.choose(state, Situation(1, penalty=np.array([0.0, 0.1]))).propensities.round(3)
    array([1., 0.])
    """

    scale: float = 0.8
    forgetting: bool = True
    id: ClassVar[str] = "auto"
    most_numbers: ClassVar[int] = 64

    def __post_init__(self) -> None:
        if not self.scale > 0.0:
            raise InvalidInputError("scale", f"is {self.scale}", "pass a positive number")

    def schema(self, n_features: int) -> Schema:
        """Counts, and per agent the posterior mean ``theta`` and covariance ``inverse``.

        ``theta`` is the mean under a prior mean of zero; that of all agents is added when it is read, as it changes.
        ``shared`` is the prior mean of slopes.
        """
        width = _OWN + (n_features + COSINES if n_features else 0)
        return {
            **dict.fromkeys(("count", "total", "square", "last"), Field()),
            "slope": Field(per_agent=False, fill=SLOPES[0]),
            "shared": Field(per_agent=False, shape=(width,)),
            "theta": Field(shape=(width,), dtype="float32"),
            "inverse": Field(shape=(width, width), fill=1.0, identity=True, dtype="float32"),
        }

    def adopt(self, state: Arrays, learned: Arrays) -> Arrays:
        """The learned state; what was learned with other features is dropped, and the means are learned again."""
        if all(name in learned and learned[name].shape == array.shape for name, array in state.items()):
            return {**state, **{name: learned[name] for name in state}}
        names = [name for name in ("count", "total", "square", "last") if name in learned]
        found: Arrays = {**state, **{name: learned[name] for name in names if learned[name].shape == state[name].shape}}
        if found["count"].ndim == 1:
            k = _unit(found["theta"].shape[-1])
            variance = 1.0 / (1.0 + k * k * found["count"])
            found["theta"], found["inverse"] = state["theta"].copy(), state["inverse"].copy()
            found["theta"][:, 0], found["inverse"][:, 0, 0] = k * variance * found["total"], variance
        return found

    def choose_one(self, state: Arrays, given: Situation) -> Choice:
        """Propensities: each agent's probability of having the largest randomised upper confidence bound."""
        count, last = state["count"].tolist(), state["last"].tolist()
        m, t = len(count), given.t
        eligible = range(m) if given.eligible is None else np.flatnonzero(given.eligible).tolist()
        noise = [(each + OWN * START) / (n + OWN) for each, n in zip(state["square"].tolist(), count, strict=True)]
        mean, variance = _predict(state, count, _common(count, state["total"].tolist()), given)
        walk = WALK / m if self.forgetting else 0.0
        stale = [walk * (t - each) if each < t else 0.0 for each in last]
        if given.context is None:  # an agent left after a few outcomes is tried again some time
            variance = [v + w * OWN / (OWN + n) if n else v for v, w, n in zip(variance, stale, count, strict=True)]
        seen, penalty = count, _listed(given.penalty, m)
        if given.pending is not None and np.any(given.pending):
            waiting = _listed(given.pending, m)
            variance = [v / (1.0 + v * p) for v, p in zip(variance, waiting, strict=True)]
            seen = [n + p for n, p in zip(count, waiting, strict=True)]
        scale = self.scale * min(1.0, (SMALL_TEAM / m) ** TEAM_POWER)
        sd = [scale * math.sqrt(s * v) for s, v in zip(noise, variance, strict=True)]
        bonus = sd
        if given.cost is not None:
            trust = [c * TRUST / (TRUST + n) for c, n in zip(_listed(given.cost, m), seen, strict=True)]
            penalty = [p - c for p, c in zip(penalty, trust, strict=True)]
            bonus = [a + b for a, b in zip(sd, trust, strict=True)]
        location = [a - b for a, b in zip(mean, penalty, strict=True)]
        among = _newcomers(seen, location, penalty, t=t, eligible=eligible) or eligible
        p = upper_envelope(location, sd, among)
        unsure = [s * (1.0 / (n or 0.5) + w) for s, n, w in zip(noise, count, stale, strict=True)]
        return Choice(np.array(p), np.array(mean), np.array(bonus), _doubt(location, unsure, eligible))

    def update_one(self, state: Arrays, given: Feedback) -> None:
        """Learn the chosen agent's reward, or all that are observed."""
        if given.earned is not None:
            self._learn(state, int(given.agent), float(given.earned), given)
            return
        for agent in np.flatnonzero(given.observed).tolist():
            self._learn(state, agent, float(given.reward[agent]), given)

    def _learn(self, state: Arrays, agent: int, reward: float, given: Feedback) -> None:
        """Learn an outcome of one agent: Bayes' rule for one more row."""
        s, theta, inverse = state, state["theta"][agent], state["inverse"][agent]
        count = float(s["count"][agent])
        z, offset, stated = _own(s, given, agent)
        prior = 0.0 if stated else _common(s["count"].tolist(), s["total"].tolist()) / float(z[0])
        if self.forgetting and count:
            self._walk(s, agent, given.t, prior=prior)
        gain = inverse @ z
        leverage, fit = float(gain @ z), float(theta @ z)
        error = reward - min(max(offset + fit + float(gain[0]) * prior + float(gain @ s["shared"]), _LOW), _HIGH)
        s["square"][agent] += error * error / (1.0 + leverage)
        theta += gain * ((reward - offset - fit) / (1.0 + leverage))
        inverse -= np.multiply.outer(gain, gain / (1.0 + leverage))
        s["count"][agent] = count + 1.0
        s["total"][agent] += reward
        s["last"][agent] = max(float(s["last"][agent]), given.t)
        if self.forgetting and not (count + 1.0) % EVERY:
            _forget(theta, inverse)

    def _walk(self, s: Arrays, agent: int, t: int, *, prior: float) -> None:
        """Add to the variance of an agent's mean what the rounds since its last outcome have added; keep the mean."""
        idle = max(t - float(s["last"][agent]) - 1.0, 0.0) / len(s["count"])
        more = min(DRIFT * idle / _unit(s["theta"].shape[-1]) ** 2, 1.0 - float(s["inverse"][agent, 0, 0]))
        if more > 0.0:
            s["inverse"][agent, 0, 0] += more
            s["theta"][agent, 0] -= prior * more

    def rebase(self, state: Arrays, rows: KeptRows) -> None:
        """Fit the models again to the kept outcomes, under features with a new meaning.

        The precision of slopes is the one with the largest evidence, noise integrated out, over all agents. So is
        whether slopes have a prior mean that the agents share, from a regression over all of their outcomes: what makes
        a task hard for everybody.
        """
        common = _common(state["count"].tolist(), state["total"].tolist())
        width, agent = state["theta"].shape[-1], rows.agent[rows.order]
        agents, best = np.unique(agent), -math.inf
        if not len(agents):
            return
        z, offset = _designs(width, rows.features[rows.order], None if rows.claims is None else rows.claims[rows.order])
        rest = rows.reward[rows.order] - np.nan_to_num(offset)
        mine = [np.flatnonzero(agent == each)[::-1] for each in agents.tolist()]  # newest first
        weight = [KEPT ** (np.arange(len(each)) * self.forgetting) for each in mine]
        gram = np.array([(z[i].T * w) @ z[i] for i, w in zip(mine, weight, strict=True)])
        moment = np.array([(w * rest[i]) @ z[i] for i, w in zip(mine, weight, strict=True)])
        surprise = rest - np.where(np.isnan(offset), common, 0.0)
        about = np.array([(w * surprise[i]) @ z[i] for i, w in zip(mine, weight, strict=True)])
        square = np.array([w @ surprise[i] ** 2 for i, w in zip(mine, weight, strict=True)])
        outcomes = OWN + np.array([w.sum() for w in weight])
        usual = [(w @ surprise[i]) / (w.sum() + MEAN) for i, w in zip(mine, weight, strict=True)]  # agents' own means
        pooled = sum((w * (surprise[i] - each)) @ z[i] for i, w, each in zip(mine, weight, usual, strict=True))
        slopes = np.arange(width) >= _OWN
        for place, slope in enumerate(SLOPES):
            unit = np.where(np.arange(width) < _OWN, 1.0, 1.0 / math.sqrt(slope))
            scaled, told = gram * np.multiply.outer(unit, unit), about * unit
            inverse = np.linalg.inv(np.eye(width) + scaled)
            volume = np.sum(np.linalg.slogdet(inverse)[1])
            joint = np.eye(width) + scaled.sum(axis=0) * np.multiply.outer(slopes, slopes)
            fitted = np.linalg.solve(joint, pooled * unit * slopes)
            for shared in (np.zeros(width), fitted):
                own = told - scaled @ shared  # what is left for the agents' own slopes
                left = OWN * START + square - 2.0 * told @ shared + shared @ scaled @ shared
                left = left - np.einsum("ad,ade,ae->a", own, inverse, own)
                price = np.linalg.slogdet(joint)[1] if shared is fitted else 0.0
                evidence = (volume - price - np.sum(outcomes * np.log(left))) / 2.0 - HURDLE * place
                if evidence > best:
                    best, state["slope"][...], state["shared"][...] = evidence, slope, shared
                    state["inverse"][agents] = inverse
                    state["theta"][agents] = np.einsum("ade,ae->ad", inverse, moment * unit)

    @property
    def can_revise(self) -> bool:
        """True: a reward can be replaced in the mean and in the model."""
        return True

    def revise(self, state: Arrays, old: Feedback, new: Feedback, *, position: float) -> None:
        """Replace a past reward of one agent, with the weight that is left of it."""
        agent = int(new.agent)
        change = float(new.reward[agent] - old.reward[agent])
        later = EVERY * (float(state["count"][agent]) // EVERY - (position - 1.0) // EVERY)
        z, _, _ = _own(state, new, agent)
        state["total"][agent] += change
        state["theta"][agent] += state["inverse"][agent] @ z * change * (KEPT**later if self.forgetting else 1.0)

    def position(self, state: Arrays, agent: int) -> float:
        """Number of the agent's outcomes."""
        return float(state["count"][agent])

    @property
    def can_withdraw(self) -> bool:
        """True, up to what was forgotten since."""
        return True

    def withdraw(self, state: Arrays, old: Feedback) -> None:
        """Remove a past reward of one agent."""
        agent, count = int(old.agent), float(state["count"][int(old.agent)])
        z, offset, _ = _own(state, old, agent)
        gain = state["inverse"][agent] @ z
        left, reward = 1.0 - float(gain @ z), float(old.reward[agent])
        if left > _LEAST_LEFT:
            state["theta"][agent] -= gain * ((reward - offset - float(state["theta"][agent] @ z)) / left)
            state["inverse"][agent] += np.multiply.outer(gain, gain / left)
        state["square"][agent] *= max(0.0, count - 1.0) / max(count, 1.0)
        state["count"][agent] = max(0.0, count - 1.0)
        state["total"][agent] = max(0.0, float(state["total"][agent]) - reward)


def usual_claim(claims: Floats) -> float:
    """The mean of the claims that are stated; NaN if there is none."""
    stated = claims[np.isfinite(claims)]
    return float(stated.mean()) if stated.size else math.nan


def _forget(theta: Any, inverse: Any) -> None:
    """Discount the outcomes behind a model; the prior stays."""
    kept, unit = KEPT**EVERY, np.eye(len(theta))
    less = np.linalg.inv(kept * unit + (1.0 - kept) * inverse)
    theta[:], inverse[:] = kept * (less @ theta), less @ inverse


def _listed(values: Any, m: int) -> Any:
    """One number per agent as a list."""
    return (values if np.shape(values) == (m,) else np.broadcast_to(values, (m,))).tolist()


def _unit(width: int) -> float:
    """The input 1, scaled by the prior precision of an agent's mean."""
    return 1.0 / math.sqrt(MEAN if width == _OWN else MEAN_BESIDE)


@lru_cache(maxsize=16)
def _waves(d: int) -> tuple[Floats, Floats]:
    """Frequencies and phases of the random cosines, the same in every router."""
    rng = np.random.default_rng(1)
    return FREQUENCY * rng.normal(size=(d, COSINES)), rng.uniform(0.0, 2.0 * math.pi, COSINES)


def _designs(width: int, x: Floats, claims: Floats | None, slope: float = 1.0) -> tuple[Floats, Floats]:
    """Inputs and offsets of rows with features ``x`` (n, d) and :attr:`KeptRows.claims`; no offset is NaN."""
    d, found, offset = x.shape[1], np.zeros((len(x), width)), np.full(len(x), math.nan)
    found[:, 0] = _unit(width)
    if claims is not None:
        own, usual = claims.T
        claim, stated = np.where(own >= 0.0, own, usual), usual >= 0.0
        sure = -np.log10(1.001 - claim) / 3.0  # .9, .99 and .999 are equally far apart
        found[:, 1:_OWN] = np.where(stated, [claim - 0.5, sure - 0.5], 0.0).T / math.sqrt(CLAIM)
        offset = np.where(own >= 0.0, own, math.nan)
    if d:
        frequency, phase = _waves(d)
        known = x.any(axis=1, keepdims=True)  # before the first fit features are zeros
        found[:, _OWN : _OWN + d] = x / math.sqrt(slope)
        found[:, _OWN + d :] = np.cos(x @ frequency + phase) * (known * math.sqrt(2.0 * CURVE / (COSINES * slope)))
    return found, offset


def _inputs(s: Arrays, x: Any, claims: Any, agents: Any) -> tuple[Any, Floats]:
    """Inputs and offsets of some agents on a task; one row for all of them where no claim is stated."""
    width, usual = s["theta"].shape[-1], math.nan if claims is None else usual_claim(claims)
    row = np.empty((1, 0)) if x is None or width == _OWN else np.asarray(x, dtype=float)[None]
    stated = None
    if not math.isnan(usual):
        own = np.nan_to_num(claims[agents], nan=-1.0)
        stated, row = np.stack([own, np.full(len(own), usual)], axis=1), np.repeat(row, len(own), axis=0)
    elif not row.size:
        return _mean_only(width)
    z, offset = _designs(width, row, stated, float(s["slope"]))
    return z.astype(np.float32), offset


@lru_cache(maxsize=16)
def _mean_only(width: int) -> tuple[Any, Floats]:
    """The inputs of a task without features and claims."""
    z, offset = _designs(width, np.empty((1, 0)), None)
    return z.astype(np.float32), offset


def _own(s: Arrays, given: Feedback, agent: int) -> tuple[Any, float, bool]:
    """Inputs and offset of one agent, and whether it stated a claim."""
    z, offset = _inputs(s, given.context, given.claims, [agent])
    stated = not math.isnan(offset[0])
    return z[0], float(offset[0]) if stated else 0.0, stated


def _predict(s: Arrays, count: list[float], common: float, given: Situation) -> tuple[list[float], list[float]]:
    """Expected rewards, and their variances for exploration relative to the noise."""
    theta, inverse = s["theta"], s["inverse"]
    z, offset = _inputs(s, given.context, given.claims, slice(None))
    k, stated = float(z[0, 0]), ~np.isnan(offset)
    if z is _mean_only(z.shape[1])[0]:
        fit, spread = theta[:, 0].tolist(), inverse[:, 0, 0].tolist()
        return [k * a + v * common for a, v in zip(fit, spread, strict=True)], [k * k * v for v in spread]
    gain = inverse @ z[0] if len(z) == 1 else np.einsum("mde,me->md", inverse, z)
    prior = np.where(stated, 0.0, common / k)
    value = np.nan_to_num(offset) + (theta * z).sum(axis=1) + gain[:, 0] * prior + gain @ s["shared"]
    own = np.where(stated, 0.0, 1.0 / (np.array(count) + 1.0 / (k * k)))
    variance = own + CALM * np.maximum((gain * z).sum(axis=1) - own, 1e-9)
    return np.minimum(np.maximum(value, _LOW), _HIGH).tolist(), variance.tolist()


def _common(count: list[float], total: list[float]) -> float:
    """The mean reward of all agents; every agent counts as one, less with few outcomes."""
    shares, earned = 0.1, 0.05
    for n, each in zip(count, total, strict=True):
        if n:
            shares += n / (n + TRIED)
            earned += each / (n + TRIED)
    return earned / shares


def _newcomers(
    seen: list[float], location: list[float], penalty: list[float], *, t: int, eligible: Sequence[int]
) -> list[int]:
    """Which agents without outcomes are tried now.

    Only those that could exceed the best estimate, and none while 2 sqrt(t) + 1 agents have been tried by round t.
    """
    new = [i for i in eligible if not seen[i]]
    if not new or len(seen) - seen.count(0.0) >= NEWCOMERS * math.sqrt(t) + 1.0:
        return []
    best = max(location[i] for i in eligible)
    return [i for i in new if 1.0 - penalty[i] > best]


def _doubt(location: list[float], variance: list[float], eligible: Sequence[int]) -> Floats | None:
    """Where the floor explores: in proportion to each agent's (normal) likelihood of being better than the leader.

    Where no rival is likely at all, it goes to the leader.
    """
    if len(location) == 1:
        return None
    best, likely = max((location[i] for i in eligible), default=0.0), [0.0] * len(location)
    for i in eligible:
        gap = best - location[i]
        near = gap > 0.0 and gap * gap < 60.0 * variance[i]
        likely[i] = SETTLED if gap <= 0.0 else math.exp(-0.5 * gap * gap / variance[i]) if near else 0.0
    total = sum(likely) or 1.0
    return np.array(likely) / total
