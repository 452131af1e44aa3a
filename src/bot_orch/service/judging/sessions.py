"""Decisions of a session: a reward for the session is credited to each of them."""

from __future__ import annotations

from bot_orch.log.events import Censored, FeedbackGiven, Noted
from bot_orch.service.runtime import Runtime

__all__ = ["credited"]


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
