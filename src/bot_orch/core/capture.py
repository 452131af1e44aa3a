"""A copy of an orchestrator's state, taken at once and written down piece by piece while the original goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from bot_orch.core.completion.silences import silence_to_dict
from bot_orch.core.state import State, agent_to_dict
from bot_orch.types import Decision

__all__ = ["CapturedState"]

_AT_ONCE = 25
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CapturedState:
    """What :meth:`bot_orch.Orchestrator.to_json` writes, as of one moment.

    Parameters
    ----------
    head
        Format, version and settings.
    state
        The copied state, which does not change.
    """

    head: dict[str, Any]
    state: State

    def pieces(self) -> Iterator[str]:
        """The JSON document in pieces, each of less than a millisecond's work."""
        state = self.state
        yield _dumped(self.head)[:-1] + ', "state": {"agents": '
        yield _dumped([agent_to_dict(agent) for agent in state.agents]) + ', "parts": {'
        for index, name in enumerate(state.parts):
            yield (", " if index else "") + f"{_dumped(name)}: {_dumped(state.encoded_part(name))}"
        yield '}, "pending": ['
        yield from _listed(state.pending.values(), Decision.to_dict)
        yield f'], "rounds": {state.rounds}, "seq": {state.seq}, "silences": ['
        yield from _listed(state.silences.values(), silence_to_dict)
        optional = state.optional()
        yield "]" + (f", {_dumped(optional)[1:-1]}" if optional else "") + "}}"


def _listed(entries: Collection[T], plain: Callable[[T], dict[str, Any]]) -> Iterator[str]:
    """The entries of a list, some at a time."""
    left, comma = iter(entries), ""
    while batch := list(islice(left, _AT_ONCE)):
        yield comma + _dumped([plain(each) for each in batch])[1:-1]
        comma = ", "


def _dumped(value: Any) -> str:
    return json.dumps(value, allow_nan=False)
