"""auto: the default policy, one Bayesian linear model per agent with coupled RandUCB exploration.

The expected reward of agent i on a task is ``z @ theta_i``. The inputs z are

- 1, for the agent's mean: a priori that of all agents;
- what the agent states of itself, its claim, taken at face value a priori, and the claim on a logarithmic scale;
- the task's features, prepared by :mod:`bot_orch.core.context`: a priori they say nothing;
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
SLOPES, HURDLE = (1.0, 4.0, 16.0), 0.0  # prior precisions of slopes to choose from
CURVE = 0.04  # prior variance of what cosines add, relative to that of slopes
COSINES, FREQUENCY = 16, 2.0  # random cosines, and the standard deviation of their frequencies
CLAIM = 2.0  # prior precision of how a claim is recalibrated
TRIED = 4.0  # outcomes after which an agent counts half in the mean of all agents
START, OWN = 0.15, 5.0  # noise before the first outcome, and how many outcomes it counts for
KEPT, EVERY = 0.998, 16  # share of an agent's outcomes that is left after its next one; outcomes between discounts
WALK, DRIFT = 5e-3, 1e-3  # variance that a mean gains per round without outcome, times the number of agents
CALM = 0.3  # exploration of slopes and claims, relative to that of means
SMALL_TEAM, TEAM_POWER = 6.0, 0.4  # agents up to which exploration is full, and how it falls beyond
NEWCOMERS = 2.0  # agents tried by round t: at most this times sqrt(t), plus one
TRUST = 8.0  # pseudo-outcomes that an agent is expected to be worth its cost for

_OWN = 3  # inputs before the features: 1, the claim, the claim on a logarithmic scale
_LOW, _HIGH = -0.25, 1.25  # predictions are clipped: rewards lie in [0, 1]
_LEAST_LEFT = 1e-3  # 1 - leverage up to which a lesson can be taken out
import os, json
X = json.loads(os.environ.get("AUTO_X", "{}"))


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

        ``theta`` is the mean under a prior mean of zero; the prior mean is added when it is read, as the mean of all
        agents changes.
        """
        width = _OWN + (n_features + COSINES if n_features else 0)
        return {
            "count": Field(),
            "total": Field(),
            "square": Field(),
            "last": Field(),
            "slope": Field(per_agent=False, fill=SLOPES[0]),
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
        m = len(state["count"])
        count, last = state["count"].tolist(), state["last"].tolist()
        common, noise = _shared(count, state["total"].tolist(), state["square"].tolist())
        mean, variance = _predict(state, common, given.context, given.claims)
        penalty, pending, cost = (_listed(each, m) for each in (given.penalty, given.pending, given.cost))
        pending = pending if pending is not None and any(pending) else None
        eligible = range(m) if given.eligible is None else np.flatnonzero(given.eligible).tolist()
        scale = self.scale * min(1.0, (SMALL_TEAM / m) ** TEAM_POWER)
        walk = WALK / m if self.forgetting else 0.0
        location, sd, bonus = [0.0] * m, [0.0] * m, [0.0] * m
        for i in range(m):
            n, spread = count[i], variance[i]
            if n and walk and given.context is None:  # an agent left after a few outcomes is tried again some time
                spread += walk * max(given.t - last[i], 0.0) * OWN / (OWN + n)
            if pending is not None and pending[i]:
                spread = 1.0 / (1.0 / spread + pending[i])
                n += pending[i]
            trust = 0.0
            if cost is not None:
                trust = cost[i] * TRUST / (TRUST + n)
                penalty[i] -= trust
            location[i] = mean[i] - penalty[i]
            sd[i] = scale * math.sqrt(noise[i] * spread)
            bonus[i] = sd[i] + trust
        among = _newcomers(count, pending, location, penalty=penalty, t=given.t, eligible=eligible) or eligible
        if X.get("doubt"):
            doubt = _doubt2(variance, last, location, noise=noise, walk=WALK / m, t=given.t, eligible=eligible)
        else:
            doubt = _doubt(count, last, location, noise=noise, walk=WALK / m, t=given.t, eligible=eligible)
        p = upper_envelope(location, sd, among)
        return Choice(np.array(p), np.array(mean), np.array(bonus), doubt)

    def learn_one(self, s: Arrays, agent: int, reward: float, given: Feedback) -> None:
        """Learn an outcome of one agent: Bayes' rule for one more row."""
        theta, inverse = s["theta"][agent], s["inverse"][agent]
        count = float(s["count"][agent])
        common, _ = _shared(s["count"].tolist(), s["total"].tolist(), None)
        z, prior = _inputs(s, given.context, given.claims, agent, common)
        if self.forgetting and count:
            self._walk(s, agent, given.t, prior=float(prior[0]))
        gain = inverse @ z
        leverage, fit = float(gain @ z), float(theta @ z)
        predicted = fit + float(gain @ prior)
        error = reward - min(max(predicted, _LOW), _HIGH)
        s["square"][agent] += error * error / (1.0 + leverage)
        theta += gain * ((reward - fit) / (1.0 + leverage))
        inverse -= np.multiply.outer(gain, gain * (1.0 / (1.0 + leverage)))
        s["count"][agent] = count + 1.0
        s["total"][agent] += reward
        s["last"][agent] = max(float(s["last"][agent]), given.t)
        if self.forgetting and not (count + 1.0) % EVERY:
            _forget(theta, inverse)

    def _walk(self, s: Arrays, agent: int, t: int, *, prior: float) -> None:
        """Add to the variance of an agent's mean what the rounds since its last outcome have added; keep the mean."""
        variance = float(s["inverse"][agent, 0, 0])
        k = _unit(s["theta"].shape[-1])
        more = min(DRIFT / len(s["count"]) * max(t - float(s["last"][agent]) - 1.0, 0.0) / (k * k), 1.0 - variance)
        if more > 0.0:
            s["inverse"][agent, 0, 0] += more
            s["theta"][agent, 0] -= prior * more

    def rebase(self, state: Arrays, rows: KeptRows) -> None:
        """Fit the models again to the kept outcomes, under features with a new meaning."""
        width, known = state["theta"].shape[-1], rows.order
        agent, reward = rows.agent[known], rows.reward[known]
        common, _ = _shared(state["count"].tolist(), state["total"].tolist(), None)
        z = _designs(width, rows.features[known], None if rows.claims is None else rows.claims[known], 1.0)
        rest = reward - common
        agents = np.unique(agent)
        gram, moment, about, size, squares = [], [], [], [], []
        for each in agents.tolist():
            mine = np.flatnonzero(agent == each)[::-1]  # newest first
            weight = KEPT ** (np.arange(len(mine)) * self.forgetting)
            own = z[mine] * weight[:, None]
            gram.append(own.T @ z[mine])
            moment.append(own.T @ reward[mine])
            about.append(own.T @ rest[mine])
            size.append(weight.sum())
            squares.append(weight @ rest[mine] ** 2)
        grams, moments, abouts = np.array(gram), np.array(moment), np.array(about)
        best = -math.inf
        n = np.array(size)
        for place, slope in enumerate(SLOPES):
            scale = np.ones(width)
            scale[_OWN:] = 1.0 / math.sqrt(slope)
            inverse = np.linalg.inv(np.eye(width) + grams * np.multiply.outer(scale, scale))
            sign, det = np.linalg.slogdet(inverse)
            left = np.array(squares) - np.einsum("ad,ade,ae->a", abouts * scale, inverse, abouts * scale)
            evidence = float(np.sum(det / 2.0 - (n + OWN) / 2.0 * np.log((OWN * START + left) / 2.0)) ) - HURDLE * place
            if X.get("loo"):
                _, noise = _shared(state["count"].tolist(), state["total"].tolist(), state["square"].tolist())
                evidence = -HURDLE * place
                for j, each in enumerate(agents.tolist()):
                    mine = np.flatnonzero(agent == each)[::-1]
                    weight = KEPT ** (np.arange(len(mine)) * self.forgetting)
                    own = z[mine] * scale
                    gains = own @ inverse[j]
                    theta = inverse[j] @ (moments[j]*scale)
                    lft = np.maximum(1.0 - weight * (gains * own).sum(axis=1), _LEAST_LEFT)
                    err = (reward[mine] - own @ theta - gains[:, 0] * common / _unit(width)) / lft
                    if X["loo"] == 2:
                        v = noise[each] / lft
                        evidence += float(np.sum(weight * (-np.log(v) - np.minimum(err * err / v, 9.0)))) / 2.0
                    else:
                        evidence += float(np.sum(weight * (np.log(lft) - err * err * lft / noise[each]))) / 2.0
            if evidence > best:
                best, state["slope"][...] = evidence, slope
                state["inverse"][agents] = inverse
                state["theta"][agents] = (inverse @ (moments * scale)[:, :, None])[:, :, 0]

    @property
    def can_revise(self) -> bool:
        """True: a reward can be replaced in the mean and in the model."""
        return True

    def revise(self, state: Arrays, old: Feedback, new: Feedback, *, position: float) -> None:
        """Replace a past reward of one agent, with the weight that is left of it."""
        agent = int(new.agent)
        change = float(new.reward[agent] - old.reward[agent])
        later = EVERY * (float(state["count"][agent]) // EVERY - position // EVERY)
        z, _ = _inputs(state, new.context, new.claims, agent, 0.0)
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
        z, _ = _inputs(state, old.context, old.claims, agent, 0.0)
        gain = state["inverse"][agent] @ z
        left, reward = 1.0 - float(gain @ z), float(old.reward[agent])
        if left > _LEAST_LEFT:
            state["theta"][agent] -= gain * ((reward - float(state["theta"][agent] @ z)) / left)
            state["inverse"][agent] += np.multiply.outer(gain, gain / left)
        state["square"][agent] *= max(0.0, count - 1.0) / max(count, 1.0)
        state["count"][agent] = max(0.0, count - 1.0)
        state["total"][agent] = max(0.0, float(state["total"][agent]) - reward)


def _forget(theta: Any, inverse: Any) -> None:
    """Discount the outcomes behind a model; the prior stays."""
    kept = KEPT**EVERY
    shrunk = np.linalg.inv(kept * np.eye(len(theta)) + (1.0 - kept) * inverse.astype(float))
    theta[:] = kept * (shrunk @ theta)
    inverse[:] = shrunk @ inverse
    inverse[:] = (inverse + inverse.T) / 2.0


def _listed(values: Any, m: int) -> Any:
    """One number per agent as a list; None stays None."""
    return values if values is None else (values if np.shape(values) == (m,) else np.broadcast_to(values, (m,))).tolist()


def _unit(width: int) -> float:
    """The input 1, scaled by the prior precision of an agent's mean."""
    return 1.0 / math.sqrt(MEAN if width == _OWN else MEAN_BESIDE)


@lru_cache(maxsize=16)
def _waves(d: int) -> tuple[Floats, Floats]:
    """Frequencies and phases of the random cosines, the same in every router."""
    rng = np.random.default_rng(1)
    return FREQUENCY * rng.normal(size=(d, COSINES)), rng.uniform(0.0, 2.0 * math.pi, COSINES)


def _designs(width: int, x: Floats, claims: Floats | None, slope: float) -> Floats:
    """Inputs of rows with features ``x`` (n, d) and claims (n, 2) as in :class:`~bot_orch.policies.base.KeptRows`."""
    found = np.zeros((len(x), width))
    found[:, 0] = _unit(width)
    if claims is not None:
        for row in np.flatnonzero(claims[:, 1] >= 0.0):
            found[row, 1:_OWN] = _claimed(*claims[row].tolist())
    d = x.shape[1]
    found[:, _OWN : _OWN + d] = x / math.sqrt(slope)
    frequency, phase = _waves(d)
    cosines = np.cos(x @ frequency + phase) * math.sqrt(2.0 * CURVE / (COSINES * slope))
    found[:, _OWN + d :] = np.where(
        np.any(x, axis=1, keepdims=True), cosines, 0.0
    )  # before the first fit features are zeros
    return found


def _claimed(own: float, usual: float) -> tuple[float, float]:
    """The inputs of a claim; the mean of all claims stands in for one that an agent does not state."""
    claim = own if own >= 0.0 else usual
    sure = -math.log10(1.001 - claim) / 3.0  # .9, .99 and .999 are equally far apart
    k = 1.0 / math.sqrt(CLAIM)
    return (claim - 0.5) * k, (sure - 0.5) * k


def usual_claim(claims: Floats) -> float:
    """The mean of the claims that are stated; NaN if there is none."""
    stated = claims[np.isfinite(claims)]
    return float(stated.mean()) if stated.size else math.nan


def _inputs(s: Arrays, x: Any, claims: Any, agent: int, common: float) -> tuple[Any, Any]:
    """The inputs of one agent, and the prior mean of its coefficients."""
    width = s["theta"].shape[-1]
    z, prior, k = np.zeros(width, dtype=np.float32), np.zeros(width, dtype=np.float32), _unit(width)
    if x is not None and width > _OWN:
        z[:] = _designs(width, np.asarray(x, dtype=float)[None], None, float(s["slope"]))[0]
    z[0], prior[0] = k, common / k
    usual = math.nan if claims is None else usual_claim(claims)
    if not math.isnan(usual):
        own = float(claims[agent])
        z[1:_OWN] = _claimed(own, usual)
        if not math.isnan(own):  # the sum of both is the claim itself
            prior[0], prior[1] = 0.5 / k, math.sqrt(CLAIM)
    return z, prior


def _predict(s: Arrays, common: float, x: Any, claims: Any) -> tuple[list[float], list[float]]:
    """Expected rewards, and their variances for exploration relative to the noise."""
    theta, inverse = s["theta"], s["inverse"]
    m, width = theta.shape
    k = _unit(width)
    usual = math.nan if claims is None else usual_claim(claims)
    if math.isnan(usual) and (x is None or width == _OWN):  # no input but 1
        fit, variance = theta[:, 0].tolist(), inverse[:, 0, 0].tolist()
        return [k * a + v * common for a, v in zip(fit, variance, strict=True)], [k * k * v for v in variance]
    count = s["count"].tolist()
    if math.isnan(usual):
        z, _ = _inputs(s, x, None, 0, 0.0)
        gain = inverse @ z
        fit, spread, first = (theta @ z).tolist(), (gain @ z).tolist(), gain[:, 0].tolist()
        values = [fit[i] + first[i] * common / k for i in range(m)]
        stated = [False] * m
    else:
        pairs = [_inputs(s, x, claims, i, common) for i in range(m)]
        every = np.array([z for z, _ in pairs])
        gain = (inverse @ every[:, :, None])[:, :, 0]
        fit, spread = np.einsum("md,md->m", theta, every).tolist(), np.einsum("md,md->m", gain, every).tolist()
        values = [fit[i] + float(gain[i, :2] @ pairs[i][1][:2]) for i in range(m)]
        stated = np.isfinite(claims).tolist()
    own = [0.0 if stated[i] else 1.0 / (count[i] + 1.0 / (k * k)) for i in range(m)]
    variance = [own[i] + CALM * max(spread[i] - own[i], 1e-9) for i in range(m)]
    return [min(max(each, _LOW), _HIGH) for each in values], variance


def _shared(count: list[float], total: list[float], square: list[float] | None) -> tuple[float, list[float]]:
    """The mean reward of all agents, and each agent's noise, shrunk towards a fixed start.

    Every agent counts as one in the mean, less with few outcomes.
    """
    shares, reward = 0.0, 0.0
    for i, n in enumerate(count):
        if n:
            shares += n / (n + TRIED)
            reward += total[i] / (n + TRIED)
    common = (reward + 0.05) / (shares + 0.1)
    if square is None:
        return common, []
    if X.get("noise"):
        return common, [(each + OWN * START) / (n + OWN) for each, n in zip(square, count, strict=True)]
    noise = sum(square[i] / (n + TRIED) for i, n in enumerate(count))
    level = OWN * (noise + 0.5 * START) / (shares + 0.5)
    return common, [(each + level) / (n + OWN) for each, n in zip(square, count, strict=True)]


def _newcomers(
    count: list[float],
    pending: list[float] | None,
    location: list[float],
    *,
    penalty: list[float],
    t: int,
    eligible: Sequence[int],
) -> list[int]:
    """Which agents without outcomes are tried now.

    Only those that could exceed the best estimate, and none while 2 sqrt(t) + 1 agents have been tried by round t.
    """
    seen = count if pending is None else [n + more for n, more in zip(count, pending, strict=True)]
    tried = sum(each > 0.0 for each in seen)
    if tried == len(seen) or tried >= NEWCOMERS * math.sqrt(t) + 1.0 or not eligible:
        return []
    best = max(location[i] for i in eligible)
    return [i for i in eligible if not seen[i] and 1.0 - penalty[i] > best]


def _doubt2(
    variance: list[float],
    last: list[float],
    location: list[float],
    *,
    noise: list[float],
    walk: float,
    t: int,
    eligible: Sequence[int],
) -> Floats | None:
    if len(variance) == 1:
        return None
    best, far = max((location[i] for i in eligible), default=0.0), {}
    for i in eligible:
        gap = best - location[i]
        if gap > 0.0:
            far[i] = 0.5 * gap * gap / (noise[i] * (variance[i] / X.get("calm", 1.0) + walk * max(t - last[i], 0.0)))
    likely = [0.0] * len(variance)
    if not far:
        for i in eligible: likely[i] = 1.0 / len(eligible)
        return np.array(likely)
    nearest = min(far.values())
    for i, each in far.items():
        likely[i] = math.exp(nearest - each)
    total = sum(likely)
    return np.array([each / total for each in likely])


def _doubt(
    count: list[float],
    last: list[float],
    location: list[float],
    *,
    noise: list[float],
    walk: float,
    t: int,
    eligible: Sequence[int],
) -> Floats | None:
    """Where the floor explores: in proportion to each agent's likelihood of being better than the leader.

    The likelihood is normal; its variance falls with the number of outcomes and grows in rounds without one.
    """
    if len(count) == 1:
        return None
    best, likely = max((location[i] for i in eligible), default=0.0), [0.0] * len(count)
    for i in eligible:
        gap = best - location[i]
        likely[i] = 1e-9
        if gap > 0.0:
            far = 0.5 * gap * gap / (noise[i] * (1.0 / max(count[i], 0.5) + walk * max(t - last[i], 0.0)))
            if far < 30.0:
                likely[i] += math.exp(-far)
    total = sum(likely) or 1.0
    return np.array([each / total for each in likely])
