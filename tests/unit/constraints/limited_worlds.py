"""A small world with prices, times and drift, played by the batched engine under constraints."""

from dataclasses import dataclass, replace

import numpy as np

from bot_orch.core import pipeline
from bot_orch.core.engine import Details, Engine, Observation
from bot_orch.core.settings import Settings
from bot_orch.policies.registry import make_policy
from bot_orch.rng import derive_keys, uniform


@dataclass
class Played:
    """What happened, every array (rounds, seeds)."""

    reward: np.ndarray
    usd: np.ndarray
    seconds: np.ndarray
    agent: np.ndarray
    propensities: np.ndarray
    parts: dict
    engine: Engine


@dataclass(frozen=True)
class World:
    """Agents with mean rewards, prices and times; ``drift`` moves rewards and prices, and one price jumps."""

    quality: tuple = (0.5, 0.65, 0.8, 0.85)
    price: tuple = (1e-4, 5e-4, 2e-3, 1e-2)
    seconds: tuple = (1.0, 3.0, 6.0, 9.0)
    drift: bool = False
    noisy: bool = True
    weights: tuple | None = None  # effect of features on reward, (M, d)
    cost_weights: tuple | None = None  # effect of features on log dollars, (M, d)
    n_features: int = 0

    def at(self, part):
        m = len(self.quality)
        turn = np.arange(m) / m
        if not self.drift:
            return np.array(self.quality), np.array(self.price)
        jump = np.where((np.arange(m) == 2) & (part > 0.6), 3.0, 1.0)
        quality = np.array(self.quality) + 0.15 * np.sin(2 * np.pi * (part + turn))
        return quality, np.array(self.price) * jump * (1.0 + 0.8 * np.sin(2 * np.pi * (1.5 * part + turn)))


def play(
    world,
    policy,
    constraints,
    *,
    rounds=1500,
    seeds=2,
    floor=0.0,
    late=0,
    key="limits",
    price=None,
    exact_usd=False,
    **settings,
):
    """Play one world; outcomes arrive ``late`` rounds later."""
    rng, m, d = np.random.default_rng(5), len(world.quality), world.n_features
    made = make_policy(policy) if isinstance(policy, str) else policy
    engine = Engine(Settings(made, lambda_=0.0, n_features=d, floor=floor, constraints=tuple(constraints), **settings))
    parts, keys, names = engine.start(m, (seeds,)), derive_keys([key], range(seeds)), tuple(map(str, range(m)))
    waiting, queue, every = np.zeros((seeds, m)), [], np.arange(seeds)
    kept = {name: np.zeros((rounds, seeds)) for name in ("reward", "usd", "seconds", "agent")}
    p = np.zeros((rounds, seeds, m))
    for t in range(rounds):
        quality, cost = world.at(t / rounds)
        x = rng.normal(size=(seeds, d)) if d else None
        o = Observation(t + 1, np.zeros((seeds, m)), x, pending=waiting, names=names, price=price)
        found = engine.prepare(parts, o, uniform(keys, t))
        drawn = found.drawn
        choice = replace(drawn.choice, propensities=drawn.propensities)
        engine.commit(parts, o, drawn.agent, alignment=found.alignment, lambda_=found.lambda_, choice=choice)
        a = drawn.agent
        mean = quality[a] + (0.0 if world.weights is None else np.add.reduce(np.array(world.weights)[a] * x, axis=-1))
        lift = 0.0 if world.cost_weights is None else np.add.reduce(np.array(world.cost_weights)[a] * x, axis=-1)
        noise = rng.normal(size=seeds) * 0.5 if world.noisy else np.zeros(seeds)
        usd = cost[a] * (1.0 if exact_usd else np.exp(lift + noise - (0.125 if world.noisy else 0.0)))
        reward = (rng.random(seeds) < mean).astype(float) if world.noisy else np.clip(mean, 0.0, 1.0)
        seconds = np.array(world.seconds)[a] * rng.exponential(size=seeds)
        for name, value in {"reward": reward, "usd": usd, "seconds": seconds, "agent": a}.items():
            kept[name][t] = value
        p[t] = drawn.propensities
        waiting[every, a] += 1.0
        queue.append((drawn, reward, usd, seconds))
        while len(queue) > late:
            one, reward, usd, seconds = queue.pop(0)
            waiting[every, one.agent] -= 1.0
            learned = Details(
                None,
                usd,
                elapsed_s=seconds,
                completed=np.ones(seeds, bool),
                estimate=one.choice.estimate,
                price=price,
            )
            engine.learn(parts, names, pipeline.bandit_feedback(one, reward), learned=learned)
    return Played(**kept, propensities=p, parts=parts, engine=engine)
