"""What every benchmark prints: rows ``name, ours, peer, ratio``, then one line per bar."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

__all__ = ["Bench", "least_seconds", "median_seconds"]


def median_seconds(run: Callable[[], object], repeats: int = 5) -> float:
    """Median wall time of ``run`` after one warm-up."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def least_seconds(runs: Mapping[str, Callable[[], object]], repeats: int = 15) -> dict[str, float]:
    """Least processor time of every run after one warm-up; the runs take turns.

    For code on one thread that waits for nothing. Other work on the machine slows all runs alike, and the least time is
    the one it disturbed least. The cyclic garbage collector is off, as in ``timeit``: its time depends on what else the
    process has loaded.
    """
    for run in runs.values():
        run()
    least = dict.fromkeys(runs, math.inf)
    gc.collect()
    gc.disable()
    try:
        for _ in range(repeats):
            for name, run in runs.items():
                start = time.process_time()
                run()
                least[name] = min(least[name], time.process_time() - start)
    finally:
        gc.enable()
    return least


@dataclass
class Bench:
    """Collects rows and bars, prints as it goes; ratios with so many ``digits``."""

    unit: str
    bars: list[tuple[str, float, float]] = field(default_factory=list)
    digits: int = 2

    def row(self, name: str, ours: float, peer: float, *, higher_is_better: bool, need: float | None = None) -> float:
        """Print one comparison; the ratio is how many times better ours is."""
        ratio = ours / peer if higher_is_better else peer / ours
        print(f"{name}, {ours:.4g} {self.unit}, {peer:.4g} {self.unit}, {ratio:.{self.digits}f}", flush=True)
        if need is not None:
            self.bar(name, ratio, need)
        return ratio

    def bar(self, name: str, ratio: float, need: float = 1.0) -> None:
        """A ratio that :meth:`finish` compares with what is needed."""
        self.bars.append((name.replace(" ", "-"), ratio, need))

    def finish(self) -> None:
        """Print the bars."""
        for name, ratio, need in self.bars:
            print(f"bar {name} ratio={ratio:.{self.digits}f} need={need:g} {'ok' if ratio >= need else 'short'}")
