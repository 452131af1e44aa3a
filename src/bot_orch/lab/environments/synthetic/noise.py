"""Noise on the alignment that a policy sees; the paper adds it, W + eps, and does not print its size."""

from __future__ import annotations

from typing import Literal, get_args

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError

__all__ = ["NOISE_FORMS", "NoiseForm", "with_noise"]

#: What the standard deviation of the noise is a share of: the distance itself (``relative``), one unit of distance
#: (``additive``), or the agent's mean distance (``agent``), which is constant over time as the paper's sigma_i is.
NoiseForm = Literal["relative", "additive", "agent"]
NOISE_FORMS: tuple[NoiseForm, ...] = get_args(NoiseForm)


def with_noise(w: Floats, draws: Floats, level: float, *, form: NoiseForm = "relative") -> Floats:
    """Distances ``(T, seeds, M)`` with noise of sd ``level``; ``draws`` are standard normal, of the same shape.

    Examples
    --------
    >>> import numpy as np
    >>> w, one = np.array([[[1.0, 2.0]], [[3.0, 2.0]]]), np.ones((2, 1, 2))
    >>> [with_noise(w, one, 0.5, form=form)[:, 0, 0].tolist() for form in NOISE_FORMS]
    [[1.5, 4.5], [1.5, 3.5], [2.0, 4.0]]
    """
    if form not in NOISE_FORMS:
        raise InvalidInputError("form", f"is {form!r}", f"pass one of {', '.join(NOISE_FORMS)}")
    if form == "relative":
        return w + level * w * draws
    scale = w.mean(axis=(0, 1)) if form == "agent" else 1.0
    seen: Floats = w + level * scale * draws
    return seen
