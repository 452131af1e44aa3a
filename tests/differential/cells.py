"""The same tasks, outcomes and draws, through the live router one by one and through the batched replay."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bot_orch import Orchestrator, Outcome, Task
from bot_orch.core.alignment import Alignment, Reference
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Arrival, Replay
from bot_orch.lab.harness.players import PolicyPlayer, play
from bot_orch.policies.registry import make_policy
from bot_orch.rng import derive_key, generator
from bot_orch.transport import Cloud, Labels, ZeroOneLabels

SIGNALS = ("embeddings", "labels", "latency", "cost", "text", "none")
LAMBDAS = ("auto", 0.0, 0.3, 1.0)
TIMINGS = ("at once", "late", "censored")
POLICIES = ("auto", "bot", "linucb", "thompson-beta")
AGENTS = (4, 58)
FLOOR, TARGET_S, COST_WEIGHT, N_LABELS, DIMENSION = 0.02, 2.0, 5.0, 3, 6


@dataclass(frozen=True)
class Cell:
    """One comparison."""

    signal: str
    lambda_: float | str
    timing: str
    policy: str
    agents: int = 4
    rounds: int = 2000
    seeds: int = 3

    def __str__(self):
        return f"{self.signal}, lambda {self.lambda_}, {self.timing}, {self.policy}, {self.agents} agents"


@dataclass(frozen=True)
class Run:
    """Who was chosen ``(rounds, seeds)``, with which probabilities and penalties ``(rounds, seeds, M)``."""

    agent: np.ndarray
    propensities: np.ndarray
    penalty: np.ndarray


@lru_cache(maxsize=8)
def world(signal: str, agents: int, rounds: int) -> Matrix:
    """Rewards that depend on features, some of them missing; texts, outputs, labels, times and dollars that differ."""
    rng = generator("differential", signal, agents, rounds)
    features = rng.normal(size=(rounds, 3))
    skill, taste = np.linspace(0.3, 0.8, agents), rng.normal(size=(3, agents)) * 0.1
    reward = (rng.random((rounds, agents)) < np.clip(skill + features @ taste, 0.05, 0.95)).astype(float)
    features = np.where(rng.random(features.shape) < 0.05, np.nan, features * [1.0, 1e3, 1e-3])
    extra = {}
    if signal == "text":
        said = rng.integers(300, size=(rounds, 8))
        extra = {"text": np.array([" ".join(f"word{each}" for each in row) for row in said])}
    if signal == "embeddings":
        reference = rng.normal(size=(rounds, DIMENSION))
        noise = rng.normal(size=(rounds, agents, DIMENSION)) * np.linspace(0.2, 2.0, agents)[:, None]
        extra = {"reference_embed": reference, "output_embed": reference[:, None] + noise}
    if signal == "labels":
        sharp = np.linspace(0.5, 4.0, agents)[:, None]
        logits = rng.normal(size=(rounds, agents, N_LABELS)) * sharp
        p = np.exp(logits)
        extra = {"output_probs": p / p.sum(axis=-1, keepdims=True)}
    if signal == "latency":
        extra = {"elapsed_s": rng.exponential(np.linspace(0.5, 4.0, agents), size=(rounds, agents))}
    if signal == "cost":
        extra = {"cost_usd": rng.exponential(np.linspace(0.001, 0.1, agents), size=(rounds, agents))}
    return Matrix(f"differential-{signal}", tuple(f"a{i}" for i in range(agents)), reward, features=features, **extra)


def arrival(cell: Cell) -> Arrival:
    """When outcomes come: the last rounds of a late stream never do."""
    rng = generator("differential arrival", cell.timing)
    late = rng.integers(0, 40, size=cell.rounds) if cell.timing == "late" else None
    censored = rng.random((cell.rounds, cell.seeds)) < 0.2 if cell.timing == "censored" else None
    return Arrival(late, censored)


def replayed(cell: Cell) -> Replay:
    """The replay, drawing as the live routers of the same seeds do."""
    replay = Replay(
        world(cell.signal, cell.agents, cell.rounds),
        "shuffled",
        cell.rounds,
        seeds=range(cell.seeds),
        latency_target_s=TARGET_S if cell.signal == "latency" else None,
        cost_weight=COST_WEIGHT if cell.signal == "cost" else 0.0,
        arrival=arrival(cell),
    )
    replay._draw_keys = np.array([derive_key("orchestrator", s) for s in range(cell.seeds)], dtype=np.uint64)
    return replay


class Recorder(PolicyPlayer):
    """A player that keeps what it paid."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.penalties = []

    def choose(self, before, u):
        pick = super().choose(before, u)
        self.penalties.append(self._made[before.t].drawn.situation.penalty)
        return pick


