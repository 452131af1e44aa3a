"""What reports may name instead of decisions: ids of chat completions, and sessions."""

from __future__ import annotations

from contextlib import suppress

from bot_orch.agents.base import CallReply
from bot_orch.core.events import Censored, DecisionMade, FeedbackGiven, Noted
from bot_orch.log.ids import is_id
from bot_orch.log.log import ARCHIVED, Row, Wanted
from bot_orch.service.problems import Problem, StorageError
from bot_orch.service.runtime import Runtime, digest_of

#: Topic of the note that a decision's answer had an id of its agent's.
COMPLETION = "answer.completion"
#: Prefix of ids that the gateway gives to chat completions; the rest is the decision's id.
OURS = "chatcmpl-"
#: Prefixes of the same ids where an answer was translated for another interface.
_TRANSLATED = (OURS, "resp_", "msg_")


def _key(completion_id: str, *, again: bool = False) -> str:
    """The key of the note about an id; ``again``: of the note that another answer had it, too."""
    return f"{'b' if again else 'a'}:{completion_id}"


def completion_of(decision: DecisionMade, reply: CallReply) -> str | None:
    """The agent's id of its answer, if there is one other than the decision's."""
    named = reply.extra.get("completion_id")
    if not isinstance(named, str) or not 0 < len(named) <= 200 or named == f"{OURS}{decision.id}":
        return None
    return named


async def note_completion(runtime: Runtime, decision: DecisionMade, named: str) -> None:
    """Log the agent's id of its answer; an id that another answer has had is noted to be ambiguous."""
    keys = [_key(named, again=again) for again in (False, True)]
    with suppress(StorageError):
        look = await runtime.writer.look_up(keys=keys)
        key = next((key for key in keys if look.find(key) is None), None)
        if key is not None and runtime.ready:
            note, digest = Noted(COMPLETION, decision.id, {"id": named}), digest_of(named.encode())
            runtime.writer.stage(runtime.writer.stamp(), note, decision.id, key=key, digest=digest)


async def answered_by(runtime: Runtime, completion_id: str) -> str | None:
    """The agent whose answer had this id: None for an unknown id, empty if its decision is archived."""
    row = await _noted(runtime, [_key(completion_id)])
    if row is None:
        return None
    event = None if row.kind == ARCHIVED else row.event()
    rows = await runtime.writer.settled(event.ref) if isinstance(event, Noted) else []
    return next((made.agent for row in rows if isinstance(made := row.event(), DecisionMade)), "")


async def decision_of_completion(runtime: Runtime, completion_id: str) -> str | None:
    """The decision behind a completion id; None if unknown. Raises a :class:`Problem` if it is ambiguous."""
    rests = [completion_id.removeprefix(each) for each in _TRANSLATED if completion_id.startswith(each)]
    for rest in rests:
        if is_id(rest):
            return rest
    names = [completion_id, *rests, *(f"{OURS}{rest}" for rest in rests)]  # as the agent called it
    if await _noted(runtime, [_key(name, again=True) for name in names]) is not None:
        message = "completion_id: several answers have this id; name the decision_id of x-bot-orch-decision-id"
        raise Problem(409, "ambiguous_completion", message, param="completion_id")
    row = await _noted(runtime, [_key(name) for name in names])
    event = None if row is None or row.kind == ARCHIVED else row.event()
    return event.ref if isinstance(event, Noted) and event.topic == COMPLETION else None


async def _noted(runtime: Runtime, keys: list[str]) -> Row | None:
    """The first of these keys' notes that exists."""
    staged = next((known.row for key in keys if (known := runtime.writer.staged_as(key)) is not None), None)
    if staged is not None:
        return staged
    found = await runtime.writer.read(lambda log: log.look_up(Wanted(tuple(keys))))
    return next((found.keys[key] for key in keys if key in found.keys), None)


async def credited(runtime: Runtime, session: str, last: int) -> list[str]:
    """The last decisions of a session, oldest first, except failed ones, which already have an outcome."""
    rows = await runtime.writer.settled(runtime.ref_of_session(session))
    notes = [event for row in rows if isinstance(event := row.event(), Noted)]
    found: list[str] = []
    for note in reversed(notes):
        if len(found) == last:
            break
        decision_id = str(note.data["decision"])
        events = [row.event() for row in await runtime.writer.settled(decision_id)]
        failed = any(isinstance(event, FeedbackGiven) and not event.completed for event in events)
        if not failed or any(isinstance(event, Censored) for event in events):
            found.append(decision_id)
    return found[::-1]
