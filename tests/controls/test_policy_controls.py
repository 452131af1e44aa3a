"""Broken policies: each conformance check must catch the one made for it."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest

from bot_orch.core import pipeline
from bot_orch.numerics.choice import softmax
from bot_orch.numerics.estimators import Estimator, Mean
from bot_orch.policies.base import Choice
from bot_orch.policies.bot import Bot
from bot_orch.policies.registry import make_policy, register_policy
from bot_orch.policies.uniform import Uniform
from bot_orch.testing import policies as checks


@dataclass(frozen=True, slots=True)
class IgnoresMask(Bot):
    id: ClassVar[str] = "broken-mask"

    def choose(self, state, situation):
        rhat = self.estimator.estimate(state)
        return Choice(softmax(rhat - situation.penalty), rhat, np.zeros_like(rhat))


@dataclass(frozen=True, slots=True)
class DoesNotSumToOne(Bot):
    id: ClassVar[str] = "broken-sum"

    def choose(self, state, situation):
        good = Bot.choose(self, state, situation)
        return Choice(good.propensities * 0.9, good.estimate, good.exploration)


@dataclass(frozen=True, slots=True)
class NeverTriesNew(Bot):
    """Greedy on a mean that starts at zero: a newcomer never has the best estimate."""

    id: ClassVar[str] = "broken-greedy"
    estimator: Estimator = field(default_factory=Mean)

    def choose(self, state, situation):
        mean = self.estimator.estimate(state)
        allowed = mean if situation.eligible is None else np.where(situation.eligible, mean, -1.0)
        p = (allowed == allowed.max(axis=-1, keepdims=True)).astype(float)
        return Choice(p / p.sum(axis=-1, keepdims=True), mean, np.zeros_like(mean))


@dataclass(frozen=True, slots=True)
class ChangesStateWhenAsked(Bot):
    id: ClassVar[str] = "broken-purity"

    def choose(self, state, situation):
        state["count"] += 1.0
        return Bot.choose(self, state, situation)


@dataclass(frozen=True, slots=True)
class RowsDependOnEachOther(Bot):
    id: ClassVar[str] = "broken-batch"

    def update(self, state, feedback):
        Bot.update(self, state, feedback)
        if state["rhat"].ndim > 1:
            state["rhat"][...] = state["rhat"].mean(axis=0, keepdims=True)


@dataclass(frozen=True, slots=True)
class IgnoresAlignment(Uniform):
    id: ClassVar[str] = "broken-alignment"
    uses_alignment: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class ReadsClaimsOfOtherRows(Bot):
    id: ClassVar[str] = "broken-claims"

    def choose(self, state, situation):
        rhat = self.estimator.estimate(state)
        claims = np.zeros_like(rhat) if situation.claims is None else np.nan_to_num(situation.claims)
        if claims.ndim > 1:
            claims = claims.mean(axis=0, keepdims=True)
        return Choice(softmax(rhat + claims, situation.eligible), rhat, np.zeros_like(rhat))


@dataclass(frozen=True, slots=True)
class MissingClaimsSpread(Bot):
    """NaN of one agent reaches the probabilities of all."""

    id: ClassVar[str] = "broken-missing"

    def choose(self, state, situation):
        rhat = self.estimator.estimate(state)
        value = rhat if situation.claims is None else rhat + 0.5 * (situation.claims - 0.5)
        p = np.exp(value - value.max(axis=-1, keepdims=True))
        return Choice(p / p.sum(axis=-1, keepdims=True), rhat, np.zeros_like(rhat))


@pytest.mark.parametrize(
    ("policy", "check"),
    [
        (ReadsClaimsOfOtherRows(), checks.check_claims),
        (MissingClaimsSpread(), checks.check_claims),
        (IgnoresMask(), checks.check_mask),
        (DoesNotSumToOne(), checks.check_probabilities),
        (NeverTriesNew(), checks.check_unseen_is_tried),
        (ChangesStateWhenAsked(), checks.check_choose_is_pure),
        (RowsDependOnEachOther(), checks.check_batch_equals_rows),
        (IgnoresAlignment(), checks.check_alignment_counts),
    ],
    ids=lambda value: getattr(value, "id", getattr(value, "__name__", "")),
)
def test_check_catches(policy, check):
    with pytest.raises(AssertionError, match=policy.id):
        check(policy)


def test_frequency_check_catches_biased_draws(monkeypatch):
    monkeypatch.setattr(checks, "draw", lambda p, u: np.zeros(len(p), dtype=int))
    with pytest.raises(AssertionError, match="frequencies"):
        checks.check_frequencies(Bot())


def test_frequency_check_catches_a_small_bias(monkeypatch):
    fair = checks.draw
    monkeypatch.setattr(checks, "draw", lambda p, u: fair(p, u**1.1))
    with pytest.raises(AssertionError, match="frequencies"):
        checks.check_frequencies(Bot())


def test_round_trip_check_catches_forgotten_state(monkeypatch):
    @register_policy
    @dataclass(frozen=True, slots=True)
    class Forgets(Bot):
        id: ClassVar[str] = "broken-forgets"

    real = checks.Orchestrator.from_json.__func__

    def lossy(cls, text):
        router = real(cls, text)
        router._state.parts["policy"]["rhat"][...] = 0.0
        return router

    monkeypatch.setattr(checks.Orchestrator, "from_json", classmethod(lossy))
    with pytest.raises(AssertionError, match="restored"):
        checks.check_round_trip(Forgets())


def test_reward_check_catches_a_gate_left_open(monkeypatch):
    monkeypatch.setattr("bot_orch.types.RewardRange.check", lambda rewards, reward, name="": reward)
    with pytest.raises(AssertionError, match="was accepted"):
        checks.check_bad_rewards_refused(Bot())


def test_unobserved_rows_check_catches_an_update_of_all_rows(monkeypatch):
    monkeypatch.setattr(pipeline, "apply", lambda policy, state, feedback: policy.update(state, feedback))
    with pytest.raises(AssertionError, match="without a reward changed"):
        checks.check_unobserved_rows(make_policy("linucb"))
