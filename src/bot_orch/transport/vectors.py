"""Distances between embeddings, and sorted sliding windows."""

from __future__ import annotations

import numpy as np

from bot_orch.arrays import Floats, Ints
from bot_orch.transport.quantiles import cell_means, window_plan


def l1(bank: Floats, reference: Floats) -> Floats:
    """Sum of absolute differences over the last axis."""
    difference = bank - (reference if reference.ndim == 1 else reference[..., None, :])
    np.abs(difference, out=difference)
    return _row_sums(difference)


def l2(bank: Floats, reference: Floats) -> Floats:
    """Euclidean distance over the last axis; computed from differences to avoid cancellation for close profiles."""
    difference = bank - (reference if reference.ndim == 1 else reference[..., None, :])
    np.square(difference, out=difference)
    total = _row_sums(difference)
    return np.sqrt(total, out=total)


def push_window(
    ring: Floats, ordered: Floats, seen: Ints, embedding: Floats, rows: Ints, values: Floats, cells: int, scale: Floats
) -> None:
    """Insert ``values[b]`` into window ``rows[b]`` and recompute its embedding, in place.

    Parameters
    ----------
    ring, ordered
        (N, L, C): the last C outcomes of N profiles on L tracks in order of arrival, and sorted; +inf where empty.
    seen
        (N,): outcomes seen before this one.
    embedding
        (N, L * cells): cell means of the sorted tracks, times ``scale`` (cells,).
    rows, values
        (B,) distinct profile numbers and (B, L) outcomes.
    """
    capacity = ring.shape[-1]
    if len(rows) == 1 and ring.shape[1] == 1:
        _push_one(ring, ordered, seen, embedding, int(rows[0]), float(values[0, 0]), cells, scale)
        return
    count = seen[rows]
    slot = count % capacity
    old = ring[rows, :, slot]
    ring[rows, :, slot] = values
    window = ordered[rows]
    position = (window < old[..., None]).sum(axis=-1)
    np.put_along_axis(window, position[..., None], values[..., None], axis=-1)
    window.sort(axis=-1)
    ordered[rows] = window
    tracks = ring.shape[1]
    n = np.repeat(np.minimum(count + 1, capacity), tracks)
    means = cell_means(window.reshape(-1, capacity), n, cells) * scale
    embedding[rows] = means.reshape(len(rows), tracks * cells)


def _push_one(
    ring: Floats, ordered: Floats, seen: Ints, embedding: Floats, row: int, value: float, cells: int, scale: Floats
) -> None:
    window, capacity, count = ordered[row, 0], ring.shape[-1], int(seen[row])
    slot = count % capacity
    leaving = int(window.searchsorted(ring[row, 0, slot]))
    arriving = int(window.searchsorted(value))
    ring[row, 0, slot] = value
    if arriving > leaving:
        window[leaving : arriving - 1] = window[leaving + 1 : arriving]
        window[arriving - 1] = value
    else:
        window[arriving + 1 : leaving + 1] = window[arriving:leaving]
        window[arriving] = value
    k, fraction, inverse = window_plan(min(count + 1, capacity), cells)
    cumulative = np.zeros(capacity + 1)
    window.cumsum(out=cumulative[1:])
    at = cumulative[k] + fraction * window[k]
    np.multiply(at[1:] - at[:-1], inverse * scale, out=embedding[row])


def _row_sums(x: Floats) -> Floats:
    """Sums over the last axis: one product of a matrix and a vector, whatever the batch."""
    q = x.shape[-1]
    if x.ndim <= 2:
        return np.asarray(x @ _ones(q))
    return np.asarray((x.reshape(-1, q) @ _ones(q)).reshape(x.shape[:-1]))


def _ones(q: int) -> Floats:
    found = _ONES.get(q)
    if found is None:
        found = _ONES[q] = np.ones(q)
    return found


_ONES: dict[int, Floats] = {}
