"""auto: the default policy, a mixture of six reward models with coupled RandUCB exploration.

Members, all with state of fixed size:

- ``flat``: mean reward per agent, shrunk towards the mean of all agents;
- ``recent``: the same over about the last hundred rounds;
- ``kinds``: mean reward per agent and kind of task, shrunk towards ``flat``;
- ``linear``: ridge regression per agent on the features;
- ``near``: kernel regression of the residuals of ``linear`` on the outcomes kept;
- ``claims``: what an agent states of itself, recalibrated per agent.

The estimate is the weighted mean of the members. A member's weight is its predictive likelihood on recent outcomes
times a prior, which is smaller for members that read features.

``kinds`` separates how hard a kind of task is for every agent (its difficulty) from how good one agent is at it: a
mixed model with an effect per kind and one per kind and agent, estimated by best linear unbiased prediction. The
difficulty moves agents with a mean reward near 0 or 1 less than the others, as on a logistic curve.

Arrays have the shape ``(B, ...)``: B routers that learn side by side in an experiment, one router in production. M is
the number of agents, K the number of kinds, d the number of features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from bot_orch.arrays import Arrays, Bools, Field, Floats, Ints, Schema
from bot_orch.errors import InvalidInputError
from bot_orch.policies.base import Choice, Feedback, KeptRows, Policy, Situation

MEMBERS = ("flat", "recent", "kinds", "linear", "near", "claims")
_FLAT, _RECENT, _KINDS, _LINEAR, _NEAR, _CLAIMS = range(len(MEMBERS))
PRIOR = np.array([0.0, -3.0, -3.0, -3.0, -3.0, 3.0])  # log weights of the members
DISCOUNT = 0.999  # of the log evidence, per outcome

POPULATION = 1.5  # pseudo-outcomes behind the prior mean of an agent: the mean of all agents
TRIED = 4.0  # outcomes after which an agent counts half in that mean
LIFETIME, RECENT = 100.0, 3.0  # rounds that ``recent`` spans, and its pseudo-outcomes
KIND, DIFFICULTY = 3.0, 1.0  # noise over variance of an agent's effect on a kind; variance of difficulty over that
RIDGE, INTERCEPT = 2.0, 1.0  # prior precisions of slopes and intercepts, relative to the noise
MIDDLE = 0.5  # prior mean of the intercepts
WIDTH, NEAR = 0.25, 2.0  # bandwidth and pseudo-outcomes of ``near``
CALM = 0.3  # exploration of slopes and neighbourhoods, relative to that of means
ROWS, KINDS = 1024, 8  # outcomes and kinds of tasks that the preparation of context keeps

KNOTS = 5  # basis functions of a claim
CLAIM_VARIANCE, CLAIM_OFFSET, CLAIM_CALM = 0.1, 0.1, 0.03
LOW, HIGH = -0.25, 1.25  # predictions are clipped: rewards lie in [0, 1]

SMALL_TEAM, TEAM_POWER = 6.0, 0.4  # agents up to which exploration is full, and how it falls beyond
NEWCOMERS = 2.0  # agents tried by round t: at most this times sqrt(t), plus one
STALE = 5e-3  # variance that an agent's mean gains per round without outcome, relative to the noise, over all agents
OWN, START_AGENTS = 5.0, 0.5  # outcomes behind the mean noise in an agent's, and agents behind the first level in that
THIN = 5.0  # outcomes up to which that counts for more than half in the choice itself
GRACE = 50.0  # rounds without outcome after which an agent is looked at again
LOOK, LOOKS = 4.0, 20.0  # pseudo-outcomes behind the prior mean of a look, and its outcomes before it ends
TRUST = 8.0  # pseudo-outcomes that an agent is expected to be worth its cost for

START = (0.15, 0.15, 0.15, 0.05)  # levels before the first outcome: noise, short, long, square
NOISE_RATE, SHORT, LONG = 0.005, 0.02, 0.001  # rates of the moving averages
LEAST_LEFT = 1e-3  # 1 - leverage up to which a lesson is taken out of ``linear``
LEAST_NOISE, ALARM, KEPT, WARM_UP = 1e-4, 4.5, 0.97, 100

_RATES, _ONES = np.array([NOISE_RATE, SHORT, LONG, LONG]), np.ones(len(START))
_DECAY = math.exp(-1.0 / LIFETIME)
_sum, _max = np.add.reduce, np.maximum.reduce  # a third of the time of np.sum and np.max
_ATOMS = ndtri(0.5 + 0.5 * (np.arange(64) + 0.5) / 64.0)  # of |Z|, Z standard normal


@dataclass(frozen=True, slots=True)
class Auto(Policy):
    """Coupled RandUCB over a mixture of reward models; the members are described at the top of the module.

    The score of an agent is its estimate, minus its penalty, plus a random multiple of its standard deviation: one
    draw per round, the same for all agents (:func:`coupled_randucb`). With more than six agents the multiple becomes
    smaller. Agents without outcomes are tried first: by round t about 2 sqrt(t) of them at most, and only where a
    reward of 1 minus the penalty would exceed the best estimate. The first outcomes of an agent are explored as if it
    cost nothing; otherwise an expensive agent would never be tried.

    Members that read features take part once :meth:`rebase` was called; the preparation of context in
    :mod:`bot_orch.core.context` does so.

    Parameters
    ----------
    scale
        Degree of optimism: the root mean square of the random multiple with up to six agents.
    forgetting
        Whether to include the member ``recent``, to forget quickly when errors rise and, for tasks without features, to
        look again at an agent that was not asked for long.

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

    def __post_init__(self) -> None:
        if not self.scale > 0.0:
            raise InvalidInputError("scale", f"is {self.scale}", "pass a positive number")

    def schema(self, n_features: int) -> Schema:
        """State arrays of all members."""
        d, one = n_features, {"per_agent": False}
        found: dict[str, Field] = {
            "count": Field(),
            "total": Field(),
            "square": Field(),
            "late_count": Field(),
            "late_total": Field(),
            "last": Field(),
            "look_count": Field(),
            "look_total": Field(),
            "claim_inverse": Field(shape=(KNOTS, KNOTS), fill=1.0, identity=True, dtype="float32"),
            "claim_theta": Field(shape=(KNOTS,), dtype="float32"),
            "evidence": Field(per_agent=False, shape=(len(MEMBERS),)),
            "levels": Field(per_agent=False, shape=(len(START),), fill=START),
            "learned": Field(per_agent=False),
        }
        if d:
            found |= {
                "kind_count": Field(shape=(KINDS,), dtype="float32"),
                "kind_total": Field(shape=(KINDS,), dtype="float32"),
                "inverse": Field(shape=(d + 1, d + 1), fill=1.0, identity=True, dtype="float32"),
                "theta": Field(shape=(d + 1,), dtype="float32"),
                "uid": Field(fill=-1.0, dtype="int64"),
                "difficulty": Field(shape=(KINDS,), **one),  # type: ignore[arg-type]
                "centers": Field(shape=(KINDS, d), **one),  # type: ignore[arg-type]
                "near_x": Field(per_agent=False, shape=(ROWS, d), dtype="float32"),
                "near_square": Field(per_agent=False, shape=(ROWS,), dtype="float32"),
                "near_rest": Field(per_agent=False, shape=(ROWS,), dtype="float32"),
                "near_owner": Field(per_agent=False, shape=(ROWS,), fill=-1.0, dtype="int32"),
                "near_round": Field(per_agent=False, shape=(ROWS,), dtype="int32"),
                "stored": Field(per_agent=False, dtype="int64"),
                "uids": Field(per_agent=False, dtype="int64"),
                "based": Field(per_agent=False),
            }
        return found

    def adopt(self, state: Arrays, learned: Arrays) -> Arrays:
        """The learned state; what was learned with other features is dropped."""
        same = all(name in learned and learned[name].shape == array.shape for name, array in state.items())
        kept = state.keys() if same else self.schema(0).keys()
        fits = {n: learned[n] for n in kept if n in learned and n in state and learned[n].shape == state[n].shape}
        return {**state, **fits}

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Propensities: each agent's probability of having the largest randomised upper confidence bound."""
        s, shape = _View(state), state["count"].shape
        given = situation
        claims = None if given.claims is None else _rows(given.claims, s)
        x = _features(s, given.context)
        both, w = _predict(s, x, claims, self.forgetting)
        mean, spread = (w[:, None, :] @ both)[:, :, 0]
        if self.forgetting and x is None:  # an agent left after a few outcomes is tried again some time
            thin = THIN / (THIN + s.count) * (s.count > 0.0)
            spread = spread + STALE / s.m * np.maximum(given.t - s.last, 0.0) * thin
        pending = 0.0 if given.pending is None else _rows(given.pending, s)
        penalty = _rows(given.penalty, s)
        trust: Any = 0.0
        if given.pending is not None:
            spread = 1.0 / (1.0 / spread + pending)
        if given.cost is not None:
            trust = _rows(given.cost, s) * (TRUST / (TRUST + s.count + pending))
            penalty = penalty - trust
        noise = _noise(s, x)
        sd = self._scale(s.m) * np.sqrt(noise * spread)
        location = mean - penalty
        eligible = None if given.eligible is None else _rows(given.eligible, s)
        p = _randucb(location, sd, eligible)
        new = _newcomers(s.count + pending, location, penalty, given.t, eligible)
        if new is not None:
            trying = new.any(axis=1, keepdims=True)
            p = np.where(trying, _randucb(location, sd, np.where(trying, new, True)), p)
        doubt = self._doubt(s, location, noise, given.t, eligible) if s.m > 1 else None
        bonus = sd + trust
        return Choice(
            p.reshape(shape), mean.reshape(shape), bonus.reshape(shape), None if doubt is None else doubt.reshape(shape)
        )

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Learn the chosen agent's outcome, or all agents' under full feedback."""
        s, f = _View(state), feedback
        x, claims = _features(s, f.context), None if f.claims is None else _rows(f.claims, s)
        agent = np.asarray(f.agent).reshape(s.b)
        if f.earned is not None:
            self._learn(s, s.numbers(agent), np.asarray(f.earned).reshape(s.b), x, claims, t=f.t)
            return
        reward = _rows(f.reward, s)
        everybody = s.m > 1 and bool(f.observed.all())
        for each in range(s.m) if everybody else (None,):
            index, s = s.numbers(agent if each is None else np.full(s.b, each)), _View(state)
            own = None if each is None else np.flatnonzero(agent == each)
            self._learn(s, index, reward[s.i, index], x, claims, t=f.t, own=own)

    def rebase(self, state: Arrays, rows: KeptRows, centers: Floats) -> None:
        """Replace the centres of the kinds, and fit the members that read features again to the kept outcomes."""
        s, x, n = _View(state), rows.features, len(rows.agent)
        s.centers[0], s.based[:] = centers, 1.0
        kind = _kinds(x, s.centers[0])
        known = rows.order
        agent, reward = rows.agent[known], rows.reward[known]
        at = (agent, kind[known])
        s.kind_count[0], s.kind_total[0] = 0.0, 0.0
        np.add.at(s.kind_count[0], at, 1.0)
        np.add.at(s.kind_total[0], at, reward)
        s.difficulty[0] = 0.0
        for _ in range(5):
            s.difficulty[:] = _difficulty(s.kind_count, s.kind_total, _flat(s)[0], _slope(s))
            _center(s)
        explained = MIDDLE + s.difficulty[0][kind[known]] * _slope(s)[0][agent]
        scaled = _design(x[known]).astype(float)
        unit = np.eye(scaled.shape[1])
        leverage = np.empty(len(known))
        s.inverse[0], s.theta[0] = unit, 0.0
        for each in np.unique(agent):
            mine = agent == each
            inverse = np.linalg.inv(unit + scaled[mine].T @ scaled[mine])
            s.inverse[0, each] = inverse
            s.theta[0, each] = inverse @ (scaled[mine].T @ (reward - explained)[mine])
            explained[mine] += scaled[mine] @ s.theta[0, each]
            leverage[mine] = _sum(scaled[mine] @ inverse * scaled[mine], axis=1)
        s.near_x[0, :n], s.near_square[0, :n] = x, _sum(x * x, axis=1)
        s.near_rest[0, known] = (reward - explained) / np.maximum(1.0 - leverage, CALM)  # leave-one-out residuals
        _assign_uids(s, np.unique(agent))
        s.near_owner[0, :n] = np.where(rows.agent >= 0, s.uid[0][rows.agent], -1)
        s.near_round[0, :n] = rows.round

    @property
    def can_revise(self) -> bool:
        """True: a reward can be replaced in the data of every member; the members' weights are not recomputed."""
        return True

    def revise(self, state: Arrays, old: Feedback, new: Feedback, *, position: float) -> None:
        """Replace a past reward of one agent in every member; in ``recent`` with the weight that is left of it."""
        agent = int(new.agent)
        change = float(new.reward[agent] - old.reward[agent])
        s = _View(state)
        s.total[0, agent] += change
        s.late_total[0, agent] += change if s.late_count[0, agent] > 0.5 else 0.0
        x = _features(s, new.context)
        if x is not None and s.based[0] > 0.0:
            s.kind_total[0, agent, _kinds(x[0], s.centers[0])] += change
            s.theta[0, agent] += s.inverse[0, agent] @ _design(x)[0] * change
            s.near_rest[0][(s.near_round[0] == new.t) & (s.near_owner[0] == s.uid[0, agent])] += change
        if new.claims is not None and np.isfinite(new.claims).any():
            s.claim_theta[0, agent] += s.claim_inverse[0, agent] @ _claim_basis(new.claims[None])[0, agent] * change

    @property
    def can_withdraw(self) -> bool:
        """True, except in ``recent`` and ``claims``: there a reward stays until it fades."""
        return True

    def withdraw(self, state: Arrays, old: Feedback) -> None:
        """Remove a past reward of one agent from the members that do not forget."""
        s, agent = _View(state), int(old.agent)
        reward = float(old.reward[agent])
        x = _features(s, old.context)
        if x is not None:
            self._withdraw_features(s, agent, reward, x, t=old.t)
        s.square[0, agent] *= max(0.0, s.count[0, agent] - 1.0) / max(s.count[0, agent], 1.0)
        s.count[0, agent] = max(0.0, s.count[0, agent] - 1.0)
        s.total[0, agent] = max(0.0, s.total[0, agent] - reward)

    def _withdraw_features(self, s: _View, agent: int, reward: float, x: Floats, *, t: int) -> None:
        own = (s.near_round[0] == t) & (s.near_owner[0] == s.uid[0, agent])
        if not own.any():
            return  # it is no longer among the outcomes that were learned again
        kind, z = _kinds(x[0], s.centers[0]), _design(x)[0]
        rest = reward - MIDDLE - s.difficulty[0][kind] * _slope(s)[0][agent]
        gain = s.inverse[0, agent] @ z
        left = 1.0 - float(gain @ z)
        if left > LEAST_LEFT:
            s.theta[0, agent] -= gain * ((rest - s.theta[0, agent] @ z) / left)
            s.inverse[0, agent] += np.outer(gain, gain) / left
        if s.based[0] > 0.0:
            s.kind_count[0, agent, kind] = max(0.0, s.kind_count[0, agent, kind] - 1.0)
            s.kind_total[0, agent, kind] = max(0.0, s.kind_total[0, agent, kind] - reward)
        s.near_owner[0][own] = -1

    def _scale(self, m: int) -> float:
        return self.scale * float(min(1.0, (SMALL_TEAM / m) ** TEAM_POWER))

    def _doubt(self, s: _View, location: Floats, noise: Floats, t: int, eligible: Bools | None) -> Floats:
        """Where the floor explores: in proportion to each agent's likelihood of being better than the leader.

        The likelihood is normal; its variance falls with the number of outcomes and grows in rounds without one.
        """
        score = location if eligible is None else np.where(eligible, location, -np.inf)
        best = _max(score, axis=1, keepdims=True)
        variance = 1.0 / np.maximum(s.count, 0.5) + STALE / s.m * np.maximum(t - s.last, 0.0)
        gap = best - location
        likely = np.exp(-0.5 * gap * gap / (noise * variance)) * (score < best) + 1e-9
        if eligible is not None:
            likely = likely * eligible
        return np.asarray(likely / _sum(likely, axis=1, keepdims=True))

    def _learn(
        self,
        s: _View,
        agent: Any,
        reward: Floats,
        x: Floats | None,
        claims: Floats | None,
        *,
        t: int,
        own: Ints | None = None,
    ) -> None:
        """Learn one outcome per router; ``near`` keeps it for the routers in ``own`` (default: all)."""
        at = (s.i, agent)
        (value, _), w = _predict(s, x, claims, self.forgetting, spread=False)
        errors = reward[:, None] - value[s.i, :, agent]
        changed = _weigh(s, at, errors, w)
        if self.forgetting:
            if x is None:
                _look_again(s, at, reward, t)
            if changed.any():
                _forget(s, changed)
        if x is not None:
            self._learn_features(s, agent, reward, x, value, t=t, own=own)
        s.count[at] += 1.0
        s.total[at] += reward
        s.late_count *= _DECAY
        s.late_total *= _DECAY
        s.late_count[at] += 1.0
        s.late_total[at] += reward
        s.last[at] = np.maximum(s.last[at], t)
        if claims is not None:
            _learn_claims(s, at, reward, claims)
        s.learned += 1.0

    def _learn_features(
        self, s: _View, agent: Any, reward: Floats, x: Floats, value: Floats, *, t: int, own: Ints | None
    ) -> None:
        at, based = (s.i, agent), s.based > 0.0
        kind, slope, base = s.kind(x), _slope(s), value[:, _FLAT]
        shift = s.difficulty[s.i, kind][:, None] * slope
        flat = base - shift
        s.kind_count[s.i, agent, kind] += based
        s.kind_total[s.i, agent, kind] += np.where(based, reward, 0.0)
        counts, totals = s.kind_count[s.i, :, kind], s.kind_total[s.i, :, kind]
        found = _difficulty(counts[..., None], totals[..., None], flat, slope)[:, 0]
        s.difficulty[s.i, kind] = np.where(based, found, 0.0)
        _center(s)
        _rank_one(s.inverse, s.theta, at, s.design(x), reward - MIDDLE - shift[at])
        _assign_uids(s, agent)
        b, mine, slot = s.i, agent, s.numbers(s.stored % ROWS)
        if own is not None:
            b, mine, slot = own, np.full(s.b, agent)[own], (s.stored % ROWS)[own]
        s.near_x[b, slot], s.near_square[b, slot] = x[b], _sum(x[b] * x[b], axis=1)
        s.near_rest[b, slot], s.near_round[b, slot] = reward[b] - value[b, _LINEAR, mine], t
        s.near_owner[b, slot] = s.uid[b, mine]
        s.stored[b] += 1


