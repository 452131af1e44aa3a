"""Texts of the demonstration's tasks."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["LABELS", "REVIEWS", "routine"]

LABELS: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "good": {"kind": "labels", "probabilities": [1.0, 0.0]},
        "odd": {"kind": "labels", "probabilities": [0.0, 1.0]},
    }
)

REVIEWS = (
    "A customer wants a refund 40 days after the purchase; the policy says 30. She was in hospital. Refund or not?",
    "This invoice lists the same item twice with different serial numbers. Is it a duplicate?",
    "Translate for a patient leaflet: 'Take with food; do not stop suddenly without asking your doctor.' (German)",
    "The sensor on line 3 reports 94 °C, the one beside it 61 °C. Stop the line?",
    "A reader reports this comment as an insult: 'Only a fool would trust that forecast.' Remove it?",
    "Two candidates have the same score. The form asks for one name and a reason.",
    "The contract says 'within two weeks of delivery'; delivery was in two parts. When does the period end?",
)

_ROUTINE = ("sort this message", "extract the date", "classify this ticket", "summarise this note")


def routine(number: int) -> str:
    """The text of a routine task."""
    return f"{_ROUTINE[number % len(_ROUTINE)]} ({number})"
