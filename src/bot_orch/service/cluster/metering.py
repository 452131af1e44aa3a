"""How many processors each router of a process keeps busy."""

from __future__ import annotations

import time
from collections.abc import Mapping

from bot_orch.service.cluster.heartbeat import elapsed_s

__all__ = ["LoadMeter"]


class LoadMeter:
    """Processors that each router keeps busy: its share of the rows, of what the process uses; smoothed.

    Examples
    --------
    >>> LoadMeter(tau_s=10.0).loads({"just taken": 1000}, {"just taken": 0.3})
    {'just taken': 0.3}
    """

    def __init__(self, tau_s: float) -> None:
        self._tau_s = tau_s
        self._at, self._used = elapsed_s(), time.process_time()
        self._rows: dict[str, int] = {}
        self._loads: dict[str, float] = {}

    def loads(self, rows: Mapping[str, int], known: Mapping[str, float]) -> dict[str, float]:
        """By the numbers of rows; a router that is new here goes on with what is ``known`` of it."""
        now, used = elapsed_s(), time.process_time()
        passed_s = max(now - self._at, 1e-6)
        new = {name: max(0, count - self._rows.get(name, count)) for name, count in rows.items()}
        share = (used - self._used) / passed_s / max(1, sum(new.values()))
        keep = max(0.0, 1.0 - passed_s / self._tau_s)
        self._loads = {
            name: keep * self._loads[name] + (1.0 - keep) * count * share
            if name in self._loads
            else known.get(name, 0.0)
            for name, count in new.items()
        }
        self._at, self._used, self._rows = now, used, dict(rows)
        return self._loads
