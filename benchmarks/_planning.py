"""What a rate of decisions needs, from measured prices: processes, machines, PostgreSQL, disk."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["BUSY", "CORES", "MACHINES", "Need", "Prices", "capacity", "needed"]

BUSY = 0.6  # of a core, planned
CORES = 2  # of a machine
MACHINES = (1, 2, 4, 8, 16)  # of the extrapolation
DAY_S = 86_400


@dataclass(frozen=True)
class Prices:
    """Of a decision and the report of its outcome, together."""

    owner_ms: float  # processor time at the process that serves the router
    passed_ms: float  # what it takes more, in all processes, if another one is asked
    server_ms: float  # of PostgreSQL
    alone_ms: float  # time for one after the other: two commits
    bytes: float  # of the log, with indexes

    @property
    def router_most(self) -> float:
        """Pairs per second of one router, which one process serves."""
        return BUSY * 1e3 / self.owner_ms

    def cores(self, rate: float, processes: int) -> float:
        """Processors busy with pairs that arrive at any process."""
        return 1e-3 * rate * (self.owner_ms + (1 - 1 / processes) * self.passed_ms)


@dataclass(frozen=True)
class Need:
    """For a rate."""

    processes: int
    machines: int
    server_cores: float
    commits: float
    gb_per_day: float
    fits: bool  # whether there are as many routers as processes


def needed(rate: float, routers: int, prices: Prices) -> Need:
    """The fewest processes, one per core, that are busy for at most ``BUSY``; one machine is spare.

    Load is spread evenly over the routers.
    """
    processes = next(p for p in range(1, 1_000_000) if prices.cores(rate, p) <= p * BUSY)
    return Need(
        processes,
        math.ceil(processes / CORES) + 1,
        1e-3 * rate * prices.server_ms / BUSY,
        min(2 * rate, 2 * routers * 1e3 / prices.alone_ms),
        rate * DAY_S * prices.bytes / 1e9,
        routers >= processes and rate / routers <= prices.router_most,
    )


def capacity(machines: int, prices: Prices) -> float:
    """Pairs per second that all processes of some machines take."""
    processes = machines * CORES
    return processes * BUSY / prices.cores(1.0, processes)
