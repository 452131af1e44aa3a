"""Ids of chat completions: reports may name them instead of decisions."""

from __future__ import annotations

from bot_orch.agents.base import CallReply
from bot_orch.eventlog.events import DecisionMade, Noted
from bot_orch.eventlog.ids import inside, is_id, outside, tenant_of
from bot_orch.service.runtime import Runtime, digest_of

__all__ = ["COMPLETION", "OURS", "decision_of_completion", "is_noted", "note_completion"]

#: Topic of the note that a decision's answer had an id of its agent's.
COMPLETION = "answer.completion"
#: Prefix of ids that the gateway gives to chat completions; the rest is the decision's id.
OURS = "chatcmpl-"
#: Prefixes of the same ids where an answer was translated for another interface.
_TRANSLATED = (OURS, "resp_", "msg_")


def _key(tenant: str, completion_id: str) -> str:
    return f"a@{tenant}:{completion_id}" if tenant else f"a:{completion_id}"


def note_completion(runtime: Runtime, decision: DecisionMade, reply: CallReply) -> None:
    """Log the id that an agent gave its answer; one that it gave before stays with the first decision."""
    named = reply.extra.get("completion_id")
    if not isinstance(named, str) or not 0 < len(named) <= 200 or not runtime.ready:
        return
    key = _key(tenant_of(decision.id), named)
    if named == f"{OURS}{outside(decision.id)}" or runtime.writer.find(key) is not None:
        return
    note = Noted(COMPLETION, decision.id, {"id": named})
    runtime.writer.stage(runtime.writer.stamp(), note, decision.id, key=key, digest=digest_of(named.encode()))


def is_noted(runtime: Runtime, completion_id: str, tenant: str) -> bool:
    """Whether an agent has given an answer to this tenant that id."""
    return runtime.writer.find(_key(tenant, completion_id)) is not None


def decision_of_completion(runtime: Runtime, completion_id: str, tenant: str) -> str | None:
    """The decision of a tenant that a completion answered; None if it is not known."""
    rests = [completion_id.removeprefix(each) for each in _TRANSLATED if completion_id.startswith(each)]
    for rest in rests:
        if is_id(rest):
            return inside(tenant, rest)
    names = [completion_id, *rests, *(f"{OURS}{rest}" for rest in rests)]  # as the agent called it
    known = next((found for name in names if (found := runtime.writer.find(_key(tenant, name))) is not None), None)
    if known is None:
        return None
    seq, _, group = known
    row = next((each for each in group.rows if each.seq == seq), None) if group else runtime.writer.log.row(seq)
    event = None if row is None else row.event()
    return event.ref if isinstance(event, Noted) and event.topic == COMPLETION else None
