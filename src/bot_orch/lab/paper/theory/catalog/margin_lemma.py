"""Lemma: margin robustness, as the appendix states it."""

from __future__ import annotations

from bot_orch.lab.harness.tables import TableView
from bot_orch.lab.paper.theory import margin
from bot_orch.lab.paper.theory.assemble import theory_experiment
from bot_orch.lab.paper.theory.figures.bounds import draw_lemma

EXPERIMENT = theory_experiment(
    id="theory-margin-lemma",
    title="Lemma: margin robustness",
    about="The appendix states item 3 with the margin multiplied by lambda, Delta = lambda (w_j - w_i), and the noise "
    "not. printed: Delta = sigma sqrt(2 ln 2). scaled: w_j - w_i = sigma sqrt(2 ln 2).",
    units=margin.lemma_units,
    run=margin.run,
    claims=margin.lemma_claims,
    measures=margin.lemma_measures,
    tables=[
        TableView(
            "Share misordered at the threshold",
            "misordered",
            "theory",
            down="method",
            across="environment",
            experiment="theory-margin-lemma",
            digits=4,
        )
    ],
    draw=draw_lemma,
    caption="Share of misordered draws at the lemma's threshold, by lambda.",
    order=45,
)
