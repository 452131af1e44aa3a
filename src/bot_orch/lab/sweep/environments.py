"""Environments: how a policy is played and scored in one, and those of a sweep by name.

Streams go through the simulator, matrices through bandit replay.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from bot_orch.errors import InvalidInputError
from bot_orch.lab.environments.gaming import GamingSettings, gaming_matrix
from bot_orch.lab.environments.matrix.find import load_matrix
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.environments.stream import AlignmentSource, GivenAlignment, Stream
from bot_orch.lab.environments.synthetic import episodes as synthetic_episodes
from bot_orch.lab.environments.synthetic import observed_alignment
from bot_orch.lab.environments.synthetic.alignment import REFERENCES
from bot_orch.lab.environments.synthetic.settings import SETTINGS, Setting
from bot_orch.lab.environments.triage import PAPER_SPLIT, DeployableAlignment, episodes, load_triage, paper_alignment
from bot_orch.lab.harness.players import PolicyPlayer, alignment_for, play
from bot_orch.lab.harness.replay_metrics import chosen, score
from bot_orch.lab.harness.simulate import Trace, simulate
from bot_orch.policies.base import Policy
from bot_orch.rng import derive_keys, generator

#: Values over seeds, by the name of the metric.
Metrics = dict[str, list[float]]
#: Options that differ from their defaults.
Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Trial:
    """Seeds and number of rounds of one run, and the two weights of alignment.

    Parameters
    ----------
    lambda_
        Weight of alignment that the policy chooses with.
    score_lambda
        Weight of alignment in the net utility that the policy is scored by.
    """

    seeds: Sequence[int]
    rounds: int
    _: KW_ONLY
    lambda_: float
    score_lambda: float


class Environment(ABC):
    """An environment in which a policy is played and scored.

    Attributes
    ----------
    options
        What can be set, each with its default.
    protocol
        The option that results name as their protocol, or a fixed word.
    fixed
        Whether the data give the number of rounds.
    divisible
        Whether blocks of seeds can be scored separately.
    """

    options: Mapping[str, Any]
    protocol: str = "bandit"
    fixed: bool = False
    divisible: bool = True

    @abstractmethod
    def rounds(self, settings: Options) -> int:
        """The default number of rounds."""

    @abstractmethod
    def aligned(self, settings: Options) -> bool:
        """Whether the environment has alignment costs, so that lambda can affect choices."""

    @abstractmethod
    def play(self, policy: Policy, settings: Options, trial: Trial) -> Metrics:
        """Play the rounds of the trial with each of its seeds, and score them."""


#: The stream of some seeds, the alignment a policy sees of it, and the path of the seeds' random keys.
Made = tuple[Stream, AlignmentSource, list[str]]
MATRIX = "matrix"


@dataclass(frozen=True)
class StreamEnvironment(Environment):
    """A stream of rounds drawn beforehand; all seeds step together."""

    make: Callable[[Options, Sequence[int], int], Made]
    options: Mapping[str, Any]
    _: KW_ONLY
    length: int = 1000
    fixed: bool = False
    protocol: str = "bandit"

    def rounds(self, settings: Options) -> int:
        """The published number of rounds, or 1000."""
        return self.length

    def aligned(self, settings: Options) -> bool:
        """True: streams have alignment costs."""
        return True

    def play(self, policy: Policy, settings: Options, trial: Trial) -> Metrics:
        """Simulate and score with ``score_lambda``."""
        stream, source, path = self.make({**self.options, **settings}, trial.seeds, trial.rounds)
        trace = simulate(policy, stream, derive_keys(path, trial.seeds), lambda_=trial.lambda_, source=source)
        return _score(stream, trace, trial.score_lambda)


@dataclass(frozen=True)
class MatrixEnvironment(Environment):
    """Bandit replay of a matrix, as in the arena: the same tasks, draws and metrics for the same seeds."""

    load: Callable[[Options], Matrix]
    options: Mapping[str, Any]
    _: KW_ONLY
    protocol: str = "order"
    divisible: bool = False  # one denominator for all seeds, see harness.replay_metrics.score

    def rounds(self, settings: Options) -> int:
        """Every task once."""
        return len(self.load(settings).playable)

    def aligned(self, settings: Options) -> bool:
        """True if the outputs of agents can be compared with a reference."""
        return alignment_for(Replay(self.load(settings), rounds=1, seeds=[0]).setup) is not None

    def play(self, policy: Policy, settings: Options, trial: Trial) -> Metrics:
        """Replay and score; ``score_lambda`` has no meaning here."""
        s = {**self.options, **settings}
        replay = Replay(
            self.load(s),
            s["order"],
            trial.rounds,
            seeds=list(trial.seeds),
            signal=s.get("signal", "log-uniform"),
        )
        player = PolicyPlayer(policy, replay.setup, trial.lambda_)
        trace = play(player, replay)
        read = chosen(replay, trace.agent)
        metrics: Metrics = score(replay, read, feature_time=player.uses_features)["metrics"]
        return metrics


def environments() -> dict[str, Environment]:
    """Every environment by name; ``matrix`` is any matrix, by its path."""
    found: dict[str, Environment] = {
        "bernoulli": StreamEnvironment(_bernoulli, {"means": [0.3, 0.4, 0.5, 0.6, 0.7, 0.8], "distances": None}),
        "gaming": MatrixEnvironment(_gaming, {**_gaming_options(), "order": "shuffled"}),
        MATRIX: MatrixEnvironment(
            lambda s: load_matrix(Path(s["path"])), {"order": "shuffled", "signal": "log-uniform"}
        ),
    }
    for condition in ("iid", "noniid"):
        found[f"triage-{condition}"] = StreamEnvironment(
            _triage(condition), {"protocol": "deployable"}, length=114, fixed=True, protocol="protocol"
        )
    return {**found, **_synthetic()}


def _score(stream: Stream, trace: Trace, score_lambda: float) -> Metrics:
    utility = stream.reward - score_lambda * stream.alignment
    earned = trace.pick(utility)
    return {
        "reward": trace.pick(stream.reward).mean(axis=0).tolist(),
        "alignment_cost": trace.pick(stream.alignment).mean(axis=0).tolist(),
        "net_utility": earned.mean(axis=0).tolist(),
        "oracle_regret": (utility.max(axis=-1) - earned).mean(axis=0).tolist(),
    }


def _bernoulli(settings: Options, seeds: Sequence[int], rounds: int) -> Made:
    """Agents that succeed with fixed probabilities, at fixed distances (all 0 by default)."""
    means = np.asarray(settings["means"], dtype=float)
    distances = np.zeros_like(means) if settings["distances"] is None else np.asarray(settings["distances"], float)
    if means.ndim != 1 or means.shape != distances.shape or not np.all((means >= 0.0) & (means <= 1.0)):
        raise InvalidInputError(
            "bernoulli.means", "do not fit", "write one number in [0, 1] and one distance per agent"
        )
    reward = np.empty((rounds, len(seeds), len(means)))
    for column, seed in enumerate(seeds):
        reward[:, column] = generator("bernoulli", int(seed)).random((rounds, len(means))) < means
    alignment = np.broadcast_to(distances, reward.shape)
    return Stream(reward, alignment), GivenAlignment(alignment), ["bernoulli-draw"]


def _triage(condition: Any) -> Callable[[Options, Sequence[int], int], Made]:
    def make(settings: Options, seeds: Sequence[int], rounds: int) -> Made:  # noqa: ARG001  (always 114)
        if settings["protocol"] not in ("paper", "deployable"):
            raise InvalidInputError("triage.protocol", f"is {settings['protocol']!r}", "write paper or deployable")
        data = load_triage(PAPER_SPLIT)
        cases = episodes(data, condition, np.asarray(seeds))
        source = paper_alignment(cases) if settings["protocol"] == "paper" else DeployableAlignment(data, cases)
        return cases.stream, source, ["triage-draw", condition]

    return make


def _gaming_options() -> dict[str, Any]:
    defaults = GamingSettings()
    return {f.name: getattr(defaults, f.name) for f in fields(GamingSettings)} | {"seed": 0}


def _gaming(settings: Options) -> Matrix:
    chosen_ = {f.name: settings[f.name] for f in fields(GamingSettings) if f.name in settings}
    if "cheats" in chosen_:
        chosen_["cheats"] = tuple(chosen_["cheats"])
    return gaming_matrix(GamingSettings(**chosen_), settings.get("seed", 0))


def _synthetic() -> dict[str, Environment]:
    """The paper's synthetic environments."""
    return {
        name: StreamEnvironment(_of_setting(setting), {"reference": "task"}, length=setting.rounds)
        for name, setting in SETTINGS.items()
    }


def _of_setting(setting: Setting) -> Callable[[Options, Sequence[int], int], Made]:
    def make(settings: Options, seeds: Sequence[int], rounds: int) -> Made:
        runs = synthetic_episodes(setting, seeds, rounds)
        if settings["reference"] not in REFERENCES:
            problem = f"is {settings['reference']!r}"
            raise InvalidInputError(f"{setting.name}.reference", problem, f"write one of {', '.join(REFERENCES)}")
        seen = observed_alignment(runs, settings["reference"])
        return runs.stream, GivenAlignment(seen), ["synthetic-draw", setting.name]

    return make
