"""What the tasks of a matrix bring: raw inputs, as a user hands them to a live router, and a context for peers.

Our policies get the inputs and prepare them themselves, online. Libraries that bring no preparation get a context that
is prepared in hindsight, from all tasks of the matrix at once: a control that favours them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.core.text import TextFeatures
from bot_orch.encoders import encoder_version, find_encoder, spread_words
from bot_orch.lab.environments.matrix.features import prepare
from bot_orch.lab.environments.matrix.model import Matrix

__all__ = ["Inputs", "context_of", "encoded_texts", "inputs_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Raw numbers of tasks: their own features first, NaN where one is missing, then those of their texts.

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
        """How many of the last numbers are word codes."""
        return TextFeatures.parse(self.text).words if self.text else 0


@lru_cache(maxsize=4)
def inputs_of(matrix: Matrix) -> Inputs | None:
    """What a user would hand over with the tasks, or None; nothing depends on other tasks.

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
    """Context ``(T, d)`` prepared in hindsight, for peers that bring no preparation, or None; it may take seconds.

    Features and text go through :func:`~bot_orch.lab.environments.matrix.features.prepare` with all tasks of the
    matrix at once. Word codes are spread over as many columns before.
    """
    inputs = inputs_of(matrix)
    return None if inputs is None else prepare(spread_words(inputs.values, inputs.words))


def encoded_texts(texts: npt.NDArray[np.str_], encoder: str = "builtin") -> Floats:
    """What the encoder gives for every text, ``(T, width)``; equal texts are encoded once.

    Examples
    --------
    >>> encoded_texts(np.array(["one question", "another one", "one question"])).shape
    (3, 70)
    """
    encode = find_encoder(encoder)
    different, where = np.unique(texts, return_inverse=True)
    return np.array([encode(str(text)) for text in different], dtype=float)[where]
