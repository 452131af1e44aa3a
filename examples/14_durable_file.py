"""State in a file, without a server: however the process ends, the next one goes on where it stopped."""

from bot_orch import Outcome, Router, Task


def open_router() -> Router:
    """The same arguments at every start; what was learned and what is pending comes from the file."""
    return Router(["a", "b"], seed=3, path="router.db", horizon_s=86_400.0)


router = open_router()
for number in range(100):
    decision = router.decide(Task(f"t-{number}"))  # on disk when this returns
    if number < 90:
        router.observe(decision.id, Outcome.completed(reward=0.8 if decision.agent == "b" else 0.3))
print(router, router.fingerprint())
router.close()  # not needed before a crash: every change has been committed

router = open_router()
print(router, router.fingerprint())
for decision_id in router.pending:  # outcomes may come after the restart
    router.observe(decision_id, Outcome.completed(reward=0.5))
print(router)
router.close()
