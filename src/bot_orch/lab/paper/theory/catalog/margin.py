"""Theorem, item 3: margin robustness."""

from __future__ import annotations

from bot_orch.lab.paper.theory import margin
from bot_orch.lab.paper.theory.assemble import theory_experiment, view
from bot_orch.lab.paper.theory.figures.bounds import draw_margin

EXPERIMENT = theory_experiment(
    id="theory-margin",
    title="Theorem, item 3: margin robustness",
    about="With Gaussian noise on the alignment costs and |w_j - w_i| &gt; sigma sqrt(2 ln 2), two agents are said to "
    "be misordered with probability below 1/4.",
    units=margin.margin_units,
    run=margin.run,
    claims=margin.margin_claims,
    measures=margin.margin_measures,
    tables=[
        view(
            "Share misordered",
            "misordered",
            "theory-margin",
            digits=4,
            note="margin/x: x sigma; deficit/x: r_j - r_i = x lambda sigma",
        ),
        view("The same, exactly", "exact", "theory-margin", digits=4),
    ],
    draw=draw_margin,
    caption="Share of misordered draws against the margin (left) and against the reward the better aligned agent lacks "
    "(right).",
    order=44,
)