class _View:
    """Views of the state with one leading dimension, created on first use."""

    late_count: Floats
    late_total: Floats
    learned: Floats
    stored: Ints
    uids: Ints

    def __init__(self, state: Arrays) -> None:
        shape = state["count"].shape
        self._state, self.m, self.b = state, shape[-1], math.prod(shape[:-1])
        self.d = state["near_x"].shape[-1] if "near_x" in state else 0
        self.i: Any = _arange(self.b) if self.b > 1 else slice(0, 1)
        if len(shape) == 1:  # all at once takes less time than each on first use
            self.__dict__.update({name: array[None] for name, array in state.items()})

    def numbers(self, each: Any) -> Any:
        """Numbers (B,) to index with beside ``i``: an integer for one router, as a view takes less time than a copy."""
        return each if self.b > 1 else int(each[0])

    @property
    def trusted(self) -> tuple[Floats, Floats]:
        """See :func:`_trusted`; computed once per view, before anything is learned."""
        found = self.__dict__.get("_trusted")
        if found is None:
            found = self.__dict__["_trusted"] = _trusted(self)
        return found

    def kind(self, x: Floats) -> Any:
        """Kind of the task, as :meth:`numbers`; computed once, as a view is about one task."""
        found = self.__dict__.get("_kind")
        if found is None:
            found = self.__dict__["_kind"] = self.numbers(_kinds_of(x, self.centers))
        return found

    def design(self, x: Floats) -> Any:
        """See :func:`_design`; computed once per view."""
        found = self.__dict__.get("_design")
        if found is None:
            found = self.__dict__["_design"] = _design(x)
        return found

    def by_owner(self, n: int, values: Floats | None = None) -> Floats:
        """Sums by agent (B, M) of ``values`` (B, n) of the first n kept outcomes, or their number."""
        found = self.__dict__.get("_owners")
        if found is None:
            width = int(self.uids.max()) + 1
            first = _arange(self.b)[:, None] * width + 1
            found = self.__dict__["_owners"] = (self.near_owner[:, :n] + first).ravel(), self.uid + first, width
        place, mine, width = found
        total = np.bincount(place, None if values is None else values.ravel(), self.b * width)
        total[::width] = 0  # rows without owner, and agents without rows
        return np.asarray(total[mine])

    def __getattr__(self, name: str) -> Any:
        array = self._state[name]
        lead = self._state["count"].ndim - 1
        found = array[None] if lead == 0 else array.reshape(self.b, *array.shape[lead:])
        self.__dict__[name] = found
        return found


