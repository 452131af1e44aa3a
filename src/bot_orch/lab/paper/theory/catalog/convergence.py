"""Theorem, item 4: convergence of the weights."""

from __future__ import annotations

from bot_orch.lab.paper.theory import convergence
from bot_orch.lab.paper.theory.assemble import theory_experiment, view
from bot_orch.lab.paper.theory.figures.limits import draw_convergence

EXPERIMENT = theory_experiment(
    id="theory-convergence",
    title="Theorem, item 4: convergence of the weights",
    about="phi moves a step of 1/(t+1) towards a softmax; it is said to converge to the softmax of the mean utilities. "
    "Three agents, two kinds of task, Bernoulli rewards, lambda = 3; all candidate limits are computed exactly.",
    units=convergence.units,
    run=convergence.run,
    claims=convergence.claims,
    measures=convergence.measures,
    tables=[view(f"Weight of agent {i + 1} at the end", f"phi_{i}", "theory-convergence", digits=4) for i in range(3)],
    draw=draw_convergence,
    caption="Distance of the mean weights to three candidate limits; a line that keeps falling has found its limit.",
    order=46,
)
