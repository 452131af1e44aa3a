"""Preparation of context: projects task features to a few standardised numbers and a cluster, learned online.

Numbers are imputed by their median, replaced by signed logarithms where that makes tails lighter, standardised, clipped
and reduced to principal components. Words are weighted by inverse document frequency and reduced to singular vectors
(latent semantic analysis [1]_). Tasks are then grouped into kinds by k-means.

Everything is learned from outcomes in the order in which they arrive. The projection is fitted to the rows kept
whenever their number is a power of two; the policy then learns these rows again under the new projection. What was
decided in between is learned with its own input under the projection of that time. The state keeps word codes, not
words.

References
----------
.. [1] Deerwester, Dumais, Furnas, Landauer, Harshman. Indexing by latent semantic analysis. JASIS 1990.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bot_orch.arrays import Arrays, Field, Floats, Ints, Schema, row_views
from bot_orch.core.warm.trial import WarmStart
from bot_orch.encoders import BUCKETS
from bot_orch.policies.base import Choice, Feedback, KeptRows, Policy, Situation, reads_features

ROWS = 1024  # outcomes kept
FIRST, FIRST_WORDS = 4, 16  # outcomes before the first fit, without and with words
WORDS = 8  # components of words
KINDS = 8
NOVEL = 0.25  # share of new words that makes a later fit worth its loss of older rows
LIMIT = 4.0  # standard deviations at which a number is clipped
HEAVY = 8.0  # kurtosis from which numbers of both signs are replaced by logarithms
LARGE = 1e30  # numbers are clipped there before anything else
PASSES = 4  # of the subspace iteration
ROUNDS = 12  # of k-means


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
        own = {
            "seen": Field(per_agent=False, dtype="int64"),
            "fits": Field(per_agent=False, dtype="int64"),
            "ids": Field(per_agent=False, dtype="int64"),
            "id": Field(fill=-1.0, dtype="int64"),
            "owner": Field(per_agent=False, shape=(ROWS,), fill=-1.0, dtype="int32"),
            "reward": Field(per_agent=False, shape=(ROWS,), dtype="float32"),
            "round": Field(per_agent=False, shape=(ROWS,), dtype="int32"),
            "claims": Field(per_agent=False, shape=(ROWS, 2), fill=-1.0, dtype="float32"),
            "centers": Field(per_agent=False, shape=(KINDS, self.components)),
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
                "meanings": Field(per_agent=False, shape=(BUCKETS + 1, WORDS), dtype="float32"),
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
        z = self.features(state, feedback.context)
        self.policy.update(state, _on(feedback, z))
        batch = state["context_seen"].shape
        if feedback.context is None:
            return
        for at in np.ndindex(batch):
            views = row_views(state, at) if batch else state
            agent, raw = feedback.agent[at], feedback.context[at]
            claims = None if feedback.claims is None else np.asarray(feedback.claims)[at]
            self._keep(views, int(agent), float(feedback.reward[at][agent]), raw=raw, claims=claims, t=feedback.t)
            if self._due(views):
                self._fit(views, at, state)

    def features(self, state: Arrays, raw: Floats | None) -> Floats | None:
        """Components of the tasks, ``batch + (components,)``; zeros before the first fit."""
        if raw is None:
            return None
        found = []
        if self.numbers:
            tamed = _tamed(raw[..., : self.numbers], state["context_frame"])
            found.append(_product(tamed, state["context_axes"]) - state["context_origin"])
        if self.words:
            found.append(self._meaning(state, raw[..., -self.words :].astype(np.intp)))
        z = found[0] if len(found) == 1 else np.concatenate(found, axis=-1)
        return z if np.count_nonzero(state["context_fits"]) == state["context_fits"].size else _where_fitted(state, z)

    def kind(self, state: Arrays, raw: Floats) -> Ints:
        """The kind of the tasks, ``batch``: the nearest center; 0 before the first fit."""
        return nearest(self.features(state, raw), state["context_centers"])

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
        self.policy.revise(state, _on(old, z), _on(new, z), position=position)
        own = (state["context_round"] == new.t) & (state["context_owner"] == state["context_id"][int(new.agent)])
        state["context_reward"][own] = new.reward[int(new.agent)]

    @property
    def can_withdraw(self) -> bool:
        """Whether the policy can withdraw lessons."""
        return self.policy.can_withdraw

    def withdraw(self, state: Arrays, old: Feedback) -> None:
        """Withdraw a lesson; its row stays for the projection only."""
        self.policy.withdraw(state, _on(old, self.features(state, old.context)))
        own = (state["context_round"] == old.t) & (state["context_owner"] == state["context_id"][int(old.agent)])
        state["context_owner"][own] = -1

    def _due(self, s: Arrays) -> bool:
        """Whether to refit: at powers of two; beyond the stored rows only if recent tasks contain new words."""
        seen = int(s["context_seen"])
        if seen < (FIRST_WORDS if self.words else FIRST) or seen & (seen - 1):
            return False
        return seen <= ROWS or (self.words > 0 and _novelty(s["context_rarity"], s["context_codes"]) > NOVEL)

    def _keep(self, s: Arrays, agent: int, reward: float, *, raw: Floats, claims: Floats | None, t: int) -> None:
        slot = int(s["context_seen"]) % ROWS
        if s["context_id"][agent] < 0:
            s["context_id"][agent] = s["context_ids"]
            s["context_ids"][...] += 1
        s["context_owner"][slot], s["context_reward"][slot] = s["context_id"][agent], reward
        s["context_round"][slot] = t
        s["context_claims"][slot] = -1.0
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

    def _meaning(self, s: Arrays, codes: Ints) -> Floats:
        batch = s["context_seen"].shape
        if not batch:
            codes = codes[: int(np.count_nonzero(codes))]
            weight = s["context_rarity"][codes].astype(float)
            length = math.sqrt(weight @ weight)
            total = weight @ s["context_meanings"][codes]
            return np.asarray((total / length if length > 0.0 else total) - s["context_middle"])
        rows = np.arange(math.prod(batch))[:, None]
        flat = codes.reshape(len(rows), -1)
        weight = s["context_rarity"].reshape(len(rows), -1)[rows, flat].astype(float)
        length = np.sqrt(np.sum(weight * weight, axis=-1, keepdims=True))
        meanings = s["context_meanings"].reshape(len(rows), -1, WORDS)[rows, flat]
        total = np.einsum("bk,bkd->bd", weight, meanings) / np.maximum(length, 1e-12)
        return np.asarray(total.reshape(*batch, WORDS) - s["context_middle"])

    def _fit(self, s: Arrays, at: tuple[int, ...], whole: Arrays) -> None:
        """Fit projection and clusters to the stored rows, and let the policy learn these again."""
        n = min(int(s["context_seen"]), ROWS)
        z = []
        if self.numbers:
            z.append(self._fit_numbers(s, s["context_rows"][:n].astype(float)))
        if self.words:
            z.append(self._fit_words(s, s["context_codes"][:n].astype(np.intp)))
        points = np.concatenate(z, axis=-1)
        s["context_centers"][:] = centers(points, min(KINDS, max(2, n // 16)))
        s["context_fits"][...] += 1
        table = np.full(int(s["context_ids"]) + 1, -1)
        known = s["context_id"] >= 0
        table[s["context_id"][known]] = np.flatnonzero(known)
        agent = table[s["context_owner"][:n]]
        kept = np.flatnonzero(agent >= 0)
        order = kept[np.argsort(s["context_round"][kept], kind="stable")]
        stated = s["context_claims"][:n].astype(float)
        reward, number = s["context_reward"][:n].astype(float), s["context_round"][:n]
        rows = KeptRows(points, agent, reward, number, order, stated if (stated >= 0.0).any() else None)
        self.policy.rebase(s, rows, s["context_centers"])
        for name, array in s.items():  # a policy may have put new arrays into the view
            if whole is not s and array is not whole[name] and not np.shares_memory(array, whole[name]):
                whole[name][at] = array

    def _fit_numbers(self, s: Arrays, x: Floats) -> Floats:
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
        s["context_frame"][:] = median, logged, mean, np.where(varies, 1.0 / np.where(varies, spread, 1.0), 0.0)
        tamed = _tamed(x, s["context_frame"])
        middle = tamed.mean(axis=0)
        c = s["context_axes"].shape[1]
        vectors = np.linalg.eigh((tamed - middle).T @ (tamed - middle))[1][:, ::-1][:, :c]
        axes, points = _unit_length(_signed(vectors), tamed, middle)
        s["context_axes"][:], s["context_origin"][:] = axes, middle @ axes
        return points

    def _fit_words(self, s: Arrays, codes: Ints) -> Floats:
        """Singular vectors of the weighted documents by subspace iteration, from a fixed start."""
        seen = int(s["context_seen"])
        rarity = np.log((1.0 + seen) / (1.0 + s["context_documents"].astype(float)))
        rarity[0] = 0.0
        weight = rarity[codes]
        weight /= np.maximum(np.sqrt(np.sum(weight * weight, axis=1, keepdims=True)), 1e-12)
        middle = np.bincount(codes.ravel(), weight.ravel(), BUCKETS + 1) / len(codes)
        basis = np.random.default_rng(1).normal(size=(BUCKETS + 1, WORDS + 6))
        for _ in range(PASSES):
            basis = _orthonormal(_documents_t(codes, weight, _documents(codes, weight, basis) - middle @ basis))
        projected = _documents(codes, weight, basis) - middle @ basis
        vectors = _signed(basis @ np.linalg.svd(projected, full_matrices=False)[2][:WORDS].T)
        points = _documents(codes, weight, vectors) - middle @ vectors
        scale = 1.0 / max(math.sqrt(np.mean(np.sum(points * points, axis=1))), 1e-12)
        s["context_rarity"][:], s["context_meanings"][:] = rarity, vectors * scale
        s["context_middle"][:] = middle @ vectors * scale
        return np.asarray(points * scale)


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


def nearest(points: Any, found: Floats) -> Ints:
    """Index of the nearest center of each point; ``batch + (d,)`` and ``batch + (K, d)``."""
    far = np.sum(found * found, axis=-1) - 2.0 * np.einsum("...kd,...d->...k", found, points)
    return np.asarray(np.argmin(far, axis=-1))


def centers(points: Floats, k: int) -> Floats:
    """k-means++ with a fixed seed and a few rounds of Lloyd's algorithm; unused centers are far away.

    Examples
    --------
    >>> sorted(centers(np.array([[0.0], [0.1], [5.0], [5.1]]), 2)[:2].ravel().round(2).tolist())
    [0.05, 5.05]
    """
    rng = np.random.default_rng(0)
    chosen = points[rng.integers(len(points), size=1)]
    far = np.sum((points - chosen[0]) ** 2, axis=1)
    for _ in range(k - 1):
        reach = np.cumsum(far)
        at = min(int(np.searchsorted(reach, rng.random() * reach[-1])), len(points) - 1)
        chosen = np.vstack([chosen, points[at]])
        far = np.minimum(far, np.sum((points - points[at]) ** 2, axis=1))
    for _ in range(ROUNDS):
        member = np.argmin(np.sum(chosen * chosen, axis=1) - 2.0 * points @ chosen.T, axis=1)
        size = np.bincount(member, minlength=k)
        total = np.stack([np.bincount(member, column, k) for column in points.T], axis=1)
        chosen = np.where(size[:, None] > 0, total / np.maximum(size, 1)[:, None], chosen)
    return np.vstack([chosen, np.full((KINDS - k, points.shape[1]), 1e6)])


def _tamed(x: Floats, frame: Floats) -> Floats:
    """Numbers imputed, partly replaced by signed logarithms, standardised and clipped."""
    median, logged, mean, scale = (frame[..., row, :] for row in range(4))
    x = np.where(np.isfinite(x), np.minimum(np.maximum(x, -LARGE), LARGE), median)
    if np.count_nonzero(logged):
        x = np.where(logged > 0.0, np.sign(x) * np.log1p(np.abs(x)), x)
    return np.minimum(np.maximum((x - mean) * scale, -LIMIT), LIMIT)


def _unit_length(axes: Floats, rows: Floats, middle: Floats) -> tuple[Floats, Floats]:
    """Axes scaled so that projected rows have a squared length of one on average, and the projected rows."""
    points = (rows - middle) @ axes
    scale = 1.0 / max(math.sqrt(np.mean(np.sum(points * points, axis=1))), 1e-12)
    return axes * scale, points * scale


def _signed(vectors: Floats) -> Floats:
    """Columns with a positive largest entry, so that the sign does not depend on the linear algebra library."""
    largest = vectors[np.argmax(np.abs(vectors), axis=0), np.arange(vectors.shape[1])]
    return vectors * np.where(largest < 0.0, -1.0, 1.0)


def _kurtosis(columns: Floats) -> Floats:
    centred = columns - columns.mean(axis=0)
    return np.asarray(np.mean((centred / np.maximum(centred.std(axis=0), 1e-12)) ** 4, axis=0))


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


def _documents(codes: Ints, weight: Floats, vectors: Floats) -> Floats:
    """The sparse matrix of documents times ``vectors``."""
    return np.asarray(np.einsum("nk,nkd->nd", weight, vectors[codes]))


def _documents_t(codes: Ints, weight: Floats, rows: Floats) -> Floats:
    """The transposed matrix of documents times ``rows``."""
    flat = codes.ravel()
    return np.stack([np.bincount(flat, (weight * column[:, None]).ravel(), BUCKETS + 1) for column in rows.T], axis=1)


def _product(rows: Floats, axes: Floats) -> Floats:
    return rows @ axes if rows.ndim == 1 else np.asarray(np.einsum("...f,...fc->...c", rows, axes))


def _where_fitted(state: Arrays, z: Floats) -> Floats:
    return np.where(state["context_fits"][..., None] > 0, z, 0.0)


def _inner(state: Arrays) -> Arrays:
    return {name: array for name, array in state.items() if not name.startswith("context_")}


def _on(feedback: Feedback, context: Floats | None) -> Feedback:
    """The feedback with other features."""
    if feedback.earned is None:
        return replace(feedback, context=context)
    known = (feedback.propensities, feedback.penalty, context, feedback.claims)
    return Feedback.of_chosen(feedback.t, feedback.agent, feedback.earned, at_decision=known)
