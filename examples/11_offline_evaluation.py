"""What would another policy have earned? Estimated from the log of the one that ran."""

import numpy as np

from bot_orch import Outcome, Router, Task
from bot_orch.cli import main

rng = np.random.default_rng(7)
# A log needs chances: with floor=0.3 every agent gets at least a tenth of the traffic.
with Router(["small", "large", "person"], "epsilon-greedy", floor=0.3, seed=1, path="traffic.db") as router:
    for number in range(500):
        decision = router.decide(Task(f"t-{number}"))
        right = {"small": 0.4, "large": 0.8, "person": 0.7}[decision.agent]
        router.observe(decision.id, Outcome.completed(reward=float(rng.random() < right)))

# The same as: bot-orch evaluate traffic.db --policy agent:large uniform ucb1
main(["evaluate", "traffic.db", "--policy", "agent:large", "uniform", "ucb1"])
