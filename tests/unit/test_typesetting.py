"""Formulas are found in sentences, and words are left alone."""

import pytest

from bot_orch.lab.harness.typesetting import lettered, typeset


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at lambda = 3, then", "at λ = 3, then"),
        ("u = R - lambda W, eta_t ~ t^-1/2", "u = R - λ W, η<sub>t</sub> ~ t<sup>−1/2</sup>"),
        ("regret O(sqrt T) against", "regret O(√ T) against"),
        ("an eighth, (b-a)^2/8", "an eighth, (b-a)<sup>2</sup>/8"),
        ("W_c(nu', mu) and W_1", "W<sub>c</sub>(ν', μ) and W<sub>1</sub>"),
        ("R = delta S(T)^theta is", "R = delta S(T)<sup>θ</sup> is"),
        ("lambda* = 13 (lambda*)", "λ* = 13 (λ*)"),
        ("max_i U_t(i), x_t^2, rhat", "max<sub>i</sub> U<sub>t</sub>(i), x<sub>t</sub><sup>2</sup>, r̂"),
        ("mean 0.5 +- 0.1", "mean 0.5 ± 0.1"),
    ],
)
def test_formulas(text, shown):
    assert typeset(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "thompson-beta+ot, lambda-independent and bot-orch@13",
        "a gamma frailty with a beta prior: A or I, 20 of 30",
        "<code>lambda = 3</code> and <b class=in>95 %</b>",
        "slope 0.50 [0.49, 0.52] (see theory-temperature) - and so on",
        "the escalation_rate of team_accuracy 0.98-1.00, x &lt; 3 &amp; y",
    ],
)
def test_words_stay_words(text):
    assert typeset(text) == text


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("thompson-beta+ot", "thompson-beta+ot"),
        ("regret of eta_t ~ sqrt(t)", r"regret of $\eta_{t}$ ~ √(t)"),
        ("net_utility at lambda", "net_utility at λ"),
        ("$10^{3}$", "$10^{3}$"),
    ],
)
def test_labels_of_figures(label, shown):
    assert lettered(label) == shown
