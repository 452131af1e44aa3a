"""The built-in encoder: summary statistics and hashed words. Stateless, NumPy only.

A text is the set of its words, and a word is the number of its hash bucket: feature hashing [1]_ without the sums, so
that a learner can weigh every word by itself. The slots hold the smallest bucket numbers of the text. As these are
hashes, that is a bottom-k sketch [2]_ (MinHash [3]_ with one function and k minima): a uniform sample of the words,
drawn in the same order for every text. Two long texts keep the same ones of the words they share, and the sketch of
two texts joined is that of their sketches.

References
----------
.. [1] Weinberger, Dasgupta, Langford, Smola, Attenberg. Feature hashing for large scale multitask learning. ICML 2009.
.. [2] Cohen, Kaplan. Summarizing data using bottom-k sketches. PODC 2007.
.. [3] Broder. On the resemblance and containment of documents. Compression and Complexity of Sequences 1997.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Bools, Floats
from bot_orch.errors import InvalidInputError

#: Number of hash buckets; a word is one of the codes 1 to ``BUCKETS``.
BUCKETS = 4096
_SHIFT = 32 - 12  # the upper twelve of 32 bits
_MIX = 0x9E3779B1  # odd, 2^32 over the golden ratio
_LONGEST = 20_000  # bytes read; of a longer text only the beginning and the length count
_MANY = 100  # words from which arrays are quicker than a loop
_STATISTICS = 6
_DIGITS, _CODE = b"0123456789", b"{}[]()<>=;_#*/\\|&$@^~`"
_OTHER = bytes(range(128, 256))
# Scripts that put no spaces between words, and emoji, in blocks of 32 code points: Thai, Lao, Tibetan, Burmese, Khmer,
# kana, bopomofo, ideographs
_UNSPACED = (
    (0x0E00, 0x0FFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x3040, 0x312F),
    (0x31A0, 0x31BF),
    (0x31E0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF60, 0xFF9F),
    (0x1F000, 0x1FAFF),
    (0x20000, 0x3FFFF),
)
# Beyond ASCII, what is neither letter nor mark nor digit: Latin-1 signs, punctuation, symbols, halves of surrogates
_SIGNS = (
    (0x80, 0xA9),
    (0xAB, 0xB4),
    (0xB6, 0xB9),
    (0xBB, 0xBF),
    (0xD7, 0xD7),
    (0xF7, 0xF7),
    (0x60C, 0x60C),
    (0x61B, 0x61F),
    (0x6D4, 0x6D4),
    (0x964, 0x965),
    (0x2000, 0x206F),
    (0x20A0, 0x20CF),
    (0x2190, 0x2BFF),
    (0x2E00, 0x2E7F),
    (0x3000, 0x303F),
    (0xD800, 0xF8FF),
    (0xFE00, 0xFE1F),
    (0xFE30, 0xFE6F),
    (0xFEFF, 0xFF0F),
    (0xFF1A, 0xFF20),
    (0xFF3B, 0xFF40),
    (0xFF5B, 0xFF5F),
    (0xFFE0, 0xFFFF),
)


def _characters(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(f"{re.escape(chr(low))}-{re.escape(chr(high))}" for low, high in ranges)


_SPACED = bytes(b if 97 <= b <= 122 or 48 <= b <= 57 or b >= 128 else 32 for b in range(256))
_SINGLE = frozenset(bytes([b]) for b in range(128))
_WORD = re.compile(f"[^\\x00-/:-`{{-\\x7f{_characters(_SIGNS)}{_characters(_UNSPACED)}]+")


@dataclass(frozen=True, slots=True)
class HashedWords:
    """Six summary statistics, then ``slots`` word codes: ascending bucket numbers from 1, padded with zeros.

    The statistics are length and the shares of digits, code characters, non-ASCII bytes, question marks and line ends,
    each between 0 and about 1. Words are runs of letters and digits, in lower case, without single ASCII characters. Of
    scripts without spaces they are single characters and pairs of neighbours. A text with more words than slots keeps
    those of the smallest bucket numbers.

    Examples
    --------
    >>> encode = HashedWords()
    >>> features = encode("How many r are in strawberry?")
    >>> len(features), [code for code in features[6:] if code]
    (70, [2739.0, 3422.0, 3437.0, 3466.0, 3729.0])
    >>> encode("strawberry: in are r many HOW")[6:] == features[6:]
    True
    """

    slots: int = 64

    def __post_init__(self) -> None:
        if not 1 <= self.slots <= BUCKETS:
            raise InvalidInputError("encoder.slots", f"is {self.slots}", f"pass a number from 1 to {BUCKETS}")

    @property
    def version(self) -> str:
        """Version string for the log; it changes whenever the numbers change."""
        return f"words@1:{self.slots}"

    @property
    def width(self) -> int:
        """Number of features per text."""
        return _STATISTICS + self.slots

    def __call__(self, text: str, /) -> tuple[float, ...]:
        """The numbers of ``text``."""
        data = text[:_LONGEST].lower().encode("utf-8", "replace")[:_LONGEST]
        codes = _codes(data)
        kept = sorted(codes)[: self.slots]
        return (*_statistics(data, len(text)), *map(float, kept), *(0.0,) * (self.slots - len(kept)))


def spread_words(numbers: Floats, words: int) -> Floats:
    """Dense features ``(..., d)``: each of the last ``words`` word codes adds +1 or -1 to one of as many columns.

    The sums have norm one. This is plain feature hashing, for those who have learned no weights of words.

    Examples
    --------
    >>> spread_words(np.array([0.5, 3.0, 70.0, 0.0, 0.0]), 4).tolist()
    [0.5, 0.0, -0.7071067811865475, 0.7071067811865475, 0.0]
    """
    if not words:
        return numbers
    codes = numbers[..., -words:].astype(np.int64) - 1
    rows = codes.reshape(-1, words)
    sums = np.zeros(rows.shape)
    sign = np.where(rows < 0, 0.0, 1.0 - 2.0 * (rows // words % 2))
    np.add.at(sums, (np.arange(len(rows))[:, None], rows % words), sign)
    norm = np.sqrt(np.add.reduce(sums * sums, axis=-1, keepdims=True))
    sums /= np.where(norm > 0.0, norm, 1.0)
    return np.concatenate([numbers[..., :-words], sums.reshape(codes.shape)], axis=-1)


def _codes(data: bytes) -> set[int]:
    """Codes of the words of a lower-case text in UTF-8."""
    words = set(data.translate(_SPACED).split())
    if data.isascii():
        return _word_codes(words)
    beyond = [word for word in words if not word.isascii()]  # signs are bytes like letters there
    text = b" ".join(beyond).decode("utf-8", "ignore")
    words.difference_update(beyond)
    words.update([word.encode() for word in _WORD.findall(text)])
    found = _word_codes(words)
    found.update(_unspaced_codes(text))
    return found


def _word_codes(words: set[bytes]) -> set[int]:
    """Codes of distinct words; single ASCII characters have none."""
    words -= _SINGLE
    if len(words) < _MANY:
        return {(crc32(word) * _MIX >> _SHIFT & BUCKETS - 1) + 1 for word in words}
    hashes = np.fromiter(map(crc32, words), np.uint64, len(words)) * np.uint64(_MIX)  # the same, without a loop
    return set(_different(hashes >> np.uint64(_SHIFT) & np.uint64(BUCKETS - 1)))


def _different(buckets: npt.NDArray[np.uint64]) -> list[int]:
    """Codes of the buckets, ascending."""
    seen = np.zeros(BUCKETS, dtype=bool)
    seen[buckets.astype(np.int64)] = True
    found: list[int] = (np.flatnonzero(seen) + 1).tolist()
    return found


def _unspaced_codes(text: str) -> list[int]:
    """Codes of the characters, and of pairs of neighbours, in scripts without spaces."""
    points = np.frombuffer(text.encode("utf-32-le"), dtype="<u4").astype(np.uint64)
    inside = _unspaced()[points >> np.uint64(5)]
    if not inside.any():
        return []
    pairs = inside[1:] & inside[:-1]
    both = (points[:-1][pairs] << np.uint64(21)) + points[1:][pairs]
    z = np.concatenate([points[inside], both]) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9)  # as SplitMix64 does
    return _different(z >> np.uint64(52))


@lru_cache(maxsize=1)
def _unspaced() -> Bools:
    """Whether each block of 32 code points belongs to a script without spaces."""
    table = np.zeros(0x110000 >> 5, dtype=bool)
    for low, high in _UNSPACED:
        table[low >> 5 : (high + 1) >> 5] = True
    return table


def _statistics(data: bytes, length: int) -> tuple[float, ...]:
    n = len(data)
    size = max(n, 1)
    digits, code = ((n - len(data.translate(None, some))) / size for some in (_DIGITS, _CODE))
    other = 0.0 if data.isascii() else (n - len(data.translate(None, _OTHER))) / size
    questions, lines = min(1.0, 0.25 * data.count(b"?")), min(1.0, 0.05 * data.count(b"\n"))
    return math.log1p(length) / 10.0, digits, code, other, questions, lines
