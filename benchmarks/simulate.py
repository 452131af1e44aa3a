"""Rounds per second of whole simulations, beside river's runner, in one run.

Six Bernoulli agents, 200 rounds. We step 1000 seeds together; the peers run fewer seeds one after the other, since
their rate does not depend on how many there are. river's policy is its cheapest comparable one. Processor time on one
thread.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from _harness import Bench, least_seconds

from bot_orch.lab.environments.stream import Stream
from bot_orch.lab.harness.simulate import simulate
from bot_orch.policies.bot import algorithm_1
from bot_orch.policies.registry import make_policy
from bot_orch.rng import derive_keys

M, T = 6, 200
MEANS = np.linspace(0.3, 0.8, M)


def ours(name: str, seeds: int, lambda_: float, features: int = 0) -> Callable[[], None]:
    """One of our policies, all seeds together."""
    rng = np.random.default_rng(0)
    reward = (rng.random((T, seeds, M)) < MEANS).astype(float)
    context = rng.normal(size=(T, seeds, features)) if features else None
    stream = Stream(reward, rng.random((T, seeds, M)), context)
    policy = algorithm_1() if name == "bot" else make_policy(name)

    def run() -> None:
        simulate(policy, stream, derive_keys(["bench"], range(seeds)), lambda_=lambda_)

    return run


class _Arms:
    n = M

    def seed(self, seed: int) -> None:
        """Asked for by the runner; the arms hold no randomness."""


class _Bernoulli:
    """The few methods that river's runner needs of an environment."""

    action_space = _Arms()

    def reset(self, seed: int) -> None:
        self.rewards = (np.random.default_rng(seed).random((T, M)) < MEANS).astype(float).tolist()
        self.t = 0

    def step(self, arm: int) -> tuple[int, float, bool, bool, dict[str, object]]:
        reward = self.rewards[self.t][arm]
        self.t += 1
        return 0, reward, self.t >= T, False, {}


def river_runner(seeds: int) -> Callable[[], None]:
    """river's ``bandit.evaluate``."""
    from river import bandit, stats

    def run() -> None:
        policy = bandit.EpsilonGreedy(epsilon=0.1, reward_obj=stats.EWMean(0.1), seed=1)
        for _ in bandit.evaluate([policy], _Bernoulli(), reward_stat=stats.Mean(), n_episodes=seeds, seed=1):
            pass

    return run


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python benchmarks/simulate.py --quick")
    parser.add_argument("--quick", action="store_true", help="fewer seeds")
    quick = parser.parse_args().quick
    seeds = 200 if quick else 1000
    few = {"river": 3, "Thompson": max(20, seeds // 5), "auto": max(5, seeds // 20)}
    runs = {
        "river": river_runner(few["river"]),
        "softmax-EMA": ours("bot", seeds, 0.0),
        "BOT-Orch with alignment": ours("bot", seeds, 1.0),
        "UCB1": ours("ucb1", seeds, 0.0),
        "Thompson": ours("thompson-beta", few["Thompson"], 0.0),
    }
    bench = Bench("rounds/s")
    rate = {name: T * few.get(name, seeds) / spent for name, spent in least_seconds(runs, 5 if quick else 15).items()}
    for label in list(runs)[2:]:
        need = 45.0 if label != "Thompson" else None
        bench.row(f"{label} against river", rate[label], rate["river"], higher_is_better=True, need=need)
    spent = least_seconds({"auto": ours("auto", few["auto"], 0.0, features=10)}, 3)["auto"]
    name = "auto, 10 features, against 40 us per round"
    bench.row(name, T * few["auto"] / spent, 25_000.0, higher_is_better=True, need=1.0)
    bench.finish()


if __name__ == "__main__":
    main()
