"""Theorem, item 1: sublinear regret."""

from __future__ import annotations

from bot_orch.lab.paper.theory.assemble import theory_experiment, view
from bot_orch.lab.paper.theory.figures.regret import draw_regret
from bot_orch.lab.paper.theory.regret import curves
from bot_orch.lab.paper.theory.regret.claims import claims

EXPERIMENT = theory_experiment(
    id="theory-regret",
    title="Theorem, item 1: sublinear regret",
    about="Exponential weights on u = R - lambda W, eta_t ~ t^-1/2, are said to have regret O(sqrt T) against the best "
    "agent of every round. Four streams: coins (nobody is better), gaps (one agent is better by 0.15 or more), "
    "alternating (the task decides at random which of two agents fits), switch (the fit changes once, after a quarter "
    "of the rounds). Full information is evaluated in closed form, bandit feedback by playing the policies.",
    units=curves.units,
    run=curves.run,
    claims=claims,
    measures=curves.measures,
    tables=[
        view("Static regret over (b-a) sqrt(T ln M / 2), longest horizon", "static_regret_over_bound", "theory-regret"),
        view("Regret per round to the best of every round", "per_round_regret_per_round", "theory-regret", digits=4),
    ],
    draw=draw_regret,
    caption="Regret against the horizon, mean and two standard errors over seeds, with the fitted log-log slope and "
    "its 95 % interval. Dotted: the bound.",
    order=40,
)
