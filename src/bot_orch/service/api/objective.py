"""``/v1/objective``: what the router optimises, the multipliers of its limits, what it expects of the agents."""

from __future__ import annotations

from dataclasses import asdict

from bot_orch.core.orchestrator import Orchestrator
from bot_orch.service.api.bodies import CertificateView, LimitView, ObjectiveView
from bot_orch.service.problems import Reply, json_reply
from bot_orch.service.web.endpoint import Request

__all__ = ["show"]


async def show(request: Request) -> Reply:
    """``GET /v1/objective``."""
    runtime = request.runtime
    router, settings = runtime.ledger.router, runtime.config.router
    multipliers = router.multipliers()
    limits = [
        LimitView(name=each.name, limit=each.limit, unit=each.unit, multiplier=multipliers[each.name])
        for each in router.settings.constraints
    ]
    return json_reply(
        ObjectiveView(
            weights=asdict(router.settings.weights),
            minimise=settings.minimise,
            limits=limits,
            expected=router.expected_usage(),
            spent_last_day_usd=None
            if request.caller.tenant  # others spend, too
            else runtime.ledger.spending.within(runtime.writer.now_us(), 86_400.0),
            usd_per_day=settings.subject_to.usd_per_day,
            certificate=_certificate(router),
        )
    )


def _certificate(router: Orchestrator) -> CertificateView | None:
    found, promised = router.certificate(), router.settings.guarantee
    return None if found is None or promised is None else CertificateView(baseline=promised.baseline, **asdict(found))
