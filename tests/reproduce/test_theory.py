"""The theorem as runs: verdicts, closed forms, and verdict functions that can say no."""

from __future__ import annotations

import copy
import math
from functools import cache

import numpy as np
import pytest

from bot_orch.arrays import allocate
from bot_orch.core import pipeline
from bot_orch.lab.harness.experiment import Scale, discover, find
from bot_orch.lab.harness.report import Section, theory_answer
from bot_orch.lab.paper.theory import (
    concentration,
    consistency,
    convergence,
    hypotheses,
    margin,
    preference,
    regret,
    stability,
    structure,
    temperature,
)
from bot_orch.lab.paper.theory.items import Claim, Verdict, loglog_slope
from bot_orch.lab.paper.theory.regret import CASES
from bot_orch.lab.paper.theory.weights import ExponentialWeights
from bot_orch.numerics.choice import softmax
from bot_orch.numerics.estimators import EMA, MeanReward
from bot_orch.numerics.schedules import Constant, Power
from bot_orch.policies.base import Situation
from bot_orch.rng import generator

HOLDS, CORRECTED, FAILS = Verdict.HOLDS, Verdict.CORRECTED, Verdict.FAILS

EXPECTED = {
    "theory-hypotheses": [CORRECTED, HOLDS, FAILS, CORRECTED, CORRECTED, HOLDS, FAILS],
    "theory-regret": [FAILS, HOLDS, CORRECTED, CORRECTED, FAILS],
    "theory-structure": [HOLDS],
    "theory-stability": [HOLDS, HOLDS, CORRECTED],
    "theory-concentration": [HOLDS, CORRECTED, CORRECTED, HOLDS, CORRECTED],
    "theory-margin": [CORRECTED, CORRECTED],
    "theory-margin-lemma": [CORRECTED],
    "theory-convergence": [CORRECTED, HOLDS],
    "theory-consistency": [HOLDS, FAILS, FAILS, CORRECTED],
    "theory-temperature": [CORRECTED],
    "theory-preference": [CORRECTED, CORRECTED, CORRECTED, CORRECTED],
}


@cache
def _run(name: str) -> dict:
    experiment = discover()[name]
    return {unit.key: experiment.run(unit.params) for unit in experiment.units(Scale(quick=True))}


def results(name: str) -> dict:
    """Fresh copy, so that a control may break it."""
    return copy.deepcopy(_run(name))


def test_the_page_counts_what_the_paper_states():
    sections = []
    for name in ("theory-structure", "theory-margin-lemma", "theory-temperature"):
        found = discover()[name]
        sections.append(Section(found, found.rows(results(name)), [], figures=[], notes=[]))
    (answer,) = theory_answer(sections)
    assert "Of 2 statements" in answer and "1 hold, 1 hold with a correction, 0 fail" in answer, "temperatures are ours"


def verdicts(claims: list[Claim]) -> list[Verdict]:
    return [claim.verdict for claim in claims]


def mean(payload: dict) -> float:
    return float(np.mean(payload["misordered"]))


# --- every experiment ---------------------------------------------------------------------------------------------


