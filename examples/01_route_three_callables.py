"""Route tasks between three functions and say why each choice was made."""

from collections.abc import Callable

from bot_orch import Agent, Orchestrator, Outcome, Task

agents: dict[str, Callable[[str], str]] = {"upper": str.upper, "title": str.title, "reverse": lambda text: text[::-1]}
router = Orchestrator([Agent("upper", cost=0.05), Agent("title"), Agent("reverse")], "thompson-beta", seed=1)

for number in range(60):
    decision = router.decide(Task(f"t-{number}"))
    answer = agents[decision.agent]("make me a headline")
    router.observe(decision.id, Outcome.completed(reward=float(answer.istitle())))
print(router.decide(Task("one-more")).explain())
