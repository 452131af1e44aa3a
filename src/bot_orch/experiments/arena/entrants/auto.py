"""auto, and auto with one part taken out at a time."""

from __future__ import annotations

from functools import partial

import numpy as np

from bot_orch.arrays import Arrays, Floats, allocate
from bot_orch.core.calibration import AutoLambda, Gaps, Relative
from bot_orch.environments.replay import After, Before, Setup
from bot_orch.experiments.arena.players import Guide, Player, PolicyPlayer
from bot_orch.experiments.arena.registry import Entrant
from bot_orch.policies.auto import Auto

__all__ = ["ENTRANTS", "GapGuide"]


class GapGuide(Guide):
    """Alignment of :mod:`bot_orch.core.calibration` on a set with output and reference embeddings.

    ``lambda_`` None stands for auto; a number is the weight of the lower confidence distance itself.
    """

    def __init__(self, setup: Setup, lambda_: float | None = None) -> None:
        self._gaps, self._auto, self._lambda = Gaps(setup.reference_dim), AutoLambda(), lambda_
        self.state: Arrays = allocate({**self._gaps.schema, **self._auto.schema}, (setup.seeds,), setup.agents)
        self._excess = np.zeros((setup.seeds, setup.agents))
        self._rows = np.arange(setup.seeds)

    def penalty(self, before: Before) -> Floats:
        """``(seeds, M)``."""
        unit = self._gaps.unit(self.state)
        lower = self._gaps.lower(self.state, unit)
        if self._lambda is not None:
            return self._lambda * lower
        self._excess = self._auto.excess(Relative(self._gaps.mean(self.state, unit), lower, self.state["count"] >= 2.0))
        return self._auto.penalty(self.state, self._excess)

    def learn(self, before: Before, after: After) -> None:
        """The gap of this output, and how far this task's reference lies from the last one's."""
        self._auto.accept(self.state, self._excess[self._rows, after.agent])
        if before.reference is None or after.output is None:
            return
        self._gaps.see_gap(self.state, after.agent, _apart(after.output, before.reference))
        if before.t > 1:
            self._gaps.see_unit(self.state, _apart(self.state["last"], before.reference))
        self.state["last"][:] = before.reference


def _apart(a: Floats, b: Floats) -> Floats:
    return np.asarray(np.sqrt(np.add.reduce((a - b) ** 2, axis=-1)))


def _guide(setup: Setup, lambda_: float | None = None) -> GapGuide | None:
    return GapGuide(setup, lambda_) if setup.output_dim and setup.reference_dim and lambda_ != 0.0 else None


def _player(setup: Setup, *, lambda_: float | None = None, context: bool = True, forgetting: bool = True) -> Player:
    return PolicyPlayer(Auto(forgetting=forgetting), setup, _guide(setup, lambda_), context=context)


ENTRANTS = [
    Entrant("auto", "the default policy, lambda auto", _player),
    Entrant("auto-no-alignment", "auto, lambda 0", partial(_player, lambda_=0.0), default=False),
    Entrant("auto-no-context", "auto without features", partial(_player, context=False), default=False),
    Entrant("auto-no-forgetting", "auto without the drifting model", partial(_player, forgetting=False), default=False),
    *(
        Entrant(f"auto-lambda-{value:g}", f"auto, lambda {value:g}", partial(_player, lambda_=value), default=False)
        for value in (0.1, 0.3, 1.0, 3.0)
    ),
]
