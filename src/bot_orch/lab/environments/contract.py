"""The interface of an environment: its settings, its length, and how a policy is played and scored in it.

Implementations run policies through the engine and live with the experiments; data and generators live here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from bot_orch.policies.base import Policy

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
