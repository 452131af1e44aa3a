"""Eight threads share a router that asks the agents itself; a failure earns zero, a timeout is censored."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from bot_orch import Router, Task


def broken(task: Task) -> str:
    """Fail, always."""
    raise RuntimeError(f"{task.id}: out of order")


def title(task: Task) -> str:
    """Do as asked."""
    return str(task.text).title()


async def slow(task: Task) -> str:
    """Take too long."""
    await asyncio.sleep(60.0)
    return str(task.text).title()


def judge(task: Task, answer: str) -> float:
    """Ask for a headline of the same words."""
    return float(answer.istitle() and answer.lower() == task.text)


router = Router({"broken": broken, "title": title}, "ucb1", seed=1, judge=judge)
with ThreadPoolExecutor(8) as pool:
    calls = list(pool.map(router.call, [Task(f"t-{number}", text="a headline") for number in range(200)]))
assert len({call.decision.id for call in calls}) == 200
print(f"answered: {sum(call.error is None for call in calls)} of {len(calls)}, pending: {len(router.pending)}")
print(router.derive(Task("next")).explain())

router.add_agent("slow", slow)
late = asyncio.run(router.acall(Task("t-200", text="a headline"), eligible=["slow"], timeout_s=0.05))
print("slow:", late.outcome)
