"""Theorem, item 2: structural optimality."""

from __future__ import annotations

from bot_orch.lab.paper.theory import structure
from bot_orch.lab.paper.theory.assemble import theory_experiment, view
from bot_orch.lab.paper.theory.figures.bounds import draw_structure

EXPERIMENT = theory_experiment(
    id="theory-structure",
    title="Theorem, item 2: structural optimality",
    about="With equal expected rewards the agent with the smaller alignment cost is said to have the larger utility. "
    "Random instances on a grid on which floating-point arithmetic is exact, a tenth of them ties.",
    units=structure.units,
    run=structure.run,
    claims=structure.claims,
    measures=structure.measures,
    tables=[
        view("Share of instances that break the strict inequality", "strict_broken", "theory-structure"),
        view("Share of instances that break the equivalence", "equivalence_broken", "theory-structure"),
    ],
    draw=draw_structure,
    caption="Difference of utilities against lambda times the difference of alignment costs.",
    order=41,
)
