"""Drained agents, the models behind agents, keys of callers, and the revision of the configuration file.

A fold over notes of operators and of the service.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bot_orch.core.events import Noted

#: Topics of notes about an agent.
DRAINED, RESUMED = "agent.drained", "agent.resumed"
#: Topic and ref of notes that a file with a higher ``revision`` takes effect.
CONFIG_REVISION, CONFIG_REF = "config.revision", "config"
#: Topics of notes about a key; their ref is its SHA-256.
KEY_CREATED, KEY_REVOKED = "key.created", "key.revoked"
_OVERLAP_US = 86_400_000_000  # the time for which a key works beside the one that replaces it


@dataclass(slots=True)
class Rollout:
    """State of the rollout.

    ``drained`` maps agents that get no new work to the time of the request; ``models`` are the names of the models that
    have served an agent, and ``replaced`` when learning began anew because another model answered; ``revision`` is the
    highest one of a configuration file, 0 without one. ``keys`` are rights by the hash of a key.

    Examples
    --------
    >>> rollout = Rollout()
    >>> rollout.take(5, Noted("agent.drained", "a"))
    >>> rollout.drained
    {'a': 5}
    """

    drained: dict[str, int] = field(default_factory=dict)
    models: dict[str, list[str]] = field(default_factory=dict)
    replaced: dict[str, int] = field(default_factory=dict)
    revision: int = 0
    keys: dict[str, dict[str, Any]] = field(default_factory=dict)

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
            case "key.created":
                self.keys[note.ref] = {name: value for name, value in note.data.items() if value is not None}
                old = self.keys.get(note.data.get("replaces", ""))
                if old is not None:
                    old["expires_us"] = min(old.get("expires_us", time_us + _OVERLAP_US), time_us + _OVERLAP_US)
            case "key.revoked":
                self.keys.pop(note.ref, None)
            case "config.revision":
                self.revision = int(note.data["revision"])
