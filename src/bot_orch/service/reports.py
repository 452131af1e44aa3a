"""Sources of reported outcomes, and the feedback ids that encode them in the log."""

from __future__ import annotations

from enum import Enum


class ReportSource(Enum):
    """The source of a report's id; the value is its prefix in the log."""

    CALLER = ""
    CONTENT = "auto-"
    """The caller gave no id: a digest of the report is its id, so that sending it again counts once."""
    ROUND = "round-"
    """The service asked the agent itself; the rest of the id is that of the decision."""
    JUDGE = "judge-"
    """A judge of the service; the rest of the id is its name and that of the decision."""


def feedback_id(source: ReportSource, name: str) -> str:
    """The id under which a report is written.

    Examples
    --------
    >>> feedback_id(ReportSource.ROUND, "d1")
    'round-d1'
    """
    return f"{source.value}{name}"
