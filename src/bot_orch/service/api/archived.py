"""What a service answers about events that are in the archive and no longer in the log."""

from __future__ import annotations

from bot_orch.log.ids import time_of
from bot_orch.service.problems import Problem
from bot_orch.service.runtime import Runtime

__all__ = ["check_in_log", "key_archived"]


def check_in_log(runtime: Runtime, known_as: str, param: str) -> None:
    """Refuse an id that was made before the first event that the log still holds."""
    made_us, archived_us = time_of(known_as), runtime.writer.archived_us  # 0 without an archive
    if made_us is not None and archived_us and made_us <= archived_us:
        message = f"{param}: is older than the log, whose first events are in an archive; an operator can read them"
        raise Problem(410, "archived", message, param=param)


def key_archived() -> Problem:
    """A key that an archived event has used."""
    message = "this Idempotency-Key was used before; the answer is in an archive, and nothing is done again"
    return Problem(410, "archived", message)
