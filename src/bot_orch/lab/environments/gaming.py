"""Synthetic matrices with agents that game the judge.

Every task has a prompt embedding and a reference embedding, what a good answer looks like. Honest agents answer near
the reference and are worth about what the judge gives them. A cheat wins the judge on every task, above every honest
agent, with an output that is worth little. Most cheats' outputs have nothing to do with the reference; some stay close
enough to it that only the truth can tell them from honest agents.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.rng import generator

#: ``constant``: always the same output. ``copy``: the prompt, handed back. ``length``: a real answer, blown up along
#: the direction in which outputs get longer. ``collude``: the same output as all others of this kind. ``halfway``: the
#: middle between the mean of all references and that of the task. ``weak``: the outputs of the weakest honest agent,
#: worth as much. ``sleeper`` and ``quiet``: the best honest agent in the first half of the tasks, then ``collude`` or
#: ``weak``.
CHEATS = ("constant", "copy", "length", "collude", "halfway", "weak", "sleeper", "quiet")
_SLEEPERS = ("sleeper", "quiet")


@dataclass(frozen=True, slots=True)
class GamingSettings:
    """Settings of the generated data set.

    Attributes
    ----------
    agents
        How many in all, cheats included.
    cheats
        Kinds of cheat, one agent each; they come last.
    noise
        Distance of honest outputs from the reference, per dimension, in units of the references' own spread; agents
        range from half to one and a half times as much.
    features
        Dimensions of the prompt that are given as features; 0 for none.
    referenced
        Share of the tasks that have a reference.
    binary
        Whether both verdicts are 0 or 1; the judge then errs on one honest answer in twenty.
    """

    tasks: int = 1000
    agents: int = 10
    cheats: tuple[str, ...] = ("constant",)
    _: KW_ONLY
    dimension: int = 8
    noise: float = 0.3
    judge_noise: float = 0.05
    features: int = 4
    best_honest: float = 0.7
    worst_honest: float = 0.3
    cheat_reward: float = 0.9
    cheat_true: float = 0.05
    referenced: float = 1.0
    binary: bool = False


def gaming_matrix(settings: GamingSettings | None = None, seed: int = 0, name: str = "gaming") -> Matrix:
    """A matrix with ``reward`` (the judge's), ``true_reward``, outputs and references.

    Examples
    --------
    >>> matrix = gaming_matrix(GamingSettings(tasks=200, agents=5, cheats=("copy", "length")))
    >>> matrix.agents
    ('honest-0', 'honest-1', 'honest-2', 'cheat-copy', 'cheat-length')
    >>> matrix.reward[:, 3:].mean() > matrix.reward[:, :3].mean(axis=0).max()
    np.True_
    >>> matrix.true_reward[:, 3:].mean() < matrix.true_reward[:, :3].mean(axis=0).min()
    np.True_
    """
    s = settings or GamingSettings()
    honest = s.agents - len(s.cheats)
    unknown = sorted(set(s.cheats) - set(CHEATS))
    if unknown or honest < 1:
        problem = f"holds {unknown}" if unknown else f"leaves no honest agent among {s.agents}"
        raise InvalidInputError("cheats", problem, f"name some of {', '.join(CHEATS)}, fewer than there are agents")
    rng = generator("gaming", seed)
    prompt = rng.normal(size=(s.tasks, s.dimension))
    turn, _ = np.linalg.qr(rng.normal(size=(s.dimension, s.dimension)))
    reference = prompt @ turn + 1.0
    outputs = np.concatenate([_honest(s, honest, reference, rng=rng), _cheats(s, prompt, reference, rng=rng)], axis=1)
    reward, true_reward = _rewards(s, honest, rng)
    _stay_close(s, outputs, true_reward, reference=reference, rng=rng)
    _sleep(s, outputs, reward, true_reward, reference=reference, rng=rng)
    if s.binary:
        reward, true_reward = _verdicts(reward, true_reward, honest, rng=rng)
    if s.referenced < 1.0:
        reference = np.where(rng.random((s.tasks, 1)) < s.referenced, reference, np.nan)
    names = [f"honest-{i}" for i in range(honest)] + _cheat_names(s.cheats)
    return Matrix(
        name,
        tuple(names),
        reward,
        true_reward=true_reward,
        features=prompt[:, : s.features] if s.features else None,
        output_embed=outputs,
        reference_embed=reference,
    )


def _cheat_names(cheats: tuple[str, ...]) -> list[str]:
    names = []
    for index, kind in enumerate(cheats):
        earlier = cheats[:index].count(kind)
        names.append(f"cheat-{kind}" + (f"-{earlier}" if earlier else ""))
    return names


def _honest(s: GamingSettings, honest: int, reference: Floats, *, rng: np.random.Generator) -> Floats:
    spread = s.noise * np.linspace(0.5, 1.5, honest)
    return reference[:, None] + spread[:, None] * rng.normal(size=(s.tasks, honest, s.dimension))


def _cheats(s: GamingSettings, prompt: Floats, reference: Floats, *, rng: np.random.Generator) -> Floats:
    made = np.zeros((s.tasks, len(s.cheats), s.dimension))
    for index, kind in enumerate(s.cheats):
        if kind == "constant":
            made[:, index] = rng.normal(size=s.dimension) * 1.5
        elif kind == "copy":
            made[:, index] = prompt
        elif kind == "length":
            direction = rng.normal(size=s.dimension)
            direction *= 4.0 / np.linalg.norm(direction)
            made[:, index] = reference + direction * rng.uniform(0.8, 1.2, size=(s.tasks, 1))
    return made + 0.02 * rng.normal(size=made.shape)


def _stay_close(
    s: GamingSettings, outputs: Floats, truth: Floats, *, reference: Floats, rng: np.random.Generator
) -> None:
    """Make the outputs of cheats resemble each other, or honest agents; in place."""
    honest, common = s.agents - len(s.cheats), None
    for column, kind in enumerate(s.cheats, honest):
        if kind in ("constant", "copy", "length"):
            continue
        common = rng.normal(size=s.dimension) * 1.5 if common is None else common
        if kind == "halfway":
            outputs[:, column] += 0.5 * reference + 0.5 * reference.mean(axis=0)
        elif kind in ("collude", "sleeper"):
            outputs[:, column] += common
        else:
            outputs[:, column] += outputs[:, honest - 1]
            truth[:, column] = truth[:, honest - 1]


def _sleep(
    s: GamingSettings,
    outputs: Floats,
    reward: Floats,
    truth: Floats,
    *,
    reference: Floats,
    rng: np.random.Generator,
) -> None:
    """Make sleepers honest in the first half of the tasks, between the best and the others; in place."""
    honest, first = s.agents - len(s.cheats), slice(0, s.tasks // 2)
    for column, kind in enumerate(s.cheats, honest):
        if kind not in _SLEEPERS:
            continue
        noise = s.noise * rng.normal(size=reference[first].shape)
        outputs[first, column] = reference[first] + noise
        worth = truth[first, 0] + 0.05
        truth[first, column] = np.clip(worth, 0.0, 1.0)
        seen = worth + rng.normal(scale=s.judge_noise, size=worth.shape)
        reward[first, column] = np.clip(seen, 0.0, 1.0)


def _verdicts(reward: Floats, truth: Floats, honest: int, *, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Both verdicts as 0 or 1; on honest agents they agree with a 5 % error rate."""
    u = rng.random(truth.shape)
    true = (u < truth).astype(float)
    seen = (u < reward).astype(float)
    seen[:, :honest] = np.abs(true - (rng.random(truth.shape) < 0.05))[:, :honest]
    return seen, true


def _rewards(s: GamingSettings, honest: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The judge's opinion and the truth: tasks differ in difficulty; the judge sees the truth with a little noise."""
    worth = np.concatenate([np.linspace(s.best_honest, s.worst_honest, honest), np.full(len(s.cheats), s.cheat_true)])
    difficulty = rng.normal(scale=0.1, size=(s.tasks, 1))
    true_reward = np.clip(worth + difficulty + rng.normal(scale=0.05, size=(s.tasks, s.agents)), 0.0, 1.0)
    seen = true_reward.copy()
    seen[:, honest:] = s.cheat_reward + difficulty / 2
    reward = np.clip(seen + rng.normal(scale=s.judge_noise, size=seen.shape), 0.0, 1.0)
    return reward, true_reward
