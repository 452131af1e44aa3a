"""Restore events written by ``bot-orch export --events``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec
import numpy as np

from bot_orch.arrays import Floats
from bot_orch.core.events import AnswerRecord, DecisionMade, Event, TaskRecord, stored_column
from bot_orch.evaluation.importing.foreign import ImportPlace
from bot_orch.evaluation.importing.tables import json_records
from bot_orch.log.events import encode_event, event_type
from bot_orch.log.log import Row
from bot_orch.types import COLUMNS

R = TypeVar("R")
_REMEDY = "pass a file that 'bot-orch export --events' of this release wrote"


def event_rows_of(path: Path) -> list[Row]:
    """The rows of a log, numbered from 1."""
    rows: list[Row] = []
    for place, record in json_records(path):
        event = _event(place, record)
        time_us = place.number("time_us", record.get("time_us"), low=0.0, high=1e17)
        ref = getattr(event, "decision_id", None) or getattr(event, "id", None) or getattr(event, "ref", None) or ""
        rows.append(Row(len(rows) + 1, int(time_us or 0), event.kind, ref, encode_event(event, ref)))
    return rows


def _event(place: ImportPlace, record: Mapping[str, Any]) -> Event:
    kind = record.get("kind")
    values = {name: value for name, value in record.items() if name not in ("seq", "time_us", "kind")}
    if not isinstance(kind, str) or "@" not in kind:
        raise place.error("kind", "names no event", _REMEDY)
    try:
        if kind == DecisionMade.kind:
            return _decision(values)
        event: Event = _record(event_type(kind), values)
    except (msgspec.ValidationError, ValueError, TypeError, LookupError, OverflowError, AttributeError) as error:
        raise place.error(kind, f"is no such event ({' '.join(str(error).split())[:120]})", _REMEDY) from None
    return event


def _decision(values: dict[str, Any]) -> DecisionMade:
    """Numbers, features and claims back to bytes."""
    kind = values.get("feature_type", "<f4")
    if kind not in ("<f4", "<f8"):
        raise ValueError(f"feature_type {kind}")
    numbers = [_array(values["numbers"][name]) for name in COLUMNS]
    numbers += [_array(values["numbers"]["bias"])] if "bias" in values["numbers"] else []
    features, claims = (_array(values.get(name, ())) for name in ("features", "claims"))
    stored = tuple(map(stored_column, numbers))
    made = _record(DecisionMade, {**values, "numbers": [], "features": "", "claims": ""})
    if any(len(each) != len(made.agents) for each in numbers) or len(claims) not in (0, len(made.agents)):
        raise ValueError("there must be one number per agent")
    return replace(made, numbers=stored, claims=claims.tobytes(), features=features.astype(kind).tobytes())


def _array(values: Iterable[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype="<f8")


def _record(type_: type[R], values: Mapping[str, Any]) -> R:
    """An event, or a part of one, from its fields by name."""
    hints = {name: hint for name, hint in get_type_hints(type_).items() if name != "kind" or type_ is TaskRecord}
    return type_(**{name: _value(name, values[name], hint) for name, hint in hints.items() if name in values})


def _value(name: str, value: Any, hint: Any) -> Any:
    if name == "task":
        return _record(TaskRecord, value)
    if name == "answers":
        return tuple(_record(AnswerRecord, each) for each in value)
    return msgspec.convert(value, hint)
