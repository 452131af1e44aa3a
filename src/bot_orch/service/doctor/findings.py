"""What a check has found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["CheckFinding", "State", "failed", "ok", "warning"]

State = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """The result of one check; ``remedy`` says what to do unless it is ok."""

    check: str
    state: State
    detail: str
    remedy: str = ""


def ok(check: str, detail: str) -> CheckFinding:
    """Nothing to do."""
    return CheckFinding(check=check, state="ok", detail=detail)


def warning(check: str, detail: str, remedy: str) -> CheckFinding:
    """The service works, but look at this."""
    return CheckFinding(check=check, state="warning", detail=detail, remedy=remedy)


def failed(check: str, detail: str, remedy: str) -> CheckFinding:
    """The service does not work as configured."""
    return CheckFinding(check=check, state="failed", detail=detail, remedy=remedy)
