"""Stop, save, load, go on: the restored router makes the same decisions."""

from bot_orch import Orchestrator, Outcome, Task

router = Orchestrator(["a", "b", "c"], "thompson-beta", seed=3)
for number in range(50):
    decision = router.decide(Task(f"t-{number}"))
    router.observe(decision.id, Outcome.completed(reward={"a": 0.2, "b": 0.5, "c": 0.8}[decision.agent]))
router.save("router.json")
copy = Orchestrator.load("router.json")
assert copy.fingerprint() == router.fingerprint()
print("same next decision:", copy.decide(Task("x")).agent == router.decide(Task("x")).agent)
