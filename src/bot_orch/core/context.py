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
from typing import ClassVar

import numpy as np

from bot_orch.arrays import Arrays, Field, Floats, Ints, Schema
from bot_orch.core import projection
from bot_orch.core.warm.trial import WarmStart
from bot_orch.encoders import BUCKETS
from bot_orch.policies.base import (
    Choice,
    Feedback,
    KeptRows,
    PerRouter,
    Policy,
    Situation,
    feedback_on,
    reads_features,
)

ROWS = 1024  # outcomes kept
FIRST, FIRST_WORDS = 4, 16  # outcomes before the first fit, without and with words
AT_ONCE = 128  # outcomes up to which projection and policy are fitted at the same outcome
WORDS, SPARE = 8, 8  # components of words that are used, and how many more are looked at
WORTH = 0.5  # length of what is learned of words, relative to that of numbers: words say less of a reward
PASSES = 4  # of the subspace iteration in the first fits
NOVEL = 0.25  # share of new words that makes a later fit worth its loss of older rows


@dataclass(frozen=True)
class WithContext(PerRouter):
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

    def batch(self, state: Arrays) -> tuple[int, ...]:
        """The batch dimensions of a state."""
        return state["context_seen"].shape

    def choose_one(self, state: Arrays, given: Situation) -> Choice:
        """The policy's choice on prepared features."""
        s, z = given, self.features(state, given.context)
        return self.policy.choose(state, Situation(s.t, s.penalty, s.eligible, z, s.pending, s.cost, s.claims))

    def update_one(self, state: Arrays, given: Feedback) -> None:
        """Update the policy, store the row, and refit the projection if due."""
        self.policy.update(state, feedback_on(given, self.features(state, given.context)))
        if given.context is not None:
            self._keep(state, given)
            self._refit(state)

    def features(self, state: Arrays, raw: Floats | None) -> Floats | None:
        """Components of a task, ``(components,)``; zeros before the first fit and during one."""
        if raw is None:
            return None
        if not state["context_ready"]:
            return np.zeros(self.components)
        found = []
        if self.numbers:
            tamed = projection.tamed(raw[: self.numbers], state["context_frame"])
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
            s["context_rows"][slot] = np.clip(raw[: self.numbers], -projection.LARGE, projection.LARGE)
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
        """At powers of two; beyond the stored rows only if recent tasks bring words or numbers that were not there."""
        if seen < (FIRST_WORDS if self.words else FIRST) or seen & (seen - 1):
            return False
        if seen <= ROWS:
            return True
        if self.numbers:  # constant, or missing, when the projection was fitted
            unused = np.nan_to_num(s["context_rows"][:, s["context_frame"][3] == 0.0])
            if np.any(unused != unused[:1]):
                return True
        return self.words > 0 and projection.novelty(s["context_rarity"], s["context_codes"]) > NOVEL

    def _kept(self, s: Arrays) -> KeptRows:
        """The stored rows under the present projection."""
        n, agent = self._agents(s)
        kept = np.flatnonzero(agent >= 0)
        order = kept[np.argsort(s["context_round"][kept], kind="stable")]
        points = []
        if self.numbers:
            tamed = projection.tamed(s["context_rows"][:n], s["context_frame"])
            points.append(tamed @ s["context_axes"] - s["context_origin"])
        if self.words:
            weighted = projection.weighted(s["context_codes"][:n], s["context_rarity"])
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
        told = projection.surprises(agent, s["context_reward"][:n].astype(float), len(s["context_id"]))
        s["context_ready"][...] = 0
        s["context_fits"][...] += 1
        if self.numbers:
            used = len(s["context_origin"])
            s["context_frame"][:], tamed = projection.frame(s["context_rows"][:n].astype(float))
            axes, middle = projection.components(tamed, np.eye(self.numbers), told, used)
            s["context_axes"][:], s["context_origin"][:] = axes[:, :used], middle @ axes[:, :used]
        if self.words:
            rarity = np.log((1.0 + int(s["context_seen"])) / (1.0 + s["context_documents"].astype(float)))
            rarity[0] = 0.0
            documents, start = projection.weighted(s["context_codes"][:n], rarity), s["context_meanings"].astype(float)
            # a later fit begins with the last one's meanings, as far as texts differed by then
            lengths = np.sqrt((start * start).sum(axis=0))
            fresh = lengths <= 1e-6 * max(float(lengths.max()), 1e-12)
            start[:, fresh] = np.random.default_rng(1).normal(size=start.shape)[:, fresh]
            start = projection.iterated(documents, start, PASSES if n <= AT_ONCE else 1)
            axes, middle = projection.components(documents, start, told, WORDS)
            s["context_rarity"][:], s["context_meanings"][:] = rarity, WORTH * axes
            s["context_middle"][:] = WORTH * (middle @ axes[:, :WORDS])


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


def _inner(state: Arrays) -> Arrays:
    return {name: array for name, array in state.items() if not name.startswith("context_")}
