"""Guaranteed exploration for the reference ``accepted``: a comparison needs outputs of the other agents.

A cheat that wins the judge from the first rounds on takes all traffic of a policy that does not explore by itself. The
others then never reach the ten accepted outputs that make a reference, and the cheat is never compared with anything.
"""

from __future__ import annotations

import numpy as np

from bot_orch.arrays import Bools, Floats

_ENOUGH = 10.0  # accepted outputs: of an agent to lead, of the others to make a reference
_TRIES = 40.0  # outputs of the others after which their acceptance is what it is
_SHARE = 0.5  # the expected cost does not depend on it, only the number of rounds


def starving(accepted: Floats, outputs: Floats) -> Bools:
    """Mask of agents with enough accepted outputs whose rivals together have too few, after few tries.

    Agents that show no outputs cannot be tried: after twice the tries of its own an agent leads alone.

    Parameters
    ----------
    accepted, outputs
        Number of accepted outputs and of all outputs per agent, ``batch + (M,)``.

    Examples
    --------
    >>> starving(np.array([12.0, 3.0, 2.0]), np.array([14.0, 4.0, 4.0]))
    array([ True, False, False])
    >>> starving(np.array([12.0, 3.0, 2.0]), np.array([14.0, 30.0, 30.0])).any()
    np.False_
    >>> starving(np.array([95.0, 0.0, 0.0]), np.array([99.0, 0.0, 0.0])).any()
    np.False_
    """
    others = np.add.reduce(accepted, axis=-1, keepdims=True) - accepted
    tries = np.add.reduce(outputs, axis=-1, keepdims=True) - outputs
    early = outputs < _ENOUGH + 2.0 * _TRIES
    return np.asarray((accepted >= _ENOUGH) & (others < _ENOUGH) & (tries < _TRIES) & early)


def with_comparison(p: Floats, alone: Bools, eligible: Bools | None = None) -> Floats:
    """Move half of the probability of agents in ``alone`` evenly to the other eligible agents.

    Examples
    --------
    >>> with_comparison(np.array([0.9, 0.1, 0.0]), np.array([True, False, False]))
    array([0.45 , 0.325, 0.225])
    """
    may = np.ones(p.shape, dtype=bool) if eligible is None else np.broadcast_to(eligible, p.shape)
    others = np.add.reduce(may, axis=-1, keepdims=True, dtype=np.float64) - 1.0
    taken = np.where(alone & (others > 0.0), _SHARE * p, 0.0)
    each = taken / np.maximum(others, 1.0)
    given = np.add.reduce(each, axis=-1, keepdims=True) - each
    return np.asarray(p - taken + np.where(may, given, 0.0))
