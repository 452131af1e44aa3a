"""``/v1/judges``: what judges have said, against audits."""

from __future__ import annotations

from bot_orch.service.judging.views import judge_views
from bot_orch.service.problems import Reply, json_reply
from bot_orch.service.web.endpoint import Request

__all__ = ["show"]


async def show(request: Request) -> Reply:
    """``GET /v1/judges``."""
    return json_reply(judge_views(request.runtime))
