"""Decisions from the logs of a gateway: LiteLLM's spend logs, and observations exported from Langfuse.

Neither logs the probability of a choice, nor whether an answer was good: a reward is a score, a key of the metadata, or
``success``. A key ``propensity`` of the metadata is read where an application put it there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.importing.foreign import SUCCESS, Foreign, ImportOptions, ImportPlace, Reader
from bot_orch.evaluation.importing.tables import json_records

_LITELLM = (
    *("request_id", "id", "model", "status", "response_cost", "spend", "startTime", "endTime", "metadata"),
    *("exception", "error_str", "call_type", "response_time", "session_id", "model_group"),
)
_LANGFUSE = (
    *("id", "traceId", "trace_id", "type", "model", "latency", "totalCost", "calculatedTotalCost", "startTime"),
    *("endTime", "level", "statusMessage", "scores", "metadata", "name"),
)


def read_litellm(path: Path, options: ImportOptions, reader: Reader) -> Iterator[Foreign]:
    """Spend logs (``/spend/logs``, or ``StandardLoggingPayload`` of a callback), one object per line or in a list."""
    for place, record in json_records(path):
        reader.ignore(name for name in record if name not in _LITELLM)
        metadata = _litellm_metadata(place, record)
        failed = _litellm_failed(place, record, metadata)
        began, ended = (place.time_us(name, record.get(name)) for name in ("startTime", "endTime"))
        cost = record.get("response_cost")
        yield Foreign(
            place,
            _model(place, record, options.columns.get("agent", "model")),
            reward=_reward(place, metadata, options, failed=failed),
            propensity=place.number("metadata.propensity", metadata.get("propensity"), low=0.0, high=1.0),
            decision_id=place.text("request_id", record.get("request_id") or record.get("id")),
            task_id=place.text("session_id", record.get("session_id")),
            kind=place.text("call_type", record.get("call_type")),
            time_us=began,
            elapsed_s=_between(place, began, ended),
            completed=not failed,
            reason="failed" if failed else "",
            cost_usd=place.number("response_cost", record.get("spend") if cost is None else cost, low=0.0),
        )


def read_langfuse(path: Path, options: ImportOptions, reader: Reader) -> Iterator[Foreign]:
    """Observations with a model, one object per line, in a list, or in the list ``data`` of an answer of the API."""
    records = list(_observations(path))
    name = options.reward or _only_score(path.name, records)
    for place, record in records:
        reader.ignore(each for each in record if each not in _LANGFUSE)
        failed = record.get("level") == "ERROR"
        metadata = place.object("metadata", record.get("metadata"))
        began, ended = (place.time_us(each, record.get(each)) for each in ("startTime", "endTime"))
        latency = place.number("latency", record.get("latency"), low=0.0)
        cost = record.get("totalCost")
        scores = dict(metadata) | _scores(place, record.get("scores"))
        yield Foreign(
            place,
            _model(place, record, options.columns.get("agent", "model")),
            reward=_reward(place, scores, options, failed=failed, name=name),
            propensity=place.number("metadata.propensity", metadata.get("propensity"), low=0.0, high=1.0),
            decision_id=place.text("id", record.get("id")),
            task_id=place.text("traceId", record.get("traceId") or record.get("trace_id")),
            kind=place.text("name", record.get("name")),
            time_us=began,
            elapsed_s=_between(place, began, ended) if latency is None else latency,
            completed=not failed,
            reason="failed" if failed else "",
            cost_usd=place.number("totalCost", record.get("calculatedTotalCost") if cost is None else cost, low=0.0),
        )


def _model(place: ImportPlace, record: Mapping[str, Any], column: str) -> str:
    name = place.text(column, record.get(column))
    if not name:
        raise place.error(column, "is missing", "remove calls without a model, or pass --map agent=FIELD")
    return name


def _litellm_failed(place: ImportPlace, record: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    status = place.text("status", record.get("status"))
    if status not in ("", "success", "failure"):
        raise place.error("status", f"is {status[:40]!r}", "write success or failure")
    older = metadata.get("status") == "failure"  # where releases without the field kept it
    return status == "failure" or (not status and older) or bool(record.get("exception") or record.get("error_str"))


def _litellm_metadata(place: ImportPlace, record: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of the caller, which the proxy stores separately, merged with the proxy's own."""
    found = dict(place.object("metadata", record.get("metadata")))
    return found | dict(place.object("metadata.requester_metadata", found.get("requester_metadata")))


def _reward(
    place: ImportPlace, values: Mapping[str, Any], options: ImportOptions, *, failed: bool, name: str | None = None
) -> float | None:
    name = name or options.reward
    if name is None:
        return None
    if name == SUCCESS:
        return float(not failed)
    return options.scaled(place, name, place.number(name, values.get(name)))


def _between(place: ImportPlace, began: int | None, ended: int | None) -> float | None:
    if began is None or ended is None:
        return None
    if ended < began:
        raise place.error("endTime", "is before startTime", "repair or remove one of them")
    return (ended - began) / 1e6


def _observations(path: Path) -> Iterator[tuple[ImportPlace, Mapping[str, Any]]]:
    """Model calls: the observations of each trace in an export; spans and events are skipped."""
    for place, record in json_records(path):
        inner = record.get("observations")
        found = inner if isinstance(inner, list) else [record]
        for each in found:
            if not isinstance(each, Mapping):
                raise place.error("observations", "holds no object", "export observations with their fields")
            if each.get("type") in (None, "GENERATION") or each.get("model"):
                yield place, ({"scores": record.get("scores")} | dict(each) if each is not record else each)


def _scores(place: ImportPlace, value: Any) -> dict[str, Any]:
    """Scores by name, from a list of objects or one object; the last value wins."""
    if value is None or value == "":
        return {}
    if isinstance(value, Mapping):
        return {name: each[-1] if isinstance(each, list) and each else each for name, each in value.items()}
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise place.error("scores", "is no list of objects", "export scores with name and value")
    return {place.text("scores.name", each.get("name")): each.get("value") for each in value}


def _only_score(file: str, records: list[tuple[ImportPlace, Mapping[str, Any]]]) -> str | None:
    names = sorted({name for place, record in records for name in _scores(place, record.get("scores"))})
    if len(names) > 1:
        raise InvalidInputError(
            f"{file}: scores", f"have the names {', '.join(names)}", "choose one with --reward NAME"
        )
    return names[0] if names else None
