"""Alignment: references, distances, their units, and the adaptive weight lambda."""

from bot_orch.core.alignment.model import Alignment, GivenDistances, Units, Watch
from bot_orch.core.alignment.reference import Reference

__all__ = ["Alignment", "GivenDistances", "Reference", "Units", "Watch"]
