"""Read-only views: judges, the objective, spending."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from datetime import UTC, datetime
from typing import cast

from bot_orch.core.orchestrator import Orchestrator
from bot_orch.evaluation.spend import SPEND_KEYS, SpendKey, spent, time_of, total_usd
from bot_orch.log.log import Log
from bot_orch.service.api.bodies import (
    BudgetView,
    CertificateView,
    KindCertificateView,
    LimitView,
    ObjectiveView,
    SpendLineView,
    SpendView,
)
from bot_orch.service.judging.views import judge_views
from bot_orch.service.problems import Problem, Reply, json_reply
from bot_orch.service.routing.rules import budget_use
from bot_orch.service.web.endpoint import Request

_LATEST_US = 253_402_300_799_000_000  # the end of the year 9999


async def spending(request: Request) -> Reply:
    """``GET /v1/spend?by=token|tag|agent|day&from=&to=``."""
    query, writer = request.query, request.runtime.writer
    by = query.get("by") or "token"
    if by not in SPEND_KEYS:
        raise Problem(422, "invalid_value", f"by: is not known; choose from {', '.join(SPEND_KEYS)}", param="by")
    from_us = time_of(query["from"], "from") if query.get("from") else 0
    to_us = time_of(query["to"], "to") if query.get("to") else writer.now_us() + 1
    await writer.barrier()
    view = await asyncio.to_thread(_spent, writer.log, cast(SpendKey, by), from_us=from_us, to_us=to_us)
    return json_reply(view)


def _spent(log: Log, by: SpendKey, *, from_us: int, to_us: int) -> SpendView:
    """Sum the spending; tags need two passes, because a dollar may appear in several lines."""
    span = {"from_us": from_us, "to_us": to_us}
    lines = spent(log, by, **span)
    total = total_usd(log, **span) if by == "tag" else sum(line.cost_usd for line in lines)
    return SpendView(
        by=by,
        from_=_iso(from_us),
        to=_iso(to_us),
        lines=[SpendLineView(**asdict(line)) for line in lines],
        cost_usd=total,
    )


def _iso(time_us: int) -> str:
    return datetime.fromtimestamp(min(max(time_us, 0), _LATEST_US) / 1e6, UTC).isoformat()


async def judges(request: Request) -> Reply:
    """``GET /v1/judges``."""
    return json_reply(judge_views(request.runtime))


async def objective(request: Request) -> Reply:
    """``GET /v1/objective``."""
    runtime = request.runtime
    router, settings = runtime.ledger.router, runtime.config.router
    multipliers = router.multipliers()
    limits = [
        LimitView(name=each.name, limit=each.limit, unit=each.unit, multiplier=multipliers[each.name])
        for each in router.settings.constraints
    ]
    now_us = runtime.writer.now_us()
    used = budget_use(settings.budget, runtime.ledger, runtime.guards, now_us)
    return json_reply(
        ObjectiveView(
            weights=asdict(router.settings.weights),
            minimise=settings.minimise,
            limits=limits,
            expected=router.expected_usage(),
            spent_last_day_usd=runtime.ledger.spending.recent(now_us, 86_400.0),
            usd_per_day=settings.subject_to.usd_per_day,
            budget=None if used is None else BudgetView(**asdict(used)),
            certificate=_certificate(router),
        )
    )


def _certificate(router: Orchestrator) -> CertificateView | None:
    found, promised = router.certificate(), router.settings.guarantee
    if found is None or promised is None:
        return None
    kinds = [KindCertificateView(**asdict(each)) for each in found.kinds]
    return CertificateView(baseline=promised.baseline, **{**asdict(found), "kinds": kinds})
