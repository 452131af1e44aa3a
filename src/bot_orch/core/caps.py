"""Caps on shares of traffic: the largest propensity that single agents may have, such as a new one on trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bot_orch.arrays import Bools, Floats
from bot_orch.checks import is_number
from bot_orch.errors import InvalidInputError, require_type

__all__ = ["check_caps", "with_caps"]


def with_caps(p: Floats, caps: Mapping[str, float], names: Sequence[str], *, eligible: Bools | None = None) -> Floats:
    """Propensities of one decision with those of some agents cut to their caps.

    What is cut off goes to the eligible agents without a cap, in proportion to their propensities, or evenly if these
    are zero. Where every eligible agent has a cap there is no choice to limit, and nothing changes.

    Examples
    --------
    >>> with_caps(np.array([0.6, 0.3, 0.1]), {"new": 0.2}, ["new", "b", "c"])
    array([0.2, 0.6, 0.2])
    """
    most = np.array([caps.get(name, 1.0) for name in names])
    over = p > most
    if not over.any():
        return p
    free = most >= 1.0 if eligible is None else (most >= 1.0) & eligible
    if not free.any():
        return p
    cut = np.minimum(p, most)
    weight = np.where(free, p, 0.0)
    if not weight.sum() > 0.0:
        weight = free.astype(float)
    rest = 1.0 - float(cut[~free].sum())
    found: Floats = np.where(free, weight * (rest / weight.sum()), cut)
    return found


def check_caps(caps: Mapping[str, float], names: Sequence[str]) -> None:
    """Refuse caps of agents that are not there, and what is no share."""
    require_type("caps", caps, Mapping, "pass the largest propensities by agent")
    for name, share in caps.items():
        if name not in names:
            raise InvalidInputError("caps", f"{name!r} is not an agent", f"choose from {', '.join(names)}")
        if not (is_number(share) and 0.0 <= share <= 1.0):
            raise InvalidInputError(f"caps.{name}", f"is {share!r}", "pass a share from 0 to 1")
