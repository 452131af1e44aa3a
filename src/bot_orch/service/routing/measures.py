"""A limit on measures in requests: memory and time for distances grow faster than their size."""

from __future__ import annotations

from typing import Any

from bot_orch.log.events import TaskRecord
from bot_orch.service.problems import Problem

__all__ = ["check_measure", "check_measures"]

_POINTS = 1_000  # time for distances grows faster than the size
_LABELS = 400  # the first measure with so many labels takes a tenth of a second, with 1000 two seconds


def check_measure(document: Any, where: str) -> None:
    """Refuse a measure with a list of more than 1000 entries, or 400 labels, before anything is computed."""
    labels = isinstance(document, dict) and document.get("kind") == "labels"
    most = _LABELS if labels else _POINTS
    todo = [document]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            todo += value.values()
        elif isinstance(value, list | tuple):
            if len(value) > most:
                message = f"{where}: holds {len(value)} entries; send {most} at most"
                raise Problem(422, "invalid_value", message, param=where)
            todo += [each for each in value if isinstance(each, dict | list | tuple)]


def check_measures(record: TaskRecord) -> None:
    """Refuse a task whose reference or profiles are too large."""
    if record.reference is not None:
        check_measure(record.reference, "task.reference")
    for name, profile in (record.profiles or {}).items():
        check_measure(profile, f"task.profiles.{name}")
