"""Lock-in: how the upward bias of plug-in distances makes a policy starve agents that are just as good.

M identical agents match the reference perfectly. A softmax over -lambda * W should choose each of them 1/M of the time.
An agent whose first few outcomes lie badly looks far away, is chosen less, and so never gets the chance to be seen
as it is; the agent chosen most looks nearest only because its bias has shrunk.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.rng import uniform
from bot_orch.transport.bank import ProfileBank
from bot_orch.transport.geometries.scores import Scores
from bot_orch.transport.memory import Memory


def lockin_shares(
    lambda_: float,
    rounds: int,
    keys: npt.NDArray[np.uint64],
    which: str = "lower",
    *,
    n_agents: int = 6,
    gap: float = 0.0,
    cells: int = 32,
) -> Floats:
    """The share of rounds each agent gets, ``(seeds, M)``.

    Outcomes of every agent, and the reference, are uniform on [0, 1]; all outcomes are remembered.

    Parameters
    ----------
    lambda_
        Weight of the distance in softmax(-lambda * W).
    rounds
        How many choices are made.
    keys
        One random stream per seed, see :func:`bot_orch.rng.derive_keys`.
    which
        The distance the softmax sees: ``plug_in``, ``debiased`` or ``lower``.
    gap
        How much worse agent 0 is: its outcomes are multiplied by ``1 - 2 * gap``, so that its distance is ``gap``.

    Examples
    --------
    >>> from bot_orch.rng import derive_keys
    >>> shares = lockin_shares(100.0, 50, derive_keys(["example"], range(4)))
    >>> shares.shape, shares.sum(axis=1)
    ((4, 6), array([1., 1., 1., 1.]))
    """
    geometry = Scores(cells=cells)
    bank = ProfileBank(geometry, Memory.everything())
    state = bank.start(n_agents, (len(keys),))
    reference = (np.arange(cells) + 0.5) / cells * geometry.step  # the uniform distribution function
    pulls, row = np.zeros((len(keys), n_agents)), np.arange(len(keys))
    for t in range(rounds):
        w = bank.distances(state, reference).pick(which)
        weights = np.exp(-lambda_ * (w - w.min(axis=1, keepdims=True)))
        edges = np.cumsum(weights, axis=1)
        agent = (edges < uniform(keys, 2 * t)[:, None] * edges[:, -1:]).sum(axis=1)
        outcome = uniform(keys, 2 * t + 1) * np.where(agent == 0, 1.0 - 2.0 * gap, 1.0)
        bank.update(state, agent, outcome)
        pulls[row, agent] += 1.0
    return pulls / rounds
