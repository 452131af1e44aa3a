"""Drained agents, the models behind agents, and the configuration version in force.

A fold over notes of operators and of the service.
"""

from __future__ import annotations

from typing import Any

from bot_orch.core.events import Noted

__all__ = ["CONFIG_REF", "CONFIG_VERSION", "DRAINED", "RESUMED", "Rollout"]

#: Topics of notes about an agent.
DRAINED, RESUMED = "agent.drained", "agent.resumed"
#: Topic and ref of notes that a version of the configuration takes effect: ``version`` is its number.
CONFIG_VERSION, CONFIG_REF = "config.version", "config"


class Rollout:
    """State of the rollout; falsy if empty.

    ``drained`` maps agents that get no new work to the time of the request; ``models`` are the names of the models that
    have served an agent, and ``replaced`` when learning began anew because another model answered; ``config`` is the
    version of the configuration, 0 if it has none.

    Examples
    --------
    >>> rollout = Rollout()
    >>> rollout.take(5, Noted("agent.drained", "a"))
    >>> rollout.drained, bool(rollout)
    ({'a': 5}, True)
    """

    def __init__(self) -> None:
        self.drained: dict[str, int] = {}
        self.models: dict[str, list[str]] = {}
        self.replaced: dict[str, int] = {}
        self.config = 0

    def __bool__(self) -> bool:
        return bool(self.drained or self.models or self.replaced or self.config)

    def take(self, time_us: int, note: Noted) -> None:
        """Apply a note; other topics are ignored."""
        match note.topic:
            case "agent.drained":
                self.drained.setdefault(note.ref, time_us)
            case "agent.resumed":
                self.drained.pop(note.ref, None)
            case "agent.model":
                if model := note.data.get("model"):
                    self.models.setdefault(note.ref, []).append(model)
                if note.data.get("afresh"):
                    self.replaced[note.ref] = time_us
            case "config.version":
                self.config = int(note.data["version"])

    def to_dict(self) -> dict[str, Any]:
        """Plain values; :meth:`from_dict` is the inverse."""
        found: dict[str, Any] = {"drained": dict(sorted(self.drained.items()))}
        for name in ("models", "replaced", "config"):
            if value := getattr(self, name):
                found[name] = value
        return found

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Rollout:
        """The inverse of :meth:`to_dict`."""
        made = cls()
        made.drained = dict(document.get("drained", {}))
        made.models = {name: list(known) for name, known in document.get("models", {}).items()}
        made.replaced = dict(document.get("replaced", {}))
        made.config = int(document.get("config", 0))
        return made
