"""Every parameter of the synthetic environments, with its rationale, in one table.

The paper publishes none of them. Each parameter carries its *source*:

``paper``
    stated in the text or read off a table's layout;
``calibrated``
    fitted by ``benchmarks/calibrate.py`` to the Random column and the oracle level, and to nothing else;
``calibrated jointly``
    the same, one value for all five environments;
``ablation``
    fitted by ``benchmarks/calibrate.py --noise`` to BOT-Orch's regret in the i.i.d. panel of the lambda ablation, an
    experiment apart from the five environments;
``chosen``
    free: a round number with a reason, not adjusted afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple


class Law(NamedTuple):
    """The law of an agent's latent reward about its mean: a shape and a standard deviation."""

    shape: str
    sd: float


class Parameter(NamedTuple):
    """One row of the parameter table."""

    environment: str
    name: str
    value: Any
    source: str
    why: str


def _p(default: Any, source: str, why: str) -> Any:
    return field(default=default, metadata={"source": source, "why": why})


def _own(source: str, why: str) -> Any:
    return field(metadata={"source": source, "why": why})


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """Shared by all environments."""

    agents: int = _p(6, "paper", "the ablation's Random finds the best agent 17 % of the time: one in six")
    seeds: int = _p(5, "paper", "stated; 30 in the ablation")
    score_lambda: float = _p(1.0, "paper", "net utility + alignment cost is a plausible reward only at lambda = 1")
    lambda_: float = _p(13.0, "paper", "the lambda that its ablation selects; 3 to 13 give the same regret")
    noise: float = _p(1.6, "ablation", "sd of the noise that is added to the alignment a policy sees")
    eta: float = _p(1.5, "ablation", "inverse temperature: how fast regret falls with lambda between 0 and 2")
    alpha: float = _p(0.9, "chosen", "memory of the reward estimate, as in the triage experiment")
    hazard_slope: float = _p(
        0.3,
        "chosen",
        "hazard is multiplied by exp(-0.3 W): the Random column cannot tell it, the paper's text its sign",
    )
    frailty_variance: float = _p(0.5, "chosen", "gamma frailty with mean 1: Kendall's tau of 0.2 between agents")
    cloud_points: int = _p(24, "chosen", "points per output cloud; W2 between clouds is exact at any number")
    reference_sd: float = _p(0.1, "chosen", "a task wants outcomes as narrow as the steadiest agent's")
    clip: float = _p(0.01, "chosen", "latent rewards stay in [0.01, 0.99], so that completion times are finite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Parameters common to all environments. Distances are in units of the task space R^2."""

    name: str
    rounds: int = _p(200, "paper", "stated")
    radius: float = _own("calibrated", "agents stand evenly on a circle of this radius")
    task_spread: float = _own("calibrated", "scale of the scatter of tasks")
    output_spread: float = _p(
        10.0, "calibrated jointly", "output units per unit of reward: how far an unsteady agent scatters; one for all"
    )
    base_hazard: float = _own("calibrated", "completions per unit of time at W = 0")
    censor_rate: float = _own("calibrated", "deadlines per unit of time; a task has one deadline, whoever works on it")
    laws: tuple[Law, ...] = _own(
        "chosen", "latent rewards with mean 0.5 that differ beyond the mean, as the paper says"
    )
    frailty_memory: float = _p(0.0, "paper", "frailty is independent from task to task when tasks are")
    correlation: tuple[float, ...] = _p((0.3,), "chosen", "correlation of latent rewards of two agents, by segment")

    @property
    def iid(self) -> bool:
        """Whether tasks and rewards are independent over time (the paper then runs Algorithm 1)."""
        return isinstance(self, GaussianTasks | Moons)


_STEADY_TO_WILD = tuple(Law("normal", sd) for sd in (0.10, 0.14, 0.18, 0.22, 0.26, 0.30))


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianTasks(Setting):
    """IID-G: normal tasks, normal rewards of different variance."""

    laws: tuple[Law, ...] = _p(_STEADY_TO_WILD, "chosen", "normal with matched means and sd from 0.1 to 0.3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moons(Setting):
    """IID-M: half-moons tasks; rewards of different variance, skewness and bimodality."""

    laws: tuple[Law, ...] = _p(
        (
            Law("normal", 0.10),
            Law("normal", 0.15),
            Law("right-skewed", 0.15),
            Law("left-skewed", 0.15),
            Law("uniform", 0.2886751345948129),
            Law("bimodal", 0.35),
        ),
        "chosen",
        "two variances, two skews, flat and two-peaked, as in the paper's figure",
    )
    moon_noise: float = _p(0.1, "chosen", "scatter about the moons, whose own radius is 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shifts(Setting):
    """NonIID-PS: fixed means, variances that change at changepoints."""

    laws: tuple[Law, ...] = _p(_STEADY_TO_WILD, "chosen", "as IID-G in the first segment")
    frailty_memory: float = _p(0.5, "chosen", "hard tasks come in runs")
    changepoints: tuple[float, ...] = _p((1 / 3, 2 / 3), "chosen", "shares of the horizon; unknown to policies")
    order: tuple[tuple[int, ...], ...] = _p(
        ((0, 1, 2, 3, 4, 5), (3, 4, 5, 0, 1, 2), (5, 3, 1, 4, 2, 0)),
        "chosen",
        "which agent has which law in each segment: the steady become wild",
    )
    correlation: tuple[float, ...] = _p(
        (0.3, 0.0, 0.6), "chosen", "the covariance of rewards changes with the variances"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift(Setting):
    """NonIID-SD: reward means and tasks swing."""

    laws: tuple[Law, ...] = _p(_STEADY_TO_WILD, "chosen", "the agents of IID-G; what changes is the mean")
    frailty_memory: float = _p(0.5, "chosen", "hard tasks come in runs")
    period: int = _p(100, "chosen", "rounds per swing: two in the published horizon")
    mean_amplitude: float = _p(0.15, "chosen", "reward means stay in [0.35, 0.65]; agents are out of phase")
    task_amplitude: float = _p(1.0, "chosen", "the centre of tasks swings by one task spread")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge(Setting):
    """NonIID-BB: reward means and tasks follow Brownian bridges from a fixed point to a fixed point."""

    laws: tuple[Law, ...] = _p(_STEADY_TO_WILD, "chosen", "the agents of IID-G; what changes is the mean")
    frailty_memory: float = _p(0.5, "chosen", "hard tasks come in runs")
    task_spread: float = _p(0.25, "chosen", "tasks scatter little about their smooth path")
    mean_scale: float = _p(0.3, "chosen", "a bridge has sd scale / 2 at half time: means of 0.5 +- 0.15 there")
    path_scale: float = _own("calibrated", "scale of the bridge that the centre of tasks follows")


COMMON = Common()

#: The five environments of the main tables.
ENVIRONMENTS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        GaussianTasks(name="iid-g", radius=1.434, task_spread=1.836, base_hazard=2.953, censor_rate=0.587),
        Moons(name="iid-m", radius=1.888, task_spread=0.221, base_hazard=2.566, censor_rate=0.586),
        Shifts(name="noniid-ps", radius=1.629, task_spread=2.103, base_hazard=3.536, censor_rate=0.627),
        Drift(name="noniid-sd", radius=1.393, task_spread=1.819, base_hazard=3.569, censor_rate=0.599),
        Bridge(name="noniid-bb", radius=0.645, path_scale=3.586, base_hazard=2.866, censor_rate=0.601),
    )
}

#: The two settings of the lambda ablation: like IID-G, and a bridge in which every distance is larger.
ABLATION: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        GaussianTasks(
            name="synthetic-iid", rounds=114, radius=2.206, task_spread=0.823, base_hazard=2.928, censor_rate=0.590
        ),
        Bridge(
            name="synthetic-noniid",
            rounds=114,
            radius=3.409,
            path_scale=10.992,
            base_hazard=9.061,
            censor_rate=0.586,
        ),
    )
}

SETTINGS: dict[str, Setting] = {**ENVIRONMENTS, **ABLATION}


def calibrated(setting: Setting) -> tuple[str, ...]:
    """Names of the parameters that the calibration may change."""
    return tuple(f.name for f in fields(setting) if f.metadata.get("source") == "calibrated")


def declared() -> Iterator[Parameter]:
    """The table, line by line."""
    parts: dict[str, Common | Setting] = {"common": COMMON, **SETTINGS}
    for name, part in parts.items():
        for f in fields(part):
            if f.metadata:
                yield Parameter(name, f.name, getattr(part, f.name), f.metadata["source"], f.metadata["why"])
