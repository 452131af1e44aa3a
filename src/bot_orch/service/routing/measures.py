"""A limit on measures in requests: memory and time for distances grow with the square of their size."""

from __future__ import annotations

from typing import Any

from bot_orch.eventlog.events import TaskRecord
from bot_orch.service.problems import Problem

__all__ = ["check_measure", "check_measures"]


def check_measure(document: Any, where: str, most: int) -> None:
    """Refuse a measure with a list of more than ``most`` entries, before anything is computed from it."""
    todo = [document]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            todo += value.values()
        elif isinstance(value, list | tuple):
            if len(value) > most:
                message = f"{where}: holds {len(value)} entries; send {most} at most, or raise limits.points"
                raise Problem(422, "invalid_value", message, param=where)
            todo += [each for each in value if isinstance(each, dict | list | tuple)]


def check_measures(record: TaskRecord, most: int) -> None:
    """Refuse a task whose reference or profiles are too large."""
    if record.reference is not None:
        check_measure(record.reference, "task.reference", most)
    for name, profile in (record.profiles or {}).items():
        check_measure(profile, f"task.profiles.{name}", most)
