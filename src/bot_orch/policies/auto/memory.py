"""Online Gaussian-process regression with bounded memory: predicts every agent's reward on a new task.

Rewards are modelled as mean + g(x) + h_i(x): a task effect common to all agents, and the effect of agent i. Both are
Gaussian processes whose covariance decreases with the distance between tasks and, in a drifting prior, with the time
between them. g cancels in the choice but removes the difficulty of tasks from the noise.

The coefficients of the prediction solve a linear system that grows with every outcome. It is solved incrementally by
block coordinate descent: each outcome triggers one exact step for a small block of coefficients, its own and a few old
ones in rotation, so that the cost per round is bounded by the capacity. When the memory is full, old outcomes are
merged; a sliding window would lose the data of agents that are no longer chosen.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import reduce

import numpy as np

from bot_orch.arrays import Arrays, Field, Floats, Ints, Schema
from bot_orch.policies.auto.merging import merge_oldest, squared_distances

__all__ = ["GaussianProcessMemory", "GaussianProcessPrior", "Prediction"]

_LEAST_NOISE, _NOISE_RATE, _EARLY, _UNDER_DRIFT = 1e-4, 0.005, 200.0, 0.4


@dataclass(frozen=True, slots=True)
class GaussianProcessPrior:
    """Prior variances of the components of a reward, relative to the noise variance.

    Parameters
    ----------
    agent, agent_drift
        Agent effects common to all tasks: permanent and temporary.
    task, drift
        Task effects common to all agents: by features and by time.
    agent_task, agent_task_drift
        Interaction of agent and task features: permanent and temporary.
    apart
        Whether every feature is scaled by its own standard deviation. Otherwise all share one scale, so
        that features with more variance have more influence, as with principal components.
    """

    agent: float
    task: float
    agent_task: float
    _: KW_ONLY
    agent_drift: float = 0.0
    drift: float = 0.0
    agent_task_drift: float = 0.0
    apart: bool = False

    @property
    def drifts(self) -> bool:
        """Whether any component is temporary."""
        return self.agent_drift + self.drift + self.agent_task_drift > 0.0


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted rewards on a task, ``batch + (M,)``.

    ``variance`` is relative to the noise variance. ``unknown`` is the weight of the prior in an agent's estimate,
    counting its outcomes on all tasks; 1 for an agent without outcomes.
    """

    value: Floats
    variance: Floats
    unknown: Floats