def test_prefix_finds_every_item():
    assert [experiment.id for experiment in find(["theory"])] == list(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_verdicts(name):
    rows = [row for row in discover()[name].rows(results(name)) if row.metric == "verdict"]
    assert [row.mean for row in rows] == [verdict.value for verdict in EXPECTED[name]]
    assert len({row.method for row in rows}) == len(rows)


@pytest.mark.parametrize("name", EXPECTED)
def test_report_parts(name):
    experiment, found = discover()[name], results(name)
    notes = experiment.notes(found)
    assert [verdict.words in note for verdict, note in zip(EXPECTED[name], notes, strict=True)] == [True] * len(notes)
    rows = experiment.rows(found)
    assert all(math.isfinite(row.mean) and row.protocol == "theory" for row in rows)
    shown = {row.metric for row in rows}
    quick_lacks = {"regret_20000"}
    assert {view.metric for view in experiment.tables} - shown <= quick_lacks
    assert [view.name for view in experiment.figures(found)] == [name]


@pytest.mark.parametrize("name", ["theory-margin", "theory-structure"])
def test_one_seed_is_enough_to_run(name):
    experiment = discover()[name]
    units = experiment.units(Scale(quick=True, seeds=1))
    assert experiment.rows({unit.key: experiment.run(unit.params) for unit in units})


def test_a_verdict_follows_from_two_tests():
    tests = [{"printed": True}, {"printed": False, "mended": True}, {"printed": False}]
    assert verdicts([Claim("item", "Why.", **each) for each in tests]) == [HOLDS, CORRECTED, FAILS]


def test_slope_of_a_power():
    x = np.array([10, 100, 1000])
    slope = loglog_slope(x, np.sqrt(x)[:, None] * np.array([1.0, 1.2, 0.8]))
    assert [slope.value, slope.low, slope.high] == pytest.approx([0.5] * 3)


# --- item 1 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", [Constant(0.2), Power(0.7, -0.5)])
def test_closed_form_is_the_policy(schedule):
    case = CASES["gaps"]
    rounds = case.draw(0, 60)
    eta = np.array([schedule(t) for t in range(1, 61)])
    p = regret.exponential_weights(rounds.utility(case.lambda_), eta, lazy=False)
    policy = ExponentialWeights(schedule)
    state = allocate(policy.schema(0), (), case.agents)
    for t in range(60):
        drawn = pipeline.decide(policy, state, Situation(t + 1, case.lambda_ * rounds.alignment[t]), u=0.5)
        np.testing.assert_allclose(drawn.propensities, p[t], atol=1e-12)
        pipeline.apply(policy, state, pipeline.full_feedback(drawn, rounds.reward[t]))


@pytest.mark.parametrize("name", CASES)
def test_utilities_lie_in_their_range(name):
    case = CASES[name]
    u = case.draw(3, 500).utility(case.lambda_)
    assert u.min() >= case.low - 1e-12
    assert u.max() <= case.high + 1e-12


def test_regret_bands():
    found = results("theory-regret")
    assert regret.worst_ratio(found, "constant") <= 1.0
    assert regret.worst_ratio(found, "lazy") <= 1.0
    horizons, values = regret.curve(found, "alternating", "constant")
    assert np.mean(values[-1]) / horizons[-1] == pytest.approx(0.5, abs=0.02)
    horizons, values = regret.curve(found, "switch", "printed", metric="static")
    assert values[-1][0] / horizons[-1] == pytest.approx(0.5, abs=0.05)
    horizons, values = regret.curve(found, "alternating", "bot-orch")
    assert np.mean(values[-1]) / horizons[-1] == pytest.approx(1.0 / (1.0 + math.e**5), abs=0.004)


def test_lazy_bound_is_at_most_root_t_ln_m():
    assert regret.lazy_bound(10_000, 6, 2.0) <= 2.0 * math.sqrt(10_000 * math.log(6)) + 1e-9


def test_control_an_anti_learner_fails_every_claim(monkeypatch):
    """Weights that favour the worse agent have little static regret where the better agent changes once."""
    honest, learn = results("theory-regret"), regret.exponential_weights
    monkeypatch.setattr(regret, "exponential_weights", lambda u, eta, *, lazy: learn(-u, eta, lazy=lazy))
    anti = {}
    for unit in discover()["theory-regret"].units(Scale(quick=True)):
        if unit.params["method"] in regret.BANDIT:
            worst = CASES[unit.params["case"]].width / 2.0
            anti[unit.key] = {**honest[unit.key], "per_round": [[worst * h] for h in unit.params["horizons"]]}
        else:
            anti[unit.key] = regret.run(unit.params)
    assert regret.slope_of(anti, "switch", "printed", metric="static").high < regret.ROOT  # one passes
    assert verdicts(regret.claims(anti)) == [FAILS] * 5


def test_regret_verdicts_can_flip():
    found = results("theory-regret")
    for name in CASES:
        found[f"{name}/printed"]["per_round"] = found[f"{name}/constant"]["static"]
    assert regret.claims(found)[0].verdict is HOLDS
    found["coins/constant"]["static"][-1][0] *= 10.0
    found["coins/lazy"]["static"][-1][0] *= 10.0
    assert verdicts(regret.claims(found))[1:3] == [FAILS, FAILS]
    for key, payload in found.items():
        if key.startswith("gaps/importance-weighted"):
            payload["per_round"] = [[0.2 * h] for h in payload["horizons"]]
    assert regret.claims(found)[3].verdict is FAILS
    for name in ("gaps", "alternating"):
        found[f"{name}/bot-orch"]["per_round"] = [[math.sqrt(h)] for h in found[f"{name}/bot-orch"]["horizons"]]
    assert regret.claims(found)[4].verdict is HOLDS


# --- hypotheses and preference ------------------------------------------------------------------------------------


def test_hypotheses_bands():
    found = results("theory-hypotheses")
    for condition in ("iid", "noniid"):
        constant, decreasing = (found[f"rate/{condition}"]["rates"][name] for name in hypotheses.RATES)
        assert np.mean(decreasing["net_utility"]) < np.mean(constant["net_utility"]) - 10.0
        assert np.mean(decreasing["from_uniform"]) < 0.1 < 0.4 < np.mean(constant["from_uniform"])
    squares = found["steps"]["exponents"]["0.5"]["squares"]
    np.testing.assert_allclose(np.diff(squares), np.diff(np.log(found["steps"]["horizons"])), rtol=0.01)
    share = np.mean(found["azuma"]["oracle"][-1]) / found["azuma"]["horizons"][-1]
    assert share == pytest.approx(1.0 - 2.0 / 64.0, abs=0.01)  # the best of six coins


def test_hypotheses_verdicts_can_flip():
    found = results("theory-hypotheses")
    for condition in ("iid", "noniid"):
        rates = found[f"rate/{condition}"]["rates"]
        rates["eta = 5 t^-1/2 (A5)"] = rates["eta = 5"]
    found["phi"]["phi"] = found["phi"]["pi"]
    found["azuma"]["fixed"], found["azuma"]["oracle"] = found["azuma"]["oracle"], found["azuma"]["fixed"]
    found["frailty"]["moments"] = {s: [1.0, 1.0, 1.0] for s in found["frailty"]["moments"]}
    found["censoring"]["correlation"] = [0.3 + 0.01 * k for k in range(5)]
    assert verdicts(hypotheses.claims(found)) == [HOLDS, FAILS, HOLDS, CORRECTED, HOLDS, FAILS, HOLDS]
    found["phi"]["phi"] = [0.1, 0.1, 0.8]
    found["steps"]["exponents"]["1"]["squares"][-1] = 5.0
    assert verdicts(hypotheses.claims(found))[3:5] == [FAILS, FAILS]


def test_preference_verdicts_can_flip():
    found = results("theory-preference")
    always, never = copy.deepcopy(found), copy.deepcopy(found)
    for key in found:
        always[key]["rounds_preferred"] = [1.0, 1.0]
        never[key]["mean_probability"] = [0.4, 0.41]
    assert verdicts(preference.claims(always)) == [HOLDS] * 4
    assert verdicts(preference.claims(never)) == [FAILS] * 4


# --- item 2 and the proposition -----------------------------------------------------------------------------------


def test_structure_is_exact_and_can_flip():
    found = results("theory-structure")
    assert max(found["equal-rewards"]["strict_broken"] + found["equal-rewards"]["equivalence_broken"]) == 0.0
    assert min(found["lambda-0"]["strict_broken"]) == 1.0
    assert 0.03 < np.mean(found["unequal-rewards"]["strict_broken"]) < 0.12
    found["equal-rewards"] = found["unequal-rewards"]
    assert structure.claims(found)[0].verdict is FAILS


def test_stability_ratios():
    found = results("theory-stability")
    assert all(max(found[name]["ratio"]) <= 1.0 + 1e-9 for name in stability.LIPSCHITZ)
    assert max(found["zero-one"]["ratio"]) > 10.0  # the control: without (A1) the bound breaks
    root = found["root W_2"]["root"]
    np.testing.assert_allclose(root["printed"], [0.5 / math.sqrt(e) for e in root["mass"]])


def test_stability_verdicts_can_flip():
    found = results("theory-stability")
    found["truncated metric"]["ratio"] = found["zero-one"]["ratio"]
    found["one-sided"]["preference_broken"] = [0.1]
    found["root W_2"]["ratio"] = [1.5]
    assert verdicts(stability.claims(found)) == [FAILS, FAILS, FAILS]


# --- the lemmas and item 3 ----------------------------------------------------------------------------------------


def test_curvature_against_differences():
    s, m, h = np.linspace(-3, 3, 7), 0.2, 1e-4

    def psi(v):
        return -v * m + np.log(1 - m + m * np.exp(v))

    numeric = (psi(s + h) - 2 * psi(s) + psi(s - h)) / h**2
    np.testing.assert_allclose(concentration.curvature(s, m), numeric, atol=1e-6)


def test_concentration_verdicts_can_flip():
    found = results("theory-concentration")
    found["weibull"]["excess"]["single"] = [0.2]
    found["weibull"]["excess"]["independent"] = [0.2]
    found["weibull"]["excess"]["frail single"] = [0.2]
    assert [verdicts(concentration.claims(found))[at] for at in (0, 2, 3, 4)] == [FAILS, FAILS, FAILS, FAILS]
    for payload in found.values():
        payload["excess"] = {kind: [-0.1] for kind in payload["excess"]}
    assert [verdicts(concentration.claims(found))[at] for at in (0, 2, 3, 4)] == [HOLDS, HOLDS, HOLDS, HOLDS]


def test_rewards_with_frail_times_are_uniform_before_censoring():
    """S(T)^theta is uniform on [0, 1] if T follows S^theta; with T from S its mean depends on theta."""
    frail, plain = (
        concentration.rewards("exponential", generator("test", "frail"), (4000, 5), shared=True, frail=frail)
        for frail in (True, False)
    )
    assert np.quantile(frail[frail > 0], 0.9) == pytest.approx(0.9, abs=0.02)
    assert abs(np.quantile(plain[plain > 0], 0.9) - 0.9) > 0.02


def test_survival_rewards_are_bounded():
    r = concentration.rewards("log-normal", generator("test"), (50, 20), shared=True)
    assert r.min() >= 0.0
    assert r.max() <= 1.0
    assert (r == 0.0).any()


def test_margin_against_the_formula():
    assert margin.misordering(margin.THRESHOLD) == pytest.approx(0.2025, abs=5e-5)
    assert margin.tail_bound(margin.THRESHOLD) == pytest.approx(0.3536, abs=5e-5)
    for name in ("theory-margin", "theory-margin-lemma"):
        for payload in results(name).values():
            draws = 5 * 5_000
            error = 4.0 * math.sqrt(payload["exact"] * (1.0 - payload["exact"]) / draws)
            assert mean(payload) == pytest.approx(payload["exact"], abs=error)


def test_margin_lemma_needs_scaled_noise():
    found = results("theory-margin-lemma")
    assert mean(found["printed/3"]) == pytest.approx(0.391, abs=0.015)
    assert all(mean(found[f"scaled/{v:g}"]) == pytest.approx(0.2025, abs=0.015) for v in margin.LAMBDAS)


def test_margin_verdicts_can_flip():
    found = results("theory-margin")
    literal = {k: p for k, p in found.items() if k.startswith("margin/")} | {"sign/-1": found["margin/2.000"]}
    literal["deficit/0.5"] = found["margin/2.000"]
    assert margin.margin_claims(literal)[0].verdict is HOLDS
    found["margin/2.000"]["misordered"] = [0.3]
    assert margin.margin_claims(found)[0].verdict is FAILS
    lemma = results("theory-margin-lemma")
    small = {k: p for k, p in lemma.items() if k.split("/")[1] in ("0.5", "1")}
    assert margin.lemma_claims(small)[0].verdict is HOLDS
    lemma["scaled/3"]["misordered"] = [0.4]
    assert margin.lemma_claims(lemma)[0].verdict is FAILS


# --- item 4 -------------------------------------------------------------------------------------------------------


def test_recursion_is_the_one_of_the_theorem():
    """phi_{t+1} = phi_t + (target_t - phi_t) / (t + 1), step by step."""
    target = softmax(generator("test").random((40, 3)))
    phi = np.full(3, 1 / 3)
    for t in range(40):
        phi = phi + (target[t] - phi) / (t + 2)
    np.testing.assert_allclose(phi, convergence.recursion(target)[-1], atol=1e-12)


def test_limits_by_sampling():
    realised, conditional = convergence.CASE.draw(generator("test", "limits"), 200_000)
    exact = convergence.limits(convergence.CASE)
    np.testing.assert_allclose(softmax(realised).mean(axis=0), exact["mean softmax"], atol=3e-3)
    np.testing.assert_allclose(softmax(conditional).mean(axis=0), exact["mean softmax, given the task"], atol=3e-3)
    np.testing.assert_allclose(softmax(realised.mean(axis=0)), exact["softmax of the mean"], atol=5e-3)
    assert abs(exact["mean softmax"][0] - exact["softmax of the mean"][0]) > 0.03


def test_convergence_verdicts_can_flip():
    found = results("theory-convergence")
    printed = [[found["realised"]["limits"]["softmax of the mean"]]]
    found["realised"]["phi"] = found["conditional"]["phi"] = printed
    assert convergence.claims(found)[0].verdict is HOLDS
    found["realised"]["phi"] = [[[0.2, 0.2, 0.6]]]
    found["running mean"]["phi"] = [[[0.2, 0.2, 0.6]]]
    assert verdicts(convergence.claims(found)) == [FAILS, FAILS]


# --- item 5 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.0, 0.05])
def test_ema_paths_are_the_estimator(beta):
    reward = generator("test", "ema").random((30, 2))
    estimator = EMA(0.9, MeanReward(beta)) if beta else EMA(0.9)
    state = allocate(estimator.schema(), (), 2)
    path = consistency.ema_paths(reward, beta=beta)
    for t in range(30):
        estimator.update(state, np.ones(2, dtype=bool), reward[t])
        np.testing.assert_allclose(estimator.estimate(state), path[t], atol=1e-12)


def test_consistency_bands():
    iid = results("theory-consistency")["iid"]
    assert np.mean(iid["ema_spread"]) == pytest.approx(consistency.ema_spread(0.6), rel=0.05)
    assert consistency.ema_spread(0.6) == pytest.approx(0.1124, abs=5e-5)
    assert np.mean(iid["alg2_level"]) == pytest.approx(0.9, abs=0.02)
    assert loglog_slope(iid["horizons"], iid["mean_error"]).value == pytest.approx(-0.5, abs=0.1)


def test_means_of_the_chosen_are_biased_downwards():
    found = results("theory-consistency")["bandit/ucb1"]
    first = np.array(found["bias"][0])
    assert (first[:, 0] + 2.0 * first[:, 1] / math.sqrt(found["seeds"]) < 0.0).all()
    assert abs(found["bias"][-1][-1][0]) < 0.005  # the best agent, asked most, is known best


def test_consistency_verdicts_can_flip():
    found = results("theory-consistency")
    iid = found["iid"]
    iid["mean_error"], iid["ema_error"] = iid["ema_error"], iid["mean_error"]
    iid["alg2_level"] = [0.6]
    assert verdicts(consistency.claims(found))[:3] == [FAILS, HOLDS, HOLDS]
    found["bandit/ucb1"]["error"] = found["bandit/greedy"]["error"]
    found["bandit/ucb1"]["horizons"] = found["bandit/greedy"]["horizons"]
    found["bandit/ucb1"]["error"][-1] = [1.0] * len(found["bandit/ucb1"]["error"][-1])
    assert consistency.claims(found)[3].verdict is FAILS


# --- the constant temperature -------------------------------------------------------------------------------------


def test_constant_temperature_loses_later():
    found = results("theory-temperature")
    ours, rival = found["eta = 5, moving average"], found["UCB1"]
    at = {
        h: (np.mean(a), np.mean(b)) for h, a, b in zip(ours["horizons"], ours["regret"], rival["regret"], strict=True)
    }
    assert at[200][0] < at[200][1]
    assert at[2_000][0] > at[2_000][1]
    assert at[2_000][0] - at[1_000][0] == pytest.approx(1_000 * 0.12, rel=0.15)  # softmax(5 r) loses 0.1226 a round


def test_temperature_verdict_can_flip():
    found = results("theory-temperature")
    won = copy.deepcopy(found)
    won["eta = 5, moving average"]["regret"] = [[1.0] for _ in won["UCB1"]["horizons"]]
    assert temperature.claims(won)[0].verdict is HOLDS
    for name, payload in found.items():
        if name != "UCB1":
            payload["regret"] = [[1e6] for _ in payload["horizons"]]
    assert temperature.claims(found)[0].verdict is FAILS
