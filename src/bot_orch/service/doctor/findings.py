"""Findings of checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["CheckFinding", "State", "failed", "ok", "warning"]

State = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """The result of one check; ``remedy`` is empty if it is ok."""

    check: str
    state: State
    detail: str
    remedy: str = ""


def ok(check: str, detail: str) -> CheckFinding:
    """A finding that needs no action."""
    return CheckFinding(check=check, state="ok", detail=detail)


def warning(check: str, detail: str, remedy: str) -> CheckFinding:
    """A finding that deserves attention; the service works."""
    return CheckFinding(check=check, state="warning", detail=detail, remedy=remedy)


def failed(check: str, detail: str, remedy: str) -> CheckFinding:
    """The service does not work as configured."""
    return CheckFinding(check=check, state="failed", detail=detail, remedy=remedy)
