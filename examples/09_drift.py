"""An agent changes: the monitor of its outputs raises an alarm, and the traffic moves to another one."""

import numpy as np

from bot_orch import Alignment, Outcome, Router, Samples, Task, Watch
from bot_orch.transport import Scores


def alarm(agent: str, count: int) -> None:
    """Called after the outcome that raised the alarm; write to whoever is on duty."""
    print(f"round {len(router.history())}: the outputs of {agent} have changed")


rng = np.random.default_rng(3)
router = Router(
    ["model", "backup"],
    seed=2,
    alignment=Alignment(Scores(), watch=Watch(recent=20, older=40)),  # compare 20 new outputs with 40 older ones
    on_alarm=alarm,
)
for number in range(400):
    decision = router.decide(Task(f"t-{number}"))
    quality = 0.7 if decision.agent == "backup" else 0.9 if number < 200 else 0.4  # an update makes the model worse
    confidence = float(np.clip(rng.normal(quality, 0.05), 0.0, 1.0))
    right = float(rng.random() < quality)
    router.observe(decision.id, Outcome.completed(reward=right, output=Samples([confidence])))

chosen = [row["agent"] for row in router.history()]
for first in range(0, 400, 100):
    print(f"rounds {first + 1:3} to {first + 100}: {chosen[first : first + 100].count('model')} % to the model")
