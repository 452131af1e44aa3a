"""Checks of a service's dependencies: settings, keys, endpoints, clock, disk, database, port."""

from bot_orch.service.doctor.examine import examine
from bot_orch.service.doctor.machine import CheckFinding, State
from bot_orch.service.doctor.start import obstacles

__all__ = ["CheckFinding", "State", "examine", "obstacles"]
