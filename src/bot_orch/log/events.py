"""The codec of events: an event is a MessagePack array, its tag and then its fields in order.

Fields at the end that have their defaults are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from functools import reduce
from operator import attrgetter, or_
from typing import Any, get_type_hints

import msgspec

from bot_orch.core.events import (
    AttemptEnded,
    Censored,
    Configured,
    Controlled,
    DecisionMade,
    EvaluationsGiven,
    Event,
    FeedbackGiven,
    Noted,
    TaskEnded,
    TaskRecord,
    TaskSubmitted,
)
from bot_orch.errors import StateFormatError
from bot_orch.records import builder

#: In the order of their tags, from 1.
_TYPES: tuple[type[Event], ...] = (
    Configured,
    DecisionMade,
    FeedbackGiven,
    Censored,
    EvaluationsGiven,
    TaskSubmitted,
    AttemptEnded,
    TaskEnded,
    Controlled,
    Noted,
)
#: Fields that are empty in the body where they equal the row's ref.
_ABOUT = {DecisionMade: "id", FeedbackGiven: "decision_id", Censored: "decision_id", AttemptEnded: "decision_id"}


#: By which a task is read: unlike a named tuple, it passes over fields of later releases.
_TASK = msgspec.defstruct(
    "TaskRecord",
    [(name, hint, TaskRecord._field_defaults[name]) for name, hint in get_type_hints(TaskRecord).items()],
    array_like=True,
    gc=False,
)


class _Format:
    """How the events of one type are stored: their fields, and a struct by which their values are checked."""

    def __init__(self, type_: type[Event], tag: int) -> None:
        known, hints = fields(type_), get_type_hints(type_)
        hints |= {"task": _TASK} if "task" in hints else {}
        names = [each.name for each in known]
        self.tag, self.values = tag, attrgetter(*names)
        self.about = names.index(_ABOUT[type_]) if type_ in _ABOUT else -1
        self.defaults = [MISSING, *(each.default for each in known)]  # the tag has none
        self.task = names.index("task") + 1 if "task" in names else 0
        self.build: Callable[..., Any] = builder(type_)
        typed = [
            (each.name, hints[each.name], *(() if (default := _default(each)) is MISSING else (default,)))
            for each in known
        ]
        self.struct = msgspec.defstruct(type_.__name__, typed, tag=tag, array_like=True, gc=False)


def _default(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else msgspec.field(default_factory=field.default_factory)


_FORMATS = {type_: _Format(type_, tag) for tag, type_ in enumerate(_TYPES, 1)}
_BY_STRUCT = {each.struct: each for each in _FORMATS.values()}
_BY_KIND = {each.kind: each for each in _TYPES}
_TASK_DEFAULTS = tuple(TaskRecord._field_defaults.values())
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(reduce(or_, _BY_STRUCT))


def encode_event(event: Event, ref: str = "") -> bytes:
    """Encode for a row about ``ref``; an id equal to ``ref`` is omitted."""
    form = _FORMATS[type(event)]
    values = [form.tag, *form.values(event)]
    if ref and form.about >= 0 and values[form.about + 1] == ref:
        values[form.about + 1] = ""
    if form.task:
        values[form.task] = _shortened([*values[form.task]], _TASK_DEFAULTS)
    return _encoder.encode(_shortened(values, form.defaults))


def _shortened(values: list[Any], defaults: Sequence[Any]) -> list[Any]:
    """The values without those at the end that are defaults."""
    while values and values[-1] == defaults[len(values) - 1]:
        values.pop()
    return values


def decode_event(body: bytes, ref: str = "") -> Event:
    """The inverse of :func:`encode_event`.

    Examples
    --------
    >>> decode_event(encode_event(Censored("d", 1.5, "horizon")))
    Censored(decision_id='d', elapsed_s=1.5, reason='horizon')
    """
    try:
        found = _decoder.decode(body)
    except (msgspec.DecodeError, ValueError, TypeError) as error:
        remedy = "it is damaged (restore a backup), or a newer release wrote it"
        raise StateFormatError(f"log: an event cannot be read ({error}); {remedy}") from error
    form, values = _BY_STRUCT[type(found)], [*msgspec.structs.astuple(found)]
    if ref and form.about >= 0 and not values[form.about]:
        values[form.about] = ref
    if form.task:
        values[form.task - 1] = TaskRecord(*msgspec.structs.astuple(values[form.task - 1]))
    event: Event = form.build(*values)
    return event
