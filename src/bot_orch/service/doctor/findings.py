"""What a check has found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding", "State", "failed", "ok", "warning"]

State = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check; ``remedy`` says what to do unless it is ok."""

    check: str
    state: State
    detail: str
    remedy: str = ""


def ok(check: str, detail: str) -> Finding:
    """Nothing to do."""
    return Finding(check=check, state="ok", detail=detail)


def warning(check: str, detail: str, remedy: str) -> Finding:
    """The service works, but look at this."""
    return Finding(check=check, state="warning", detail=detail, remedy=remedy)


def failed(check: str, detail: str, remedy: str) -> Finding:
    """The service does not work as configured."""
    return Finding(check=check, state="failed", detail=detail, remedy=remedy)