@dataclass(frozen=True, slots=True)
class GaussianProcessMemory:
    """Model average over several priors on one memory, weighted by predictive performance.

    Parameters
    ----------
    priors
        Priors of the averaged models.
    reach
        Length scale: distance, in standard deviations of the features, at which the covariance has fallen to 1/e.
    lifetime
        Time scale of drifting priors: rounds after which the covariance has fallen to 1/e.
    capacity
        Rows of the memory, one per outcome until it is full. Then similar old outcomes of an agent share a row; while a
        drifting prior predicts better, the oldest row is dropped instead.
    block
        Coefficients updated per outcome.
    evidence_memory
        Discount factor per round of the log evidence of a prior.
    """

    priors: tuple[GaussianProcessPrior, ...]
    reach: float = 1.0
    lifetime: float = 100.0
    _: KW_ONLY
    capacity: int = 2048
    block: int = 16
    evidence_memory: float = 0.995

    def schema(self, n_features: int) -> Schema:
        """State arrays; all but ``uid`` are shared by the agents."""
        n, e = self.capacity, len(self.priors)
        return {
            "uid": Field(fill=-1.0, dtype="int64"),  # agent ids that stay valid when agents are added or removed
            "n_uids": Field(per_agent=False, dtype="int64"),
            "seen": Field(per_agent=False, dtype="int64"),
            "cursor": Field(per_agent=False, dtype="int64"),
            "x": Field(per_agent=False, shape=(n, n_features)),
            "x_mean": Field(per_agent=False, shape=(n_features,)),
            "x_square": Field(per_agent=False, shape=(n_features,)),
            "owner": Field(per_agent=False, shape=(n,), fill=-1.0, dtype="int64"),
            "round": Field(per_agent=False, shape=(n,)),
            "reward": Field(per_agent=False, shape=(n,)),
            "weight": Field(per_agent=False, shape=(n,), fill=1.0),  # number of outcomes merged into a row
            "alpha": Field(per_agent=False, shape=(n, e)),
            "evidence": Field(per_agent=False, shape=(e,)),
            "mean": Field(per_agent=False, fill=0.5),
            "noise": Field(per_agent=False, fill=0.15),
        }

    def weights(self, state: Arrays) -> Floats:
        """Posterior probabilities of the priors, ``batch + (E,)``."""
        w = np.exp(state["evidence"])
        normal: Floats = w / np.add.reduce(w, axis=-1, keepdims=True)
        return normal

    def predict(self, state: Arrays, context: Floats | None, t: int, *, pending: Floats | None = None) -> Prediction:
        """Every agent's reward on a task, averaged over the priors; ``pending`` decisions reduce the variance."""
        flat, batch = _flatten(state)
        n, m = min(int(flat["seen"][0]), self.capacity), flat["uid"].shape[-1]
        weights, parts = self.weights(flat), self._parts(context is not None)
        own = np.add.reduce(weights * np.add.reduce(parts[:, :4], axis=-1), axis=-1)[:, None]
        value = np.repeat(flat["mean"][:, None], m, axis=1)
        information = np.zeros_like(value) if pending is None else np.array(pending, dtype=float).reshape(-1, m)
        times = information.copy()
        if n:
            query = None if context is None else context.reshape(len(own), 1, -1)
            nears, recent = self._likeness(flat, n, query, when=np.array([float(t)]))
            recent, place, kernel = recent[:, 0], _places(flat, n), np.zeros((len(own), n))
            for e, prior in enumerate(self.priors):
                near, part, share = nears[prior.apart][:, 0], parts[e], weights[:, e, None]
                alpha, ours = flat["alpha"][:, :n, e] * share, _own(part, near, recent)
                value += _sum_by(place, alpha * ours, m)
                value += np.add.reduce(alpha * _common(part, near, recent), axis=-1)[:, None]
                kernel += share * ours
            weight = flat["weight"][:, :n]
            information += _sum_by(place, weight * (kernel / own) ** 2, m)
            times += _sum_by(place, weight, m)
        variance = 1.0 / (1.0 / own + information)
        shape = (*batch, m)
        return Prediction(value.reshape(shape), variance.reshape(shape), 1.0 / (1.0 + own * times).reshape(shape))

    def learn(self, state: Arrays, agent: Ints, reward: Floats, *, context: Floats | None, t: int) -> None:
        """Learn one outcome per batch element; updates ``state`` in place."""
        flat, _ = _flatten(state)
        seen = int(flat["seen"][0])
        place, n = seen % self.capacity, min(seen + 1, self.capacity)
        reward = reward.reshape(-1)
        if seen >= self.capacity:
            self._make_room(flat, place, context is not None)
        _store(flat, place, agent.reshape(-1), reward=reward, context=context, t=t)
        turn = _turn(flat, place, n, block=self.block)
        fitted, gram = self._fit(flat, n, turn, context=context)
        self._weigh(flat, fitted[:, 0], reward, seen=seen)
        flat["mean"] += (reward - flat["mean"]) / (seen + 3.0)
        goal = flat["reward"][:, turn] - flat["mean"][:, None]
        rest = goal[:, :, None] - fitted - flat["alpha"][:, turn] / flat["weight"][:, turn, None]
        step = np.linalg.solve(gram, rest.swapaxes(1, 2)[..., None])[..., 0]
        flat["alpha"][:, turn] += step.swapaxes(1, 2)
        flat["seen"] += 1

    def _parts(self, contextual: bool) -> Floats:
        """Variances (E, 6): agent, agent drift, agent task, agent task drift, drift, task."""
        x = float(contextual)
        rows = [
            (p.agent, p.agent_drift, x * p.agent_task, x * p.agent_task_drift, p.drift, x * p.task) for p in self.priors
        ]
        return np.array(rows)

    def _likeness(
        self, flat: Arrays, n: int, query: Floats | None, *, when: Floats
    ) -> tuple[dict[bool, Floats], Floats]:
        """Kernels between the queries (B, J, d) and the memory: by features, (B, J, n), and by time, (1, J, n).

        The feature kernel has one entry per scaling that the priors use: common or per feature. All rows of a batch
        share the same rounds.
        """
        recent = np.exp(-np.abs(when[:, None] - flat["round"][:1, None, :n]) / self.lifetime)
        if query is None:
            nothing = np.zeros((1, 1, 1))
            return {True: nothing, False: nothing}, recent
        query = query - flat["x_mean"][:, None]
        points = flat["x"][:, :n] - flat["x_mean"][:, None]
        wanted = {prior.apart for prior in self.priors}
        return {apart: _near(query, points, _scale(flat, self.reach, apart)) for apart in wanted}, recent

    def _fit(self, flat: Arrays, n: int, turn: Ints, *, context: Floats | None) -> tuple[Floats, Floats]:
        """Fitted values (B, J, E) of the outcomes ``turn``, and their covariance with noise, (B, E, J, J)."""
        query = None if context is None else flat["x"][:, turn]
        nears, recent = self._likeness(flat, n, query, when=flat["round"][0, turn])
        owner, alpha, parts = flat["owner"], flat["alpha"][:, :n], self._parts(context is not None)
        same = (owner[:, turn, None] == owner[:, None, :n]).astype(float)
        fitted = np.zeros((len(owner), len(turn), len(parts)))
        gram = np.zeros((len(owner), len(parts), len(turn), len(turn)))
        gram += (np.eye(len(turn)) / flat["weight"][:, turn, None])[:, None]
        apart = np.array([prior.apart for prior in self.priors])

        def add(part: Floats, *factors: Floats) -> None:
            if part.any():
                kernel = reduce(np.multiply, factors)
                np.add(fitted, (kernel @ alpha) * part, out=fitted)
                np.add(gram, kernel[:, None, :, turn] * part[:, None, None], out=gram)

        add(parts[:, 0], same)
        add(parts[:, 1], same, recent)
        add(parts[:, 4], recent)
        for which, near in nears.items() if context is not None else ():
            theirs = parts * (apart == which)[:, None]
            ours = same * near
            add(theirs[:, 2], ours)
            add(theirs[:, 3], ours, recent)
            add(theirs[:, 5], near)
        return fitted, gram

    def _make_room(self, flat: Arrays, place: int, contextual: bool) -> None:
        """Free the row ``place`` by merging two old outcomes; under drift, drop the oldest instead."""
        old = (place + np.arange(max(self.capacity // 2, 2))) % self.capacity
        points = None
        if contextual:
            x = flat["x"][:, old] - flat["x_mean"][:, None]
            points = x * _scale(flat, self.reach, self.priors[0].apart)
        drifting = np.array([prior.drifts for prior in self.priors])
        lasting = np.add.reduce(self.weights(flat) * drifting, axis=-1) < _UNDER_DRIFT
        merge_oldest(flat, old, min(self.block, len(old)), points=points, where=lasting)

    def _weigh(self, flat: Arrays, fitted: Floats, reward: Floats, *, seen: int) -> None:
        """Update the evidence of each prior and the noise variance with the newest prediction error."""
        error = reward[:, None] - flat["mean"][:, None] - fitted
        mixed = np.add.reduce(self.weights(flat) * error, axis=-1)
        flat["noise"] += max(1.0 / (seen + 10.0), _NOISE_RATE) * (mixed * mixed - flat["noise"])
        np.maximum(flat["noise"], _LEAST_NOISE, out=flat["noise"])
        flat["evidence"] *= self.evidence_memory
        flat["evidence"] -= error * error / (2.0 * flat["noise"][:, None])
        flat["evidence"] -= np.maximum.reduce(flat["evidence"], axis=-1, keepdims=True)


def _own(parts: Floats, near: Floats, recent: Floats) -> Floats:
    """Covariance of the agent effect, (B, n)."""
    kernel: Floats = parts[0] + parts[1] * recent + near * (parts[2] + parts[3] * recent)
    return kernel


def _common(parts: Floats, near: Floats, recent: Floats) -> Floats:
    """Covariance of the common task effect, (B, n)."""
    kernel: Floats = parts[4] * recent + parts[5] * near
    return kernel


def _flatten(state: Arrays) -> tuple[Arrays, tuple[int, ...]]:
    """Views with all batch dimensions flattened into one."""
    batch = state["uid"].shape[:-1]
    rows = math.prod(batch)
    return {name: array.reshape(rows, *array.shape[len(batch) :]) for name, array in state.items()}, batch


def _store(flat: Arrays, place: int, agent: Ints, *, reward: Floats, context: Floats | None, t: int) -> None:
    rows = np.arange(len(agent))
    new = flat["uid"][rows, agent] < 0
    flat["uid"][rows[new], agent[new]] = flat["n_uids"][new]
    flat["n_uids"] += new
    flat["owner"][:, place] = flat["uid"][rows, agent]
    flat["reward"][:, place], flat["round"][:, place] = reward, t
    flat["alpha"][:, place], flat["weight"][:, place] = 0.0, 1.0
    if context is not None:
        x, count = context.reshape(len(rows), -1), int(flat["seen"][0]) + 1
        flat["x"][:, place] = x
        gap = x - flat["x_mean"]
        flat["x_mean"] += gap / count
        flat["x_square"] += gap * (x - flat["x_mean"])


def _near(query: Floats, points: Floats, scale: Floats) -> Floats:
    """Exponential kernel (B, J, n) of scaled points: exp(-distance)."""
    return np.asarray(np.exp(-np.sqrt(squared_distances(query * scale, points * scale))))


def _scale(flat: Arrays, reach: float, apart: bool) -> Floats:
    """Feature scale factors (B, 1, d), so that a typical task has distance 1 / reach from the mean.

    ``apart``: every feature has its own scale and contributes equally. Otherwise all share one scale.
    """
    variance = _variance(flat)
    known = variance > 1e-18 * flat["x_mean"] ** 2
    spread = np.where(known, variance, 0.0)
    if not apart:
        spread = np.broadcast_to(np.add.reduce(spread, axis=-1, keepdims=True), variance.shape)
    else:
        spread = spread * variance.shape[-1]
    scale = np.where(known, 1.0 / (reach * np.sqrt(np.where(known, spread, 1.0))), 0.0)
    return scale[:, None, :]


def _variance(state: Arrays) -> Floats:
    """Variance of the features, ``batch + (d,)``.

    Early on it is computed around zero, because the first tasks, if grouped by family, vary less than later ones.
    """
    seen = np.maximum(state["seen"], 1.0)[..., None]
    variance: Floats = state["x_square"] / seen + _EARLY / (_EARLY + seen) * state["x_mean"] ** 2
    return variance


def _turn(flat: Arrays, place: int, n: int, *, block: int) -> Ints:
    """Rows whose coefficients are updated: the newest and ``block - 1`` others in rotation."""
    others, rest = min(block, n) - 1, max(n - 1, 1)
    first = int(flat["cursor"][0])
    flat["cursor"][:] = (first + others) % rest
    return np.concatenate([[place], (place + 1 + (first + np.arange(others)) % rest) % n])


def _places(flat: Arrays, n: int) -> Ints:
    """Agent index of every outcome (M for removed agents), offset by ``row * (M + 1)`` for :func:`_sum_by`."""
    uid = flat["uid"]
    m, rows = uid.shape[-1], np.arange(len(uid))[:, None]
    table = np.full((len(uid), int(flat["n_uids"].max()) + 1), m)
    np.put_along_axis(table, np.where(uid < 0, table.shape[1] - 1, uid), np.where(uid < 0, m, np.arange(m)), axis=1)
    return np.asarray(np.take_along_axis(table, flat["owner"][:, :n], axis=1) + rows * (m + 1))


def _sum_by(place: Ints, values: Floats, m: int) -> Floats:
    total = np.bincount(place.ravel(), values.ravel(), len(place) * (m + 1)).astype(float)
    return total.reshape(len(place), m + 1)[:, :m]
