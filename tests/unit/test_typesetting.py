"""Formulas are found in sentences, and words are left alone."""

import re
from xml.etree import ElementTree

import pytest

from bot_orch.lab.harness.typesetting import lettered, plain, typeset


def read(html):
    """Formulas in brackets, indices and powers by their signs."""

    def told(found):
        root = ElementTree.fromstring(found[0].replace("&#x2061;", ""))  # noqa: S314
        return f"[{inner(root)}]"

    return re.sub(r"<math>.*?</math>", told, html)


def inner(node):
    parts = [inner(child) if len(child) else (child.text or "") for child in node]
    match node.tag:
        case "msub":
            return f"{parts[0]}_{parts[1]}"
        case "msup":
            return f"{parts[0]}^{{{parts[1]}}}"
        case "msubsup":
            return f"{parts[0]}_{parts[1]}^{{{parts[2]}}}"
        case "msqrt":
            return f"√{{{''.join(parts)}}}"
    return "".join(parts)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at lambda = 3, then", "at [λ=3], then"),
        ("weights on u = R - lambda W, eta_t ~ t^-1/2, have", "weights on [u=R−λW], [η_t∼t^{−1/2}], have"),
        ("regret O(sqrt T) against", "regret [O(√{T})] against"),
        ("0.89 of (b-a) sqrt(T ln M / 2); slope", "0.89 of [(b−a)√{TlnM/2}]; slope"),
        ("an eighth, (b-a)^2/8", "an eighth, [(b−a)^{2}/8]"),
        ("With softmax(eta_t times the sum) it", "With softmax([η_t] times the sum) it"),
        ("|W_c(nu, mu) - W_c(nu', mu)| / (L W_1(nu, nu')) over", "[|W_c(ν,μ)−W_c(ν′,μ)|/(LW_1(ν,ν′))] over"),
        ("P(|R - E R| &gt; e) &le; 2 exp(-2 e^2). So", "[P(|R−ER|>e)≤2exp(−2e^{2})]. So"),
        ("sigma sqrt((1-alpha)/(1+alpha))", "[σ√{(1−α)/(1+α)}]"),
        ("R = delta S(T)^theta is", "[R=δS(T)^{θ}] is"),
        ("lambda* = 13 (lambda*)", "[λ^{*}=13(λ^{*})]"),
        ("noise (1.25) and eta (1.5) were", "noise (1.25) and [η] (1.5) were"),
        ("regret to max_i U_t(i) of item 4 phi_t", "regret to [max_iU_t(i)] of item 4 [φ_t]"),
        ("psi''(s) = 1/(4 cosh^2(s/2)) is |Delta|", "[ψ′′(s)=1/(4cosh^{2}(s/2))] is [|Δ|]"),
        ("mean 0.5 +- 0.1", "mean 0.5 ± 0.1"),
        ("marked $x + 1$ only", "marked [x+1] only"),
    ],
)
def test_formulas(text, shown):
    assert read(typeset(text)) == shown


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


def test_plain_text_keeps_what_was_marked():
    assert plain("marked $x + 1$ only") == "marked x + 1 only"