@lru_cache(maxsize=64)
def _arange(n: int) -> Ints:
    found = np.arange(n)
    found.flags.writeable = False
    return found


def _rows(values: Any, s: _View) -> Any:
    shape = s._state["count"].shape
    values = np.asarray(values)
    return (values if values.shape == shape else np.broadcast_to(values, shape)).reshape(s.b, s.m)


def _features(s: _View, context: Floats | None) -> Floats | None:
    return None if context is None or not s.d else np.asarray(context, dtype=float).reshape(s.b, s.d)


def _weights(s: _View, forgetting: bool, features: bool, stated: Bools | None) -> Floats:
    """Weights (B, members); zero for members that do not take part, such as ``claims`` without a claim."""
    score = s.evidence + PRIOR
    if not features and stated is None and forgetting:  # the usual case
        score[:, _KINDS:] = -np.inf
        w = np.exp(score - _max(score, axis=1, keepdims=True))
        return np.asarray(w / _sum(w, axis=1, keepdims=True))
    if not forgetting:
        score[:, _RECENT] = -np.inf
    if stated is None or not stated.all():
        score[:, _CLAIMS] = -np.inf if stated is None else np.where(stated, score[:, _CLAIMS], -np.inf)
    if not features:
        score[:, _KINDS : _NEAR + 1] = -np.inf
    else:
        score[:, _KINDS : _NEAR + 1] = np.where(s.based[:, None] > 0.0, score[:, _KINDS : _NEAR + 1], -np.inf)
    w = np.exp(score - _max(score, axis=1, keepdims=True))
    return np.asarray(w / _sum(w, axis=1, keepdims=True))


