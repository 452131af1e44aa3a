"""Keyed random streams: a draw is a pure function of (key, counter).

Apart from counting forks, this module keeps no state. A decision stores the key and the counter of its draw, so that
the draw can be repeated later. An experiment gives each seed its own key, so results do not depend on how seeds are
spread over processes.

The uniform stream is SplitMix64 [1]_ in counter mode; :func:`generator` gives a NumPy generator where an
environment needs richer distributions.

References
----------
.. [1] Steele, Lea, Flood. Fast splittable pseudorandom number generators. OOPSLA 2014.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable
from functools import partial
from typing import overload

import numpy as np
import numpy.typing as npt

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
_C1 = 0xBF58476D1CE4E5B9
_C2 = 0x94D049BB133111EB
_TO_UNIT = 2.0**-53


def derive_key(*parts: str | int) -> int:
    """A 64-bit key from a path of names and numbers; different paths give unrelated keys.

    Examples
    --------
    >>> derive_key("triage", 0) == derive_key("triage", 0)
    True
    >>> derive_key("triage", 0) == derive_key("triage", 1)
    False
    """
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def derive_keys(parts: Iterable[str | int], seeds: Iterable[int]) -> npt.NDArray[np.uint64]:
    """One key per seed under a common path."""
    path = tuple(parts)
    return np.array([derive_key(*path, int(seed)) for seed in seeds], dtype=np.uint64)


@overload
def uniform(key: int, counter: int) -> float: ...
@overload
def uniform(key: npt.NDArray[np.uint64], counter: int) -> npt.NDArray[np.float64]: ...


def uniform(key: int | npt.NDArray[np.uint64], counter: int) -> float | npt.NDArray[np.float64]:
    """The ``counter``-th number in [0, 1) of the stream ``key``; an array of keys gives an array of draws.

    Examples
    --------
    >>> keys = np.array([7, 8], dtype=np.uint64)
    >>> bool(uniform(keys, 3)[0] == uniform(7, 3))
    True
    """
    if isinstance(key, int):
        z = (key + (counter + 1) * _GAMMA) & _MASK
        z = ((z ^ (z >> 30)) * _C1) & _MASK
        z = ((z ^ (z >> 27)) * _C2) & _MASK
        return float(((z ^ (z >> 31)) >> 11) * _TO_UNIT)
    if key.ndim == 0:  # uint64 overflow warns for scalars but wraps silently for arrays
        return np.asarray(uniform(int(key), counter))
    offset = np.uint64(((counter + 1) * _GAMMA) & _MASK)
    v = key + offset
    v = (v ^ (v >> np.uint64(30))) * np.uint64(_C1)
    v = (v ^ (v >> np.uint64(27))) * np.uint64(_C2)
    unit: npt.NDArray[np.float64] = np.multiply((v ^ (v >> np.uint64(31))) >> np.uint64(11), _TO_UNIT, dtype=np.float64)
    return unit


def stream_of(key: int) -> Callable[[int], float]:
    """:func:`uniform` of one key, as a function of the counter.

    Examples
    --------
    >>> stream_of(7)(3) == uniform(7, 3)
    True
    """
    return partial(uniform, key)


def random_prefix() -> str:
    """16 hexadecimal digits from the operating system, for names that must differ between processes.

    Examples
    --------
    >>> random_prefix() == random_prefix()
    False
    """
    return secrets.token_hex(8)


_forks = 0


def _forked() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_forked)


def forks() -> int:
    """How often this process and its parents were forked; it differs from the number before a fork."""
    return _forks


def generator(*parts: str | int) -> np.random.Generator:
    """A NumPy generator keyed by a path of names and numbers.

    Examples
    --------
    >>> generator("env", 1).integers(1000) == generator("env", 1).integers(1000)
    np.True_
    """
    return np.random.Generator(np.random.Philox(key=derive_key(*parts)))
