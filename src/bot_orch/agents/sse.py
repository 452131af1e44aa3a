"""Incremental parser of server-sent events."""

from __future__ import annotations

import re

__all__ = ["EventReader"]

_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)  # a trailing \r may be half of \r\n: wait for more


class EventReader:
    r"""Converts a byte stream to the data of complete events; comments and other fields are skipped.

    Examples
    --------
    >>> reader = EventReader()
    >>> reader.feed(b"data: a\ndata: b\r\n\r\n: ping\n\ndata: c"), reader.feed(b"d\n\n")
    ([b'a\nb'], [b'cd'])
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # pieces of an unfinished line
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes; returns the data of the events they complete."""
        self._rest.append(data)
        if not (b"\n" in data or b"\r" in data or self._rest[0].endswith(b"\r")):
            return []
        *lines, rest = _LINE_END.split(b"".join(self._rest))
        self._rest = [rest]
        events: list[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif line == b"data":
                self._data.append(b"")
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events
