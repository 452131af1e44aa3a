"""The numbers of a decision, beside those of an earlier one: what did not change, or follows, is not stored.

Every column has a mode of four bits, two modes in a byte, in the order of the columns; then the data of each column.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bot_orch.arrays import Floats

__all__ = ["pack_columns", "unpack_columns"]

_SAME, _CONSTANT, _RAW, _BUT_EARLIER, _BUT_ONE, _PRICED = range(6)
_MANY_AGENTS = 16  # from here on a mask of what changed may be shorter than the column
_ALIGNMENT, _DISTANCE = "alignment", "distance"


def pack_columns(numbers: bytes, earlier: bytes, columns: Sequence[str], *, lambda_: float) -> bytes:
    """``numbers``, one row of doubles for each of ``columns``, given those of an ``earlier`` decision.

    Examples
    --------
    >>> before, now = np.array([0.5, 0.5, 0.0, 0.0]).tobytes(), np.array([0.25, 0.75, 0.0, 0.0]).tobytes()
    >>> packed = pack_columns(now, before, ("propensity", "cost"), lambda_=1.0)
    >>> len(packed), unpack_columns(packed, before, ("propensity", "cost"), lambda_=1.0) == now
    (17, True)
    """
    width, modes, data = len(numbers) // len(columns), [], []
    for place, name in enumerate(columns):
        start = place * width
        column, before = numbers[start : start + width], earlier[start : start + width]
        if column == before:
            modes.append(_SAME)
        elif column == column[:8] * (width // 8):
            modes.append(_CONSTANT)
            data.append(column[:8])
        elif name == _ALIGNMENT and column == _priced(numbers, columns, width, lambda_=lambda_):
            modes.append(_PRICED)
        else:
            mode, kept = (_RAW, column) if width < 8 * _MANY_AGENTS else _masked(column, before)
            modes.append(mode)
            data.append(kept)
    modes += [0] * (len(modes) % 2)
    return b"".join([bytes(16 * a + b for a, b in zip(modes[::2], modes[1::2], strict=True)), *data])


def unpack_columns(packed: bytes, earlier: bytes, columns: Sequence[str], *, lambda_: float) -> bytes:
    """The inverse of :func:`pack_columns`."""
    n, width = len(columns), len(earlier) // len(columns)
    at, found = (n + 1) // 2, []
    for place in range(n):
        mode, before = packed[place // 2] >> (0 if place % 2 else 4) & 15, earlier[place * width : (place + 1) * width]
        if mode == _SAME:
            found.append(before)
        elif mode == _CONSTANT:
            found.append(packed[at : at + 8] * (width // 8))
            at += 8
        elif mode == _RAW:
            found.append(packed[at : at + width])
            at += width
        elif mode == _PRICED:
            found.append(_priced(b"".join(found), columns, width, lambda_=lambda_))
        elif mode in (_BUT_EARLIER, _BUT_ONE):
            column, at = _unmasked(packed, at, None if mode == _BUT_ONE else before, width)
            found.append(column)
        else:
            raise ValueError(f"a column is packed in the unknown mode {mode}")
    if at != len(packed) or len(joined := b"".join(found)) != len(earlier):
        raise ValueError("numbers are cut off, or there are too many")
    return joined


def _priced(numbers: bytes, columns: Sequence[str], width: int, *, lambda_: float) -> bytes:
    """Lambda times the distances, which come before the alignment."""
    if _DISTANCE not in columns:
        return b""
    start = columns.index(_DISTANCE) * width
    with np.errstate(all="ignore"):
        found: bytes = (lambda_ * np.frombuffer(numbers[start : start + width], "<f8")).astype("<f8").tobytes()
    return found


def _masked(column: bytes, before: bytes) -> tuple[int, bytes]:
    """The shortest of: the column; what differs from the earlier one; what differs from the smallest number."""
    now, bits = np.frombuffer(column, "<f8"), np.frombuffer(column, "<u8")
    least = bits[int(now.argmin())]
    changed, others = bits != np.frombuffer(before, "<u8"), bits != least
    n_changed, n_others = np.count_nonzero(changed), np.count_nonzero(others)
    mode, mask, head = (
        (_BUT_EARLIER, changed, b"") if n_changed <= n_others + 1 else (_BUT_ONE, others, least.tobytes())
    )
    packed = head + np.packbits(mask).tobytes() + bits[mask].tobytes()
    return (mode, packed) if len(packed) < len(column) else (_RAW, column)


def _unmasked(packed: bytes, at: int, before: bytes | None, width: int) -> tuple[bytes, int]:
    agents = width // 8
    if before is None:
        before, at = packed[at : at + 8] * agents, at + 8
    column: Floats = np.frombuffer(before, "<f8").copy()
    mask = np.unpackbits(np.frombuffer(packed[at : at + (agents + 7) // 8], np.uint8), count=agents).astype(bool)
    at += (agents + 7) // 8
    end = at + 8 * int(np.count_nonzero(mask))
    column[mask] = np.frombuffer(packed[at:end], "<f8")
    return column.tobytes(), end
