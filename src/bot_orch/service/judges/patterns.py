"""Regular expressions of the operator's, matched in a process of their own: one that takes too long is ended.

A search such as ``(a+)+$`` may take exponential time, and holds the interpreter all the while; a thread does not help.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from subprocess import DEVNULL, PIPE
from threading import Lock

__all__ = ["PatternProcess"]

_PROGRAM = """
import json, re, signal, sys
limit_s = float(sys.argv[1])
for line in sys.stdin.buffer:
    pattern, whole, text = json.loads(line)
    signal.setitimer(signal.ITIMER_REAL, limit_s)  # ends this process
    found = (re.fullmatch if whole else re.search)(pattern, text)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(int(found is not None), flush=True)
"""


class PatternProcess:
    """Matches patterns, each within ``timeout_s``; the process starts with the first one, and again after a timeout.

    Parameters
    ----------
    timeout_s
        Seconds that a search may take.
    """

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.thread = ThreadPoolExecutor(1, "bot-orch-pattern")  # whoever waits, waits here and in no thread of others
        self._process: subprocess.Popen[bytes] | None = None
        self._lock, self._closed = Lock(), False

    def fits(self, pattern: str, text: str, *, whole: bool = False) -> bool:
        """Whether the text contains (``whole``: is) what the pattern describes; blocks, raises TimeoutError."""
        process = self._running()
        if process.stdin is None or process.stdout is None:  # pragma: no cover  both are pipes
            raise TimeoutError
        said = b""
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps([pattern, whole, text]).encode() + b"\n")
            process.stdin.flush()
            said = process.stdout.readline()
        if not said:
            self._end()
            raise TimeoutError(f"a pattern was not matched within {self.timeout_s:g} s")
        return said == b"1\n"

    def close(self) -> None:
        """End the process and the thread."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()  # a search under way ends with it
        self.thread.shutdown(cancel_futures=True)
        self._end()

    def _running(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise TimeoutError("the judge is closed")
            if self._process is None:
                command = [sys.executable, "-I", "-S", "-c", _PROGRAM, repr(self.timeout_s)]
                self._process = subprocess.Popen(  # noqa: S603  our own program
                    command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True
                )
            return self._process

    def _end(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(BrokenPipeError):
                process.communicate()
