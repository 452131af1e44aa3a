"""Limits of an agent: timeouts, concurrency, sizes, retries and price."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bot_orch.agents.base import Usage
from bot_orch.errors import InvalidInputError
from bot_orch.rng import derive_key, uniform

_THREADS = 16
_LONGEST_PAUSE_S = 5.0  # between attempts
LONGEST_HOLD_S = 60.0
"""Longest time for which an agent's ``Retry-After`` keeps calls away from it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Time, concurrency and size limits of one agent.

    Parameters
    ----------
    first_byte_s, total_s
        Timeouts of one attempt; ``None`` for none (people have their own deadline). ``total_s`` is for whole answers,
        and for a stream until its first content. ``first_byte_s`` is for streams alone: a whole answer has its first
        byte at its end.
    idle_s, stream_total_s
        For a stream with content: longest silence between two pieces, and longest duration (``None``, the default: as
        long as pieces arrive).
    concurrency
        Maximal number of concurrent calls. ``None``: 16 for Python functions, each of which holds a thread, and 1000
        for all other kinds.
    wait_s, max_waiting
        Maximal wait for a concurrency slot, and how many calls may wait for one; beyond either, another agent is
        called. ``wait_s=0`` rejects at once.
    max_request_bytes, max_reply_bytes
        Size limits; the reply is measured as it arrives.
    """

    first_byte_s: float | None = 30.0
    total_s: float | None = 600.0
    concurrency: int | None = None
    wait_s: float = 30.0
    max_request_bytes: int = 20_000_000
    max_reply_bytes: int = 8_000_000
    idle_s: float | None = 60.0
    stream_total_s: float | None = None
    max_waiting: int = 1000

    def __post_init__(self) -> None:
        for name in ("first_byte_s", "total_s", "idle_s", "stream_total_s"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InvalidInputError(name, f"is {value}", "set seconds, more than zero, or null")
        for name in ("concurrency", "max_request_bytes", "max_reply_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInputError(name, f"is {value}", "set 1 or more")
        for name in ("wait_s", "max_waiting"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise InvalidInputError(name, f"is {getattr(self, name)}", "set zero or more")

    @property
    def slots(self) -> int:
        """Number of concurrent calls; the default of a kind that uses threads if ``concurrency`` is not set."""
        return _THREADS if self.concurrency is None else self.concurrency


@dataclass(frozen=True, slots=True)
class Retry:
    """Retries with the same agent after transient failures (429, 5xx, connection).

    Parameters
    ----------
    tries
        Maximal number of attempts; 1 disables retries.
    pause_s
        The pause doubles from this one to five seconds, with jitter of up to half. An agent that asks for more
        (``Retry-After``) is not retried; nor is one that asks to slow down, if another one may serve the request.
    idempotent
        Whether repeating the work is harmless. If not, only calls that cannot have started are retried.
    """

    tries: int = 2
    pause_s: float = 0.25
    idempotent: bool = True

    def __post_init__(self) -> None:
        if self.tries < 1:
            raise InvalidInputError("retry.tries", f"is {self.tries}", "set 1 or more")
        if not 0 <= self.pause_s <= _LONGEST_PAUSE_S:
            raise InvalidInputError("retry.pause_s", f"is {self.pause_s}", f"set seconds, up to {_LONGEST_PAUSE_S:g}")

    def pause(self, attempt: int, key: str, retry_after_s: float | None = None) -> float | None:
        """Seconds to wait after failed attempt number ``attempt`` (from 1), or ``None`` to give up.

        Examples
        --------
        >>> 0.125 < Retry(pause_s=0.25).pause(1, "r-1") <= 0.25
        True
        >>> Retry().pause(1, "r-1", retry_after_s=60.0)
        """
        if retry_after_s is not None and retry_after_s > _LONGEST_PAUSE_S:
            return None
        step = min(self.pause_s * 2.0 ** min(attempt - 1, 60), _LONGEST_PAUSE_S)
        return max(step * (1.0 - 0.5 * uniform(derive_key("retry", key), attempt)), retry_after_s or 0.0)


@dataclass(frozen=True, slots=True)
class Price:
    """Price of an agent in US dollars.

    Parameters
    ----------
    per_call_usd
        Of a call.
    input_usd_per_million, output_usd_per_million
        Of a million tokens of the prompt, and of the answer.
    cached_input_usd_per_million, cache_write_usd_per_million
        Of a million tokens of the prompt that were read from the provider's cache, or stored in it; ``None`` for the
        price of the others.

    Examples
    --------
    >>> price = Price(input_usd_per_million=10.0, output_usd_per_million=20.0, cached_input_usd_per_million=1.0)
    >>> price.cost(Usage(1000, 500)), price.cost(Usage(1000, 500, cached_tokens=1000))
    (0.02, 0.011)
    """

    per_call_usd: float = 0.0
    input_usd_per_million: float = 0.0
    output_usd_per_million: float = 0.0
    cached_input_usd_per_million: float | None = None
    cache_write_usd_per_million: float | None = None

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise InvalidInputError(f"price.{name}", f"is {value}", "set zero or more")

    def cost(self, usage: Usage) -> float:
        """Cost of one answered call with this (actual or expected) token usage."""
        read, cached, stored = usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens
        fresh_usd = self.input_usd_per_million
        tokens = (
            (read - cached - stored) * fresh_usd
            + cached * (fresh_usd if self.cached_input_usd_per_million is None else self.cached_input_usd_per_million)
            + stored * (fresh_usd if self.cache_write_usd_per_million is None else self.cache_write_usd_per_million)
            + usage.output_tokens * self.output_usd_per_million
        )
        return self.per_call_usd + tokens / 1e6

    @property
    def by_use(self) -> bool:
        """Whether a call's cost depends on what it uses, so that no price of a call is known beforehand."""
        return bool(self.input_usd_per_million or self.output_usd_per_million)
