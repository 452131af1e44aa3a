"""A reward of your own: the judge's verdict, less what slowness and money cost you."""

from dataclasses import dataclass
from typing import ClassVar

from bot_orch import Orchestrator, Outcome, RewardModel, Task
from bot_orch.arrays import Arrays


@dataclass(frozen=True)
class Useful(RewardModel):
    """Quality minus ``per_second`` for every second and ``per_dollar`` for every dollar, cut to [0, 1]."""

    per_second: float = 0.05
    per_dollar: float = 2.0
    id: ClassVar[str] = "useful"

    def read(self, state: Arrays, agent: int, outcome: Outcome) -> float | None:
        """None means that the outcome says nothing about the reward: nothing is learned from it."""
        if outcome.reward is None:
            return 0.0 if outcome.reason == "timeout" else None
        price = self.per_second * (outcome.elapsed_s or 0.0) + self.per_dollar * (outcome.cost_usd or 0.0)
        return min(1.0, max(0.0, outcome.reward - price))


router = Orchestrator(["large", "small"], seed=1, reward=Useful())
for number in range(200):
    decision = router.decide(Task(f"t-{number}"))
    large = decision.agent == "large"
    quality, seconds, dollars = (0.9, 6.0, 0.1) if large else (0.7, 1.0, 0.01)
    router.observe(decision.id, Outcome.completed(reward=quality, elapsed_s=seconds, cost_usd=dollars))
print(router.derive(Task("next")).explain())

router.save("router.json")  # the settings of the reward are saved; its class must be imported before load
print(Orchestrator.load("router.json").reward)
