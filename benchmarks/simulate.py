"""Rounds per second of whole simulations, beside river's runner and mabwiser's loop, in one run.

Six Bernoulli agents, 200 rounds. We step 1000 seeds together; the peers run fewer seeds one after the other, since
their rate does not depend on how many there are. river's policy is its cheapest comparable one.
"""

from __future__ import annotations

import argparse

import numpy as np
from _harness import Bench, median_seconds

from bot_orch.environments.stream import Stream
from bot_orch.experiments.harness.simulate import simulate
from bot_orch.policies.bot import algorithm_1
from bot_orch.policies.registry import make_policy
from bot_orch.rng import derive_keys

M, T = 6, 200
MEANS = np.linspace(0.3, 0.8, M)


def ours(name: str, seeds: int, lambda_: float) -> float:
    """Rounds per second of one of our policies."""
    rng = np.random.default_rng(0)
    reward = (rng.random((T, seeds, M)) < MEANS).astype(float)
    stream = Stream(reward, rng.random((T, seeds, M)))
    policy = algorithm_1() if name == "bot" else make_policy(name)

    def run() -> None:
        simulate(policy, stream, derive_keys(["bench"], range(seeds)), lambda_=lambda_)

    return T * seeds / median_seconds(run)


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


def river_rate(seeds: int) -> float:
    """Rounds per second of river's ``bandit.evaluate``."""
    from river import bandit, stats

    def run() -> None:
        policy = bandit.EpsilonGreedy(epsilon=0.1, reward_obj=stats.EWMean(0.1), seed=1)
        for _ in bandit.evaluate([policy], _Bernoulli(), reward_stat=stats.Mean(), n_episodes=seeds, seed=1):
            pass

    return T * seeds / median_seconds(run, 3)


def mabwiser_rate(seeds: int) -> float:
    """Rounds per second of mabwiser's predict and partial_fit."""
    from mabwiser.mab import MAB, LearningPolicy

    rewards = (np.random.default_rng(0).random((seeds, T, M)) < MEANS).astype(float)

    def run() -> None:
        for seed in range(seeds):
            mab = MAB(list(range(M)), LearningPolicy.Softmax(tau=0.2), seed=seed)
            mab.fit(list(range(M)), [0.0] * M)
            for t in range(T):
                arm = mab.predict()
                mab.partial_fit([arm], [rewards[seed, t, arm]])

    return T * seeds / median_seconds(run, 3)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python benchmarks/simulate.py --quick")
    parser.add_argument("--quick", action="store_true", help="fewer seeds")
    quick = parser.parse_args().quick
    seeds, peer_seeds = (200, 5) if quick else (1000, 30)
    bench = Bench("rounds/s")
    river, mabwiser = river_rate(peer_seeds), mabwiser_rate(max(1, peer_seeds // 5))
    for label, name, lambda_ in (
        ("softmax-EMA", "bot", 0.0),
        ("BOT-Orch with alignment", "bot", 1.0),
        ("UCB1", "ucb1", 0.0),
        ("Thompson", "thompson-beta", 0.0),
    ):
        rate = ours(name, seeds, lambda_)
        need = 30.0 if name == "bot" else None
        bench.row(f"{label} against river", rate, river, higher_is_better=True, need=need)
        bench.row(f"{label} against mabwiser", rate, mabwiser, higher_is_better=True)
    bench.finish()


if __name__ == "__main__":
    main()
