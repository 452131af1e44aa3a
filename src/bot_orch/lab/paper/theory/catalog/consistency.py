"""Theorem, item 5: consistency of the estimates."""

from __future__ import annotations

from bot_orch.lab.paper.theory import consistency
from bot_orch.lab.paper.theory.assemble import theory_experiment, view
from bot_orch.lab.paper.theory.consistency_claims import claims
from bot_orch.lab.paper.theory.figures.limits import draw_consistency

EXPERIMENT = theory_experiment(
    id="theory-consistency",
    title="Theorem, item 5: consistency of the estimates",
    about="The empirical mean of all rewards is said to converge to the averaged conditional mean, for all agents at "
    "once. The algorithms use the same symbol for a moving average, and see only the chosen agent.",
    units=consistency.units,
    run=consistency.run,
    claims=claims,
    measures=consistency.measures,
    tables=[
        view("Largest error over agents at the last round", "error", "theory-consistency", digits=4),
        view("Level of the estimate of a mean of 0.6, second half of the run", "level", "theory-consistency"),
    ],
    draw=draw_consistency,
    caption="Left: largest error over agents. Middle: one path per estimate; band: sigma sqrt((1-alpha)/(1+alpha)), "
    "dotted: 1.5 times the mean. Right: bias of the mean of chosen rewards.",
    order=47,
)
