"""Events of a log of ours that ``bot-orch export --events`` wrote, put back as they were."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bot_orch.evaluation.importing.foreign import ImportPlace
from bot_orch.evaluation.importing.tables import json_records
from bot_orch.log.events import DecisionMade, Event, encode_event, kind_of
from bot_orch.log.log import Row
from bot_orch.types import COLUMNS

__all__ = ["event_rows_of"]

_REMEDY = "pass a file that 'bot-orch export --events' of this release wrote"


def event_rows_of(path: Path) -> list[Row]:
    """The rows of a log, numbered from 1."""
    rows: list[Row] = []
    for place, record in json_records(path):
        event = _event(place, record)
        time_us = place.number("time_us", record.get("time_us"), low=0.0, high=1e17)
        ref = getattr(event, "decision_id", None) or getattr(event, "id", None) or getattr(event, "ref", None) or ""
        rows.append(Row(len(rows) + 1, int(time_us or 0), kind_of(event), ref, encode_event(event)))
    return rows


def _event(place: ImportPlace, record: Mapping[str, Any]) -> Event:
    kind = record.get("kind")
    values = {name: value for name, value in record.items() if name not in ("seq", "time_us", "kind")}
    if not isinstance(kind, str) or "@" not in kind:
        raise place.error("kind", "names no event", _REMEDY)
    try:
        if kind.startswith("decision@"):
            return _decision(values)
        event: Event = msgspec.convert(values | {"type": kind}, Event)
    except (msgspec.ValidationError, ValueError, TypeError, LookupError, OverflowError) as error:
        raise place.error(kind, f"is no such event ({' '.join(str(error).split())[:120]})", _REMEDY) from None
    return event


def _decision(values: dict[str, Any]) -> DecisionMade:
    """Numbers and features back to bytes."""
    table = np.array([[np.nan if cell is None else cell for cell in row] for row in values["numbers"]], dtype="<f8")
    kind = values.get("feature_type", "<f4")
    if kind not in ("<f4", "<f8"):
        raise ValueError(f"feature_type {kind}")
    features = np.array(values.get("features", ()), dtype=kind)
    given = values | {"numbers": b"", "features": b"", "type": "decision@2"}
    made = msgspec.convert(given, DecisionMade)
    if table.shape != (len(made.columns), len(made.agents)):
        raise ValueError("numbers have another shape than columns and agents")
    columns = COLUMNS if made.columns == COLUMNS else made.columns  # the default itself is not written
    return msgspec.structs.replace(made, numbers=table.tobytes(), features=features.tobytes(), columns=columns)
