"""The context of a matrix's tasks: their features and the numbers of their texts, prepared together."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.encoders import find_encoder
from bot_orch.environments.matrix.features import prepare
from bot_orch.environments.matrix.model import Matrix

__all__ = ["context_of", "encoded_texts"]


@lru_cache(maxsize=4)
def context_of(matrix: Matrix, components: int | None, *, encoder: str | None = "builtin") -> Floats | None:
    """Prepared context ``(T, d)``, the same for every policy, or None; wide features take seconds.

    Columns of the text come behind those of the features, as in a live router, and go through the same
    :func:`~bot_orch.environments.matrix.features.prepare`: a hashed dimension is standardised like any other feature.
    """
    if matrix.text is None or encoder is None:
        return prepare(matrix.features, components)
    numbers = encoded_texts(matrix.text, encoder)
    return prepare(numbers if matrix.features is None else np.column_stack([matrix.features, numbers]), components)


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
