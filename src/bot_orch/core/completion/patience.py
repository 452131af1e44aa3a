"""How long to wait for an agent before asking another one, within one deadline.

With tau seconds for agent A and the rest of D seconds for B, the expected reward is

    V(tau) = r_A f_A(tau) + (1 - q_A f_A(tau)) kappa r_B f_B(D - tau)

r is the policy's estimate for this task, q the probability of completing that it implies, f(t) the share of an agent's
completions that come within t (Kaplan-Meier, from the counts of the completion model). kappa is how much a second
attempt earns of what is estimated: a task that the first agent did not complete is a hard one. The patience is the tau
with the largest V; the *half rule* is tau = D / 2.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from bot_orch.arrays import Arrays, Bools, Floats
from bot_orch.core.completion.law import BINS, CompletionLaw, bin_of, law_of, place_in_bin, shrunk
from bot_orch.errors import InvalidInputError

PatienceRule = Literal["learned", "half"]
PATIENCE_RULES: tuple[PatienceRule, ...] = ("learned", "half")
#: Shares of the time left that are compared; 1 leaves nothing for another agent.
SHARES: Floats = np.concatenate([[1 / 32, 1 / 16, 1 / 8], np.arange(3, 17) / 16])
#: Second attempts on third-party runtimes earned .4 to 1.05 of their estimates.
KAPPA = 0.6
_PSEUDO_OUTCOMES = 4.0
_HALF = 0.5


def patience_share(
    state: Arrays, estimate: Floats, agent: int, *, others: Bools, deadline_s: float, rule: PatienceRule = "learned"
) -> float:
    """The share of ``deadline_s`` to wait for ``agent``; 1 if there is no other agent to ask.

    ``state`` is that of the completion model for one batch element, ``estimate`` the policy's for this task, ``others``
    a mask of those who may be asked next; the best of them counts.

    Examples
    --------
    >>> from bot_orch.arrays import allocate
    >>> from bot_orch.core.completion.model import Completion
    >>> state = allocate(Completion().schema, (), 2)
    >>> patience_share(state, np.array([0.9, 0.1]), 0, others=np.array([False, True]), deadline_s=10.0, rule="half")
    0.5
    """
    if rule not in PATIENCE_RULES:
        raise InvalidInputError("patience", f"is {rule!r}", f"choose one of {', '.join(PATIENCE_RULES)}")
    allowed = others.copy()
    allowed[agent] = False
    if not allowed.any():
        return 1.0
    completions = float(state["exits"][:, 0].sum())
    if rule == "half" or not completions:
        return _HALF
    r = np.clip(estimate, 0.0, 1.0)
    q = np.minimum(r * completions / max(float(state["reward"].sum()), 1e-9), 1.0)
    second = int(np.argmax(np.where(allowed, r, -1.0)))
    mine, theirs = (completed_shares(state, who, deadline_s) for who in (agent, second))
    a, b = mine[0], theirs[1]
    value = r[agent] * a + (1.0 - q[agent] * a) * KAPPA * r[second] * b
    return float(SHARES[int(np.argmax(value))])


def completed_shares(state: Arrays, agent: int, deadline_s: float) -> Floats:
    """Shares of an agent's completions within ``SHARES`` and within ``1 - SHARES`` of the deadline, ``(2, K)``.

    The agent's own outcomes are smoothed with four pseudo-outcomes of the curve of all agents, and that curve with four
    of a log-uniform one.
    """
    exits, reward = state["exits"], state["reward"]
    pool = exits.sum(axis=0, dtype=np.float64), reward.sum(axis=0, dtype=np.float64)
    common = shrunk(*pool, _log_uniform(deadline_s), weight=_PSEUDO_OUTCOMES)
    own = exits[agent].astype(float), reward[agent].astype(float)
    curve = shrunk(*own, common, weight=_PSEUDO_OUTCOMES).completed
    times = np.concatenate([SHARES, 1.0 - SHARES, [1.0]]) * deadline_s
    at, passed = (np.array(part) for part in zip(*map(place_in_bin, times), strict=True))
    within = curve[at] + passed * (curve[at + 1] - curve[at])
    return np.asarray(np.minimum(within[:-1] / max(float(within[-1]), 1e-9), 1.0)).reshape(2, -1)


def _log_uniform(deadline_s: float) -> CompletionLaw:
    """Half complete, evenly over the bins up to the deadline."""
    exits, last = np.zeros((3, BINS)), bin_of(deadline_s)
    exits[0, : last + 1] = 0.5 / (last + 1)
    exits[2, -1] = 0.5
    return law_of(exits, exits[0])
