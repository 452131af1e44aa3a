"""Many requests at once: async agents, an async judge, a timeout per call, one router."""

import asyncio
from collections import Counter

from bot_orch import Router, Task


async def quick(task: Task) -> str:
    """Answer soon, sometimes wrongly."""
    await asyncio.sleep(0.001)
    return task.id if int(task.id) % 3 else "?"


async def careful(task: Task) -> str:
    """Answer rightly, a little later."""
    await asyncio.sleep(0.003)
    return task.id


async def stuck(task: Task) -> str:
    """Never answer."""
    await asyncio.Event().wait()
    return ""


async def judge(task: Task, answer: str) -> float:
    """Look at the answer; this could be another model."""
    return float(answer == task.id)


async def main() -> None:
    """Ten requests at a time."""
    router = Router({"quick": quick, "careful": careful, "stuck": stuck}, seed=4, judge=judge)
    asked: Counter[str] = Counter()
    for batch in range(30):
        tasks = [Task(str(10 * batch + number)) for number in range(10)]
        calls = await asyncio.gather(*(router.acall(task, timeout_s=0.05) for task in tasks))
        asked.update(call.decision.agent for call in calls)
    print(router, dict(asked), sep="\n")


asyncio.run(main())
