"""What to say about columns that are not read."""

from __future__ import annotations

from collections.abc import Sequence

from bot_orch.lab.environments.matrix.sheets.columns import ASIDE, named_role, plain

__all__ = ["columns_not_read"]


def columns_not_read(names: Sequence[str]) -> list[str]:
    """Notes that name every column left out, and how it could be read.

    Examples
    --------
    >>> columns_not_read(["difficulty", "confidence"])
    ["not read: 'confidence' (call it claim if every agent states it before the choice)",
     "not read: 'difficulty' (call a column feature_NAME if it is a number known before the choice)"]
    """
    notes, rest = [], []
    for name in names:
        why, role = ASIDE.get(plain(name)), named_role(name)
        if why is not None:
            notes.append(f"not read: {name!r} ({why})")
        elif role in ("reward", "cost_usd", "seconds", "milliseconds", "text"):
            notes.append(f"not read: {name!r} (another column is read as {role}; call this one {role} to read it)")
        else:
            rest.append(name)
    if rest:
        words = ", ".join(map(repr, rest))
        notes.append(f"not read: {words} (call a column feature_NAME if it is a number known before the choice)")
    return notes
