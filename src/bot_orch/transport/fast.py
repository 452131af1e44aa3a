"""Kernels compiled by numba (extra ``fast``), with the signatures and results of :mod:`.backend`.

Only :func:`load` imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from bot_orch.arrays import Floats, Ints
from bot_orch.errors import MissingExtraError
from bot_orch.transport.backend import Kernels
from bot_orch.transport.quantiles import cosine_levels

__all__ = ["load"]


@lru_cache(maxsize=1)
def load() -> Kernels:
    """The compiled kernels; each compiles at its first call, which takes a second or two.

    Examples
    --------
    >>> from bot_orch.errors import MissingExtraError
    >>> try:
    ...     name = load().name
    ... except MissingExtraError as error:
    ...     name = error.extra
    >>> name in ("numba", "fast")
    True
    """
    try:
        from numba import njit
    except ImportError as error:
        raise MissingExtraError("kernels('numba')", "fast") from error
    relaxed = {"reassoc", "contract"}  # allows vectorised sums; NaN and inf keep their semantics
    rows_l1: Any = njit(_rows_l1, fastmath=relaxed, error_model="numpy")
    rows_l2: Any = njit(_rows_l2, fastmath=relaxed, error_model="numpy")
    push: Any = njit(_push_window, error_model="numpy")
    return Kernels("numba", _distances(njit, rows_l1), _distances(njit, rows_l2), _pusher(push))


def _distances(njit: Any, rows: Any) -> Callable[[Floats, Floats], Floats]:
    """Broadcast a kernel for one bank and one reference over leading dimensions."""
    empty = np.empty

    @njit  # type: ignore[untyped-decorator]
    def pairs(banks: Floats, references: Floats, out: Floats) -> None:
        for s in range(banks.shape[0]):
            rows(banks[s], references[s], out[s])

    def distances(bank: Floats, reference: Floats) -> Floats:
        if bank.ndim == 2 and reference.ndim == 1:
            out = empty(bank.shape[0])  # numba would spend more on this allocation than on the rest of the call
            rows(bank, reference, out)
            return out
        m, q = bank.shape[-2:]
        if reference.ndim == 1:
            out = empty(bank.shape[:-1])
            rows(bank.reshape(-1, q), reference, out.reshape(-1))
            return out
        lead = np.broadcast_shapes(bank.shape[:-2], reference.shape[:-1])
        out = empty((*lead, m))
        banks = np.broadcast_to(bank, (*lead, m, q)).reshape(-1, m, q)
        pairs(banks, np.broadcast_to(reference, (*lead, q)).reshape(-1, q), out.reshape(-1, m))
        return out

    return distances


def _pusher(push: Any) -> Callable[[Floats, Floats, Ints, Floats, Ints, Floats, int, Floats], None]:
    def push_window(
        ring: Floats,
        ordered: Floats,
        seen: Ints,
        embedding: Floats,
        rows: Ints,
        values: Floats,
        cells: int,
        scale: Floats,
    ) -> None:
        push(ring, ordered, seen, embedding, rows, values, cosine_levels(cells), scale)

    return push_window


def _rows_l1(bank: Floats, reference: Floats, out: Floats) -> None:
    for i in range(bank.shape[0]):
        row, total = bank[i], 0.0
        for j in range(row.shape[0]):
            total += abs(row[j] - reference[j])
        out[i] = total


def _rows_l2(bank: Floats, reference: Floats, out: Floats) -> None:
    for i in range(bank.shape[0]):
        row, total = bank[i], 0.0
        for j in range(row.shape[0]):
            total += (row[j] - reference[j]) ** 2
        out[i] = np.sqrt(total)


def _push_window(
    ring: Floats,
    ordered: Floats,
    seen: Ints,
    embedding: Floats,
    rows: Ints,
    values: Floats,
    levels: Floats,
    scale: Floats,
) -> None:
    tracks, capacity = ring.shape[1], ring.shape[2]
    cells = levels.shape[0] - 1
    for b in range(rows.shape[0]):
        row = rows[b]
        slot = seen[row] % capacity
        n = min(seen[row] + 1, capacity)
        for track in range(tracks):
            window = ordered[row, track]
            old, new = ring[row, track, slot], values[b, track]
            ring[row, track, slot] = new
            low, high = 0, capacity
            while low < high:  # binary search for the outcome that leaves the window
                middle = (low + high) // 2
                if window[middle] < old:
                    low = middle + 1
                else:
                    high = middle
            place = min(low, capacity - 1)
            while place + 1 < capacity and window[place + 1] < new:
                window[place] = window[place + 1]
                place += 1
            while place > 0 and window[place - 1] > new:
                window[place] = window[place - 1]
                place -= 1
            window[place] = new
            area, index, before = 0.0, 0, 0.0
            for j in range(cells):
                u = n * levels[j + 1]
                k = min(int(np.floor(u)), n - 1)
                while index < k:
                    area += window[index]
                    index += 1
                at = area + (u - k) * window[k]
                width = n * (levels[j + 1] - levels[j])
                embedding[row, track * cells + j] = (at - before) / width * scale[j]
                before = at
