"""Static token embeddings of the package ``wordllama``, averaged over a text; the weights are part of its wheel."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import numpy as np

from bot_orch.errors import MissingExtraError


@dataclass(frozen=True, slots=True)
class StaticEmbedding:
    """The first ``dimensions`` of a 256-dimensional embedding; works offline.

    It needs the extra ``text``. Semantics count, not only letters: similar questions in other words are near.
    """

    dimensions: int = 64
    _model: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            import wordllama
        except ImportError as error:
            raise MissingExtraError("the encoder 'wordllama'", "text") from error
        folder = Path(wordllama.__file__).parent
        model = wordllama.WordLlama.load(trunc_dim=self.dimensions, cache_dir=folder, disable_download=True)
        object.__setattr__(self, "_model", model)

    @property
    def version(self) -> str:
        """Version string for the log: the package's own version, and how many dimensions."""
        return f"wordllama@{installed('wordllama')}:{self.dimensions}"

    @property
    def width(self) -> int:
        """Number of features."""
        return self.dimensions

    def __call__(self, text: str, /) -> tuple[float, ...]:
        """The features of ``text``."""
        found = np.asarray(self._model.embed([text], norm=True), dtype=float)
        return tuple(found[0].tolist())
