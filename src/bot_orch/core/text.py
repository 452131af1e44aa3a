"""Text as context: a task's text is encoded once and appended to its features.

The numbers are rounded to single precision and kept with the decision, under the encoder's version and their number.
From there on they are used as they are: learning, replay and evaluation need neither the text nor the encoder. Codes of
words are whole numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.encoders import Encoder, encoder_version, find_encoder, spread_words
from bot_orch.errors import InvalidInputError
from bot_orch.types import Decision, Task

if TYPE_CHECKING:
    from bot_orch.core.settings import Settings


@dataclass(frozen=True, slots=True)
class TextFeatures:
    """The encoder in use, by version, and its number of features.

    ``words`` is the number of trailing word codes of :class:`~bot_orch.encoders.HashedWords`; 0 if all are dense.

    Examples
    --------
    >>> str(TextFeatures("words@1:64", 70)), TextFeatures.parse("words@1:64#70").width
    ('words@1:64#70', 70)
    >>> TextFeatures("words@1:64", 70).words, TextFeatures("topics@1", 4).words
    (64, 0)
    """

    version: str
    width: int

    @property
    def words(self) -> int:
        """Number of trailing features that are word codes."""
        name, _, slots = self.version.partition(":")
        return int(slots) if name.startswith("words@") and slots.isdecimal() and int(slots) <= self.width else 0

    def __str__(self) -> str:
        return f"{self.version}#{self.width}"

    @classmethod
    def parse(cls, label: str) -> TextFeatures:
        """The inverse of ``str``."""
        version, _, width = label.rpartition("#")
        if not version or not width.isdecimal():
            raise InvalidInputError("task.encoded", f"is {label!r}", "pass the encoder of a logged decision")
        return cls(version, int(width))


def features_of(encoder: Encoder | str, text: str) -> TextFeatures:
    """What an encoder gives for every text, as for this one."""
    found = find_encoder(encoder)
    return TextFeatures(encoder_version(found), len(_numbers(found, text)))


def encode(task: Task, settings: Settings) -> Task:
    """The task without its text, and with the encoded features appended to its own.

    A task without a text gets zeros, as an empty text does under the built-in encoder. A task that is encoded already,
    such as one of a log, is returned as it is.
    """
    text = settings.text
    if text is None or settings.encoder is None:
        return task
    label, n = str(text), settings.n_features or 0
    if task.encoded:
        if task.encoded != label:
            problem = f"is {task.encoded!r}, this orchestrator learned with {label!r}"
            raise InvalidInputError("task.encoded", problem, "pass the text, or use the orchestrator of that encoder")
        return task
    own = task.features if n else ()
    if len(own) != n:
        problem = f"has {len(own)} numbers, this orchestrator expects {n}"
        raise InvalidInputError("task.features", problem, "pass as many with every task")
    numbers = (0.0,) * text.width if task.text is None else _checked(settings.encoder, task.text, text)
    return replace(task, text=None, features=(*own, *numbers), encoded=label)


def numbers_of(decision: Decision, settings: Settings) -> tuple[float, ...] | None:
    """The features of a decision, in the current width; None if they have another meaning.

    A decision from before the first text has zeros for it, as a task without a text has.
    """
    text, found = settings.text, decision.features
    if text is not None and not decision.encoder:
        found = (*(found if settings.n_features else ()), *(0.0,) * text.width)
    elif decision.encoder != ("" if text is None else str(text)):
        return None
    return found if len(found) == settings.context_width else None


def dense(features: npt.ArrayLike, settings: Settings) -> Floats:
    """Dense features: missing values are zero, word codes are spread over as many columns."""
    return spread_words(np.nan_to_num(np.asarray(features, dtype=float)), settings.words)


def _checked(encoder: Encoder | str, text: str, wanted: TextFeatures) -> tuple[float, ...]:
    found = find_encoder(encoder)
    version = encoder_version(found)
    if version != wanted.version:
        problem = f"is {version!r}, this orchestrator learned with {wanted.version!r}"
        raise InvalidInputError("encoder", problem, "pass that one to load(), or create a new orchestrator")
    numbers = _numbers(found, text)
    if len(numbers) != wanted.width:
        problem = f"gave {len(numbers)} numbers, {wanted.width} for the first text"
        raise InvalidInputError("encoder", problem, "return as many for every text")
    return numbers


def _numbers(encoder: Encoder, text: str) -> tuple[float, ...]:
    """The encoder's output in single precision, as stored in the log."""
    try:
        values = np.asarray(encoder(text), dtype=np.float32)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError("encoder", f"failed ({error})", "return a list of numbers for every text") from error
    if values.ndim != 1 or not values.size:
        raise InvalidInputError("encoder", f"gave shape {values.shape}", "return one list of numbers for one text")
    if not math.isfinite(values.sum()):
        raise InvalidInputError("encoder", "gave a number that is not finite", "return finite numbers")
    return tuple(values.tolist())
