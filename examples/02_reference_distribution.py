"""Equal rewards, different outcomes: the reference breaks the tie."""

from bot_orch import Agent, Labels, Orchestrator, Outcome, Task

# share of answers that are (wrong, cautious, right)
bold = Agent("bold", profile=Labels([0.30, 0.00, 0.70]))
careful = Agent("careful", profile=Labels([0.05, 0.25, 0.70]))
router = Orchestrator([bold, careful], "bot", lambda_=2.0)

wanted = Labels([0.0, 0.3, 0.7])
counts = {"bold": 0, "careful": 0}
for number in range(200):
    decision = router.decide(Task(f"t-{number}", reference=wanted))
    counts[decision.agent] += 1
    router.observe(decision.id, Outcome.completed(reward=0.7))
print(counts)
print(router.derive(Task("next", reference=wanted)).explain())
