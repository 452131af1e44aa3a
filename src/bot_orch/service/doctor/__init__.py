"""Checks of a service's dependencies: settings, keys, endpoints, clock, disk, database, port."""

from bot_orch.service.doctor.examine import examine, obstacles
from bot_orch.service.doctor.machine import CheckFinding, State

__all__ = ["CheckFinding", "State", "examine", "obstacles"]
