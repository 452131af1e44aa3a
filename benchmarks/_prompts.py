"""Streams of prompts with the reward of every agent: sets on disk and two simulated ones.

``topics``: six topics, four agents, four words of the topic among ten that say nothing. ``topics30``: the same topics
and thirty agents, whose qualities were drawn once.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from _aside import folders, set_aside

from bot_orch.arrays import Floats
from bot_orch.lab.environments.matrix.find import load_matrix

__all__ = ["SIMULATED", "Prompts", "prompts", "sets_with_prompts"]

SIMULATED = ("topics", "topics30")
_NAMES = ("tiny", "writer", "coder", "giant")
_WORDS = {
    "code": "python function bug stacktrace compile refactor class loop async unit test exception import module",
    "math": "integral prove theorem matrix probability equation derivative solve prime geometry sum limit",
    "poem": "rhyme sonnet poem haiku verse moon love autumn stanza metaphor lyric ballad",
    "support": "refund invoice order delivery password account cancel shipping late broken subscription",
    "legal": "contract clause liability gdpr court statute warranty breach tenant lease indemnity",
    "translate": "translate french german spanish sentence phrase english japanese idiom grammar",
}
_QUALITY: dict[str, tuple[float, ...]] = {
    "code": (0.35, 0.55, 0.90, 0.75),
    "math": (0.25, 0.45, 0.55, 0.90),
    "poem": (0.60, 0.85, 0.50, 0.70),
    "support": (0.85, 0.80, 0.75, 0.80),
    "legal": (0.30, 0.50, 0.60, 0.85),
    "translate": (0.80, 0.90, 0.70, 0.85),
}
_FILLER = (
    "please help me with this i need a short answer about the following for my project thanks and also explain why"
)


@dataclass(frozen=True, slots=True, eq=False)
class Prompts:
    """One order of a set: texts, and rewards (n, M), NaN where an agent cannot take the task.

    ``worth`` is what is reported of a choice: the reward, or its expectation where that is known.
    """

    agents: tuple[str, ...]
    text: tuple[str, ...]
    reward: Floats
    worth: Floats

    def best_single(self, rows: slice = slice(None)) -> float:
        """The best agent of these rows, known in hindsight; a random one takes the tasks it cannot take."""
        worth = self.worth[rows]
        anyone = np.nanmean(worth, axis=1, keepdims=True)
        return float(np.where(np.isfinite(worth), worth, anyone).mean(axis=0).max())


def sets_with_prompts(*, aside: bool) -> list[str]:
    """Names of the sets: those on disk that are not set aside, or all of them, then the simulated ones."""
    names = sorted(path.stem for path in folders()[1].glob("*.npz"))
    return [name for name in names if aside or name not in set_aside(names)] + list(SIMULATED)


def prompts(name: str, order: int, rounds: int) -> Prompts:
    """The first ``rounds`` tasks of a set in a random order, or all of them if it has fewer."""
    if name in SIMULATED:
        return _topics(name, order, rounds)
    matrix = load_matrix(_path(name))
    if matrix.text is None:
        raise SystemExit(f"{name}: has no texts")
    rows = np.random.default_rng(order).permutation(matrix.playable)[:rounds]
    reward = matrix.reward[rows]
    return Prompts(matrix.agents, tuple(map(str, matrix.text[rows])), reward, reward)


def _path(name: str) -> Path:
    path = folders()[1] / f"{name}.npz"
    if not path.is_file():
        raise SystemExit(f"{path}: does not exist; set BOT_ORCH_DATA to the folder beside that of the prompts")
    return path


@lru_cache(maxsize=2)
def _qualities(name: str) -> dict[str, tuple[float, ...]]:
    if name == "topics":
        return _QUALITY
    drawn = random.Random(30)  # noqa: S311
    return {topic: tuple(drawn.uniform(0.25, 0.9) for _ in range(30)) for topic in _QUALITY}


def _topics(name: str, order: int, rounds: int) -> Prompts:
    quality, drawn = _qualities(name), random.Random(order)  # noqa: S311
    texts, reward, worth = [], [], []
    for _ in range(rounds):
        topic = drawn.choice(list(quality))
        words = drawn.choices(_WORDS[topic].split(), k=4) + drawn.choices(_FILLER.split(), k=10)
        drawn.shuffle(words)
        luck = drawn.random()
        texts.append(" ".join(words))
        worth.append(quality[topic])
        reward.append([float(luck < each) for each in quality[topic]])
    agents = _NAMES if name == "topics" else tuple(f"agent-{i}" for i in range(30))
    return Prompts(agents, tuple(texts), np.array(reward), np.array(worth))
