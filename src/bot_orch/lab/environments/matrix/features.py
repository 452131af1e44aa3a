"""Features prepared in hindsight: imputed, tamed, standardised, reduced to a few principal components.

The transform reads features only, never an outcome, but those of all tasks at once, which no live router knows. Peers
that bring no preparation of their own get its result; our policies prepare raw numbers online, see
:mod:`bot_orch.core.context`.
"""

from __future__ import annotations

import numpy as np

from bot_orch.arrays import Floats

__all__ = ["prepare"]

_LIMIT = 4.0
_LARGE = 1e100  # the fourth power of what is larger may overflow


def prepare(features: Floats | None, components: int | None = 10) -> Floats | None:
    """A ``(T, d)`` context with d at most ``components`` (``None`` keeps every column), or None without features.

    Missing values become the column's median, and the share of a row that is missing becomes a column of its own.
    A column whose tails are heavy is replaced by its signed logarithm. Columns are standardised and clipped at four
    standard deviations, then projected on their principal components, which keep their relative spread: a ridge
    penalty then weighs less on directions in which tasks differ more. Rows have a squared length of one on average.

    Examples
    --------
    >>> x = prepare(np.array([[1.0, 5.0], [2.0, np.nan], [3.0, 7.0], [4.0, 1.0]]), components=2)
    >>> x.shape, float((x**2).sum(axis=1).mean().round(6))
    ((4, 2), 1.0)
    """
    if features is None or features.shape[1] == 0:
        return None
    known = np.isfinite(features)
    columns = features[:, known.any(axis=0)]
    gaps = ~np.isfinite(columns)
    largest = np.nanmax(np.abs(columns), axis=0)
    columns = columns / np.where(largest > _LARGE, largest, 1.0)
    columns = np.where(gaps, np.nanmedian(columns, axis=0), columns)
    log = np.sign(columns) * np.log1p(np.abs(columns))
    columns = np.where(_kurtosis(log) < _kurtosis(columns), log, columns)
    if gaps.any():
        columns = np.column_stack([columns, gaps.mean(axis=1)])
    columns = columns[:, columns.std(axis=0) > 1e-12]
    if columns.shape[1] == 0:
        return None
    z = np.clip(_standard(columns), -_LIMIT, _LIMIT)
    z -= z.mean(axis=0)
    reduced = z if components is None else _principal(z, components)
    return np.ascontiguousarray(reduced / np.sqrt((reduced**2).sum(axis=1).mean()))


def _principal(z: Floats, components: int) -> Floats:
    if z.shape[1] > len(z):  # wide: the same axes without a matrix of columns by columns
        values, rows = np.linalg.eigh(z @ z.T / len(z))
        vectors = z.T @ rows
        vectors /= np.maximum(np.linalg.norm(vectors, axis=0), 1e-300)
    else:
        values, vectors = np.linalg.eigh(z.T @ z / len(z))
    keep = np.argsort(values)[::-1][:components]
    keep = keep[values[keep] > 1e-9 * values.max()]
    axes = vectors[:, keep]
    axes = axes * np.sign(axes[np.argmax(np.abs(axes), axis=0), np.arange(axes.shape[1])])
    projected: Floats = z @ axes
    return projected


def _standard(columns: Floats) -> Floats:
    centred = columns - columns.mean(axis=0)
    return np.asarray(centred / np.maximum(centred.std(axis=0), 1e-12))


def _kurtosis(columns: Floats) -> Floats:
    z = _standard(columns)
    fourth: Floats = (z**4).mean(axis=0)
    return fourth
