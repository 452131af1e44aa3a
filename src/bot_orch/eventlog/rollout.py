"""Which agents are drained, and since when others are on trial: a fold over notes of operators and of the service."""

from __future__ import annotations

from typing import Any

from bot_orch.eventlog.events import Noted

__all__ = ["CANARY_ENDED", "CANARY_STARTED", "DRAINED", "RESUMED", "Rollout"]

#: Topics of notes about an agent. A note of the start of a trial holds ``round``, the number of decisions before it.
DRAINED, RESUMED = "agent.drained", "agent.resumed"
CANARY_STARTED, CANARY_ENDED = "canary.started", "canary.ended"


class Rollout:
    """State of the rollout: it is false if there is none.

    ``drained`` maps agents that get no new work to the time of the request; ``canaries`` maps agents on trial to the
    number of decisions and the time at the start of the trial.

    Examples
    --------
    >>> rollout = Rollout()
    >>> rollout.take(5, Noted("agent.drained", "a"))
    >>> rollout.drained, bool(rollout)
    ({'a': 5}, True)
    """

    def __init__(self) -> None:
        self.drained: dict[str, int] = {}
        self.canaries: dict[str, tuple[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self.drained or self.canaries)

    def take(self, time_us: int, note: Noted) -> None:
        """Take a note; those of other topics change nothing."""
        match note.topic:
            case "agent.drained":
                self.drained.setdefault(note.ref, time_us)
            case "agent.resumed":
                self.drained.pop(note.ref, None)
            case "canary.started":
                self.canaries.setdefault(note.ref, (int(note.data["round"]), time_us))
            case "canary.ended":
                self.canaries.pop(note.ref, None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; :meth:`from_dict` is the inverse."""
        return {"drained": dict(sorted(self.drained.items())), "canaries": dict(sorted(self.canaries.items()))}

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Rollout:
        """The inverse of :meth:`to_dict`."""
        made = cls()
        made.drained = dict(document.get("drained", {}))
        made.canaries = {name: (begun, time_us) for name, (begun, time_us) in document.get("canaries", {}).items()}
        return made
