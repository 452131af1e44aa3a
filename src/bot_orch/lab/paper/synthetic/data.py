"""What the synthetic environments look like: the numbers behind the two data-generation figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.lab.environments.synthetic.alignment import agent_cloud, places
from bot_orch.lab.environments.synthetic.episodes import SyntheticEpisodes, episodes
from bot_orch.lab.environments.synthetic.settings import ENVIRONMENTS
from bot_orch.lab.environments.synthetic.tasks import segments

__all__ = ["EDGES", "WINDOW", "run_data"]

EDGES = np.linspace(0.0, 1.0, 41)
WINDOW = 25
_TASKS = 400


def run_data(params: Mapping[str, Any]) -> dict[str, Any]:
    """Samples and moments of one environment."""
    setting = ENVIRONMENTS[params["environment"]]
    runs = episodes(setting, range(params["seeds"]))
    latent = runs.drawn.latent
    payload: dict[str, Any] = {
        "histograms": [_histogram(latent[..., i]) for i in range(latent.shape[-1])],
        "metrics": {
            "latent_reward_mean": latent.mean(axis=(0, 2)).tolist(),
            "latent_reward_sd": latent.std(axis=0).mean(axis=-1).tolist(),
            "frailty_mean": runs.drawn.theta.mean(axis=0).tolist(),
        },
    }
    payload |= {"moons": _plane, "shifts": _shifts, "means": _means}[params["show"]](runs)
    return payload


def _plane(runs: SyntheticEpisodes) -> dict[str, Any]:
    setting = runs.setting
    clouds = [agent_cloud(law, i).points * setting.output_spread for i, law in enumerate(setting.laws)]
    spots = places(setting.radius)[:, None] + np.stack(clouds)
    tasks = np.moveaxis(runs.task, 1, 0).reshape(-1, 2)[:_TASKS]
    return {"tasks": tasks.tolist(), "places": places(setting.radius).tolist(), "outputs": spots.tolist()}


def _shifts(runs: SyntheticEpisodes) -> dict[str, Any]:
    segment = segments(runs.setting, len(runs.task))
    latent = runs.drawn.latent
    parts = [_histogram(latent[segment == k, :, 0]) for k in range(int(segment[-1]) + 1)]
    starts = np.flatnonzero(np.diff(segment)) + 1
    return {"trajectories": latent[:, 0].T.tolist(), "parts": parts, "changepoints": starts.tolist()}


def _means(runs: SyntheticEpisodes) -> dict[str, Any]:
    latent, mean = runs.drawn.latent[:, 0], runs.drawn.mean[:, 0]
    sums = np.cumsum(np.vstack([np.zeros((1, latent.shape[1])), latent]), axis=0)
    rolling = (sums[WINDOW:] - sums[:-WINDOW]) / WINDOW
    return {"means": mean.T.tolist(), "rolling": rolling.T.tolist()}


def _histogram(values: Floats) -> list[float]:
    density: list[float] = np.histogram(values, EDGES, density=True)[0].tolist()
    return density
