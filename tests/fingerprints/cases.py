"""The orchestrators whose behaviour is recorded. Every setting is written out, so that a changed default changes none.

What cannot be passed, such as how lambda calibrates itself, shows here when it changes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bot_orch import Agent, Labels, Orchestrator
from bot_orch.core.alignment import Alignment, Reference, Watch
from bot_orch.core.reward import BoundedReward, RewardModel, SurvivalReward
from bot_orch.policies.base import reads_features
from bot_orch.policies.registry import available_policies, from_spec, make_policy, to_spec
from bot_orch.transport.geometries.bures import Bures
from bot_orch.transport.geometries.labels import OrderedLabels, ZeroOneLabels
from bot_orch.transport.geometries.scalars import Scalars
from bot_orch.transport.geometries.sliced import Sliced
from bot_orch.transport.measures import Samples
from bot_orch.transport.memory import Memory

PLAIN = {"a": 0.0, "b": 0.0, "c": 0.0, "d": 0.0}
PRICED = {"a": 0.0, "b": 0.05, "c": 0.1, "d": 0.15}
PROFILES = {"a": Labels([0.6, 0.3, 0.1]), "b": Labels([0.3, 0.4, 0.3])}
EVERYBODY = {**PROFILES, "c": Labels([0.1, 0.2, 0.7])}

WINDOW = Memory("window", 256, math.inf)
SHORT = Memory("window", 20, math.inf)
ALL = Memory("all", 512, math.inf)
FADING = Memory("decay", 512, 25.0)

LABELS, ORDERED = ZeroOneLabels(3), OrderedLabels((0.0, 1.0, 2.0))
SCALARS, SLICED = Scalars(cells=64, order=1), Sliced(cells=16, dimension=2, order=2, seed=0)
BURES = Bures(2, diagonal=False, clouds=True, shrinkage=0.0)


@dataclass(frozen=True)
class Case:
    """One orchestrator and the world it meets."""

    policy: dict[str, Any]
    alignment: Callable[[], Alignment] | None = None
    lambda_: Any = 0.0
    floor: float = 0.0
    kind: str | None = None
    n_features: int = 0
    costs: dict[str, float] | None = None
    profiles: dict[str, Labels] | None = None
    reward: Callable[[], RewardModel] = BoundedReward
    references: bool = True
    full: bool = False  # what every agent would have earned is told
    roster: bool = True  # one agent is added and one removed on the way

    def agent(self, name: str) -> Agent:
        profile = None if self.profiles is None else self.profiles.get(name)
        return Agent(name, cost=(self.costs or PLAIN)[name], profile=profile)

    def build(self, seed: int) -> Orchestrator:
        return Orchestrator(
            [self.agent(name) for name in "abc"],
            from_spec(self.policy),
            lambda_=self.lambda_,
            seed=seed,
            n_features=self.n_features,
            floor=self.floor,
            alignment=None if self.alignment is None else self.alignment(),
            reward=self.reward(),
        )


def policy(name: str, **settings: Any) -> dict[str, Any]:
    return {"family": "policy", "id": name, **settings}


def estimator(name: str, **settings: Any) -> dict[str, Any]:
    return {"family": "estimator", "id": name, **settings}


def schedule(name: str, **settings: Any) -> dict[str, Any]:
    return {"family": "schedule", "id": name, **settings}


def constant(value: float) -> dict[str, Any]:
    return schedule("constant", value=value)


def history(name: str, **settings: Any) -> dict[str, Any]:
    return {"family": "history", "id": name, **settings}


def aligned(geometry, source="task", *, units="native", memory=WINDOW, distance="lower", watch=None, **reference):
    """An alignment with everything given, to be built anew for every run."""
    settings = {"memory": ALL, "measure": None, "threshold": 0.5, "agent": None} | reference
    return lambda: Alignment(
        geometry,
        memory=memory,
        reference=Reference(source, **settings),
        distance=distance,
        level=0.9,
        watch=watch,
        units=units,
    )


def latency(units: str) -> Callable[[], Alignment]:
    return lambda: Alignment.to_latency(2.0, memory=WINDOW, distance="lower", level=0.9, watch=None, units=units)


MEAN = estimator("mean", prior=0.0)
EMA = estimator("ema", alpha=0.9, history=history("none"), initial=0.0)
BOT = policy("bot", eta=constant(5.0), estimator=EMA)
AUTO = policy("auto", scale=0.65, forgetting=True)
UCB1 = policy("ucb1", scale=1.0, estimator=MEAN)

CASES: dict[str, Case] = {
    "bot-labels-task": Case(BOT, aligned(LABELS), 1.0, 0.05, "labels", profiles=PROFILES),
    "bot-labels-profiles-priced": Case(BOT, aligned(ORDERED), 0.3, 0.02, "labels", costs=PRICED, profiles=PROFILES),
    "bot-samples-tasks": Case(
        policy("bot", eta=schedule("log-growth", scale=1.5), estimator=MEAN),
        aligned(SCALARS, "tasks", distance="plug_in"),
        0.3,
        kind="samples",
    ),
    "bot-history-latency": Case(
        policy(
            "bot",
            eta=constant(5.0),
            estimator=estimator("ema", alpha=0.8, history=history("mean", beta=0.05), initial=0.5),
        ),
        latency("native"),
        1.0,
        0.03,
        references=False,
    ),
    "bot-lambda-auto-samples": Case(BOT, aligned(SCALARS, units="reference"), "auto", 0.05, "samples"),
    "bot-survival": Case(
        BOT,
        floor=0.05,
        reward=lambda: SurvivalReward(curve="pooled", censored="expected", capacity=128),
        references=False,
    ),
    "no-ot": Case(policy("no-ot", eta=constant(5.0), estimator=EMA), floor=0.05, costs=PRICED),
    "random": Case(policy("random", estimator=MEAN)),
    "auto-features": Case(AUTO, n_features=3, floor=0.02),
    "auto-lambda-auto-cloud": Case(AUTO, aligned(SLICED, units="reference"), "auto", 0.02, "cloud", 2),
    "auto-lambda-auto-latency": Case(
        AUTO, latency("reference"), "auto", 0.02, n_features=2, costs=PRICED, references=False
    ),
    "auto-labels-accepted": Case(
        AUTO, aligned(LABELS, "accepted", threshold=0.4, units="reference"), "auto", kind="labels"
    ),
    "auto-native": Case(AUTO, aligned(SCALARS), 0.3, 0.01, "samples", 1),
    "ucb1-labels-fixed": Case(
        UCB1, aligned(LABELS, "fixed", measure=Labels([0.1, 0.6, 0.3])), 1.0, 0.02, "labels", references=False
    ),
    "ucb1-survival-own": Case(
        UCB1, reward=lambda: SurvivalReward(curve="own", censored="zero", capacity=64), references=False
    ),
    "ucb1-samples-agent": Case(
        UCB1,
        aligned(SCALARS, "agent", agent="a", memory=SHORT, distance="debiased"),
        0.3,
        kind="samples",
        references=False,
    ),
    "ucb1-cloud-watch": Case(
        UCB1,
        aligned(SLICED, watch=Watch(recent=6, older=12, alpha=0.05)),
        0.3,
        kind="cloud",
    ),
    "thompson-beta-bures-accepted": Case(
        policy("thompson-beta", prior=1.0, points=128, reach=6.0, estimator=MEAN),
        aligned(BURES, "accepted", threshold=0.5, memory=FADING),
        0.3,
        kind="gaussian",
        references=False,
    ),
    "linucb-samples-fixed": Case(
        policy("linucb", scale=1.0, ridge=1.0),
        aligned(SCALARS, "fixed", measure=Samples([0.5, 1.0, 1.5], [0.25, 0.5, 0.25])),
        0.3,
        kind="samples",
        n_features=3,
        references=False,
    ),
    "lints-bures-task": Case(
        policy("lints", scale=0.5, ridge=1.0), aligned(BURES), 0.3, 0.01, "gaussian", 2, costs=PRICED
    ),
    "epsilon-greedy-tasks-fading": Case(
        policy("epsilon-greedy", epsilon=constant(0.1), estimator=MEAN),
        aligned(ORDERED, "tasks", memory=FADING),
        1.0,
        kind="labels",
    ),
    "bot-full": Case(
        BOT,
        aligned(LABELS),
        0.3,
        kind="labels",
        profiles=EVERYBODY,
        full=True,
        roster=False,
    ),
}
for _name, _kind in available_policies().items():  # a policy without a case of its own plays with its defaults
    if _kind.__module__.startswith("bot_orch.") and _name not in {case.policy["id"] for case in CASES.values()}:
        _made = make_policy(_name)
        CASES[_name] = Case(to_spec(_made), floor=0.02, n_features=2 if reads_features(_made) else 0)
