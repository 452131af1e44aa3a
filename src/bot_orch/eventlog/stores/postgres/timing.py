"""How long replicas wait for each other; set in the URL of the database, beside what libpq reads there."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from bot_orch.errors import InvalidInputError

__all__ = ["Timing", "split"]

_SETTING = re.compile(r"(?<=[?&\s])(hold_s|lease_s)=([^&\s]*)(?:[&\s]|\Z)")
_LEAST_S, _MOST_S = 0.5, 3600.0


@dataclass(frozen=True, slots=True)
class Timing:
    """Deadlines in seconds.

    Parameters
    ----------
    hold_s
        A lock holder that is silent for this long is terminated; its group is rolled back.
    lease_s
        A replica that has not been heard of for so long is taken for dead.
    """

    hold_s: float = 15.0
    lease_s: float = 10.0

    def __post_init__(self) -> None:
        for name in ("hold_s", "lease_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and _LEAST_S <= value <= _MOST_S):
                raise InvalidInputError(f"database.{name}", f"is {value:g}", f"set {_LEAST_S:g} to {_MOST_S:g}")


def split(url: str) -> tuple[str, Timing]:
    """What libpq reads, and our own settings.

    Examples
    --------
    >>> split("postgresql://bot@db/orch?hold_s=5&sslmode=require")
    ('postgresql://bot@db/orch?sslmode=require', Timing(hold_s=5.0, lease_s=10.0))
    >>> split("host=db dbname=orch lease_s=4")[0]
    'host=db dbname=orch'
    """
    found: dict[str, str] = dict(_SETTING.findall(url))
    if not found:
        return url, Timing()
    rest = _SETTING.sub("", url).rstrip("?& ")
    return rest, Timing(**{name: _number(name, text) for name, text in found.items()})


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInputError(f"database.{name}", f"is {text!r}", "write seconds") from None
