"""What a scenario of the demonstration is: phases with their settings, prompts, and a line on what moved and why.

A module in :mod:`bot_orch.service.demo.scenarios` with a ``SCENARIO`` is found by its name.
"""

from __future__ import annotations

import pkgutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from importlib import import_module

from bot_orch.errors import InvalidInputError
from bot_orch.service.demo import scenarios

__all__ = ["Answered", "Phase", "Played", "Scenario", "find_scenario", "scenario_names"]


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of traffic under one configuration; the next phase is a reload.

    Parameters
    ----------
    title
        What is the case now, for the reader.
    router, agents
        YAML: settings of the router as a mapping, agents as a list.
    drained
        Agents that an operator drains when the phase begins.
    more
        YAML: further settings at the top level, such as ``judges`` and ``audit``.
    """

    title: str
    router: str
    agents: str
    _: KW_ONLY
    drained: tuple[str, ...] = ()
    more: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """A request: the kind of its prompt, who answered (empty: nobody), how many agents were asked."""

    kind: str
    agent: str
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class Played:
    """What happened in a phase: its requests in order, and the dollars spent."""

    answers: Sequence[Answered]
    usd: float

    def share(self, agent: str, kind: str | None = None, *, last: float = 1.0) -> float:
        """The agent's share of the answers: of one kind of prompt, or of all; of the ``last`` part of the phase."""
        kept = [each for each in self.answers if kind is None or each.kind == kind]
        kept = kept[len(kept) - max(1, round(last * len(kept))) :]
        return Counter(each.agent for each in kept)[agent] / max(len(kept), 1)

    @property
    def usd_per_task(self) -> float:
        """Mean dollars of a request."""
        return self.usd / max(len(self.answers), 1)

    @property
    def failed(self) -> int:
        """Requests without an answer."""
        return sum(not each.agent for each in self.answers)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A demonstration with one message.

    Parameters
    ----------
    summary
        One line for the list of scenarios.
    phases
        Played one after the other.
    prompt
        Kind and text of the request with this number.
    moved
        One line that says what moved and why.
    rounds
        Requests per phase.
    """

    summary: str
    phases: tuple[Phase, ...]
    _: KW_ONLY
    prompt: Callable[[int], tuple[str, str]]
    moved: Callable[[Sequence[Played]], str]
    rounds: int = 300


def scenario_names() -> tuple[str, ...]:
    """Names of the scenarios there are."""
    return tuple(sorted(each.name for each in pkgutil.iter_modules(scenarios.__path__)))


def find_scenario(name: str) -> Scenario:
    """The scenario of that name."""
    if name not in scenario_names():
        raise InvalidInputError("--scenario", f"is {name!r}", f"choose from {', '.join(scenario_names())}")
    found: Scenario = import_module(f"{scenarios.__name__}.{name}").SCENARIO
    return found