def _predict(
    s: _View, x: Floats | None, claims: Floats | None, forgetting: bool, *, spread: bool = True
) -> tuple[Floats, Floats]:
    """Predictions of the members, and the members' weights (B, members).

    Predictions are (2, B, members, M): the expected reward, and its variance in units of the noise. Without ``spread``
    the variances of ``linear`` and ``near`` are left out, which saves time.
    """
    stating = None if claims is None else np.asarray(np.isfinite(claims).any(axis=1))
    w = _weights(s, forgetting, x is not None, stating)
    both = np.zeros((2, s.b, len(MEMBERS), s.m))
    value, variance = both
    slope = None if x is None else _slope(s)
    flat, mean = _flat(s, slope)
    own = 1.0 / (s.trusted[0] + POPULATION)
    value[:, _FLAT], variance[:, _FLAT] = flat, own
    late = 1.0 / (s.late_count + RECENT)
    value[:, _RECENT], variance[:, _RECENT] = (s.late_total + RECENT * flat) * late, late
    if x is not None and slope is not None:
        _predict_features(s, x, flat, slope, value, variance if spread else None)
    if claims is not None:
        basis = _claim_basis(claims)
        stated = np.where(np.isfinite(claims), claims, mean[:, None])
        value[:, _CLAIMS] = _clipped(stated + _sum(s.claim_theta * basis, axis=-1))
        gain = (s.claim_inverse @ basis[..., None])[..., 0]
        variance[:, _CLAIMS] = CLAIM_CALM * np.maximum(_sum(gain * basis, axis=-1), 0.0)
    return both, w


