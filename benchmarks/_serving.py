"""Processor time and memory of servers in processes of their own."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["tree_cpu_s", "tree_rss_mb"]

TICKS = os.sysconf("SC_CLK_TCK")


def _tree(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in _tree(int(child)))]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def tree_cpu_s(pid: int) -> float:
    """Of a server: that of processes that have ended, too, as the first of them has waited for them."""
    if not pid:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(_cpu_s(each) for each in _tree(pid)) + (int(fields[13]) + int(fields[14])) / TICKS


def tree_rss_mb(pid: int) -> float:
    """Resident memory of a server's processes."""
    pages = sum(int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in _tree(pid)) if pid else 0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
