"""Discarded decisions made before the first request, so that it does not wait for imports."""

from __future__ import annotations

from contextlib import suppress

from bot_orch.core.orchestrator import Orchestrator
from bot_orch.errors import BotOrchError
from bot_orch.log.events import as_recorded, encode_event, record_decision, record_task
from bot_orch.service.build import make_orchestrator
from bot_orch.service.config import Config
from bot_orch.transport import Labels, measure_from_dict
from bot_orch.types import Measure, Outcome, Task

__all__ = ["warm_up"]


def warm_up(config: Config) -> None:
    """Decide and learn with a router of the same settings that is thrown away.

    Imports and caches are those of the process, so a router that serves requests finds them ready.
    """
    r = config.router
    router = make_orchestrator(config)
    wanted = [None, Labels([0.5, 0.5])] if r.reference is None else [measure_from_dict(r.reference)]
    for number, reference in enumerate(wanted):
        for eligible in (None, router.agents[:1]):
            with suppress(BotOrchError, TypeError, ValueError):  # a measure that this geometry does not take
                _one_round(router, f"warm-up-{number}", reference, eligible=eligible)


def _one_round(router: Orchestrator, name: str, reference: Measure | None, *, eligible: tuple[str, ...] | None) -> None:
    task = Task(name, reference=reference, features=(0.0,) * (router.n_features or 0))
    if router.settings.text is not None:
        task = Task(name, reference=reference, text="warm up")
        task = router.encoded(task)
    task = as_recorded(task)
    for outcome in (Outcome.completed(0.5, elapsed_s=1.0), Outcome.censored(elapsed_s=1.0, reason="timeout")):
        made = router.decide(task, eligible)
        encode_event(record_decision(made, record_task(task), eligible=eligible))
        router.observe(made.id, outcome)