def _predict_features(s: _View, x: Floats, flat: Floats, slope: Floats, value: Floats, variance: Floats | None) -> None:
    kind = s.kind(x)
    shift = s.difficulty[s.i, kind][:, None] * slope
    counts, totals = s.kind_count[s.i, :, kind], s.kind_total[s.i, :, kind]
    base = flat + shift
    value[:, _FLAT] = base
    value[:, _RECENT] += shift
    value[:, _KINDS] = (totals + KIND * base) / (counts + KIND)
    z = s.design(x)[:, :, None]
    value[:, _LINEAR] = _clipped(MIDDLE + shift + (s.theta @ z)[..., 0])
    weight, rest = _neighbours(s, x)
    shared = weight * NEAR / (weight + NEAR)
    found = rest / np.maximum(weight, 1e-12)
    common = _sum(shared * found, axis=1, keepdims=True) / (_sum(shared, axis=1, keepdims=True) + NEAR)
    value[:, _NEAR] = _clipped(value[:, _LINEAR] + (rest + NEAR * common) / (weight + NEAR))
    if variance is None:
        return
    own = variance[:, _FLAT]
    variance[:, _KINDS] = CALM * np.maximum(1.0 / (counts + KIND) - 1.0 / (s.count + KIND), 0.0) + own
    d = s.d + 1
    gain = (s.inverse.reshape(s.b, s.m * d, d) @ z).reshape(s.b, s.m, d)
    variance[:, _LINEAR] = CALM * np.maximum((gain @ z)[..., 0], 0.0) + own
    thin = np.maximum(1.0 / (weight + NEAR) - 1.0 / (s.count + NEAR), 0.0)
    variance[:, _NEAR] = CALM * thin + variance[:, _LINEAR]


