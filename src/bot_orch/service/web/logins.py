"""Failed logins: one log line each, and a pause for addresses that try many tokens.

While an address pauses, tokens that it has not used with success before are refused unread, so that a guess says
nothing; callers with a token in use go on, also behind a proxy that gives all of them one address.
"""

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from bot_orch.service.problems import Problem

__all__ = ["Logins"]

_log = logging.getLogger("bot_orch.login")
_PER_S = 60.0
_ADDRESSES, _KNOWN = 10_000, 10_000
_LINES = 60  # lines of the log per address and minute


class _Allowance:
    """A token bucket: so many at once, refilled at that number per minute."""

    __slots__ = ("at", "left", "silent")

    def __init__(self, most: int, now: float) -> None:
        self.left, self.at, self.silent = float(most), now, 0

    def take(self, most: int, now: float) -> bool:
        """Take one token; returns whether there was one."""
        self.left = min(float(most), self.left + (now - self.at) * most / _PER_S)
        self.at = now
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True


class Logins:
    """Failed and successful logins by address, in bounded memory.

    Parameters
    ----------
    most
        Failed logins per address and minute; 0 for any number.
    clock
        Seconds that only grow.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._failures: OrderedDict[str, _Allowance] = OrderedDict()
        self._lines: OrderedDict[str, _Allowance] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    def check(self, address: str, digest: str, route: str) -> None:
        """Refuse (429) an address that pauses, unless it has used this token before."""
        found = self._failures.get(address)
        if found is None or (address, digest) in self._known:
            return
        now = self._clock()
        missing = 1.0 - found.left - (now - found.at) * self._most / _PER_S
        if missing <= 0.0:
            return
        wait = {"retry-after": str(math.ceil(missing * _PER_S / self._most))}
        self.refused(address, route, "too many failed logins")
        message = "too many failed logins from this address; wait, then send a valid token"
        raise Problem(429, "too_many_logins", message, headers=wait)

    def failed(self, address: str, route: str) -> None:
        """Record an unknown token."""
        if self._most:
            _allowance(self._failures, address, self._most, now=self._clock()).take(self._most, self._clock())
        self.refused(address, route, "unknown token")

    def succeeded(self, address: str, digest: str) -> None:
        """Note a valid token; matters only for addresses with failures before or after."""
        pair = (address, digest)
        if pair not in self._known:
            self._known[pair] = None
            if len(self._known) > _KNOWN:
                self._known.popitem(last=False)

    def refused(self, address: str, route: str, why: str, **more: str) -> None:
        """Log a refusal without the token; floods are summarised."""
        now = self._clock()
        lines = _allowance(self._lines, address, _LINES, now=now)
        if not lines.take(_LINES, now):
            lines.silent += 1
            return
        silent, lines.silent = lines.silent, 0
        fields = {"address": address, "route": route, "why": why, **more}
        _log.warning("login refused", extra={"fields": {**fields, "not_logged": silent} if silent else fields})


def _allowance(kept: OrderedDict[str, _Allowance], address: str, most: int, *, now: float) -> _Allowance:
    found = kept.get(address)
    if found is None:
        found = kept[address] = _Allowance(most, now)
        if len(kept) > _ADDRESSES:
            kept.popitem(last=False)
    else:
        kept.move_to_end(address)
    return found
