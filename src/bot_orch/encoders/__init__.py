"""Text encoders by name. Hashed words are built in; users can supply other callables."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType

from bot_orch.encoders.base import AbsentEncoder, Encoder, encoder_version
from bot_orch.encoders.wordllama import StaticEmbedding
from bot_orch.encoders.words import BUCKETS, HashedWords, spread_words
from bot_orch.errors import InvalidInputError

__all__ = [
    "BUCKETS",
    "ENCODERS",
    "AbsentEncoder",
    "Encoder",
    "HashedWords",
    "check_name",
    "encoder_from_spec",
    "encoder_spec",
    "encoder_version",
    "find_encoder",
    "spread_words",
]

#: What an ``encoder=`` given as a name stands for.
ENCODERS: Mapping[str, Callable[[], Encoder]] = MappingProxyType({"builtin": HashedWords, "wordllama": StaticEmbedding})


def find_encoder(encoder: Encoder | str) -> Encoder:
    """The encoder itself, or the one with that name.

    Examples
    --------
    >>> find_encoder("builtin")
    HashedWords(slots=64)
    """
    return encoder if callable(encoder) else _named(check_name(encoder))


def check_name(name: str) -> str:
    """Return the name; raise an error if there is no such encoder."""
    if not isinstance(name, str) or name not in ENCODERS:
        remedy = f"pass one of {', '.join(ENCODERS)}, a callable, or None"
        raise InvalidInputError("encoder", f"is {name!r}", remedy)
    return name


def encoder_spec(encoder: Encoder | str | None) -> dict[str, str] | None:
    """JSON values: a name, or the version of a callable, which itself is not saved."""
    if encoder is None:
        return None
    return {"name": encoder} if isinstance(encoder, str) else {"version": encoder_version(encoder)}


def encoder_from_spec(document: dict[str, str] | None) -> Encoder | str | None:
    """The inverse of :func:`encoder_spec`; a callable becomes an :class:`~bot_orch.encoders.AbsentEncoder`."""
    if document is None:
        return None
    return document["name"] if "name" in document else AbsentEncoder(document["version"])


@lru_cache(maxsize=8)
def _named(name: str) -> Encoder:
    return ENCODERS[name]()
