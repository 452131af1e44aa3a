"""Proposition: Lipschitz stability of the alignment cost."""

from __future__ import annotations

from bot_orch.lab.paper.theory import stability
from bot_orch.lab.paper.theory.assemble import theory_experiment, view
from bot_orch.lab.paper.theory.figures.bounds import draw_stability

EXPERIMENT = theory_experiment(
    id="theory-stability",
    title="Proposition: stability under a moving reference",
    about="The alignment cost is said to move by at most L W_1(nu, nu') when the reference moves from nu to nu'. "
    "Clouds of ten points in the unit square, exact transport, references moved by 0.001 to 1; three costs that "
    "are Lipschitz and two that are not, and the root W_2.",
    units=stability.units,
    run=stability.run,
    claims=stability.claims,
    measures=stability.measures,
    tables=[view("Largest change over L W_1(nu, nu'); for W_2 over W_2(nu, nu')", "ratio", "theory-stability")],
    draw=draw_stability,
    caption="Change of the alignment cost over its bound. Dotted: the bound. Left: random references; right: mass e of "
    "the reference moved away from the profile.",
    order=42,
)
