"""Published online algorithm selectors, written from their papers: they learn from runtimes, not from rewards."""

from __future__ import annotations

from functools import partial

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.lab.arena.registry import Entrant
from bot_orch.lab.arena.runtime_models import (
    LeastSquaresRuntimes,
    LogLinearRuntimes,
    expected_par10,
    imputed_beyond,
    unit_vectors,
)
from bot_orch.lab.environments.replay.bandit import RoundContext, RoundOutcome, Setup
from bot_orch.lab.harness.players import Pick, Player
from bot_orch.rng import generator
from bot_orch.survival.causes import Cause


class _RuntimePlayer(Player):
    """Reads features, prepared in hindsight, and runtimes. Every agent is tried once before a model decides."""

    def __init__(self, name: str, setup: Setup) -> None:
        self._name, self._setup = name, setup
        self._random = [generator("online_as", int(key)) for key in setup.keys]
        self.uses_features = setup.features > 0

    def cutoff_of(self, before: RoundContext) -> Floats:
        """Maximum seconds per run."""
        if before.cutoff_s is None:
            raise InvalidInputError(
                "--policies", f"{self._name} learns from runtimes", "leave it out for this data set"
            )
        return before.cutoff_s

    def watched_s(self, before: RoundContext, after: RoundOutcome) -> Floats:
        """The learned time of a run without completion: the observed time if censored, the cutoff for a failure."""
        censored = np.asarray(after.cause) == Cause.CENSORED
        return np.where(censored, np.asarray(after.elapsed_s), self.cutoff_of(before))

    def features_of(self, before: RoundContext) -> Floats:
        """Features with an intercept in front, ``(seeds, 1 + d)``."""
        one = np.ones((self._setup.seeds, 1))
        return one if before.context is None else np.concatenate([one, before.context], axis=1)

    def normals(self, size: int) -> Floats:
        """Standard normal draws, ``(seeds, size)``."""
        return np.stack([random.standard_normal(size) for random in self._random])

    def uniforms(self, size: int) -> Floats:
        """Uniform draws, ``(seeds, size)``."""
        return np.stack([random.random(size) for random in self._random])

    @staticmethod
    def cheapest(loss: Floats, before: RoundContext) -> Pick:
        """The eligible agent with the smallest loss, the first of equals."""
        allowed = loss if before.eligible is None else np.where(before.eligible, loss, np.inf)
        return Pick(np.argmin(allowed, axis=-1))


class TornedePlayer(_RuntimePlayer):
    """Thompson sampling on log runtimes: the agent with the least expected PAR10 under a sampled model.

    The features are scaled to a vector of length 1. A timeout is learned as the cutoff or, with ``impute``, as a draw
    beyond it (the Buckley-James variant). Prior precision 0.5 and sigma 1 are the published settings.
    """

    def __init__(self, setup: Setup, *, impute: bool = False, sigma: float = 1.0) -> None:
        super().__init__("tornede-thompson", setup)
        self._impute, self._sigma = impute, sigma
        self._model = LogLinearRuntimes(setup.seeds, setup.agents, setup.features + 1)

    def choose(self, before: RoundContext, u: Floats) -> Pick:
        """Sample the mean log runtime of every agent, then compare expected PAR10."""
        cutoff_s = self.cutoff_of(before)
        mean, sd = self._model.predict(unit_vectors(self.features_of(before)))
        sd = self._sigma * sd
        sampled = mean + sd * self.normals(self._setup.agents)
        loss = expected_par10(sampled, sd, cutoff_s[:, None])
        return self.cheapest(np.where(self._model.seen > 0, loss, -np.inf), before)

    def learn(self, before: RoundContext, after: RoundOutcome) -> None:
        """Learn the logarithm of the runtime; failures and timeouts count as the cutoff."""
        x, bound = unit_vectors(self.features_of(before)), self._model.log_time(self.watched_s(before, after))
        done = np.asarray(after.cause) == Cause.COMPLETED
        beyond = bound
        if self._impute:
            rows = np.arange(self._setup.seeds)
            mean, sd = (part[rows, after.agent] for part in self._model.predict(x))
            beyond = imputed_beyond(mean, np.maximum(self._sigma * sd, 1e-9), bound, u=self.uniforms(1)[:, 0])
        elapsed_s = np.where(done, np.asarray(after.elapsed_s), 1.0)
        self._model.learn(x, after.agent, np.where(done, self._model.log_time(elapsed_s), beyond))


class DegrootePlayer(_RuntimePlayer):
    """Epsilon-greedy on least-squares predictions of the runtime; a timeout is learned as the cutoff."""

    def __init__(self, setup: Setup, *, epsilon: float = 0.05) -> None:
        super().__init__("degroote-linear", setup)
        self._epsilon = epsilon
        self._model = LeastSquaresRuntimes(setup.seeds, setup.agents, setup.features)

    def choose(self, before: RoundContext, u: Floats) -> Pick:
        """The smallest prediction, or with probability epsilon an agent at random."""
        self.cutoff_of(before)
        predicted = self._model.predict(self.features_of(before)[:, 1:])
        loss = np.where(self._model.seen > 0, predicted, -np.inf)
        at_random = self.uniforms(1) < self._epsilon
        return self.cheapest(np.where(at_random, self.uniforms(self._setup.agents), loss), before)

    def learn(self, before: RoundContext, after: RoundOutcome) -> None:
        """Fit the chosen agent again."""
        done, bound = np.asarray(after.cause) == Cause.COMPLETED, self.watched_s(before, after)
        x = self.features_of(before)[:, 1:]
        self._model.learn(x, after.agent, np.where(done, np.asarray(after.elapsed_s), bound))


ENTRANTS = [
    Entrant(
        "tornede-thompson",
        "Tornede et al. 2022: Thompson sampling on log runtimes, least expected PAR10 (sigma 1, lambda 0.5); "
        "runtimes, no words",
        TornedePlayer,
        kind="peer",
        default=False,
    ),
    Entrant(
        "tornede-thompson-bj",
        "the same, timeouts imputed beyond the cutoff (Buckley-James); runtimes, no words",
        partial(TornedePlayer, impute=True),
        kind="peer",
        default=False,
    ),
    Entrant(
        "degroote-linear",
        "Degroote et al. 2016: epsilon-greedy (0.05) on linear predictions of the runtime; runtimes, no words",
        DegrootePlayer,
        kind="peer",
        default=False,
    ),
]
