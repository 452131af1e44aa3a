"""The paper's five synthetic environments: six agents, survival feedback, alignment by an exact Wasserstein distance.

One round of one seed:

1. a task arrives at x_t in R^2; its alignment W_t(i) with every agent is the exact W2 between its reference cloud and
   the agent's outputs (:mod:`~bot_orch.lab.environments.synthetic.alignment`);
2. every agent has a latent reward V_t(i) with the law the paper describes, correlated across agents;
3. the agent completes at the time T at which its survival, raised to the task's frailty theta, has fallen to V:
   S_i(T | x_t)^theta = V. Its hazard falls with misalignment: h = base_hazard * exp(-hazard_slope * W);
4. the task's deadline C_t, the same for all agents, may come first. The reward is the paper's
   R = delta * S_i(T | x_t)^theta.

Were V uniform, step 3 would be the paper's frailty model to the letter (P(T > t | theta) = S(t)^theta). The paper also
asks for rewards that are normal, skewed or bimodal; any law of V gives both that and the formula of step 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal, get_args

import numpy as np

from bot_orch.arrays import Bools, Floats
from bot_orch.errors import InvalidInputError
from bot_orch.lab.environments.stream import Stream
from bot_orch.lab.environments.synthetic.alignment import ReferenceKind, alignment, reference_places
from bot_orch.lab.environments.synthetic.settings import COMMON, Bridge, Setting
from bot_orch.lab.environments.synthetic.tasks import (
    correlated_normals,
    correlations,
    laws_by_segment,
    mean_paths,
    segments,
    standard_draws,
    task_paths,
)
from bot_orch.rng import generator
from bot_orch.survival import Exponential, FrailtyProcess, GammaFrailty, observe, reward_of

#: What the standard deviation of the noise is a multiple of: one unit of distance (``additive``, as printed), the
#: distance itself (``relative``), or the agent's mean distance (``agent``, the paper's sigma_i).
NoiseForm = Literal["additive", "relative", "agent"]
NOISE_FORMS: tuple[NoiseForm, ...] = get_args(NoiseForm)


def with_noise(w: Floats, draws: Floats, level: float, *, form: NoiseForm = "additive") -> Floats:
    """Distances ``(T, seeds, M)`` with noise of sd ``level``; ``draws`` are standard normal, of the same shape.

    Examples
    --------
    >>> import numpy as np
    >>> w, one = np.array([[[1.0, 2.0]], [[3.0, 2.0]]]), np.ones((2, 1, 2))
    >>> [with_noise(w, one, 0.5, form=form)[:, 0, 0].tolist() for form in NOISE_FORMS]
    [[1.5, 3.5], [1.5, 4.5], [2.0, 4.0]]
    """
    if form not in NOISE_FORMS:
        raise InvalidInputError("form", f"is {form!r}", f"pass one of {', '.join(NOISE_FORMS)}")
    if form == "relative":
        return w + level * w * draws
    scale = w.mean(axis=(0, 1)) if form == "agent" else 1.0
    seen: Floats = w + level * scale * draws
    return seen


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """All random draws, before the setting's geometry and hazards are applied; axes are time, then seeds."""

    scatter: Floats  # (T, seeds, 2)
    centre: Floats  # (T, seeds, 2)
    mean: Floats  # (T, seeds, M)
    _: KW_ONLY
    latent: Floats  # (T, seeds, M)
    theta: Floats  # (T, seeds)
    cutoff: Floats  # (T, seeds), unit exponential
    noise: Floats  # (T, seeds, M), standard normal


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticEpisodes:
    """One run of an environment per seed: the potential outcomes of each agent in each round."""

    setting: Setting
    stream: Stream  # realised rewards, and the noiseless alignment that results are scored with
    event: Bools  # (T, seeds, M), delta
    _: KW_ONLY
    time_s: Floats  # (T, seeds, M), min(T, C)
    task: Floats  # (T, seeds, 2)
    drawn: Draws


def draws(setting: Setting, seeds: Sequence[int], rounds: int | None = None) -> Draws:
    """The random draws of each seed, which do not depend on the batch."""
    t = rounds or setting.rounds
    columns = [_draw_seed(setting, int(seed), t) for seed in seeds]
    scatter, centre, mean, shared, own, u, cutoff, noise = (
        np.stack(part, axis=1) for part in zip(*columns, strict=True)
    )
    segment = segments(setting, t)
    g = correlated_normals(shared, own, correlations(setting, segment))
    deviation = np.empty_like(g)
    for k, laws in enumerate(laws_by_segment(setting)):
        inside = segment == k
        deviation[inside] = standard_draws(laws, g[inside])
    latent = np.clip(mean + deviation, COMMON.clip, 1.0 - COMMON.clip)
    theta = FrailtyProcess(GammaFrailty(COMMON.frailty_variance), setting.frailty_memory).path(u)
    return Draws(scatter, centre, mean, latent=latent, theta=theta, cutoff=cutoff, noise=noise)


def realise(setting: Setting, drawn: Draws) -> SyntheticEpisodes:
    """Apply the setting's geometry and hazards to the draws."""
    path_scale = setting.path_scale if isinstance(setting, Bridge) else 0.0
    task = setting.task_spread * drawn.scatter + path_scale * drawn.centre
    w = alignment(setting, task, laws_by_segment(setting), segment=segments(setting, len(task)))
    model = Exponential(np.exp(COMMON.hazard_slope * w) / setting.base_hazard)
    theta = drawn.theta[..., None]
    completion_s = model.time_at(-np.log(drawn.latent) / theta)
    seen = observe(completion_s, cutoff_s=drawn.cutoff[..., None] / setting.censor_rate)
    reward = reward_of(model, seen.t_s, seen.cause, theta)
    return SyntheticEpisodes(setting, Stream(reward, w), seen.event, time_s=seen.t_s, task=task, drawn=drawn)


def episodes(setting: Setting, seeds: Sequence[int], rounds: int | None = None) -> SyntheticEpisodes:
    """Runs of the environment, ``rounds`` long (as published by default)."""
    return realise(setting, draws(setting, seeds, rounds))


def observed_alignment(runs: SyntheticEpisodes, reference: ReferenceKind = "task") -> Floats:
    """The noisy W that a policy sees before it chooses, to the selected kind of reference; ``(T, seeds, M)``."""
    w = runs.stream.alignment
    if reference != "task":
        place = reference_places(runs.task, reference)
        w = alignment(runs.setting, place, laws_by_segment(runs.setting), segment=segments(runs.setting, len(place)))
    return with_noise(w, runs.drawn.noise, COMMON.noise)


def _draw_seed(setting: Setting, seed: int, rounds: int) -> tuple[Floats, ...]:
    m = len(setting.laws)

    def rng(part: str) -> np.random.Generator:
        return generator(setting.name, part, seed)

    scatter, centre = task_paths(setting, rng("tasks"), rounds)
    return (
        scatter,
        centre,
        mean_paths(setting, rng("means"), rounds),
        rng("shared").normal(size=rounds),
        rng("latent").normal(size=(rounds, m)),
        rng("frailty").random(rounds),
        rng("cutoff").exponential(size=rounds),
        rng("noise").normal(size=(rounds, m)),
    )
