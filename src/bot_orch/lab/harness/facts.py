"""What a page says of the machine and the time that made it."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from bot_orch._version import __version__

__all__ = ["machine_facts", "run_time"]

_LIBRARIES = {"numpy": "NumPy", "scipy": "SciPy", "matplotlib": "matplotlib"}


def machine_facts() -> dict[str, str]:
    """Processors, system, Python and the libraries that decide about numbers and figures."""
    found = [f"BOT-Orch {__version__}", f"Python {platform.python_version()}"]
    found += [f"{told} {number}" for name, told in _LIBRARIES.items() if (number := _version(name))]
    processors = os.cpu_count() or 1
    told = f"{processors} processor{'s' if processors > 1 else ''}, {platform.machine()}, {sys.platform}"
    return {"Machine": told, "Versions": ", ".join(found), "Figures": "each as PNG and SVG in the folder figures/"}


def run_time(seconds: float, *, units: int, earlier: int = 0, processes: int = 1) -> str:
    """Wall-clock time of a run, and how much of the work an interrupted run had done before.

    Examples
    --------
    >>> run_time(93.2, units=10, earlier=4, processes=2)
    '1 min 33 s for 6 of 10 units of work in 2 processes; an earlier run had done the others'
    """
    minutes, rest = divmod(round(seconds), 60)
    told = f"{minutes} min {rest} s" if minutes else f"{rest} s"
    share = f"{units - earlier} of {units} units" if earlier else f"{units} units"
    where = f"{processes} processes" if processes > 1 else "one process"
    return f"{told} for {share} of work in {where}" + ("; an earlier run had done the others" if earlier else "")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
