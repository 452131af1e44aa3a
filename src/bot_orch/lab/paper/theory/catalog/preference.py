"""Preference by policies."""

from __future__ import annotations

from bot_orch.lab.paper.theory import preference
from bot_orch.lab.paper.theory.assemble import theory_experiment, view
from bot_orch.lab.paper.theory.figures.hypotheses import draw_preference

EXPERIMENT = theory_experiment(
    id="theory-preference",
    title="Preference by policies, not only by utilities",
    about="The abstract says that the method provably prefers, among agents with identical mean rewards, the better "
    "aligned one. Item 2 orders utilities; a policy orders agents by what it has seen, so the claim can hold in "
    "expectation only. Here the probabilities of the policies are compared: two agents with equal "
    "rewards, one better aligned by 0.05 or 0.2, lambda = 1, bounded noise on the alignment.",
    units=preference.units,
    run=preference.run,
    claims=preference.claims,
    measures=preference.measures,
    tables=[
        view("Share of rounds in which the better aligned agent is preferred", "rounds_preferred", "theory-preference"),
        view("Share of runs, on average over the rounds", "runs_preferred", "theory-preference"),
    ],
    draw=draw_preference,
    caption="Mean probability of the better aligned agent, over seeds.",
    order=49,
    source="Abstract",
)