def _design(x: Floats) -> Any:
    """Intercept and features in the units of the ridge prior."""
    found = np.empty((len(x), x.shape[1] + 1), dtype=np.float32)
    found[:, 0] = 1.0 / math.sqrt(INTERCEPT)
    np.multiply(x, 1.0 / math.sqrt(RIDGE), out=found[:, 1:], casting="same_kind")
    return found


def _clipped(value: Floats) -> Floats:
    return np.minimum(np.maximum(value, LOW), HIGH)


def _neighbours(s: _View, x: Floats) -> tuple[Floats, Floats]:
    """Sum of the kernel over each agent's kept outcomes, and of the kernel times their residuals, (B, M) each."""
    n = min(int(s.stored.max()), ROWS)
    if n == 0:
        nothing = np.zeros((s.b, s.m))
        return nothing, nothing
    x = x.astype(np.float32)
    square = s.near_square[:, :n] - 2.0 * (s.near_x[:, :n] @ x[:, :, None])[..., 0] + _sum(x * x, axis=1)[:, None]
    kernel = np.exp(np.sqrt(np.maximum(square, 0.0)) * (-1.0 / WIDTH))
    return s.by_owner(n, kernel), s.by_owner(n, kernel * s.near_rest[:, :n])


def _noise(s: _View, x: Floats | None) -> Floats:
    """Variance of each agent's rewards around their estimates, (B, M), shrunk towards the mean of the agents'.

    Every agent counts as one in that mean. Over outcomes, an agent that gets the traffic and is always right would make
    it small, and others, tried on few tasks, would seem known. With features the outcomes kept count, else all.
    """
    count, square = s.count, s.square
    if x is not None:
        n = min(int(s.stored.max()), ROWS)
        count, square = s.by_owner(n), s.by_owner(n, np.square(s.near_rest[:, :n]))
    share, own = count / (count + TRIED), square / np.maximum(count, 1.0)
    above = _sum(share * own, axis=1, keepdims=True) + START_AGENTS * START[0]
    shared = above / (_sum(share, axis=1, keepdims=True) + START_AGENTS)
    return np.asarray((square + OWN * shared) / (count + OWN))


def _flat(s: _View, slope: Floats | None = None) -> tuple[Floats, Floats]:
    """Shrunken mean reward of the agents, (B, M), and the mean of all agents, (B,), for tasks of mean difficulty."""
    count, total = s.trusted
    if s.d:
        met = (s.kind_count @ s.difficulty[:, :, None])[..., 0] / np.maximum(_sum(s.kind_count, axis=2), 1.0)
        total = total - count * met * (_slope(s) if slope is None else slope)
    share = count / (count + TRIED)
    own = total / np.maximum(count, 1.0)
    mean = (_sum(share * own, axis=1) + 0.05) / (_sum(share, axis=1) + 0.1)
    return (total + POPULATION * mean[:, None]) / (count + POPULATION), mean


def _slope(s: _View) -> Floats:
    """How far difficulty moves each agent, (B, M): the slope of a logistic curve at its mean reward."""
    count, total = s.trusted
    mean = (total + 0.5 * POPULATION) / (count + POPULATION)
    return np.minimum(np.maximum(4.0 * mean * (1.0 - mean), 0.1), 1.0)


