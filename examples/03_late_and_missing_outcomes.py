"""Outcomes arrive late, out of order, or never: silence counts for what it says, and a late reward replaces it."""

from bot_orch import Orchestrator, Outcome, Task

router = Orchestrator(["model", "person", "hangs"], "ucb1", seed=2)
worth, chosen = {"model": 0.6, "person": 0.8}, []
for number in range(300):
    decision = router.decide(Task(f"t-{number}"))
    chosen.append(decision.agent)
    if decision.agent == "hangs":  # nobody ever gets an answer: callers give up after a minute
        router.observe(decision.id, Outcome.censored(elapsed_s=60.0, reason="cancelled"))
    elif number % 2:  # half of the callers hang up at once: that says nothing about the agent
        router.observe(decision.id, Outcome.censored(elapsed_s=0.1, reason="cancelled"))
    else:
        router.observe(decision.id, Outcome.completed(reward=worth[decision.agent], elapsed_s=2.0))
print(f"'hangs' got {chosen.count('hangs')} of 300 tasks")
print(router.derive(Task("next")).explain())

late = router.decide(Task("late"), eligible=["model"])
router.observe(late.id, Outcome.censored(elapsed_s=30.0, reason="timeout"))  # learned as a zero
router.observe(late.id, Outcome.completed(reward=0.6, elapsed_s=45.0))  # the reward replaces the zero
forgotten = router.decide(Task("forgotten"))
router.expire([forgotten.id])  # or Orchestrator(horizon=...): silence, and no longer pending
print(f"{len(router.pending)} pending; a reward may still come for {len(router.silent)} decisions")
