"""Terminal output of commands: a progress bar, and tables."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TextIO

_WIDTH = 28


class ProgressBar:
    """Progress callback: redrawn on stderr if it is a terminal, otherwise a line every ten seconds."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._quiet = quiet
        self._start = time.monotonic()
        self._last = 0.0

    def __call__(self, done: int, total: int, what: str) -> None:
        """Draw the bar, at most ten times per second."""
        now = time.monotonic()
        finished = done >= total
        if self._quiet or (not finished and now - self._last < (0.1 if self._live else 10.0)):
            return
        self._last = now
        filled = _WIDTH * done // max(total, 1)
        bar = "#" * filled + "." * (_WIDTH - filled)
        text = f"[{bar}] {done}/{total} {now - self._start:5.1f}s {what}"
        if self._live:
            self._stream.write(f"\r\x1b[K{text[:110]}" + ("\n" if finished else ""))
        else:
            self._stream.write(text + "\n")
        self._stream.flush()


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay out rows in columns: the first is aligned left, the others right.

    >>> table([("agent", "calls"), ("a", "12")])
    ['agent  calls', 'a         12']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows)
    return ["  ".join(each).rstrip() for each in aligned]
