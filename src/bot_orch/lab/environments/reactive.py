"""Tasks that react to past assignments, x_t ~ P(. | H_t): a task that failed comes back.

Three kinds of task, three specialists and a generalist. If the chosen agent fails, the next task is of the same kind
with probability ``returns``, otherwise a fresh one. So the tasks that a policy sees depend on what it chose: no stream
can be drawn beforehand, and one logged under another policy has another mix of tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bot_orch.arrays import Floats, Ints
from bot_orch.errors import InvalidInputError
from bot_orch.lab.environments.stream import AlignmentSource, Stream
from bot_orch.rng import generator

__all__ = ["CHANCE", "DISTANCE", "ReactiveTasks"]

#: Chance of success by kind of task (rows) and agent; the last agent is the generalist.
CHANCE = np.array([[0.9, 0.3, 0.3, 0.6], [0.3, 0.9, 0.3, 0.6], [0.3, 0.3, 0.9, 0.6]])
#: Alignment cost by kind and agent.
DISTANCE = np.array([[0.0, 1.0, 1.0, 0.5], [1.0, 0.0, 1.0, 0.5], [1.0, 1.0, 0.0, 0.5]])


class ReactiveTasks(AlignmentSource):
    """One run per seed; each round is written when the round before is known.

    Parameters
    ----------
    returns
        Probability that a failed task comes back; 0 makes tasks i.i.d.
    noise
        Standard deviation of the noise on the alignment that a policy sees.

    Examples
    --------
    >>> tasks = ReactiveTasks([0, 1], 3, returns=1.0)
    >>> tasks.learn(0, np.array([0, 0]), np.zeros(2))
    >>> bool((tasks.kind[1] == tasks.kind[0]).all())
    True
    """

    def __init__(self, seeds: Sequence[int], rounds: int, *, returns: float = 0.8, noise: float = 0.5) -> None:
        if not 0.0 <= returns <= 1.0:
            raise InvalidInputError("returns", f"is {returns}", "pass a probability")
        if rounds < 1:
            raise InvalidInputError("rounds", f"is {rounds}", "pass a whole number, 1 or more")
        kinds, agents = CHANCE.shape
        drawn = [self._draw(int(seed), rounds, kinds, agents=agents) for seed in seeds]
        self._fresh, self._again, self._luck, noises = (np.stack(part, axis=1) for part in zip(*drawn, strict=True))
        self._returns, self._noise = returns, noise * noises
        shape = (rounds, len(seeds), agents)
        self.stream = Stream(np.zeros(shape), np.zeros(shape))
        self.kind: Ints = np.zeros(shape[:2], dtype=np.int64)
        self.returned = np.zeros(shape[:2], dtype=bool)
        self._write(0, self._fresh[0])

    def at(self, t: int) -> Floats:
        """Alignment costs of round ``t`` with noise."""
        seen: Floats = self.stream.alignment[t] + self._noise[t]
        return seen

    def learn(self, t: int, agent: Ints, reward: Floats) -> None:
        """The chosen agents' rewards decide which tasks come back in the next round."""
        if t + 1 < self.stream.rounds:
            back = (reward < 0.5) & (self._again[t + 1] < self._returns)
            self.returned[t + 1] = back
            self._write(t + 1, np.where(back, self.kind[t], self._fresh[t + 1]))

    def _write(self, t: int, kind: Ints) -> None:
        self.kind[t] = kind
        self.stream.reward[t] = self._luck[t] < CHANCE[kind]
        self.stream.alignment[t] = DISTANCE[kind]

    @staticmethod
    def _draw(seed: int, rounds: int, kinds: int, *, agents: int) -> tuple[Ints, Floats, Floats, Floats]:
        def rng(part: str) -> np.random.Generator:
            return generator("reactive", part, seed)

        return (
            rng("fresh").integers(kinds, size=rounds),
            rng("again").random(rounds),
            rng("luck").random((rounds, agents)),
            rng("noise").normal(size=(rounds, agents)),
        )
