"""Lemma: concentration of the survival reward."""

from __future__ import annotations

from bot_orch.lab.paper.theory import concentration
from bot_orch.lab.paper.theory.assemble import theory_experiment, view
from bot_orch.lab.paper.theory.figures.bounds import draw_concentration

EXPERIMENT = theory_experiment(
    id="theory-concentration",
    title="Lemma: concentration of the survival reward",
    about="R = delta S(T)^theta is said to satisfy P(|R - E R| &gt; e) &le; 2 exp(-2 e^2). Three survival models with "
    "gamma frailty and censoring, and the extreme case of a reward that is 0 or 1.",
    units=concentration.units,
    run=concentration.run,
    claims=concentration.claims,
    measures=concentration.measures,
    tables=[
        view("Largest excess of a tail over the bound: one reward", "excess_single", "theory-concentration"),
        view("... average of 25 with their own frailties", "excess_independent", "theory-concentration"),
        view("... average of 25 with one frailty", "excess_shared", "theory-concentration"),
    ],
    draw=draw_concentration,
    caption="Empirical tails beside the bound. For averages of n the deviation is multiplied by sqrt(n), so that one "
    "bound serves all panels.",
    order=43,
)
