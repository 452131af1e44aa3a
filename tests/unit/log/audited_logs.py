"""Logs of a router whose judge may be gamed and whose decisions are audited in part, and what it really earns."""

import numpy as np

from bot_orch import Orchestrator, Outcome, Task
from bot_orch.core.engine import ENGINE
from bot_orch.core.events import Configured, FeedbackGiven, record_decision, record_task
from bot_orch.log.events import encode_event
from bot_orch.log.log import Row
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.transport import Labels

AGENTS = ("plain", "good", "poor", "cheat")
LOOKS = (Labels([0.9, 0.1]), Labels([0.9, 0.1]), Labels([0.9, 0.1]), Labels([0.05, 0.95]))
WORTH = np.array([0.5, 0.65, 0.4, 0.1])
FLATTERED = 0.9
GOOD = Labels([0.9, 0.1])


class World:
    """Four agents. With ``gamed`` the judge likes the cheat best; else it is right, and all are worth the same."""

    def __init__(self, seed, gamed=True):
        self.rng, self.gamed = np.random.default_rng(seed), gamed

    def answer(self, agent):
        """(what it is worth, what the judge says, what it looks like)"""
        i = AGENTS.index(agent)
        truth = float(self.rng.random() < (WORTH[i] if self.gamed else 0.5))
        judged = float(self.rng.random() < FLATTERED) if self.gamed and agent == "cheat" else truth
        return truth, judged, Labels(np.eye(2)[int(self.rng.random() < LOOKS[i].probabilities[1])])


class Writer:
    """Appends events to a log in memory."""

    def __init__(self):
        self.log, self.seq = MemoryLog(), 0

    def put(self, event, ref=""):
        self.seq += 1
        self.log.append([Row(self.seq, self.seq, event.kind, ref, encode_event(event))])


def write_log(world, n, *, policy="random", lambda_=0.0, least=0.0, audit=1.0, seed=0):
    """A log of ``n`` rounds: judged at once, audited with probability ``audit``; ``least``: of every propensity."""
    router = Orchestrator(AGENTS, policy, lambda_=lambda_, floor=least * len(AGENTS), seed=seed)
    writer = Writer()
    writer.put(Configured(router.to_json(), ENGINE))
    for number in range(n):
        task = Task(f"t{number}", reference=GOOD)
        made = router.decide(task)
        writer.put(record_decision(made, record_task(task)), made.id)
        truth, judged, output = world.answer(made.agent)
        router.observe(made.id, Outcome.completed(judged, output=output))
        writer.put(FeedbackGiven(f"f{number}", made.id, "learned", judged, output=output.to_dict()), made.id)
        if world.rng.random() < audit:
            writer.put(FeedbackGiven(f"a{number}", made.id, "revision", truth), made.id)
    writer.log.commit()
    return writer.log


def true_value(policy, lambda_, rounds, *, seeds=20, gamed=True, least=0.0):
    """What a live router really earns per round over so many rounds."""
    earned = []
    for seed in range(seeds):
        world, router = (
            World(1000 + seed, gamed),
            Orchestrator(AGENTS, policy, lambda_=lambda_, floor=least * len(AGENTS), seed=seed),
        )
        for _ in range(rounds):
            made = router.decide(Task(reference=GOOD))
            truth, judged, output = world.answer(made.agent)
            router.observe(made.id, Outcome.completed(judged, output=output))
            earned.append(truth)
    return float(np.mean(earned))
