"""The queue of people: made here for the runtime, mounted here on the application."""

from __future__ import annotations

from starlette.routing import BaseRoute

from bot_orch.service.queue.api import QUEUE_ROUTES
from bot_orch.service.queue.desk import Desk
from bot_orch.service.queue.pages import queue_pages
from bot_orch.service.queue.rules import QueueSettings
from bot_orch.service.runtime import Runtime

__all__ = ["make_queue", "routes"]


def make_queue(runtime: Runtime) -> Desk:
    """The queue of a service that is starting."""
    configured = runtime.config.queue
    desk = Desk(runtime, QueueSettings(configured.lease_s, configured.undo_s, configured.blind))
    desk.start()
    return desk


def routes(runtime: Runtime) -> list[BaseRoute]:
    """``/v1/queue`` and ``/queue``."""
    return [*(each.route(runtime) for each in QUEUE_ROUTES), *queue_pages(runtime)]