def _difficulty(counts: Floats, totals: Floats, flat: Floats, slope: Floats) -> Floats:
    """Difficulty of the kinds, (B, K): the effect of a kind that all agents share, from counts and totals (B, M, K).

    Best linear unbiased prediction in a mixed model with an effect per kind and one per kind and agent.
    """
    weight = counts * KIND / (counts + KIND)
    rest = totals / np.maximum(counts, 1.0) - flat[..., None]
    share = weight * slope[..., None]
    above = _sum(share * rest, axis=1)
    return np.asarray(above / (_sum(share * slope[..., None], axis=1) + KIND / DIFFICULTY))


def _center(s: _View) -> None:
    """Centre the difficulties: their mean over all outcomes becomes zero.

    Only the sum of an agent's mean and the difficulty is observed. Without the constraint both drift in opposite
    directions, and agents with few outcomes, whose estimate follows the difficulty most, look bad for every kind.
    """
    share = _sum(s.kind_count, axis=1)
    mean = _sum(share * s.difficulty, axis=1) / np.maximum(_sum(share, axis=1), 1.0)
    s.difficulty[:] = np.where(share > 0.0, s.difficulty - mean[:, None], 0.0)


def _kinds(x: Floats, centers: Floats) -> Any:
    return np.argmin(_sum(centers * centers, axis=1) - 2.0 * x @ centers.T, axis=-1)


def _kinds_of(x: Floats, centers: Floats) -> Ints:
    far = _sum(centers * centers, axis=2) - 2.0 * (centers @ x[:, :, None])[..., 0]
    return np.asarray(np.argmin(far, axis=1))


def _newcomers(count: Floats, location: Floats, penalty: Floats, t: int, eligible: Bools | None) -> Bools | None:
    """Which agents without outcomes are tried now, (B, M); None if there are none.

    Only those that could exceed the best estimate, and none while 2 sqrt(t) + 1 agents have been tried by round t.
    """
    tried = count > 0.0
    if tried.all():
        return None
    best = _max(location if eligible is None else np.where(eligible, location, -np.inf), axis=1, keepdims=True)
    new = ~tried & (1.0 - penalty > best)
    new &= _sum(tried, axis=1, keepdims=True) < NEWCOMERS * math.sqrt(t) + 1.0
    return new if eligible is None else new & eligible


def _randucb(location: Floats, sd: Floats, eligible: Bools | None) -> Floats:
    score = location[:, None, :] + _ATOMS[:, None] * sd[:, None, :]
    if eligible is not None:
        score = np.where(eligible[:, None, :], score, -np.inf)
    top = score >= _max(score, axis=2, keepdims=True)
    return np.asarray(_sum(top / _sum(top, axis=2, keepdims=True, dtype=float), axis=1) / len(_ATOMS))


def coupled_randucb(location: Floats, sd: Floats, eligible: Bools | None = None) -> Floats:
    """Coupled RandUCB [1]_: P(agent i has the largest ``location + |Z| * sd``), the same Z for all agents.

    |Z| takes one of 64 values with equal probability, those of a standard normal's quantiles.

    References
    ----------
    .. [1] Vaswani, Mehrabian, Durand, Kveton. Old dog learns new tricks: randomized UCB for bandit problems.
       AISTATS 2020.

    Examples
    --------
    >>> coupled_randucb(np.array([0.5, 0.4, 0.3]), np.array([0.1, 0.2, 0.1])).round(3)
    array([0.688, 0.312, 0.   ])
    """
    shape = np.broadcast_shapes(location.shape, sd.shape)
    height, rise = (np.broadcast_to(each, shape).reshape(-1, shape[-1]) for each in (location, sd))
    mask = None if eligible is None else np.broadcast_to(eligible, shape).reshape(-1, shape[-1])
    return _randucb(height, rise, mask).reshape(shape)


def _weigh(s: _View, at: tuple[Any, Any], errors: Floats, w: Floats) -> Bools:
    """Update noise levels, members' evidence and moving averages of squared errors.

    Returns in which routers (B,) a change was detected: the short average is far above the long one.
    """
    mixed = _sum(w * errors, axis=1)
    square = mixed * mixed
    s.square[at] += square
    levels, rate = s.levels, 1.0 / (s.learned[:, None] + 10.0)
    seen = square[:, None] * _ONES
    seen[:, 3] *= square
    levels += np.maximum(rate, _RATES) * (seen - levels)
    np.maximum(levels[:, 0], LEAST_NOISE, out=levels[:, 0])
    fresh = DISCOUNT * s.evidence - errors * errors / (2.0 * levels[:, :1])
    fresh = np.where(w > 0.0, fresh, fresh[:, :1])  # a member that took no part keeps up with ``flat``
    s.evidence[:] = fresh - _max(fresh, axis=1, keepdims=True)
    rising: Bools = levels[:, 1] > levels[:, 2]
    if not np.count_nonzero(rising):
        return rising
    spread = np.sqrt(np.maximum(levels[:, 3] - levels[:, 2] ** 2, 1e-6) * (SHORT / 2.0))
    return np.asarray((s.learned > WARM_UP) & (levels[:, 1] > levels[:, 2] + ALARM * spread))


