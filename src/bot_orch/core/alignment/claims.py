"""Claims: the probability of being right that an agent states of itself before the choice.

A profile mu_i(t) over labels states it: with the most probable label as the agent's answer, the claim is one minus
the distance of the profile to that answer under 0-1 cost, 1 - W(mu_i(t), answer) = max mu_i(t).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.transport.measures import Labels
from bot_orch.types import Measure, Task


def claim_of(profile: Measure | None) -> float:
    """The claim of a profile: its largest probability; NaN without a profile and for other kinds of measures.

    Examples
    --------
    >>> claim_of(Labels([0.1, 0.7, 0.2]))
    0.7
    """
    return float(profile.probabilities.max()) if isinstance(profile, Labels) else math.nan


def claims_of(task: Task, agents: Sequence[str]) -> Floats | None:
    """Claims of ``agents`` for a task, (M,), NaN where missing; None if no agent makes one.

    ``task.claims`` takes precedence over ``task.profiles``.

    Examples
    --------
    >>> claims_of(Task(claims={"cnn": 0.93}), ["cnn", "person"])
    array([0.93,  nan])
    """
    unknown = set(task.claims).difference(agents)
    if unknown:
        raise InvalidInputError("task.claims", f"names {sorted(unknown)}", f"the agents are {list(agents)}")
    stated = [task.claims.get(name, claim_of(task.profiles.get(name))) for name in agents]
    return None if all(map(math.isnan, stated)) else np.array(stated)
