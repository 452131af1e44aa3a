"""The hypotheses and definitions of the theorem."""

from __future__ import annotations

from bot_orch.lab.paper.theory import hypotheses
from bot_orch.lab.paper.theory.assemble import theory_experiment, view
from bot_orch.lab.paper.theory.figures.hypotheses import draw_hypotheses

EXPERIMENT = theory_experiment(
    id="theory-hypotheses",
    title="Hypotheses and definitions",
    about="(A5) says eta_t = O(t^-1/2); the symbol is a step size in items 1 and 4 and an inverse temperature in the "
    "algorithms. phi is defined twice. The proof of item 1 passes from realised to conditional utilities by Azuma's "
    "inequality.",
    units=hypotheses.units,
    run=hypotheses.run,
    claims=hypotheses.claims,
    measures=hypotheses.measures,
    tables=[
        view(
            "Net utility of Algorithms 1 and 2 in triage, paper protocol", "net_utility", "theory-hypotheses", digits=1
        ),
        view("Distance of the propensity from 1/2, last ten rounds", "from_uniform", "theory-hypotheses"),
        view("Sum of squared steps at the last round", "sum_of_squares", "theory-hypotheses", digits=2),
    ],
    draw=draw_hypotheses,
    caption="Left: distance of Algorithm 1's propensity from the uniform policy. Right: sums of squared steps t^-a; "
    "item 4 needs one that stays bounded, item 1 a = 1/2.",
    order=39,
    source="Assumption 5, items 1 and 4",
)