def _look_again(s: _View, at: tuple[Any, Any], reward: Floats, t: int) -> None:
    """Count the outcomes of an agent that was not asked for long separately: a look at what it earns today.

    After 20 outcomes the look ends. If the agent was clearly better than before, they replace its earlier outcomes.
    """
    stale = (t - s.last[at] > GRACE) & (s.count[at] > 0.0)
    looked = np.where(stale, 0.0, s.look_count[at])
    active = stale | (looked > 0.0)
    if not active.any():
        return
    s.look_total[at] = np.where(active, np.where(stale, 0.0, s.look_total[at]) + reward, 0.0)
    s.look_count[at] = np.where(active, looked + 1.0, 0.0)
    for b in np.flatnonzero(s.look_count[at] >= LOOKS):
        one = at if s.b == 1 else (at[0][b : b + 1], at[1][b : b + 1])
        mean, found = s.total[one] / s.count[one], s.look_total[one] / LOOKS
        if s.count[one] > LOOKS and found > mean + 2.0 * np.sqrt(s.levels[b, 0] / LOOKS):
            _discount(s, one, LOOKS / s.count[one])
            s.total[one] = s.look_total[one]
        s.look_count[one], s.look_total[one] = 0.0, 0.0


def _trusted(s: _View) -> tuple[Floats, Floats]:
    """Count and total of the agents' outcomes, (B, M) each; during a look those of the look, if it does better."""
    if not np.count_nonzero(s.look_count):
        return s.count, s.total
    mean = s.total / np.maximum(s.count, 1.0)
    count = LOOK + s.look_count
    total = LOOK * mean + s.look_total
    better = (s.look_count > 0.0) & (count < s.count) & (total > mean * count)
    return np.where(better, count, s.count), np.where(better, total, s.total)


def _forget(s: _View, changed: Bools) -> None:
    """Discount the outcomes behind every member in the routers where a change was detected."""
    for b in np.flatnonzero(changed):
        everybody = (np.full(s.m, b), np.arange(s.m))
        _discount(s, everybody, np.full(s.m, KEPT))
        for inverse in (s.claim_inverse, s.inverse) if s.d else (s.claim_inverse,):
            most = np.max(np.diagonal(inverse[b], axis1=1, axis2=2), axis=1)
            inverse[b] *= np.clip(1.0 / most, 1.0, 1.0 / KEPT)[:, None, None]


def _discount(s: _View, at: tuple[Ints, Ints], keep: Floats) -> None:
    s.count[at] *= keep
    s.total[at] *= keep
    s.square[at] *= keep
    if s.d:
        s.kind_count[at] *= keep[:, None]
        s.kind_total[at] *= keep[:, None]


def _assign_uids(s: _View, agent: Any) -> None:
    """Give agents without an id the next one: an agent's index changes when others are removed, its id does not."""
    if s.b == 1:
        for each in np.ravel(agent):
            if s.uid[0, each] < 0:
                s.uid[0, each] = s.uids[0]
                s.uids[0] += 1
        return
    new = s.uid[s.i, agent] < 0
    s.uid[s.i, agent] = np.where(new, s.uids, s.uid[s.i, agent])
    s.uids += new


def _rank_one(inverse: Floats, theta: Floats, at: tuple[Any, Any], z: Floats, target: Floats) -> None:
    """Add one outcome per router to a ridge regression, by the Sherman-Morrison formula."""
    own = inverse[at].astype(float)
    gain = (own @ z[:, :, None])[..., 0]
    total = 1.0 + _sum(gain * z, axis=1)
    error = target - _sum(theta[at] * z, axis=1)
    theta[at] += gain * (error / total)[:, None]
    inverse[at] = own - gain[:, :, None] * (gain / total[:, None])[:, None, :]


def _claim_basis(claims: Floats) -> Floats:
    """Basis functions of claims, (B, M, 5), scaled by the prior; the mean of the others' where an agent states none."""
    stated = np.isfinite(claims)
    usual = _sum(np.where(stated, claims, 0.0), axis=1) / np.maximum(_sum(stated, axis=1), 1)
    c = np.where(stated, claims, usual[:, None])
    sure = -np.log10(1.001 - c) / 3.0  # .9, .99 and .999 are equally far apart
    spread = math.sqrt(CLAIM_VARIANCE)
    bends = (1.5 * spread * np.maximum(sure - 0.33, 0.0), 3.0 * spread * np.maximum(sure - 0.66, 0.0))
    offset = np.full(c.shape, math.sqrt(CLAIM_OFFSET))
    return np.stack([offset, (c - 0.5) * spread, (sure - 0.5) * spread, *bends], axis=-1)


def _learn_claims(s: _View, at: tuple[Any, Any], reward: Floats, claims: Floats) -> None:
    stated = np.flatnonzero(np.isfinite(claims).any(axis=1))
    if not stated.size:
        return
    own, mean = claims[at], _flat(s)[1]
    prior = np.where(np.isfinite(own), own, mean)
    there, basis = at if s.b == 1 else (at[0][stated], at[1][stated]), _claim_basis(claims)[at]
    _rank_one(s.claim_inverse, s.claim_theta, there, basis[stated], (reward - prior)[stated])
