"""Decisions and feedback in few bytes: ``decision@3`` beside an earlier decision, ``feedback@2`` without repetition.

Only stores see these formats: a row is packed when it is written and unpacked when it is read. A row of which
unpacking would not give the same bytes again is stored as it is.

Numbers of rows are divided into blocks of :data:`BLOCK`. A decision may refer to an earlier one of its block that was
stored whole. So a block can be read without any other, and a log can be cut between two.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from operator import attrgetter
from typing import Any
from uuid import UUID

import msgspec

from bot_orch.errors import StateFormatError
from bot_orch.log.events import DecisionMade, FeedbackGiven, TaskRecord, encode_event
from bot_orch.log.log import Row
from bot_orch.log.packing.columns import pack_columns, unpack_columns

__all__ = ["BLOCK", "PACKED_DECISION", "PACKED_FEEDBACK", "Packer", "Unpacker", "block_of"]

#: Rows per block.
BLOCK = 4096
PACKED_DECISION, PACKED_FEEDBACK = "decision@3", "feedback@2"
_DECISION, _FEEDBACK = (str(each.__struct_config__.tag) for each in (DecisionMade, FeedbackGiven))
_MOST_BASES, _MOST_KEPT = 8, 64
_Unset = msgspec.UnsetType
_UNSET = msgspec.UNSET

# Their places are stored: a new effect goes to the end.
_EFFECTS = ["learned", "noted", "replaced", "early", "revision", "late", "audited", "shown", "outranked"]
_EFFECT = {name: number for number, name in enumerate(_EFFECTS)}
# How the id of a report is stored: as text, as the digest after "auto-", as a UUID, as what stands before the
# decision's id, or not at all where it follows from the rest.
_TEXT, _DIGEST, _UUID, _PREFIXED, _NAMED, _JUDGED = range(6)
_FORMS = 8
_AUTO = "auto-"
_IS_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


class _Changes(msgspec.Struct, frozen=True, gc=False):
    """Fields of a decision that differ from those of its base. Names are stored: a new field gets a new letter."""

    id: str | _Unset = msgspec.field(default=_UNSET, name="a")
    task: TaskRecord | _Unset = msgspec.field(default=_UNSET, name="b")
    policy: str | _Unset = msgspec.field(default=_UNSET, name="c")
    lambda_: float | _Unset = msgspec.field(default=_UNSET, name="d")
    stream: int | _Unset = msgspec.field(default=_UNSET, name="e")
    engine: str | _Unset = msgspec.field(default=_UNSET, name="f")
    features: bytes | _Unset = msgspec.field(default=_UNSET, name="g")
    feature_type: str | _Unset = msgspec.field(default=_UNSET, name="h")
    encoder: str | _Unset = msgspec.field(default=_UNSET, name="i")
    eligible: tuple[str, ...] | _Unset | None = msgspec.field(default=_UNSET, name="j")
    excluded: dict[str, str] | _Unset | None = msgspec.field(default=_UNSET, name="k")
    session: str | _Unset | None = msgspec.field(default=_UNSET, name="l")
    task_ref: str | _Unset | None = msgspec.field(default=_UNSET, name="m")
    by: str | _Unset = msgspec.field(default=_UNSET, name="n")
    router: str | _Unset = msgspec.field(default=_UNSET, name="o")
    token: str | _Unset = msgspec.field(default=_UNSET, name="p")
    round: str | _Unset = msgspec.field(default=_UNSET, name="q")
    audit: bool | _Unset = msgspec.field(default=_UNSET, name="r")
    audit_probability: float | _Unset = msgspec.field(default=_UNSET, name="s")
    multipliers: tuple[tuple[str, float, str], ...] | _Unset = msgspec.field(default=_UNSET, name="t")
    reserved_usd: float | _Unset | None = msgspec.field(default=_UNSET, name="u")
    briefly: bool | _Unset = msgspec.field(default=_UNSET, name="v")
    tags: tuple[str, ...] | _Unset = msgspec.field(default=_UNSET, name="w")
    caps: dict[str, float] | _Unset | None = msgspec.field(default=_UNSET, name="x")


class _PackedDecision(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """``back`` rows before this one is its base; the agent is its place there, two numbers are those since."""

    back: int
    agent: int
    counter: int
    state_seq: int
    numbers: bytes
    changes: _Changes | None = None


class _Rest(msgspec.Struct, frozen=True, gc=False):
    """Fields of a report that it need not have."""

    elapsed_s: float | _Unset | None = msgspec.field(default=_UNSET, name="a")
    completed: bool | _Unset = msgspec.field(default=_UNSET, name="b")
    reason: str | _Unset | None = msgspec.field(default=_UNSET, name="c")
    output: dict[str, Any] | _Unset | None = msgspec.field(default=_UNSET, name="d")
    cost_usd: float | _Unset = msgspec.field(default=_UNSET, name="e")
    audit: bool | _Unset = msgspec.field(default=_UNSET, name="f")
    priced: bool | _Unset = msgspec.field(default=_UNSET, name="g")
    judge: str | _Unset = msgspec.field(default=_UNSET, name="h")
    agent: str | _Unset = msgspec.field(default=_UNSET, name="i")
    rate: float | _Unset = msgspec.field(default=_UNSET, name="j")
    default: bool | _Unset = msgspec.field(default=_UNSET, name="k")


class _PackedFeedback(msgspec.Struct, frozen=True, array_like=True, gc=False):
    form: int
    id: bytes | None
    reward: float | None
    rest: _Rest | None = None


_CHANGING, _RESTING = _Changes.__struct_fields__, _Rest.__struct_fields__
_PACKED = frozenset({PACKED_DECISION, PACKED_FEEDBACK})
_encode = msgspec.msgpack.Encoder().encode
_decision = msgspec.msgpack.Decoder(_PackedDecision)
_feedback = msgspec.msgpack.Decoder(_PackedFeedback)
_whole_decision = msgspec.msgpack.Decoder(DecisionMade)
_whole_feedback = msgspec.msgpack.Decoder(FeedbackGiven)
_DEFAULTS = dict(zip(FeedbackGiven.__struct_fields__[3:], FeedbackGiven.__struct_defaults__, strict=True))
_values = attrgetter(*_CHANGING[1:])


def block_of(seq: int) -> int:
    """The number of the block of a row.

    Examples
    --------
    >>> block_of(1), block_of(4096), block_of(4097)
    (0, 0, 1)
    """
    return (seq - 1) // BLOCK


class Packer:
    """Packs the rows of one writer, in their order.

    Examples
    --------
    >>> event = FeedbackGiven("round-d", "d", "learned", 1.0)
    >>> row = Row(7, 70, "feedback@1", "d", encode_event(event))
    >>> packed = Packer().pack(row)
    >>> len(row.body), packed.kind, len(packed.body), Unpacker(lambda seq: None).unpack(packed) == row
    (75, 'feedback@2', 12, True)
    """

    def __init__(self) -> None:
        self._block = -1
        self._bases: list[tuple[int, DecisionMade]] = []

    def forget(self) -> None:
        """Refer to no row written so far; to be called when rows are rolled back."""
        self._bases.clear()

    def pack(self, row: Row) -> Row:
        """The row as it is stored."""
        try:
            if row.kind == _DECISION:
                return self._pack_decision(row)
            if row.kind == _FEEDBACK:
                return _pack_feedback(row)
        except (msgspec.MsgspecError, ValueError, TypeError, LookupError, ArithmeticError):
            pass  # damaged, or of a shape that no release writes: stored as it is
        return row

    def _pack_decision(self, row: Row) -> Row:
        event = _whole_decision.decode(row.body)
        base = self._base_of(row.seq, event)
        if base is not None:
            packed = row._replace(kind=PACKED_DECISION, body=_decision_beside(row, event, base))
            if _unpack_decision(packed, _decision.decode(packed.body), base[1]) == row.body:
                return packed
        self._bases = [(row.seq, event), *self._bases][:_MOST_BASES]
        return row

    def _base_of(self, seq: int, event: DecisionMade) -> tuple[int, DecisionMade] | None:
        if block_of(seq) != self._block:
            self._block, self._bases = block_of(seq), []
        agents, columns, size = event.agents, event.columns, len(event.numbers)
        if not agents or size != 8 * len(agents) * len(columns):
            return None
        for base in self._bases:
            if base[1].agents == agents and base[1].columns == columns and len(base[1].numbers) == size:
                return base
        return None


def _decision_beside(row: Row, event: DecisionMade, base: tuple[int, DecisionMade]) -> bytes:
    seq, before = base
    changed: dict[str, Any] = {}
    if (now := _values(event)) != (then := _values(before)):
        changed = {name: new for name, new, old in zip(_CHANGING[1:], now, then, strict=True) if new != old}
    if event.id != row.ref:
        changed["id"] = event.id
    return _encode(
        _PackedDecision(
            row.seq - seq,
            event.agents.index(event.agent),
            event.counter - before.counter,
            event.state_seq - before.state_seq,
            pack_columns(event.numbers, before.numbers, event.columns, lambda_=event.lambda_),
            _Changes(**changed) if changed else None,
        )
    )


def _unpack_decision(row: Row, packed: _PackedDecision, before: DecisionMade) -> bytes:
    changes, given = packed.changes, {}
    if changes is not None:
        given = {name: value for name in _CHANGING if (value := getattr(changes, name)) is not _UNSET}
    lambda_ = given.get("lambda_", before.lambda_)
    event = msgspec.structs.replace(
        before,
        **{"id": row.ref, **given},
        agent=before.agents[packed.agent],
        counter=before.counter + packed.counter,
        state_seq=before.state_seq + packed.state_seq,
        numbers=unpack_columns(packed.numbers, before.numbers, before.columns, lambda_=lambda_),
    )
    return encode_event(event)


def _pack_feedback(row: Row) -> Row:
    event = _whole_feedback.decode(row.body)
    if event.decision_id != row.ref:
        return row
    form, known = _form(event)
    rest = {name: _short(value) for name in _RESTING if (value := getattr(event, name)) is not _DEFAULTS[name]}
    packed = _PackedFeedback(
        _EFFECT[event.effect] * _FORMS + form, known, _short(event.reward), _Rest(**rest) if rest else None
    )
    found = row._replace(kind=PACKED_FEEDBACK, body=_encode(packed))
    return found if _unpack_feedback(found) == row.body else row


def _form(event: FeedbackGiven) -> tuple[int, bytes | None]:
    """How to store the id of a report; the caller checks that it can be read back."""
    known, about = event.id, event.decision_id
    if known.startswith(_AUTO) and len(known) == len(_AUTO) + 32:
        return _DIGEST, bytes.fromhex(known[len(_AUTO) :])
    if about and known.endswith(about):
        for form in (_NAMED, _JUDGED):
            if known == _id_of(form, None, FeedbackGiven("", about, event.effect, judge=event.judge)):
                return form, None
        return _PREFIXED, known[: -len(about)].encode()
    if len(known) == 36 and _IS_UUID.match(known) is not None:
        return _UUID, bytes.fromhex(known.replace("-", ""))
    return _TEXT, known.encode()


def _id_of(form: int, stored: bytes | None, event: FeedbackGiven) -> str:
    """The inverse of :func:`_form`, of a report without its id."""
    match form:
        case 1:  # _DIGEST
            return f"{_AUTO}{(stored or b'').hex()}"
        case 2:  # _UUID
            return str(UUID(bytes=stored))
        case 3:  # _PREFIXED
            return f"{(stored or b'').decode()}{event.decision_id}"
        case 4:  # _NAMED
            return f"{event.effect}-{event.decision_id}"
        case 5:  # _JUDGED
            return f"judge-{event.judge}-{event.decision_id}"
    return (stored or b"").decode()


def _unpack_feedback(row: Row) -> bytes:
    packed = _feedback.decode(row.body)
    (number, form), given = divmod(packed.form, _FORMS), {}
    if packed.rest is not None:
        given = {name: value for name in _RESTING if (value := getattr(packed.rest, name)) is not _UNSET}
    event = FeedbackGiven("", row.ref, _EFFECTS[number], packed.reward, **given)
    return encode_event(msgspec.structs.replace(event, id=_id_of(form, packed.id, event)))


def _short(value: Any) -> Any:
    """A whole number instead of a float of the same value, which takes nine bytes; readers know the type."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**31 else value


