"""What it saves to count the prompts that providers have in their caches: conversations against a simulated provider.

``--conversations`` conversations of ``--turns`` turns take turns among ``--agents`` agents of equal price; with
``--difference`` the first is better by so much. Every turn sends the whole past. A provider keeps a prompt for five
minutes, from 1024 tokens on, and reads it at a tenth of the price. The router is the engine with ``auto`` and an
objective of dollars, as the gateway builds it; the expected dollars come from ``bot_orch.service.prefixes``, as there.

Rows: without expected dollars of caches (``blind``), with them (``aware``), and with the agent of a conversation's
first turn for all of it (``pinned``), each over the same conversations. Printed are switches per conversation, the
share of prompt tokens read from a cache, dollars per conversation, and mean reward.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bot_orch import Agent, Objective, Orchestrator, Outcome, Task
from bot_orch.agents import Price, Usage
from bot_orch.service.prefixes import PrefixCaches, PromptPrefix

__all__ = ["Totals", "main", "play"]

PRICE = Price(input_usd_per_million=3.0, cached_input_usd_per_million=0.3, output_usd_per_million=15.0)
KEEP_S, LEAST_TOKENS = 300.0, 1024
SYSTEM_TOKENS, TURN_TOKENS, ANSWER_TOKENS = 2000, 400, 300
PAUSE_S, OPEN = 40.0, 5  # mean pause between the turns of a conversation; conversations at a time


@dataclass
class Totals:
    """Sums over all turns of all conversations."""

    switches: int = 0
    read: int = 0
    cached: int = 0
    usd: float = 0.0
    reward: float = 0.0
    turns: int = 0


def play(
    mode: str, *, conversations: int, turns: int, agents: int, difference: float, weight: float, seed: int
) -> Totals:
    """Play all conversations with one way of routing."""
    rng = np.random.default_rng(seed)
    names = [f"agent-{index}" for index in range(agents)]
    quality = dict(zip(names, [0.8 + difference] + [0.8] * (agents - 1), strict=True))
    usual = PRICE.cost(Usage(SYSTEM_TOKENS + 500, ANSWER_TOKENS))
    router = Orchestrator([Agent(name, price=usual) for name in names], seed=seed, objective=Objective(usd=weight))
    now = 0.0
    caches, totals = PrefixCaches(clock=lambda: now), Totals()
    provider: dict[tuple[str, int], tuple[int, float]] = {}  # (agent, conversation): tokens, until
    last: dict[int, str] = {}
    lengths = [SYSTEM_TOKENS] * conversations
    prompts: list[tuple[PromptPrefix, ...]] = [()] * conversations
    times = np.cumsum(rng.exponential(PAUSE_S / OPEN, conversations * turns))
    whose = _owners(conversations, turns, rng)
    for at, conversation in zip(times, whose, strict=True):
        now = float(at)
        lengths[conversation] += int(rng.poisson(TURN_TOKENS))
        length = lengths[conversation]
        prefix = PromptPrefix(f"{conversation}-{length}".encode(), length)
        prompts[conversation] = (*prompts[conversation], prefix)[-16:]
        prompt, prices = prompts[conversation], dict.fromkeys(names, PRICE)
        extra = caches.extra_usd("", prompt, prices) if mode == "aware" else None
        eligible = [last[conversation]] if mode == "pinned" and conversation in last else None
        decision = router.decide(Task(extra_usd=extra or {}), eligible=eligible)
        agent = decision.agent
        had, until = provider.get((agent, conversation), (0, 0.0))
        cached = had if until > now and had >= LEAST_TOKENS else 0
        answer = int(rng.poisson(ANSWER_TOKENS))
        usage = Usage(length, answer, cached_tokens=cached)
        provider[agent, conversation] = length, now + KEEP_S
        caches.note("", prompt, agent, usage, price=PRICE)
        reward, usd = float(rng.random() < quality[agent]), PRICE.cost(usage)
        router.observe(decision.id, Outcome.completed(reward, elapsed_s=1.0, cost_usd=usd))
        totals.switches += conversation in last and last[conversation] != agent
        totals.read, totals.cached = totals.read + length, totals.cached + cached
        totals.usd, totals.reward, totals.turns = totals.usd + usd, totals.reward + reward, totals.turns + 1
        last[conversation] = agent
        lengths[conversation] += answer
    return totals


def _owners(conversations: int, turns: int, rng: np.random.Generator) -> list[int]:
    """The conversation of each turn, in the order of time."""
    left = [turns] * conversations
    found: list[int] = []
    open_: list[int] = []
    waiting = list(range(conversations))
    while open_ or waiting:
        while waiting and len(open_) < OPEN:
            open_.append(waiting.pop(0))
        chosen = open_[int(rng.integers(len(open_)))]
        found.append(chosen)
        left[chosen] -= 1
        if not left[chosen]:
            open_.remove(chosen)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=100)
    parser.add_argument("--turns", type=int, default=18)
    parser.add_argument("--agents", type=int, default=3)
    parser.add_argument("--difference", type=float, default=0.0, help="how much better the first agent is")
    parser.add_argument("--weight", type=float, default=20.0, help="reward that a dollar is worth")
    parser.add_argument("--seeds", type=int, default=5)
    o = parser.parse_args(argv)
    print("| routing | switches | cached | dollars | reward |\n|---|---|---|---|---|")
    for mode in ("blind", "aware", "pinned"):
        rows = []
        for seed in range(o.seeds):
            t = play(
                mode,
                conversations=o.conversations,
                turns=o.turns,
                agents=o.agents,
                difference=o.difference,
                weight=o.weight,
                seed=seed,
            )
            rows.append((t.switches / o.conversations, t.cached / t.read, t.usd / o.conversations, t.reward / t.turns))
        mean = np.mean(rows, axis=0)
        print(f"| {mode} | {mean[0]:.1f} | {mean[1]:.0%} | {mean[2]:.3f} | {mean[3]:.3f} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
