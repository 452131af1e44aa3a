"""Inputs of a matrix's tasks: raw, as passed to a live router, and a prepared context for peers.

Our policies get the inputs and prepare them themselves, online (:mod:`bot_orch.core.context`). Libraries that bring no
preparation get a context that is prepared in hindsight, from the features of all tasks of the matrix at once, never
from an outcome: a control that favours them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.core.text import TextFeatures
from bot_orch.encoders import encoder_version, find_encoder, spread_words
from bot_orch.lab.environments.matrix.model import Matrix

_LIMIT = 4.0
_LARGE = 1e100  # the fourth power of what is larger may overflow


def prepare(features: Floats | None, components: int | None = 10) -> Floats | None:
    """A ``(T, d)`` context with d at most ``components`` (``None`` keeps every column), or None without features.

    Missing values become the column's median, and the share of a row that is missing becomes an additional column.
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


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Raw features of tasks: their own first, NaN where missing, then those of their texts.

    Attributes
    ----------
    values
        ``(T, width)``.
    own
        How many are the tasks' own.
    text
        Label of the encoder that the others are from, such as ``words@1:64#70``; empty without texts.
    """

    values: Floats
    own: int
    text: str = ""

    @property
    def words(self) -> int:
        """Number of trailing word codes."""
        return TextFeatures.parse(self.text).words if self.text else 0


@lru_cache(maxsize=4)
def inputs_of(matrix: Matrix) -> Inputs | None:
    """The inputs that a user would pass with the tasks, or None; independent of other tasks.

    Examples
    --------
    >>> toy = Matrix("toy", ("a",), np.zeros((2, 1)), features=np.array([[1e9], [np.nan]]), text=np.array(["x", "y"]))
    >>> found = inputs_of(toy)
    >>> found.values.shape, found.own, found.text, found.values[:, 0].tolist()
    ((2, 71), 1, 'words@1:64#70', [1000000000.0, nan])
    """
    own = matrix.features if matrix.features is not None and matrix.features.shape[1] else None
    own = None if own is None else np.where(np.isinf(own), np.nan, own)  # a task refuses numbers that are infinite
    if matrix.text is None:
        return None if own is None else Inputs(own, own.shape[1])
    numbers = encoded_texts(matrix.text)
    label = str(TextFeatures(encoder_version(find_encoder("builtin")), numbers.shape[1]))
    numbers = numbers.astype(np.float32).astype(float)  # as a live router keeps them
    return Inputs(numbers, 0, label) if own is None else Inputs(np.column_stack([own, numbers]), own.shape[1], label)


@lru_cache(maxsize=4)
def context_of(matrix: Matrix) -> Floats | None:
    """Context ``(T, d)`` prepared in hindsight, for peers without their own preparation, or None; may take seconds.

    Features and text go through :func:`~bot_orch.lab.environments.matrix.context.prepare` with all tasks of the
    matrix at once. Word codes are spread over as many columns before.
    """
    inputs = inputs_of(matrix)
    return None if inputs is None else prepare(spread_words(inputs.values, inputs.words))


def encoded_texts(texts: npt.NDArray[np.str_], encoder: str = "builtin") -> Floats:
    """Encoded features of every text, ``(T, width)``; equal texts are encoded once.

    Examples
    --------
    >>> encoded_texts(np.array(["one question", "another one", "one question"])).shape
    (3, 70)
    """
    encode = find_encoder(encoder)
    different, where = np.unique(texts, return_inverse=True)
    return np.array([encode(str(text)) for text in different], dtype=float)[where]
