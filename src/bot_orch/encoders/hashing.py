"""The built-in encoder: hashed word and character n-grams plus summary statistics. Stateless, NumPy only.

N-grams are hashed by a vectorised rolling polynomial hash: with prefix sums P_i = sum_{j<i} b_j B^j modulo 2^64
the hash of the bytes from s to e is (P_e - P_s) B^{-s}, and an odd B has an inverse. Each n-gram adds +1 or -1 to one
of the dimensions (feature hashing [1]_); the sums are replaced by signed square roots, and the vector has norm one.

References
----------
.. [1] Weinberger, Dasgupta, Langford, Smola, Attenberg. Feature hashing for large scale multitask learning. ICML 2009.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError

__all__ = ["HashedText"]

_U64 = npt.NDArray[np.uint64]
_BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2^64
_INVERSE = pow(_BASE, -1, 1 << 64)
_LONGEST = 20_000  # bytes hashed; of a longer text only the beginning and the length count
_CHARACTERS = (3, 4, 5)
_CODE = np.frombuffer(b"{}[]()<>=;_#*/\\|&$@^~`", dtype=np.uint8)
_DIGITS, _OTHER = slice(48, 58), slice(128, 256)
_LETTER = np.array([97 <= b <= 122 or 48 <= b <= 57 or b >= 128 for b in range(256)], dtype=np.int8)


@dataclass(frozen=True, slots=True)
class HashedText:
    """``dimensions`` features from hashed n-grams, then six summary statistics.

    N-grams are words, pairs of words and sequences of three to five bytes, in lower case. The statistics are length and
    the shares of digits, code characters, non-ASCII bytes, question marks and line ends, each between 0
    and about 1.

    Examples
    --------
    >>> encode = HashedText()
    >>> features = encode("How many r are in strawberry?")
    >>> len(features), encode("How many r are in strawberry?") == features
    (70, True)
    """

    dimensions: int = 64

    def __post_init__(self) -> None:
        if not 1 <= self.dimensions <= 65_536:
            raise InvalidInputError("encoder.dimensions", f"is {self.dimensions}", "pass a number from 1 to 65536")

    @property
    def version(self) -> str:
        """Version string for the log; it changes whenever the features change."""
        return f"hashing@1:{self.dimensions}"

    @property
    def width(self) -> int:
        """Number of features."""
        return self.dimensions + 6

    def __call__(self, text: str, /) -> tuple[float, ...]:
        """The features of ``text``."""
        data = np.frombuffer(text.lower().encode("utf-8", "replace")[:_LONGEST], dtype=np.uint8)
        return (*self._hashed(data).tolist(), *_shape(data, len(text)))

    def _hashed(self, data: npt.NDArray[np.uint8]) -> Floats:
        hashes = _mixed(_ngrams(data))
        sign = 2.0 * (hashes >> np.uint64(63)).astype(np.float64) - 1.0
        place = (hashes % np.uint64(self.dimensions)).astype(np.int64)
        total = np.bincount(place, sign, self.dimensions)
        dampened = np.copysign(np.sqrt(np.abs(total)), total)
        norm = float(np.sqrt(np.add.reduce(dampened * dampened)))
        return dampened / norm if norm > 0.0 else dampened


def _ngrams(data: npt.NDArray[np.uint8]) -> _U64:
    """Hashes of all n-grams, with a different offset per type."""
    n = len(data)
    if n == 0:
        return np.zeros(0, dtype=np.uint64)
    powers, inverses = _powers(n)
    prefix = np.zeros(n + 1, dtype=np.uint64)
    np.cumsum((data.astype(np.uint64) + np.uint64(1)) * powers[:n], out=prefix[1:])

    def between(start: npt.NDArray[np.int64], end: npt.NDArray[np.int64], kind: int) -> _U64:
        return (prefix[end] - prefix[start]) * inverses[start] + np.uint64(kind)

    starts, ends = _words(data)
    found = [between(starts, ends, 1), between(starts[:-1], ends[1:], 2)]
    for width in _CHARACTERS:
        count = max(n - width + 1, 0)
        found.append((prefix[width : width + count] - prefix[:count]) * inverses[:count] + np.uint64(width))
    return np.concatenate(found)


def _words(data: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Start and end of each word: a run of letters, digits and non-ASCII bytes."""
    letter = np.zeros(len(data) + 2, dtype=np.int8)
    letter[1:-1] = _LETTER[data]
    edges = letter[1:] - letter[:-1]
    return np.flatnonzero(edges > 0), np.flatnonzero(edges < 0)


def _mixed(hashes: _U64) -> _U64:
    """The finaliser of SplitMix64, so that every bit depends on every byte."""
    z = hashes
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: _U64 = z ^ (z >> np.uint64(31))
    return mixed


def _shape(data: npt.NDArray[np.uint8], length: int) -> tuple[float, ...]:
    n = max(len(data), 1)
    counts = np.bincount(data, minlength=256)
    digits, code, other = (int(np.add.reduce(counts[each])) for each in (_DIGITS, _CODE, _OTHER))
    lines, questions = int(counts[10]), int(counts[63])
    shares = (digits / n, code / n, other / n, min(1.0, 0.25 * questions), min(1.0, 0.05 * lines))
    return (float(np.log1p(length) / 10.0), *shares)


@lru_cache(maxsize=1)
def _all_powers() -> tuple[_U64, _U64]:
    """B^i and B^-i modulo 2^64."""
    powers, inverses = (np.full(_LONGEST + 1, base, dtype=np.uint64) for base in (_BASE, _INVERSE))
    powers[0] = inverses[0] = 1
    return np.multiply.accumulate(powers), np.multiply.accumulate(inverses)


def _powers(n: int) -> tuple[_U64, _U64]:
    powers, inverses = _all_powers()
    return powers[: n + 1], inverses[: n + 1]
