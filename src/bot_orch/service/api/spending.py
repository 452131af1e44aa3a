"""``/v1/spend``: what was spent, read from the log."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from datetime import UTC, datetime
from typing import cast

from bot_orch.evaluation.spend import SPEND_KEYS, SpendKey, spent, time_of, total_usd
from bot_orch.log.log import Log
from bot_orch.service.api.bodies import SpendLineView, SpendView
from bot_orch.service.problems import Problem, Reply, json_reply
from bot_orch.service.web.endpoint import Request

__all__ = ["report"]

_LATEST_US = 253_402_300_799_000_000  # the end of the year 9999


async def report(request: Request) -> Reply:
    """``GET /v1/spend?by=token|tenant|tag|agent|day&from=&to=``."""
    query, writer = request.query, request.runtime.writer
    by = query.get("by") or "token"
    if by not in SPEND_KEYS:
        raise Problem(422, "invalid_value", f"by: is not known; choose from {', '.join(SPEND_KEYS)}", param="by")
    from_us = time_of(query["from"], "from") if query.get("from") else 0
    to_us = time_of(query["to"], "to") if query.get("to") else writer.now_us() + 1
    await writer.barrier()
    only, key = request.caller.tenant or None, cast(SpendKey, by)
    view = await asyncio.to_thread(_view, writer.log, key, from_us=from_us, to_us=to_us, tenant=only)
    return json_reply(view)


def _view(log: Log, by: SpendKey, *, from_us: int, to_us: int, tenant: str | None) -> SpendView:
    """Two passes with tags, where a dollar may stand in several lines."""
    span = {"from_us": from_us, "to_us": to_us}
    lines = spent(log, by, **span, tenant=tenant)
    total = total_usd(log, **span, tenant=tenant) if by == "tag" else sum(line.cost_usd for line in lines)
    return SpendView(
        by=by,
        from_=_iso(from_us),
        to=_iso(to_us),
        lines=[SpendLineView(**asdict(line)) for line in lines],
        cost_usd=total,
    )


def _iso(time_us: int) -> str:
    return datetime.fromtimestamp(min(max(time_us, 0), _LATEST_US) / 1e6, UTC).isoformat()
