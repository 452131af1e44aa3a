"""Attacks by callers: suffixes that steer the router to the dearest agent, and false rewards.

Steering is adaptive. The caller of an attacked prompt has a pool of suffixes, made of words of the set's own prompts.
Our policies are attacked with full knowledge: the caller reads the probability of the target for every suffix, under
the current state, and sends the best one. A peer cannot be read: the caller sends the suffix after which the target
answered most often so far. The suffix changes the prompt alone: what every agent earns and costs is that of the file.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from bot_orch.arrays import Bools, Floats, Ints
from bot_orch.lab.environments.matrix.check import known_mean
from bot_orch.lab.environments.matrix.context import encoded_texts
from bot_orch.lab.environments.replay.bandit import RoundContext, RoundOutcome
from bot_orch.lab.environments.replay.staged import Stage, StagedReplay
from bot_orch.lab.harness.players import Pick, Player
from bot_orch.rng import generator

ATTACKED = 0.25  # share of the prompts that get a suffix
_SUFFIXES, _WORDS = 16, 12
_CALLERS = 50


def steered_agent(stage: Stage) -> int:
    """The agent that the attack promotes: the dearest, or the weakest where no dollars are known."""
    cost = stage.matrix.cost_usd
    if cost is None or not np.isfinite(cost).any():
        return int(stage.ranking[-1])
    return int(np.nan_to_num(known_mean(cost), nan=-math.inf).argmax())


def attacked_rounds(replay: StagedReplay) -> tuple[Bools, int]:
    """Which rounds of a single seed are attacked, and the agent that the attack promotes."""
    rng = generator("arena steering", replay.matrix.name, replay.seeds[0])
    return rng.random(replay.rounds) < ATTACKED, steered_agent(replay.stages[0])


class Steered(Player):
    """A player of one seed whose callers steer it."""

    def __init__(self, player: Player, replay: StagedReplay) -> None:
        (stage,) = replay.stages
        assert stage.matrix.text is not None  # noqa: S101 - the condition is played on sets with texts only
        assert replay.inputs is not None  # noqa: S101
        self._player, self.uses_features = player, player.uses_features
        self._attacked, self._target = attacked_rounds(replay)
        self._texts, self._own = stage.matrix.text, replay.inputs.own
        rng = generator("arena suffixes", replay.matrix.name, replay.seeds[0])
        words = np.unique(" ".join(map(str, self._texts)).split())
        self._suffixes = [" ".join(rng.choice(words, _WORDS)) for _ in range(_SUFFIXES)]
        self._sent, self._hits = np.zeros(_SUFFIXES), np.zeros(_SUFFIXES)
        self._shown: dict[int, RoundContext] = {}

    def choose(self, before: RoundContext, u: Floats) -> Pick:
        """Send the most promising suffix, or the prompt as it is."""
        able = before.eligible is None or bool(before.eligible[0, self._target])
        if not self._attacked[before.t - 1] or not able:
            return self._player.choose(before, u)
        variants = self._variants(before)
        chances = [self._player.preview(each) for each in variants]
        known = [0.0 if p is None else float(p[0, self._target]) for p in chances]
        if chances[0] is None:
            known = ((self._hits + 1.0) / (self._sent + 1.0)).tolist()
        best = int(np.argmax(known))
        self._shown[before.t] = variants[best]
        pick = self._player.choose(variants[best], u)
        self._sent[best] += 1.0
        self._hits[best] += float(pick.agent[0] == self._target)
        return pick

    def _variants(self, before: RoundContext) -> list[RoundContext]:
        text = str(self._texts[before.t - 1])
        numbers = encoded_texts(np.array([f"{text} {suffix}" for suffix in self._suffixes]))
        numbers = numbers.astype(np.float32).astype(float)
        assert before.inputs is not None  # noqa: S101 - a set with texts has inputs
        own = before.inputs[:, : self._own]
        return [replace(before, inputs=np.concatenate([own, row[None]], axis=1)) for row in numbers]

    def learn(self, before: RoundContext, after: RoundOutcome) -> None:
        """Learn the outcome of the prompt that was sent."""
        self._player.learn(self._shown.pop(before.t, before), after)

    def forget(self, before: RoundContext) -> None:
        """Expire it."""
        self._player.forget(self._shown.pop(before.t, before))


def false_rewards(stage: Stage, rng: np.random.Generator, *, share: float) -> Stage:
    """A share of fifty callers reports 1 for the weakest agent and 0 for every other, whatever the answer was worth.

    Scores use the truth. A router that follows means breaks where the reported mean of the weakest agent passes that of
    the best one: with true means a and b, at a share of (b - a) / (1 + b - a).
    """
    caller: Ints = rng.integers(_CALLERS, size=stage.rounds)
    false = (caller < round(share * _CALLERS))[:, None] & stage.matrix.eligible
    said = np.zeros(stage.matrix.reward.shape)
    said[:, stage.ranking[-1]] = 1.0
    trials = stage.matrix.trials
    if trials is not None:
        trials = np.where(false[..., None] & np.isfinite(trials), said[..., None], trials)
    reward = np.where(false, said, stage.matrix.reward)
    matrix = replace(stage.matrix, reward=reward, trials=trials, runtime=None, runtime_only=False)
    return replace(stage, matrix=matrix, truth=stage.matrix.reward)
