"""Outcomes arrive late, out of order, or never: silence is censoring, not zero."""

from bot_orch import Orchestrator, Outcome, Task

router = Orchestrator(["model", "person"], "ucb1", seed=2)
decisions = [router.decide(Task(f"t-{number}")) for number in range(6)]
for decision in reversed(decisions[1:]):
    router.observe(decision.id, Outcome.completed(reward=0.8 if decision.agent == "person" else 0.6))
router.observe(decisions[0].id, Outcome.censored(elapsed_s=3600.0, reason="nobody answered"))
print(router.derive(Task("next")).explain())