def batched(cell: Cell, player=Recorder) -> Run:
    """All seeds stepping together."""
    replay = replayed(cell)
    found = player(make_policy(cell.policy), replay.setup, cell.lambda_, floor=FLOOR)
    trace = play(found, replay, keep_propensities=True)
    shape = (cell.seeds, cell.agents)
    return Run(trace.agent, trace.propensities, np.stack([np.broadcast_to(p, shape) for p in found.penalties]))


def one_by_one(cell: Cell, change=lambda router: None) -> Run:
    """Every seed with a live router of its own."""
    runs = [_live(cell, seed, change) for seed in range(cell.seeds)]
    return Run(*(np.stack(part, axis=1) for part in zip(*runs, strict=True)))


def router_for(cell: Cell, seed: int) -> Orchestrator:
    """The live router, with the settings that a user would pass."""
    replay_agents = world(cell.signal, cell.agents, cell.rounds).agents
    alignment = None
    if cell.signal == "labels":
        alignment = Alignment(ZeroOneLabels(N_LABELS), reference=Reference("accepted"))
    if cell.signal == "latency":
        alignment = Alignment.to_latency(TARGET_S)
    return Orchestrator(
        replay_agents,
        cell.policy,
        lambda_=cell.lambda_,
        seed=seed,
        n_features=3,
        floor=FLOOR,
        alignment=alignment,
        cost_weight=COST_WEIGHT if cell.signal == "cost" else 0.0,
    )


def _live(cell: Cell, seed: int, change) -> tuple[np.ndarray, ...]:
    replay, router = replayed(cell), router_for(cell, seed)
    change(router)
    matrix, due = replay.matrix, {}
    agents, propensities, penalties = [], [], []
    for t in range(cell.rounds):
        row = replay.rows[t, seed]
        reference = None if matrix.reference_embed is None else Cloud(matrix.reference_embed[row][None])
        text = None if matrix.text is None else str(matrix.text[row])
        decision = router.decide(Task(str(t), text=text, features=tuple(matrix.features[row]), reference=reference))
        agent = matrix.agents.index(decision.agent)
        agents.append(agent)
        propensities.append(decision.propensities)
        penalties.append(decision.terms.alignment + decision.terms.cost)
        outcome = _outcome(replay, cell, t, seed, row, agent)
        due.setdefault(t + (replay.lateness(t) or 0), []).append((decision.id, outcome))
        for decision_id, outcome in due.pop(t, ()):
            router.observe(decision_id, outcome)
    return np.array(agents), np.array(propensities), np.array(penalties)


def _outcome(replay: Replay, cell: Cell, t: int, seed: int, row: int, agent: int) -> Outcome:
    m = replay.matrix
    elapsed = None if m.elapsed_s is None else float(m.elapsed_s[row, agent])
    cost = None if m.cost_usd is None else float(m.cost_usd[row, agent])
    if replay.arrival.censored is not None and replay.arrival.censored[t, seed]:
        return Outcome.censored(elapsed_s=elapsed or 0.0, reason=replay.arrival.reason, cost_usd=cost)
    output = None
    if m.output_embed is not None:
        output = Cloud(m.output_embed[row, agent][None])
    if m.output_probs is not None:
        output = Labels(m.output_probs[row, agent])
    return Outcome.completed(float(m.reward[row, agent]), elapsed_s=elapsed, output=output, cost_usd=cost)


def differences(cell: Cell, one: Run | None = None, many: Run | None = None) -> str:
    """What differs between the two ways, in words; empty where nothing does."""
    one, many = one or one_by_one(cell), many or batched(cell)
    other = np.flatnonzero((one.agent != many.agent).any(axis=1))
    if other.size:
        return f"{cell}: round {other[0] + 1}: chose {one.agent[other[0]]} live, {many.agent[other[0]]} in the replay"
    for name in ("penalty", "propensities"):
        gap = np.abs(getattr(one, name) - getattr(many, name)).max(axis=(1, 2))
        if gap.max() > 1e-12:
            first = int(np.argmax(gap > 1e-12))
            return f"{cell}: round {first + 1}: {name} differ by {gap[first]:.2g}"
    return ""
