"""Results of a tool call go back to the agent that made the call, and uses of a file to the agent that has it."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bot_orch.agents.base import CallFailure, CallReply
from bot_orch.agents.replies import load_json, tool_call_ids


class ToolLoops:
    """Agents by the ids of their tool calls, responses and files, in memory.

    Parameters
    ----------
    most
        The ids that were made or used longest ago are forgotten beyond so many.
    keep_s
        How long an id is kept.
    clock
        Monotonic clock.

    Examples
    --------
    >>> loops = ToolLoops(most=2)
    >>> loops.remember("app", ["call_1", "call_2", "call_3"], "small")
    >>> loops.agent_of("app", ["call_1"]), loops.agent_of("app", ["call_3"]), loops.agent_of("other", ["call_3"])
    (None, 'small', None)
    """

    def __init__(
        self, most: int = 100_000, keep_s: float = 3600.0, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most, self._keep_s, self._clock = most, keep_s, clock
        self._made: OrderedDict[tuple[str, str], tuple[str, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._made)

    def remember(self, token: str, ids: Iterable[str], agent: str) -> None:
        """Record that an agent produced these ids for a caller; callers do not share ids."""
        until = self._clock() + self._keep_s
        for each in ids:
            self._made[token, each] = agent, until
            self._made.move_to_end((token, each))
        while len(self._made) > self._most:
            self._made.popitem(last=False)

    def agent_of(self, token: str, ids: Iterable[str]) -> str | None:
        """The agent behind the first known id; None if all are unknown."""
        for each in ids:
            agent, until = self._made.get((token, each), ("", 0.0))
            if agent and self._clock() < until:
                return agent
        return None


def made_in(reply: CallReply) -> tuple[str, ...]:
    """Ids of the tool calls or responses in an answer."""
    if reply.made or reply.raw is None or reply.output is not None or b'"tool_calls"' not in reply.raw:
        return reply.made
    try:
        choices = load_json(reply.raw)["choices"]
        return tuple(each for choice in choices for each in tool_call_ids(choice.get("message")))
    except (CallFailure, TypeError, KeyError, AttributeError):
        return ()


def results_in(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Ids of the tool calls whose results end the chat.

    Examples
    --------
    >>> results_in([{"role": "user"}, {"role": "tool", "tool_call_id": "a"}, {"role": "tool", "tool_call_id": "b"}])
    ['b', 'a']
    >>> results_in([{"role": "tool", "tool_call_id": "a"}, {"role": "user"}])
    []
    """
    found: list[str] = []
    for message in reversed(messages):
        if message.get("role") != "tool":
            break
        if isinstance(made := message.get("tool_call_id"), str):
            found.append(made)
    return found
