"""State of the policy ``auto``: one named array per quantity, in batches or for one router.

Large arrays are stored in single precision and used in double: a hundred agents with ten features take 150 kB of JSON.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from bot_orch.arrays import Arrays, Field, Floats, Ints, Schema

__all__ = ["KNOTS", "MEMBERS", "START", "AutoState", "flatten", "schema"]

#: Members of the mixture, in the order of ``evidence``. The first two are Gaussian processes on the memory.
MEMBERS = ("lasting", "recent", "linear", "flat", "claims")
KNOTS = 5  # basis functions of a claim
START = (0.5, 0.15, 0.15, 0.15, 0.05)  # levels before the first outcome


class AutoState(NamedTuple):
    """State arrays of one router, or of a batch with one leading dimension.

    Parameters
    ----------
    uid
        (M,) Agent ids that stay valid when agents are added or removed; -1 for an agent without outcomes.
    counts, totals
        (M,) Number and sum of an agent's rewards, for the member ``flat``.
    inverse, theta
        (M, d + 1, d + 1) and (M, d + 1) Covariance and coefficients of the agents' ridge regressions.
    claim_inverse, claim_theta
        Likewise for the regression of rewards on claims.
    common_inverse, common
        The ridge regression of all agents' rewards, towards which those of the agents are shrunk.
    frame
        (2, d) Mean and scale of the features in the ridge regressions.
    x_mean, x_square
        (d,) Mean and sum of squared deviations of the features.
    x, owner, round, reward, weight
        The memory, one row per outcome or group of merged outcomes: features, agent id, round, reward and number of
        outcomes.
    alpha, rest
        (2, N) Coefficients of the two Gaussian processes, and the residuals of the equations that they solve.
    evidence
        (5,) Discounted log evidence of the members.
    levels
        (5,) Mean reward, noise variance; short-run mean, long-run mean and mean square of squared errors.
    counters
        (3,) Outcomes learned, next row to refresh, agent ids given.
    """

    uid: Ints
    counts: Floats
    totals: Floats
    inverse: Floats
    theta: Floats
    claim_inverse: Floats
    claim_theta: Floats
    common_inverse: Floats
    common: Floats
    frame: Floats
    x_mean: Floats
    x_square: Floats
    x: Floats
    owner: Ints
    round: Floats
    reward: Floats
    weight: Floats
    alpha: Floats
    rest: Floats
    evidence: Floats
    levels: Floats
    counters: Ints


def schema(n_features: int, capacity: int) -> Schema:
    """Schema of the state with ``capacity`` rows of memory."""
    d, n = n_features + 1, capacity
    return {
        "uid": Field(fill=-1.0, dtype="int64"),
        "counts": Field(),
        "totals": Field(),
        "inverse": Field(shape=(d, d), fill=1.0, identity=True, dtype="float32"),
        "theta": Field(shape=(d,), dtype="float32"),
        "claim_inverse": Field(shape=(KNOTS, KNOTS), fill=1.0, identity=True, dtype="float32"),
        "claim_theta": Field(shape=(KNOTS,), dtype="float32"),
        "common_inverse": Field(per_agent=False, shape=(d, d), fill=6.0, identity=True),
        "common": Field(per_agent=False, shape=(d,)),
        "frame": Field(per_agent=False, shape=(2, n_features)),
        "x_mean": Field(per_agent=False, shape=(n_features,)),
        "x_square": Field(per_agent=False, shape=(n_features,)),
        "x": Field(per_agent=False, shape=(n, n_features), dtype="float32"),
        "owner": Field(per_agent=False, shape=(n,), fill=-1.0, dtype="int32"),
        "round": Field(per_agent=False, shape=(n,), dtype="float32"),
        "reward": Field(per_agent=False, shape=(n,), dtype="float32"),
        "weight": Field(per_agent=False, shape=(n,), fill=1.0, dtype="float32"),
        "alpha": Field(per_agent=False, shape=(2, n), dtype="float32"),
        "rest": Field(per_agent=False, shape=(2, n), dtype="float32"),
        "evidence": Field(per_agent=False, shape=(len(MEMBERS),)),
        "levels": Field(per_agent=False, shape=(5,), fill=START),
        "counters": Field(per_agent=False, shape=(3,), dtype="int64"),
    }


def flatten(state: Arrays) -> AutoState:
    """Views with all batch dimensions flattened into one."""
    batch = state["uid"].shape[:-1]
    rows = math.prod(batch)
    return AutoState(*(state[name].reshape(rows, *state[name].shape[len(batch) :]) for name in AutoState._fields))


def row_of(batch: AutoState, b: int) -> AutoState:
    """Views of one element of a flattened batch."""
    return AutoState(
        batch.uid[b],
        batch.counts[b],
        batch.totals[b],
        batch.inverse[b],
        batch.theta[b],
        batch.claim_inverse[b],
        batch.claim_theta[b],
        batch.common_inverse[b],
        batch.common[b],
        batch.frame[b],
        batch.x_mean[b],
        batch.x_square[b],
        batch.x[b],
        batch.owner[b],
        batch.round[b],
        batch.reward[b],
        batch.weight[b],
        batch.alpha[b],
        batch.rest[b],
        batch.evidence[b],
        batch.levels[b],
        batch.counters[b],
    )
