"""Regret per round over streams longer than the rows that are kept, beside linucb, lints and Thompson sampling.

Three worlds that do not change (linear in ten features, eight clusters of tasks, no features) and one that does: half
way every agent takes over its neighbour's part.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

import numpy as np

from bot_orch.arrays import Floats, allocate
from bot_orch.core.context import with_context
from bot_orch.core.pipeline import apply, bandit_feedback, decide
from bot_orch.policies.auto import Auto
from bot_orch.policies.base import Policy, Situation
from bot_orch.policies.lints import LinTS
from bot_orch.policies.linucb import LinUCB
from bot_orch.policies.thompson_beta import ThompsonBeta

WORLDS = ("linear", "clustered", "flat", "drifting")
_AGENTS, _FEATURES, _CLUSTERS = 5, 10, 8


@dataclass(frozen=True)
class World:
    """Tasks and the mean rewards of five agents on them, one world per seed; rewards are 0 or 1."""

    name: str
    seeds: int
    seed: int = 0
    rng: np.random.Generator = field(init=False)
    effects: Floats = field(init=False)
    centres: Floats = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng([self.seed, WORLDS.index(self.name)])
        n, m, d = self.seeds, _AGENTS, _FEATURES
        effects = {
            "clustered": rng.uniform(0.2, 0.8, size=(n, _CLUSTERS, m)),
            "flat": rng.uniform(0.3, 0.7, size=(n, 1, m)),
        }
        object.__setattr__(self, "rng", rng)
        object.__setattr__(self, "centres", 1.5 * rng.normal(size=(n, _CLUSTERS, d)))
        object.__setattr__(self, "effects", effects.get(self.name, 0.12 * rng.normal(size=(n, d, m))))

    def draw(self, changed: bool) -> tuple[Floats | None, Floats]:
        """Features of a task per seed, and everybody's mean reward on it."""
        effects = np.roll(self.effects, 1, axis=-1) if changed and self.name == "drifting" else self.effects
        x = self.rng.normal(size=(self.seeds, _FEATURES))
        if self.name == "flat":
            return None, effects[:, 0]
        if self.name == "clustered":
            which = np.arange(self.seeds), self.rng.integers(_CLUSTERS, size=self.seeds)
            return self.centres[which] + 0.5 * x, effects[which]
        return x, np.clip(0.5 + np.einsum("sd,sdm->sm", x, effects), 0.0, 1.0)


def regrets(policy: Policy, name: str, rounds: int, seeds: int) -> Floats:
    """(rounds, seeds)."""
    world = World(name, seeds)
    policy = with_context(policy, numbers=0 if name == "flat" else _FEATURES, words=0)
    state = allocate(policy.schema(0), (seeds,), _AGENTS)
    regret = np.zeros((rounds, seeds))
    for t in range(rounds):
        x, mean = world.draw(changed=2 * t >= rounds)
        situation = Situation(t + 1, penalty=np.zeros((seeds, _AGENTS)), context=x)
        drawn = decide(policy, state, situation, u=world.rng.random(seeds))
        worth = mean[np.arange(seeds), drawn.agent]
        apply(policy, state, bandit_feedback(drawn, (world.rng.random(seeds) < worth).astype(float)))
        regret[t] = mean.max(axis=1) - worth
    return regret


def by_window(regret: Floats, every: int) -> list[float]:
    """Means over windows of rounds and all seeds."""
    return [float(part.mean()) for part in np.split(regret, range(every, len(regret), every))]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20000)
    parser.add_argument("--every", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=WORLDS)
    args = parser.parse_args()
    ends = range(args.every, args.rounds + args.every, args.every)
    print("| world | policy |", *(f"to {min(end, args.rounds)} |" for end in ends))
    print("|---|---|" + "---|" * len(ends))
    for name in args.worlds:
        policies: list[Policy] = [Auto(), LinUCB(), LinTS(), ThompsonBeta()]
        for policy in policies:
            row = by_window(regrets(policy, name, args.rounds, args.seeds), args.every)
            print(f"| {name} | `{policy.id}` |", *(f"{value:.4f} |" for value in row), flush=True)


if __name__ == "__main__":
    main()
