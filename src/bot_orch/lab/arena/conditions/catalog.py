"""Conditions by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial

import numpy as np

from bot_orch.errors import InvalidInputError
from bot_orch.lab.arena.conditions import changes, poisoned
from bot_orch.lab.arena.conditions.attacks import Steered, false_rewards
from bot_orch.lab.environments.replay.staged import Stage, StagedReplay
from bot_orch.lab.harness.players import Player

#: The name of no condition: the replay as it is.
PLAIN = "plain"
Change = Callable[[Stage, np.random.Generator], Stage]
#: The player of one seed and its replay, as callers attack it.
Attack = Callable[[Player, StagedReplay], Player]


@dataclass(frozen=True, slots=True)
class Condition:
    """A change of the replay: a name (``group`` or ``group/variant``), a description, and a function on stages.

    ``draws``: the condition whose random numbers it shares. ``attack`` wraps the player of a seed; such a condition is
    played on sets with texts alone.
    """

    name: str
    about: str
    change: Change
    _: KW_ONLY
    draws: str | None = None
    attack: Attack | None = None

    @property
    def group(self) -> str:
        """The name without the variant."""
        return self.name.partition("/")[0]


_POISONED = {
    "constant": "one agent with a constant output is judged best and worth 0.05; a tenth of the rounds is audited",
    "copy": "the same with an agent that hands the prompt back",
    "imitate": "the same with an agent that shows the outputs of the weakest agent, and is worth as much",
    "sleeper": "the same with an agent that is as good as the best in the first half and a constant then",
    "collusion": "as many constant agents as honest ones (at most 20), all alike",
}
_ALL = (
    Condition("delayed", "outcomes come 100 rounds late on average, those of the best agent latest", changes.delayed),
    Condition("censored/missing", "half of the outcomes never come", changes.missing),
    Condition(
        "censored/patience",
        "calls beyond a patience that 70 % of completions meet are cut off and earn zero",
        changes.patience,
    ),
    Condition(
        "dead-agent",
        "the best agent times out after a third of the rounds, the second best from the start",
        changes.dead_agent,
    ),
    Condition("drifting", "half-way the agents change places, best with worst", changes.drifting),
    Condition("cold-start", "the best agent joins after a third of the rounds, another one later", changes.cold_start),
    *(Condition(f"poisoned/{kind}", about, partial(poisoned.poisoned, kind=kind)) for kind, about in _POISONED.items()),
    Condition(
        "steering",
        "a quarter of the prompts get a suffix, chosen against the current state, that steers to the dearest agent",
        changes.unchanged,
        attack=Steered,
    ),
    *(
        Condition(
            f"false-rewards/{percent:02d}",
            f"{percent} % of the callers report 1 for the weakest agent and 0 for the others",
            partial(false_rewards, share=percent / 100),
        )
        for percent in (5, 10, 20, 30)
    ),
    Condition("restart", "delayed, with two restarts from saved state", changes.restart, draws="delayed"),
    Condition("long", "20 000 rounds by repeated passes, noise redrawn", changes.long_run),
)
CONDITIONS: dict[str, Condition] = {condition.name: condition for condition in _ALL}


def find_conditions(names: Sequence[str]) -> list[str]:
    """Conditions by name, by group or ``all``, after ``plain``, the unchanged replay, which is always played.

    Examples
    --------
    >>> find_conditions(["censored"])
    ['plain', 'censored/missing', 'censored/patience']
    """
    chosen = [PLAIN]
    for name in names:
        found = [each.name for each in _ALL if name in ("all", each.name, each.group)]
        if not found and name != PLAIN:
            groups = ", ".join(dict.fromkeys(each.group for each in _ALL))
            raise InvalidInputError("--conditions", f"no condition {name!r}", f"choose among {PLAIN}, {groups}, or all")
        chosen += found
    return list(dict.fromkeys(chosen))