class Unpacker:
    """Unpacks rows, in any order.

    Parameters
    ----------
    fetch
        The row with a number, as it is stored; ``None`` if there is none.
    """

    def __init__(self, fetch: Callable[[int], Row | None]) -> None:
        self._fetch = fetch
        self._seen: OrderedDict[int, bytes] = OrderedDict()  # decisions that were stored whole, as they passed by
        self._bases: dict[int, DecisionMade] = {}

    def forget(self) -> None:
        """Look at every base again: rows with these numbers may be others now."""
        self._bases.clear()
        self._seen.clear()

    def unpack(self, row: Row) -> Row:
        """The row as it was written."""
        if row.kind not in _PACKED:
            if row.kind == _DECISION:
                self._seen[row.seq] = row.body
                if len(self._seen) > _MOST_KEPT:
                    self._seen.popitem(last=False)
            return row
        try:
            if row.kind == PACKED_FEEDBACK:
                return row._replace(kind=_FEEDBACK, body=_unpack_feedback(row))
            packed = _decision.decode(row.body)
            body = _unpack_decision(row, packed, self._base(row.seq - packed.back, row.seq))
        except (msgspec.MsgspecError, ValueError, TypeError, LookupError, ArithmeticError) as error:
            problem = f"an event cannot be read ({error}); it is damaged (restore a backup)"
            raise StateFormatError(f"log: row {row.seq}: {problem}, or a newer release wrote it") from error
        return row._replace(kind=_DECISION, body=body)

    def _base(self, seq: int, of: int) -> DecisionMade:
        if (known := self._bases.get(seq)) is not None:
            return known
        body = self._seen.get(seq)
        if body is None and block_of(seq) == block_of(of) and seq < of:
            found = self._fetch(seq)
            body = None if found is None or found.kind != _DECISION else found.body
        if body is None:
            raise LookupError(f"row {seq}, which it needs, is missing")
        event = _whole_decision.decode(body)
        if len(self._bases) >= _MOST_KEPT:
            self._bases.pop(next(iter(self._bases)))
        self._bases[seq] = event
        return event
