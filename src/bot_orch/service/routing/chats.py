"""A chat as the owner of its router needs it: enough to decide, even if another process calls the agent."""

from __future__ import annotations

from typing import Any

import msgspec

from bot_orch.agents.base import CallRequest
from bot_orch.agents.capabilities import Needs
from bot_orch.log.events import TaskRecord
from bot_orch.log.ids import time_ordered_id
from bot_orch.service.judging.completions import is_noted
from bot_orch.service.problems import Problem
from bot_orch.service.routing.requests import RequestSize
from bot_orch.service.routing.rounds import Round
from bot_orch.service.routing.rules import RoutingConstraints
from bot_orch.service.runtime import Runtime

__all__ = ["ChatTask", "round_of", "unknown_model"]


class ChatTask(msgspec.Struct, frozen=True, array_like=True):
    """The properties of a chat that the choice of an agent depends on.

    Parameters
    ----------
    model
        An agent; empty for any.
    kind, session, size, needs
        As in :class:`RoutingConstraints`.
    token, tenant, tags
        Of the caller.
    refers_to, results
        Ids of earlier answers that it builds on, and of the tool calls whose results it has.
    held
        State at an agent's endpoint that it builds on.
    features, reference, profiles, claims
        Hints of the caller.
    text
        The prompt, for a router with an encoder; it is not logged.
    """

    model: str
    kind: str
    session: str | None
    size: RequestSize
    needs: Needs
    token: str
    tenant: str
    tags: tuple[str, ...]
    refers_to: tuple[str, ...]
    results: tuple[str, ...]
    held: str
    features: tuple[float, ...]
    reference: dict[str, Any] | None
    profiles: dict[str, dict[str, Any]] | None
    claims: dict[str, float] | None
    text: str | None


async def round_of(runtime: Runtime, chat: ChatTask, call: CallRequest) -> Round:
    """Create the round that serves a chat; raises a :class:`Problem` if there is none."""
    await _check_held(runtime, chat)
    if chat.model and chat.model not in runtime.ledger.router.agents:
        raise unknown_model()
    constraints = RoutingConstraints(
        chat.kind,
        (chat.model,) if chat.model else None,
        chat.session,
        size=chat.size,
        calls=True,
        chat=True,
        token=chat.token,
        tenant=chat.tenant,
        tags=chat.tags,
        needs=chat.needs,
        made_by=runtime.loops.agent_of(_key(chat), (*chat.refers_to, *chat.results)),
    )
    task_id = f"chat-{time_ordered_id(runtime.writer.now_us())}"
    record = TaskRecord(task_id, chat.kind, chat.features, chat.reference, chat.profiles, chat.claims)
    text = None if runtime.ledger.router.settings.text is None else chat.text
    return Round(runtime, record, constraints, call=call, text=text)


def unknown_model() -> Problem:
    """The answer to an unknown model."""
    return Problem(404, "model_not_found", "there is no such model; see /v1/models", param="model")


async def _check_held(runtime: Runtime, chat: ChatTask) -> None:
    """Refuse a reference to stored state at an agent's endpoint unless it belongs to the tenant."""
    if not chat.tenant:
        return
    if chat.held:
        message = f"{chat.held}: is kept for all tenants by the agent; send the messages instead"
        raise Problem(422, "not_for_tenants", message, param=chat.held)
    for each in chat.refers_to:
        if runtime.loops.agent_of(_key(chat), (each,)) is None and not await is_noted(runtime, each, chat.tenant):
            message = "previous_response_id: there is no such response; send the messages instead"
            raise Problem(404, "previous_response_not_found", message, param="previous_response_id")


def _key(chat: ChatTask) -> str:
    return f"{chat.tenant}\0{chat.token}"
