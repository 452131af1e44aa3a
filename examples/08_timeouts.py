"""Agents that hang: a call ends at its timeout, a decision that nobody reports on ends at the horizon."""

import time

from bot_orch import Router, Task


def hangs(task: Task) -> str:
    """Answer, but far too late."""
    time.sleep(2.0)
    return "late"


def works(task: Task) -> str:
    """Answer at once."""
    return "done"


router = Router({"hangs": hangs, "works": works}, seed=1, judge=lambda task, answer: answer == "done", horizon_s=3600.0)
calls = [router.call(Task(f"t-{number}"), timeout_s=0.05) for number in range(60)]
for call in calls[:3]:
    print(call.decision.agent, call.outcome)
late = [call for call in calls if call.error is not None]
print(f"{len(late)} of {len(calls)} calls timed out, all of them: {sorted({call.decision.agent for call in late})}")

# Without a function of its own an agent is asked elsewhere. What is not reported within the horizon counts as
# silence from a later decision on, or from expire(), and is no longer pending.
forgotten = router.decide(Task("asked-by-mail"))
print("pending:", len(router.pending), "expired now:", len(router.expire()))
