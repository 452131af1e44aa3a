"""Numbers in what models and people write."""

from __future__ import annotations

import re

__all__ = ["read_score"]

_NUMBER = r"[-+]?\d+(?:[.,]\d+)?"
_THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_RATIO = re.compile(rf"({_NUMBER})\s*(?:/|out of)\s*({_NUMBER})", re.IGNORECASE)
_PERCENT = re.compile(rf"({_NUMBER})\s*%")
_NAMED = re.compile(rf"(?:score|rating|grade|reward|verdict)\W{{0,6}}(?:[a-z]+\W{{1,3}})?({_NUMBER})", re.IGNORECASE)
_ANY = re.compile(rf"(?<![\w.])({_NUMBER})(?![\w])")


def read_score(text: str, scale: float = 10.0) -> float | None:
    """The score in a text, as a share of ``scale``; None if there is none, or none from 0 to ``scale``.

    In this order: the last ``7/10`` or ``7 out of 10``; the last percentage; the last number after a word such as
    *score*; the last number.

    Examples
    --------
    >>> read_score("I would say 7/10."), read_score('{"score": 8, "why": "2 slips"}'), read_score("85 %")
    (0.7, 0.8, 0.85)
    >>> read_score("<think>9? no</think> Score: **6**"), read_score("excellent"), read_score("11")
    (0.6, None, None)
    """
    said = _THOUGHTS.sub(" ", text)
    for pattern, whole in ((_RATIO, None), (_PERCENT, 100.0), (_NAMED, scale), (_ANY, scale)):
        found = pattern.findall(said)
        if not found:
            continue
        above, below = found[-1] if whole is None else (found[-1], whole)
        score, most = _number(above), _number(below)
        return score / most if most > 0 and 0 <= score <= most else None
    return None


def _number(value: str | float) -> float:
    return float(value.replace(",", ".")) if isinstance(value, str) else value
