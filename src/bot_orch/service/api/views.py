"""Read-only views of a router: tests, judges, the objective, routers, spending."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from datetime import UTC, datetime
from typing import cast

import msgspec

from bot_orch.core.orchestrator import Orchestrator
from bot_orch.evaluation.spend import SPEND_KEYS, SpendKey, spent, time_of, total_usd
from bot_orch.log.log import Log
from bot_orch.service.api.bodies import (
    BudgetView,
    CertificateView,
    KindCertificateView,
    LimitView,
    ObjectiveView,
    RouterView,
    SpendLineView,
    SpendView,
)
from bot_orch.service.cluster.forwarding import alone, process_name
from bot_orch.service.judging.views import judge_views
from bot_orch.service.problems import Problem, Reply, json_reply
from bot_orch.service.routing.rules import budget_use
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.endpoint import Request
from bot_orch.service.web.router_selection import ROUTER_PATH

_LATEST_US = 253_402_300_799_000_000  # the end of the year 9999
_VIEWS = msgspec.json.Decoder(list[RouterView])


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


async def routers(request: Request) -> Reply:
    """``GET /v1/routers``: the routers that the caller's token may use, the default one first."""
    runtime, caller = request.runtime, request.caller
    every = runtime.peers or {runtime.config.name: runtime}
    default = next(iter(every))
    here = {name: each for name, each in every.items() if not (each.away and alone(request.headers))}
    views = {name: _view(name, each, default=name == default) for name, each in here.items()}
    if runtime.forwarder is not None and not alone(request.headers):
        for said in await runtime.forwarder.ask("GET", request.path, request.headers):
            if said.status == 200:
                views.update((each.name, each) for each in _VIEWS.decode(said.body) if each.name in views)
    return json_reply([view for name, view in views.items() if caller.may_use(name)])


def _view(name: str, runtime: Runtime, *, default: bool) -> RouterView:
    several, loaded = bool(runtime.peers), runtime.loaded
    return RouterView(
        name=name,
        default=default,
        path=f"{ROUTER_PATH}{name}" if several else "",
        model=f"auto:{name}" if several else "auto",
        agents=[agent.id for agent in runtime.config.agents],
        ready=runtime.ready,
        decisions=runtime.ledger.router.rounds if loaded else 0,
        pending=len(runtime.ledger.pending) if loaded else 0,
        process=process_name() if runtime.forwarder is not None and not runtime.away else None,
    )
