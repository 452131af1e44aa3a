"""Preparation of context: projects task features to a few standardised numbers, learned online.

Numbers are imputed by their median, replaced by signed logarithms where that makes tails lighter, standardised and
clipped. Words are weighted by inverse document frequency. Both are reduced to principal components; among the leading
ones those are kept that covary most with the rewards (words: latent semantic analysis [1]_).

Everything is learned from outcomes in the order in which they arrive. The projection is fitted to the rows kept
whenever their number is a power of two; the policy then learns these rows again under the new projection. Where there
are many rows that is done one outcome later, and no outcome waits for both; in between the components are zero. What
was decided under an older projection is learned under the present one. The state keeps word codes, not words.

References
----------
.. [1] Deerwester, Dumais, Furnas, Landauer, Harshman. Indexing by latent semantic analysis. JASIS 1990.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from bot_orch.arrays import Arrays, Field, Floats, Ints, Schema, row_views
from bot_orch.core.warm.trial import WarmStart
from bot_orch.encoders import BUCKETS
from bot_orch.policies.base import (
    Choice,
    Feedback,
    KeptRows,
    Policy,
    Situation,
    feedback_of,
    feedback_on,
    reads_features,
)

ROWS = 1024  # outcomes kept
FIRST, FIRST_WORDS = 4, 16  # outcomes before the first fit, without and with words
AT_ONCE = 128  # outcomes up to which projection and policy are fitted at the same outcome
WORDS, SPARE = 8, 8  # components of words that are used, and how many more are looked at
WORTH = 1.0  # length
PASSES = 4  # of the subspace iteration in the first fits
NOVEL = 0.25  # share of new words that makes a later fit worth its loss of older rows
LIMIT = 4.0  # standard deviations at which a number is clipped
HEAVY = 8.0  # kurtosis from which numbers of both signs are replaced by logarithms
LARGE = 1e30  # numbers are clipped there before anything else


@dataclass(frozen=True)
class WithContext(Policy):
    """Wraps a policy that reads features and gives it prepared ones.

    Parameters
    ----------
    policy
        The policy; its features are the components.
    numbers
        How many of a task's numbers are features in the usual sense: the first ones.
    words
        How many of its last numbers are word codes. What stands between is not used.

    Examples
    --------
    >>> from bot_orch import make_policy
    >>> prepared = WithContext(make_policy("linucb"), numbers=3)
    >>> prepared.components
    3
    """

    policy: Policy
    numbers: int = 0
    words: int = 0
    id: ClassVar[str] = "with-context"

    @property
    def components(self) -> int:
        """Number of features that the policy gets."""
        return min(self.numbers, self.policy.most_numbers) + (WORDS if self.words else 0)

    def schema(self, n_features: int) -> Schema:
        """Stored rows and the projection, then the state of the policy."""
        n, w, c = self.numbers, self.words, min(self.numbers, self.policy.most_numbers)
        counters = dict.fromkeys(("seen", "fits", "ids", "ready"), Field(per_agent=False, dtype="int64"))
        own = counters | {
            "id": Field(fill=-1.0, dtype="int64"),
            "owner": Field(per_agent=False, shape=(ROWS,), fill=-1.0, dtype="int32"),
            "reward": Field(per_agent=False, shape=(ROWS,), dtype="float32"),
            "round": Field(per_agent=False, shape=(ROWS,), dtype="int32"),
            "claims": Field(per_agent=False, shape=(ROWS, 2), fill=-1.0, dtype="float32"),
        }
        if n:
            own |= {
                "rows": Field(per_agent=False, shape=(ROWS, n), dtype="float32"),
                "frame": Field(per_agent=False, shape=(4, n)),
                "axes": Field(per_agent=False, shape=(n, c)),
                "origin": Field(per_agent=False, shape=(c,)),
            }
        if w:
            own |= {
                "codes": Field(per_agent=False, shape=(ROWS, w), dtype="int16"),
                "documents": Field(per_agent=False, shape=(BUCKETS + 1,), dtype="float32"),
                "rarity": Field(per_agent=False, shape=(BUCKETS + 1,), dtype="float32"),
                "meanings": Field(per_agent=False, shape=(BUCKETS + 1, WORDS + SPARE), dtype="float32"),
                "middle": Field(per_agent=False, shape=(WORDS,)),
            }
        return {f"context_{name}": field for name, field in own.items()} | dict(self.policy.schema(self.components))

    def adopt(self, state: Arrays, learned: Arrays) -> Arrays:
        """The learned state; the preparation restarts if tasks have other features than before."""
        mine = {name: array for name, array in state.items() if name.startswith("context_")}
        same = all(name in learned and learned[name].shape == array.shape for name, array in mine.items())
        if same:
            return {**self.policy.adopt(_inner(state), _inner(learned)), **{name: learned[name] for name in mine}}
        plain = self.policy.schema(0)  # what a policy has only with features means nothing under another projection
        kept = {name: array for name, array in _inner(learned).items() if name in plain}
        return {**self.policy.adopt(_inner(state), kept), **mine}

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """The policy's choice on prepared features."""
        s, z = situation, self.features(state, situation.context)
        return self.policy.choose(state, Situation(s.t, s.penalty, s.eligible, z, s.pending, s.cost, s.claims))

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Update the policy, store the row, and refit the projection if due."""
        self.policy.update(state, feedback_on(feedback, self.features(state, feedback.context)))
        if feedback.context is None:
            return
        batch = state["context_seen"].shape
        for at in np.ndindex(batch):
            views = row_views(state, at) if batch else state
            self._keep(views, feedback_of(feedback, at) if batch else feedback)
            self._refit(views)

    def features(self, state: Arrays, raw: Floats | None) -> Floats | None:
        """Components of the tasks, ``batch + (components,)``; zeros before the first fit and during one."""
        if raw is None:
            return None
        batch = state["context_seen"].shape
        if batch:
            return np.array([self.features(row_views(state, at), raw[at]) for at in np.ndindex(batch)]).reshape(
                *batch, -1
            )
        if not state["context_ready"]:
            return np.zeros(self.components)
        found = []
        if self.numbers:
            tamed = _tamed(raw[: self.numbers], state["context_frame"])
            found.append(tamed @ state["context_axes"] - state["context_origin"])
        if self.words:
            codes = raw[-self.words :].astype(np.intp)
            codes = codes[: np.count_nonzero(codes)]
            weight = state["context_rarity"][codes]
            length = math.sqrt(weight @ weight)
            meaning = weight @ state["context_meanings"][codes, :WORDS]
            found.append((meaning / length if length > 0.0 else meaning) - state["context_middle"])
        return np.concatenate(found) if len(found) > 1 else np.asarray(found[0], dtype=float)

    @property
    def can_revise(self) -> bool:
        """Whether the policy can revise lessons."""
        return self.policy.can_revise

    def position(self, state: Arrays, agent: int) -> float:
        """The position in the policy."""
        return self.policy.position(state, agent)

    def revise(self, state: Arrays, old: Feedback, new: Feedback, *, position: float) -> None:
        """Replace a lesson, and the reward of its row."""
        z = self.features(state, new.context)
        self.policy.revise(state, feedback_on(old, z), feedback_on(new, z), position=position)
        own = (state["context_round"] == new.t) & (state["context_owner"] == state["context_id"][int(new.agent)])
        state["context_reward"][own] = new.reward[int(new.agent)]

    @property
    def can_withdraw(self) -> bool:
        """Whether the policy can withdraw lessons."""
        return self.policy.can_withdraw

    def withdraw(self, state: Arrays, old: Feedback) -> None:
        """Withdraw a lesson; its row stays for the projection only."""
        self.policy.withdraw(state, feedback_on(old, self.features(state, old.context)))
        own = (state["context_round"] == old.t) & (state["context_owner"] == state["context_id"][int(old.agent)])
        state["context_owner"][own] = -1

    def _keep(self, s: Arrays, given: Feedback) -> None:
        """Store the row of an outcome, over the oldest one."""
        slot, agent, raw, claims = (
            int(s["context_seen"]) % ROWS,
            int(given.agent),
            np.asarray(given.context),
            given.claims,
        )
        if s["context_id"][agent] < 0:
            s["context_id"][agent] = s["context_ids"]
            s["context_ids"][...] += 1
        s["context_owner"][slot], s["context_reward"][slot] = s["context_id"][agent], given.reward[agent]
        s["context_round"][slot], s["context_claims"][slot] = given.t, -1.0
        if claims is not None and np.isfinite(claims).any():
            s["context_claims"][slot] = np.nan_to_num(claims[agent], nan=-1.0), np.nanmean(claims)
        if self.numbers:
            s["context_rows"][slot] = np.clip(raw[: self.numbers], -LARGE, LARGE)
        if self.words:
            codes = raw[-self.words :].astype(np.int16)
            s["context_codes"][slot] = codes
            s["context_documents"][codes] += 1.0
            s["context_documents"][0] = 0.0
        s["context_seen"][...] += 1

    def _refit(self, s: Arrays) -> None:
        """Fit the projection if due; let the policy learn the rows again at once, or at the next outcome."""
        seen = int(s["context_seen"])
        if self._due(s, seen):
            self._fit(s)
        elif s["context_ready"] or seen <= AT_ONCE:
            return
        if seen & (seen - 1) or seen <= AT_ONCE:
            s["context_ready"][...] = 1
            self.policy.rebase(s, self._kept(s))

    def _due(self, s: Arrays, seen: int) -> bool:
        """At powers of two; beyond the stored rows only if recent tasks contain new words."""
        if seen < (FIRST_WORDS if self.words else FIRST) or seen & (seen - 1):
            return False
        return seen <= ROWS or (self.words > 0 and _novelty(s["context_rarity"], s["context_codes"]) > NOVEL)

    def _kept(self, s: Arrays) -> KeptRows:
        """The stored rows under the present projection."""
        n, agent = self._agents(s)
        kept = np.flatnonzero(agent >= 0)
        order = kept[np.argsort(s["context_round"][kept], kind="stable")]
        points = []
        if self.numbers:
            points.append(_tamed(s["context_rows"][:n], s["context_frame"]) @ s["context_axes"] - s["context_origin"])
        if self.words:
            weighted = _weighted(s["context_codes"][:n], s["context_rarity"])
            points.append(weighted @ s["context_meanings"][:, :WORDS] - s["context_middle"])
        stated = s["context_claims"][:n].astype(float)
        reward, number = s["context_reward"][:n].astype(float), s["context_round"][:n]
        claims = stated if (stated >= 0.0).any() else None
        return KeptRows(np.concatenate(points, axis=1, dtype=float), agent, reward, number, order, claims)

    def _agents(self, s: Arrays) -> tuple[int, Ints]:
        """The number of stored rows, and the index of the agent of each; -1 for one that was removed."""
        n, known = min(int(s["context_seen"]), ROWS), s["context_id"] >= 0
        table = np.full(int(s["context_ids"]) + 1, -1)
        table[s["context_id"][known]] = np.flatnonzero(known)
        return n, table[s["context_owner"][:n]]

    def _fit(self, s: Arrays) -> None:
        """Fit the projection to the stored rows."""
        n, agent = self._agents(s)
        told = _surprises(agent, s["context_reward"][:n].astype(float), len(s["context_id"]))
        s["context_ready"][...] = 0
        s["context_fits"][...] += 1
        if self.numbers:
            frame, tamed = _frame(s["context_rows"][:n].astype(float))
            s["context_frame"][:] = frame
            axes, middle = _components(tamed, np.eye(self.numbers), told, used=len(s["context_origin"]))
            s["context_axes"][:] = axes[:, : len(s["context_origin"])]
            s["context_origin"][:] = middle @ s["context_axes"]
        if self.words:
            rarity = np.log((1.0 + int(s["context_seen"])) / (1.0 + s["context_documents"].astype(float)))
            rarity[0] = 0.0
            weighted, start = _weighted(s["context_codes"][:n], rarity), s["context_meanings"].astype(float)
            if s["context_fits"] == 1:
                start = np.random.default_rng(1).normal(size=start.shape)
            middle = weighted.mean(axis=0)
            for _ in range(PASSES if n <= AT_ONCE else 1):  # a later fit begins with the last one's meanings
                start = _orthonormal(weighted.T @ (weighted @ start - middle @ start))
            axes, middle = _components(weighted, start, told, used=WORDS)
            axes *= WORTH
            s["context_rarity"][:], s["context_meanings"][:] = rarity, axes
            s["context_middle"][:] = middle @ axes[:, :WORDS]


def with_context(policy: Policy, *, numbers: int, words: int) -> Policy:
    """The policy with prepared features, if it reads any; inside a warm start both states prepare their own."""
    if isinstance(policy, WarmStart):
        return replace(policy, policy=with_context(policy.policy, numbers=numbers, words=words))
    return WithContext(policy, numbers, words) if (numbers or words) and reads_features(policy) else policy


def without_context(policy: Policy) -> Policy:
    """The inverse of :func:`with_context`."""
    if isinstance(policy, WarmStart):
        return replace(policy, policy=without_context(policy.policy))
    return policy.policy if isinstance(policy, WithContext) else policy


def _tamed(x: Floats, frame: Floats) -> Floats:
    """Numbers imputed, partly replaced by signed logarithms, standardised and clipped."""
    median, logged, mean, scale = frame
    x = np.where(np.isfinite(x), np.minimum(np.maximum(x, -LARGE), LARGE), median)
    if np.count_nonzero(logged):
        x = np.where(logged > 0.0, np.sign(x) * np.log1p(np.abs(x)), x)
    return np.asarray(np.minimum(np.maximum((x - mean) * scale, -LIMIT), LIMIT))


def _frame(x: Floats) -> tuple[Floats, Floats]:
    """What :func:`_tamed` needs to know of each column, and the rows tamed."""
    missing = ~np.isfinite(x)
    empty = missing.all(axis=0)
    median = np.where(empty, 0.0, np.nanmedian(np.where(empty, 0.0, x), axis=0))
    x = np.where(missing, median, x)
    logs = np.sign(x) * np.log1p(np.abs(x))
    tails = _kurtosis(x)
    two_sided = (x.min(axis=0) < 0.0) & (x.max(axis=0) > 0.0)  # in large units a logarithm leaves but their sign
    logged = (_kurtosis(logs) < tails) & (~two_sided | (tails > HEAVY))
    y = np.where(logged, logs, x)
    mean, spread = y.mean(axis=0), y.std(axis=0)
    varies = spread > 1e-9 * (1.0 + np.abs(mean))
    frame = np.array([median, logged, mean, np.where(varies, 1.0 / np.where(varies, spread, 1.0), 0.0)])
    return frame, _tamed(x, frame)


def _kurtosis(columns: Floats) -> Floats:
    square = (columns - columns.mean(axis=0)) ** 2
    return np.asarray((square * square).mean(axis=0) / np.maximum(square.mean(axis=0), 1e-24) ** 2)


def _weighted(codes: Ints, rarity: Floats) -> Any:
    """The sparse matrix of documents, (n, words): the words of each by rarity, with a norm of one."""
    weight = rarity[codes].astype(float)
    weight /= np.maximum(np.sqrt(np.sum(weight * weight, axis=1, keepdims=True)), 1e-12)
    known = weight > 0.0
    starts = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
    return csr_array((weight[known], codes[known], starts), shape=(len(codes), BUCKETS + 1))


def _components(x: Any, basis: Floats, told: Floats, used: int) -> tuple[Floats, Floats]:
    """Principal axes of the rows ``x`` within a basis, and their mean; first those that covary with the rewards.

    Rows projected to the first ``used`` axes have a squared length of one on average.
    """
    middle = np.asarray(x.mean(axis=0))
    rows = x @ basis - middle @ basis
    vectors = np.linalg.eigh(rows.T @ rows)[1][:, ::-1]
    points = rows @ vectors
    order = np.argsort(-np.sum((told.T @ points) ** 2, axis=0), kind="stable")
    scale = 1.0 / max(math.sqrt(np.mean(np.sum(points[:, order[:used]] ** 2, axis=1))), 1e-12)
    return _signed(basis @ vectors[:, order]) * scale, middle


def _surprises(agent: Ints, reward: Floats, m: int) -> Floats:
    """What each outcome says of its agent, (n, m): reward less the agent's mean, over the root of its outcomes."""
    found = np.zeros((len(agent), m))
    for each in range(m):
        mine = np.flatnonzero(agent == each)
        if len(mine):
            found[mine, each] = (reward[mine] - reward[mine].mean()) / math.sqrt(len(mine))
    return found


def _signed(vectors: Floats) -> Floats:
    """Columns with a positive largest entry, so that the sign does not depend on the linear algebra library."""
    largest = vectors[np.argmax(np.abs(vectors), axis=0), np.arange(vectors.shape[1])]
    return vectors * np.where(largest < 0.0, -1.0, 1.0)


def _novelty(rarity: Floats, codes: Ints) -> float:
    """Share of the squared word weights of the documents that falls on words without weight in any before."""
    weight = rarity[codes.astype(np.intp)].astype(float) ** 2
    unknown = weight >= float(rarity.max()) ** 2 * (1.0 - 1e-6)
    return float(np.sum(weight * unknown) / max(float(np.sum(weight)), 1e-12))


def _orthonormal(columns: Floats) -> Floats:
    """An orthonormal basis of the columns' span, by the small matrix of their products."""
    values, vectors = np.linalg.eigh(columns.T @ columns)
    scale = np.where(values > 1e-12 * values[-1], 1.0 / np.sqrt(np.maximum(values, 1e-300)), 0.0)
    return np.asarray(columns @ (vectors * scale))


def _inner(state: Arrays) -> Arrays:
    return {name: array for name, array in state.items() if not name.startswith("context_")}
