"""Encoder interface: a function from a text to a fixed number of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bot_orch.errors import InvalidInputError


class Encoder(Protocol):
    """A callable that maps a text to a feature vector of fixed length."""

    def __call__(self, text: str, /) -> Sequence[float]:
        """The features of ``text``."""
        ...


@dataclass(frozen=True, slots=True)
class AbsentEncoder:
    """Placeholder for a callable that a saved state or a log names by version; callables themselves are not saved."""

    version: str

    def __call__(self, text: str, /) -> Sequence[float]:
        """Raise an error; features that were encoded earlier remain usable."""
        raise InvalidInputError(
            "encoder", f"{self.version!r} is a callable and was not saved", "pass encoder= to load() or from_json()"
        )


def encoder_version(encoder: Encoder) -> str:
    """Version string logged with encoded features: the encoder's ``version`` attribute, else its qualified name.

    Examples
    --------
    >>> from bot_orch.encoders import HashedWords
    >>> encoder_version(HashedWords())
    'words@1:64'
    >>> encoder_version(len)
    'builtins.len'
    """
    version = getattr(encoder, "version", None)
    if isinstance(version, str):
        return version
    kind = encoder if hasattr(encoder, "__qualname__") else type(encoder)
    return f"{kind.__module__}.{getattr(kind, '__qualname__', '')}"
