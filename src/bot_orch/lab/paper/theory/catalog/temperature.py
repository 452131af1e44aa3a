"""The price of a constant temperature."""

from __future__ import annotations

from bot_orch.lab.paper.theory import temperature
from bot_orch.lab.paper.theory.assemble import theory_experiment, view
from bot_orch.lab.paper.theory.figures.limits import draw_temperature

EXPERIMENT = theory_experiment(
    id="theory-temperature",
    title="The price of a constant temperature",
    about="Six agents with Bernoulli rewards of mean 0.3 to 0.8, no alignment, bandit feedback. The paper compares "
    "over 200 rounds; here the same policies go on to 20 000.",
    units=temperature.units,
    run=temperature.run,
    claims=temperature.claims,
    measures=temperature.measures,
    tables=[
        view(f"Regret after {h:,} rounds", f"regret_{h}", "theory-temperature", digits=1) for h in temperature.HORIZONS
    ],
    draw=draw_temperature,
    caption="Regret against rounds, mean over seeds. A straight line of slope one is linear regret.",
    order=48,
)
