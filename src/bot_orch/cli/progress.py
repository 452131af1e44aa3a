"""Progress bar on stderr: redrawn on a terminal, otherwise one line every ten seconds."""

from __future__ import annotations

import sys
import time
from typing import TextIO

__all__ = ["ProgressBar"]

_WIDTH = 28


class ProgressBar:
    """Progress callback with the arguments (done, total, what)."""

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
