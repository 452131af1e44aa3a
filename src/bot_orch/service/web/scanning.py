"""A look at JSON before it is parsed: nesting, number of values, long texts. It lets other work run in between."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass, field

from bot_orch.agents.turns import Turns
from bot_orch.service.config import LimitsConfig
from bot_orch.service.problems import Problem

__all__ = ["JsonScan", "scan_json"]

_SLICE = 4_096
_MARKS = re.compile(rb'["\[\]{},:]')
_IN_TEXT = re.compile(rb'(?:[^"\\]|\\.)*+', re.DOTALL)
_OPEN, _CLOSE, _QUOTE = b"[{", b"]}", 0x22


@dataclass(slots=True)
class JsonScan:
    """What is known of a body: where texts longer than ``long`` bytes begin and end, without the quotes.

    Commas, colons and closing brackets count one towards ``values``, opening ones two: such is the time that parsing
    takes. It need not be JSON: the parser tells.
    """

    depth: int
    values: int
    long: int
    _: KW_ONLY
    texts: list[tuple[int, int]] = field(default_factory=list)
    begin: int = -1
    level: int = 0
    marks: int = 0
    quoted: int = 0

    def piece(self, body: bytes | bytearray, at: int, end: int) -> int:
        """Scan from ``at`` to ``end`` or a little less; where to go on."""
        level, marks, search = self.level, self.marks, _MARKS.search
        while at < end:
            if self.begin >= 0:
                at = self._within_text(body, at, end)
                if self.begin >= 0:
                    break
                continue
            found = search(body, at, end)
            if found is None:
                at = end
                break
            byte, at = body[found.start()], found.end()
            if byte == _QUOTE:
                self.begin = at
                continue
            marks += 1
            if byte in _OPEN:
                marks += 1
                level += 1
                if level > self.depth:
                    raise Problem(400, "too_deep", f"the body is nested deeper than {self.depth}; send flatter JSON")
            elif byte in _CLOSE:
                level -= 1
            if marks > self.values:
                raise self._too_many()
        self.level, self.marks = level, marks
        return at

    def _within_text(self, body: bytes | bytearray, at: int, end: int) -> int:
        """Go to the end of a text, or on within it."""
        quote = body.find(b'"', at, end)
        stop = end if quote < 0 else quote
        slash = body.find(b"\\", at, stop)
        if slash >= 0:
            found = _IN_TEXT.match(body, slash, end)
            stop = slash if found is None else found.end()
        if stop < end and body[stop] == _QUOTE:
            if stop - self.begin > self.long:
                self.texts.append((self.begin, stop))
            self.begin = -1
            self.quoted += 1
            if self.quoted > self.values:
                raise self._too_many()
            return stop + 1
        return end if end == len(body) else stop  # an escape may go on behind the end

    def _too_many(self) -> Problem:
        message = f"the body holds more than {self.values} values; send fewer, or raise limits.values"
        return Problem(413, "too_many_values", message)


async def scan_json(body: bytes | bytearray, limits: LimitsConfig, *, long: int) -> JsonScan:
    """Scan a whole body; refuses (:class:`Problem`) what is too deep or holds too many values."""
    scan, turns, at = JsonScan(limits.depth, limits.values, long), Turns(), 0
    while at < len(body):
        at = scan.piece(body, at, min(at + _SLICE, len(body)))
        if turns.due:
            await turns.pass_on()
    return scan
