"""Tests gate a cheap coding model: an answer that fails them is not delivered, and another model is asked.

Run: python examples/18_verify_before_you_deliver.py
"""

import numpy as np

from bot_orch import Agent, Router, Task

luck = np.random.default_rng(1)


def small(task: Task) -> dict[str, bool]:
    """Cheap, right in 60 % of the tasks. A real agent would return a patch."""
    return {"correct": luck.random() < 0.6}


def large(task: Task) -> dict[str, bool]:
    """Right in 90 % of the tasks, and it costs as much as 0.2 of a correct answer."""
    return {"correct": luck.random() < 0.9}


def visible_tests(task: Task, answer: dict[str, bool]) -> bool:
    """The tests that can be run before delivery: they err in 10 % of the cases."""
    return answer["correct"] != (luck.random() < 0.1)


def truth(task: Task, answer: dict[str, bool]) -> float:
    """What the delivered answer turned out to be worth."""
    return float(answer["correct"])


def main() -> None:
    """Compare one attempt with two."""
    for attempts in (1, 2):
        agents = [Agent("small"), Agent("large", cost=0.2)]
        router = Router(agents, functions={"small": small, "large": large}, judge=truth, seed=1)
        check = visible_tests if attempts > 1 else None
        calls = [router.call(Task(f"t-{n}"), attempts=attempts, check=check) for n in range(400)][200:]
        asked = [{step.decision.agent for step in (*call.earlier, call)} for call in calls]
        correct = sum(call.answer["correct"] for call in calls) / len(calls)
        paid = 0.2 * sum("large" in names for names in asked) / len(calls)
        print(f"{attempts} attempt(s): correct {correct:.2f}, paid {paid:.2f}, net {correct - paid:.2f}")


if __name__ == "__main__":
    main()
