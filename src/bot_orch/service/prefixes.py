"""Prompts in providers' caches: what a request costs more or less than usual at each agent, by who has its beginning.

A provider keeps the beginning of a prompt for some minutes and reads it again at a lower price. A conversation sends
all of its past with every turn, so an agent that answered the turn before has most of the prompt, and every other one
has nothing. Which agent has what is known by digests of the messages, whether or not the client names a session.

In memory of the process that decides; after a restart all caches count as cold. The expected dollars are logged with
the decision.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bot_orch.agents.base import Usage
from bot_orch.agents.limits import Price
from bot_orch.agents.tokens import letters_in, tokens_of

TURNS = 4.0
"""Turns over which a switch counts: it loses a cached prompt once, and what it gains comes with every further turn."""


_KEPT_S = 300.0  # by a provider, after it was used
_KEPT = 16  # of the beginnings of a prompt, the longest ones
_LEAST_TOKENS = 1024  # shorter beginnings are not kept by providers
_PRIOR_TOKENS = 4096.0  # of an expectation that is met in full
_MEMORY = 0.98  # of averages over answers


class PromptPrefix(NamedTuple):
    """The first messages of a prompt: a digest, and their estimated tokens."""

    digest: bytes
    tokens: int


def prefixes_of(messages: Sequence[Mapping[str, Any]], params: Mapping[str, Any]) -> tuple[PromptPrefix, ...]:
    """The beginnings of a prompt, the whole one last; its tools come before its messages.

    Examples
    --------
    >>> turns = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Hello!"}]
    >>> prefixes_of(turns, {})[0] == prefixes_of(turns[:1], {})[0]
    True
    """
    tools = params.get("tools")
    state, letters = hashlib.blake2b(repr(tools).encode("utf-8", "surrogatepass"), digest_size=12), letters_in(tools)
    found = []
    for message in messages:
        for name in sorted(message):
            value = message[name]
            state.update(f"\0{name}\0".encode("utf-8", "surrogatepass"))
            state.update((value if isinstance(value, str) else repr(value)).encode("utf-8", "surrogatepass"))
        letters += letters_in(message)
        found.append(PromptPrefix(state.digest(), tokens_of(letters)))
    return tuple(found[-_KEPT:])


@dataclass(slots=True)
class _Experience:
    """What an agent's answers say of its cache: tokens expected and found in it, and the mean change of the price."""

    expected: float = _PRIOR_TOKENS
    found: float = _PRIOR_TOKENS
    fresh: float = _PRIOR_TOKENS
    stored: float = 0.0
    usual_usd: float = 0.0
    answers: float = 0.0


class PrefixCaches:
    """Which agent has the beginning of which prompt.

    Parameters
    ----------
    most
        Beginnings beyond so many are forgotten, those used longest ago first.
    clock
        Monotonic clock.

    Examples
    --------
    >>> caches, price = PrefixCaches(), Price(input_usd_per_million=10.0, cached_input_usd_per_million=1.0)
    >>> turns = [{"role": "user", "content": "long " * 4000}]
    >>> first = prefixes_of(turns, {})
    >>> caches.note("app", first, "small", Usage(5000, 100), price=price)
    >>> second = prefixes_of([*turns, {"role": "assistant", "content": "yes"}], {})
    >>> caches.extra_usd("app", second, {"small": price, "large": price})
    {'small': -0.01125, 'large': 0.0}
    """

    def __init__(self, most: int = 100_000, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._until: OrderedDict[tuple[str, str, bytes], float] = OrderedDict()
        self._known: dict[str, _Experience] = {}

    def extra_usd(
        self, caller: str, prompt: Sequence[PromptPrefix], prices: Mapping[str, Price]
    ) -> dict[str, float] | None:
        """Dollars of a request more than usual by agent, negative for less; None if no agent has anything of it."""
        warm = {name: self._warm(caller, name, prompt) for name in prices}
        if not any(warm.values()):
            return None
        return {name: round(self._expected(name, warm[name], prompt, price=prices[name]), 9) for name in prices}

    def note(self, caller: str, prompt: Sequence[PromptPrefix], agent: str, usage: Usage, *, price: Price) -> None:
        """Record an answer: the agent has the prompt now, and its usage says what it had before."""
        if not prompt:
            return
        warm, known = self._warm(caller, agent, prompt), self._known.setdefault(agent, _Experience())
        if not usage.estimated:
            known.expected = _MEMORY * known.expected + warm
            known.found = _MEMORY * known.found + min(usage.cached_tokens, warm)
            known.fresh = _MEMORY * known.fresh + usage.input_tokens - usage.cached_tokens
            known.stored = _MEMORY * known.stored + usage.cache_write_tokens
            known.answers = _MEMORY * known.answers + 1.0
            change = price.cost(usage) - price.cost(Usage(usage.input_tokens, usage.output_tokens, images=usage.images))
            known.usual_usd += (change - known.usual_usd) / (known.answers + 2.0)  # as the mean cost is shrunk
        until = self._clock() + _KEPT_S
        for each in prompt:
            self._until[caller, agent, each.digest] = until
            self._until.move_to_end((caller, agent, each.digest))
        while len(self._until) > self._most:
            self._until.popitem(last=False)

    def _warm(self, caller: str, agent: str, prompt: Sequence[PromptPrefix]) -> int:
        """Tokens of the prompt that the agent's provider should have."""
        now = self._clock()
        for each in reversed(prompt):
            if self._until.get((caller, agent, each.digest), 0.0) > now:
                return each.tokens if each.tokens >= _LEAST_TOKENS else 0
        return 0

    def _expected(self, agent: str, warm: int, prompt: Sequence[PromptPrefix], *, price: Price) -> float:
        """What the cache is expected to change in the request's price, less what it changes on average, a turn."""
        known, whole = self._known.get(agent, _Experience()), prompt[-1].tokens
        cached = round(warm * min(1.0, known.found / known.expected))
        stored = round((whole - cached) * min(1.0, known.stored / max(known.fresh, 1.0)))
        usage = Usage(whole, cached_tokens=cached, cache_write_tokens=stored)
        return (price.cost(usage) - price.cost(Usage(whole)) - known.usual_usd) / TURNS
