"""Alignment: references, distances, units, and the lambda that multiplies them."""

from bot_orch.core.alignment.model import Alignment, GivenDistances, Units, Watch
from bot_orch.core.alignment.reference import Reference

__all__ = ["Alignment", "GivenDistances", "Reference", "Units", "Watch"]
