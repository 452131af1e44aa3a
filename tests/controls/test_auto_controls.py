"""auto with a part broken: the tests of that part must notice."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

import test_auto_forms as forms
import test_context as contexts
from auto_choices import check_doubt, check_newcomers, check_pending, tried
from auto_worlds import (
    check_a_bad_start_does_not_lock_out,
    check_doubt_looks_at_rivals,
    check_doubt_of_others_stays,
    check_improvement_is_found,
    check_permuted_words_cost_little,
    check_words_earn,
)

from bot_orch.arrays import allocate
from bot_orch.core.alignment.dual import AutoLambda
from bot_orch.core.alignment.gaps import Gaps
from bot_orch.core.alignment.units import Relative
from bot_orch.core.context import WithContext
from bot_orch.policies import auto
from bot_orch.policies.auto import Auto
from bot_orch.policies.base import Feedback
from bot_orch.rng import generator
from bot_orch.testing import policies as checks


def test_a_cheat_that_sets_the_standard(monkeypatch):
    """If agents not known yet did not count as close, whoever is known first would be the measure of all others."""
    first = Relative(np.array([1.0, 0.0]), np.array([0.9, 0.0]), np.array([True, False]))
    assert AutoLambda().excess(first)[0] > 0.2

    def of_the_known(distance, known, share=4):
        return np.sort(distance[known])[(known.sum() - 1) // share, None]

    monkeypatch.setattr("bot_orch.core.alignment.dual.closest_share", of_the_known)
    assert AutoLambda().excess(first)[0] == 0.0


def test_judging_by_the_mean_condemns_early():
    gaps, state = Gaps(1), allocate(Gaps(1).schema, (), 2)
    for agent, value in ((0, 0.2), (0, 0.3), (1, 0.6), (1, 1.2)):
        gaps.see_gap(state, np.array(agent), np.array(value))
    gaps.see_unit(state, np.array(1.0))
    unit = gaps.unit(state)
    budget = AutoLambda().budget(gaps.mean(state, unit), state["count"] >= 2)
    assert gaps.lower(state, unit)[1] < budget[0] < gaps.mean(state, unit)[1]


class IgnoresPending(Auto):
    def choose_one(self, state, given):
        return super().choose_one(state, replace(given, pending=None))


class WithoutDoubt(Auto):
    def choose_one(self, state, given):
        return replace(super().choose_one(state, given), doubt=None)


class Afraid(Auto):
    """Counts those without outcomes as tried: newcomers wait until their bonus is the largest."""

    def choose_one(self, state, given):
        seen = {**state, "count": np.maximum(state["count"], 1e-9)}
        return super().choose_one(seen, given)


@pytest.mark.parametrize(
    ("check", "broken", "said"),
    [
        (check_pending, IgnoresPending, "pending decisions do not lower exploration"),
        (check_doubt, WithoutDoubt, "the best one needs none of it"),
        (check_newcomers, Afraid, None),
    ],
)
def test_a_choice_without_a_part_is_noticed(check, broken, said):
    check(Auto())
    with pytest.raises(AssertionError, match=said):
        check(broken())


def test_trying_everybody_at_once_is_noticed(monkeypatch):
    monkeypatch.setattr("bot_orch.policies.auto.NEWCOMERS", 1e9)
    with pytest.raises(AssertionError, match="11 were tried by round 25"):
        check_newcomers(Auto())
    assert tried(Auto(), np.linspace(0.3, 0.9, 60), 60)[-1] == 60


def test_without_document_frequencies_words_earn_too_little(monkeypatch):
    real = WithContext._fit

    def flat(self, s):
        s["context_documents"][:] = 0.0
        real(self, s)

    monkeypatch.setattr(WithContext, "_fit", flat)
    with pytest.raises(AssertionError, match="texts earn"):
        check_words_earn()


def test_trusting_features_from_the_start_costs_too_much(monkeypatch):
    monkeypatch.setattr("bot_orch.policies.auto.SLOPES", (0.02,))
    with pytest.raises(AssertionError, match="texts of other tasks cost"):
        check_permuted_words_cost_little()


def test_trusting_old_estimates_misses_an_improvement():
    with pytest.raises(AssertionError, match="found after"):
        check_improvement_is_found(Auto(forgetting=False))


def test_an_even_floor_does_not_look_at_the_rival(monkeypatch):
    monkeypatch.setattr("bot_orch.core.pipeline._DIRECTED", 0.0)
    with pytest.raises(AssertionError, match="the rival gets"):
        check_doubt_looks_at_rivals()


def test_logarithms_of_numbers_of_both_signs_depend_on_their_unit(monkeypatch):
    def features(unit):
        policy = WithContext(Auto(), numbers=2)
        state, x = allocate(policy.schema(0), (), 2), generator("units").normal(size=(64, 2)) * unit
        for t, raw in enumerate(x, start=1):
            told = (np.array([True, False]), np.full(2, 0.5), np.full(2, 0.5), np.zeros(2), raw)
            policy.update(state, Feedback(t, np.array(0), *told))
        return np.abs([policy.features(state, raw) for raw in x])

    np.testing.assert_allclose(features(1000.0), features(1.0), atol=1e-4)
    monkeypatch.setattr("bot_orch.core.projection.HEAVY", 0.0)
    assert np.abs(features(1000.0) - features(1.0)).max() > 0.3


def test_a_counter_that_is_not_saved(monkeypatch):
    real = checks.Orchestrator.from_json.__func__

    def lossy(cls, text):
        router = real(cls, text)
        router._state.parts["policy"]["square"][...] = 3.0
        return router

    monkeypatch.setattr(checks.Orchestrator, "from_json", classmethod(lossy))
    with pytest.raises(AssertionError, match="restored"):
        checks.check_round_trip(Auto())


def test_one_noise_for_all_agents_is_noticed(monkeypatch):
    real = Auto.choose_one

    def pooled(self, state, given):
        n, prior = state["count"], auto.OWN * auto.START
        noise = (state["square"].sum() + prior) / (n.sum() + auto.OWN)
        return real(self, {**state, "square": noise * (n + auto.OWN) - prior}, given)

    monkeypatch.setattr(Auto, "choose_one", pooled)
    with pytest.raises(AssertionError, match="seldom asked"):
        check_doubt_of_others_stays()
    with pytest.raises(AssertionError, match="the better agent gets"):
        check_a_bad_start_does_not_lock_out(seeds=2)


def test_forgetting_the_prior_too_is_noticed(monkeypatch):
    """Scaling the covariance up instead: what is rarely seen would become more uncertain than before any outcome."""

    def scaled(theta, inverse):
        inverse /= auto.KEPT**auto.EVERY

    monkeypatch.setattr(auto, "_forget", scaled)
    for check in (forms.test_forgetting_discounts_outcomes_and_keeps_the_prior, dense):
        with pytest.raises(AssertionError, match="Mismatched elements"):
            check()


def dense():
    forms.test_learning_one_by_one_is_a_dense_ridge_regression(forgetting=True, features=True, claims=False)


def test_a_claim_that_is_not_added_is_noticed(monkeypatch):
    real = auto._inputs

    def unstated(s, x, claims, agents):
        z, offset = real(s, x, claims, agents)
        return z, np.full_like(offset, np.nan)

    forms.test_estimates_add_the_mean_of_all_agents_as_prior_or_the_claim("some")
    monkeypatch.setattr(auto, "_inputs", unstated)
    with pytest.raises(AssertionError):
        forms.test_estimates_add_the_mean_of_all_agents_as_prior_or_the_claim("some")


def test_a_weight_of_the_wrong_block_is_noticed(monkeypatch):
    """The last outcome before a discount was discounted, too."""
    real = Auto.revise

    def late(self, state, old, new, *, position):
        real(self, state, old, new, position=position + 1.0)

    forms.test_a_reward_that_is_replaced_late_counts_as_if_it_had_come_at_once(auto.EVERY - 1)
    monkeypatch.setattr(Auto, "revise", late)
    with pytest.raises(AssertionError, match="theta"):
        forms.test_a_reward_that_is_replaced_late_counts_as_if_it_had_come_at_once(auto.EVERY - 1)


def test_slopes_of_less_evidence_are_noticed(monkeypatch):
    real = Auto.rebase

    def last(self, state, rows):
        real(self, state, rows)
        state["slope"][...] = auto.SLOPES[-1]

    monkeypatch.setattr(Auto, "rebase", last)
    with pytest.raises(AssertionError):
        forms.test_the_slopes_of_largest_evidence_are_chosen(False)


def test_principal_components_that_ignore_the_rewards_are_noticed(monkeypatch):
    contexts.test_components_that_covary_with_the_rewards_come_first()
    monkeypatch.setattr("bot_orch.core.projection.surprises", lambda agent, reward, m: np.zeros((len(agent), m)))
    with pytest.raises(AssertionError):
        contexts.test_components_that_covary_with_the_rewards_come_first()
