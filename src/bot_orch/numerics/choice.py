"""Choice rules: probabilities from scores, and draws from probabilities."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from itertools import accumulate
from math import erf, isfinite, sqrt
from operator import add
from typing import cast

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Bools, Floats, Ints
from bot_orch.errors import InvalidInputError

#: Exploration bonus of an agent without outcomes. It is finite, so that it can be stored and so that the best aligned
#: of several such agents is chosen first.
UNSEEN = 1e9
_SMALL = 1e7  # times sqrt(2 ln n) is less than UNSEEN for every float n
_TIE, _ROUNDING = 0.005, 1e-9  # differences of scores, and of probabilities, that are ties


def softmax_scores(estimate: Floats, penalty: Floats, eta: float, *, eligible: Bools | None = None) -> Floats:
    """:func:`softmax` of ``eta * (estimate - penalty)``."""
    logits = estimate - penalty
    logits *= eta
    return softmax(logits, eligible)


def ucb_scores(
    estimate: Floats, n: Floats, penalty: Floats, *, scale: float, eligible: Bools | None = None
) -> tuple[Floats, Floats]:
    """All probability on the largest ``estimate + bonus - penalty``, and bonus = scale * sqrt(2 ln N / n).

    Examples
    --------
    >>> p, bonus = ucb_scores(np.array([0.5, 0.5]), np.array([3.0, 1.0]), np.zeros(2), scale=1.0)
    >>> p, bonus.round(3)
    (array([0., 1.]), array([0.961, 1.665]))
    """
    if n.ndim == 1 and n.shape[0] < _FEW_COLUMNS and eligible is None:
        found = _ucb_row(estimate, n, penalty, scale=scale)
        if found is not None:
            return found
    estimate, n, penalty = _columns(estimate), _columns(n), _columns(penalty)
    total = np.maximum(_row_sum(n), 1.0)
    least = n.min()
    bonus: Floats = np.divide(2.0 * np.log(total), n if least > 1e-12 else np.maximum(n, 1e-12))
    np.sqrt(bonus, out=bonus)
    bonus *= scale
    if not (least >= 1.0 and scale <= _SMALL):
        np.minimum(bonus, UNSEEN, out=bonus)
        bonus[n <= 0.0] = UNSEEN
    score = estimate + bonus
    score -= penalty
    return argmax_ties(score, eligible), bonus


def _ucb_row(estimate: Floats, n: Floats, penalty: Floats, *, scale: float) -> tuple[Floats, Floats] | None:
    """:func:`ucb_scores` of one short row, the same numbers; None before every agent was seen, and for ties.

    For a few numbers, plain Python takes less time than array operations.
    """
    counts = n.tolist()
    if not (min(counts) >= 1.0 and scale <= _SMALL):
        return None
    twice = 2.0 * float(np.log(reduce(add, counts)))
    bonus = [scale * sqrt(twice / count) for count in counts]
    score = [a + b - c for a, b, c in zip(estimate.tolist(), bonus, penalty.tolist())]  # noqa: B905
    best = max(score)
    if score.count(best) != 1 or not isfinite(sum(score)):
        return None
    return _units(len(score))[score.index(best)], np.array(bonus)


def softmax(logits: Floats, eligible: Bools | None = None) -> Floats:
    """exp(logits) normalised over eligible agents, safe against overflow.

    Examples
    --------
    >>> softmax(np.array([1000.0, 1000.0]))
    array([0.5, 0.5])
    """
    if eligible is not None:
        logits = np.where(eligible, logits, -np.inf)
    if logits.ndim == 1:  # the same numbers in less time
        p: Floats = logits - logits[logits.argmax()]
        np.exp(p, out=p)
        p /= reduce(add, p.tolist()) if len(p) < _FEW_COLUMNS else np.add.reduce(p)
        return p
    logits = _columns(logits)
    p = logits - _row_max(logits)
    np.exp(p, out=p)
    p /= _row_sum(p)
    return p


def argmax_ties(score: Floats, eligible: Bools | None = None) -> Floats:
    """All probability on the best score, split evenly over exact ties.

    Examples
    --------
    >>> argmax_ties(np.array([1.0, 3.0, 3.0]))
    array([0. , 0.5, 0.5])
    """
    if eligible is not None:
        score = np.where(eligible, score, -np.inf)
    if score.ndim == 1:
        at = int(score.argmax())  # of the first nan, if there is one
        if at + int(score[::-1].argmax()) == len(score) - 1 and score[at] > -np.inf:  # no ties
            return _units(len(score))[at]
    score = _columns(score)
    best = score == _row_max(score)
    if best.ndim == 2 and np.count_nonzero(best) == best.shape[0]:  # no ties
        return cast(Floats, best.astype(float))
    return cast(Floats, best / np.add.reduce(best, axis=-1, keepdims=True, dtype=np.float64))


def cheapest_of_ties(p: Floats, score: Floats, bonus: Floats, *, price: Floats) -> Floats:
    """Move the probabilities of agents that tie with the most probable one to the cheapest of them.

    Agents tie whose scores are equal, with and without the exploration bonus, to half a percent of the largest reward.
    Without a bonus the choice explores by its probabilities: these must be equal, too, and scores positive, because an
    agent that earns nothing would keep the others from being tried. ``price`` (M,) is NaN where an agent has none; such
    an agent keeps its probability.

    Examples
    --------
    >>> score, price = np.array([0.5, 0.5, 0.3]), np.array([0.1, 0.01, 0.001])
    >>> cheapest_of_ties(np.array([0.4, 0.4, 0.2]), score, np.zeros(3), price=price)
    array([0. , 0.8, 0.2])
    """
    best = np.argmax(p, axis=-1)[..., None]

    def apart(values: Floats) -> Floats:
        return np.asarray(np.abs(values - np.take_along_axis(values, best, axis=-1)))

    ties = (apart(score) <= _TIE) & (apart(score + bonus) <= _TIE) & np.isfinite(price)
    ties &= ((bonus > 0.0) & (p > 0.0)) | ((score > 0.0) & (apart(p) <= _ROUNDING))
    cost = np.where(ties, price, np.inf)
    cheapest = ties & (cost == np.minimum.reduce(cost, axis=-1, keepdims=True))
    mass, kept = (np.add.reduce(p * each, axis=-1, keepdims=True) for each in (ties, cheapest))
    return cast(Floats, np.where(ties, cheapest * p * (mass / np.where(kept > 0.0, kept, 1.0)), p))


def with_uniform_share(p: Floats, share: float, eligible: Bools | None = None) -> Floats:
    """Mix with the uniform distribution: ``share`` of all traffic is spread evenly over the eligible agents.

    Examples
    --------
    >>> with_uniform_share(np.array([1.0, 0.0, 0.0, 0.0]), 0.02)
    array([0.985, 0.005, 0.005, 0.005])
    """
    if share <= 0.0:
        return p
    if eligible is None:
        mixed: Floats = (1.0 - share) * p
        mixed += share / p.shape[-1]
        return mixed
    mask = np.broadcast_to(eligible, p.shape)
    n = np.add.reduce(mask, axis=-1, keepdims=True, dtype=np.float64)
    return cast(Floats, np.where(mask, (1.0 - share) * p + share / n, 0.0))


def mixed_draw(
    p: Floats, u: npt.ArrayLike, share: float = 0.0, *, eligible: Bools | None = None
) -> tuple[Floats, Ints]:
    """:func:`with_uniform_share` and :func:`draw` in one: the mixed probabilities and the agents drawn from them.

    For one row, an invalid probability vector raises an error.
    """
    if p.ndim != 1:
        mixed = with_uniform_share(p, share, eligible)
        return mixed, draw(mixed, u)
    if eligible is None and p.shape[0] < _FEW_COLUMNS and share > 0.0:  # the same numbers in less time
        keep, even = 1.0 - share, share / p.shape[0]
        few = [keep * each + even for each in p.tolist()]
        mixed, line = np.array(few), list(accumulate(few))
    else:
        mixed = with_uniform_share(p, share, eligible)
        line = list(accumulate(mixed.tolist()))
    if not abs(line[-1] - 1.0) < 1e-6:  # also catches nan
        problem = f"returned probabilities that sum to {line[-1]:.6g}"
        raise InvalidInputError("policy", problem, "run check_policy on it")
    return mixed, _at(line, u) if type(u) is float else draw(mixed, u)


def draw(p: Floats, u: npt.ArrayLike) -> Ints:
    """Inverse-CDF draw: the agent whose interval of [0, 1) contains ``u``; one per row.

    Examples
    --------
    >>> draw(np.array([[0.25, 0.75], [0.0, 1.0]]), np.array([0.2, 0.2]))
    array([0, 1])
    """
    if p.ndim == 1 and np.ndim(u) == 0:
        return _at(list(accumulate(p.tolist())), float(cast(float, u)))
    if _by_column(p):
        edges = p.T.copy()
        for column in range(1, len(edges)):
            np.add(edges[column - 1], edges[column], out=edges[column])
        passed = np.add.reduce((edges <= np.asarray(u) * edges[-1]).view(np.int8), axis=0, dtype=np.int8)
        return np.where(passed < p.shape[1], passed, 0).astype(np.int64)
    edges = np.cumsum(p, axis=-1)
    return cast(Ints, np.argmax(edges > np.asarray(u)[..., None] * edges[..., -1:], axis=-1))


def _at(line: list[float], u: float) -> Ints:
    """The agent whose interval contains ``u`` times the last of the cumulative probabilities."""
    at = bisect_right(line, u * line[-1])
    return indices(len(line))[at if at < len(line) else 0]


@lru_cache(maxsize=64)
def indices(m: int) -> tuple[Ints, ...]:
    """The numbers of ``m`` agents as arrays without dimensions."""
    made = tuple(np.array(index) for index in range(m))
    for each in made:
        each.flags.writeable = False
    return made


@lru_cache(maxsize=64)
def _units(m: int) -> tuple[Floats, ...]:
    """All probability on each of ``m`` agents; shared, so they cannot be written to."""
    rows = np.eye(m)
    rows.flags.writeable = False
    return tuple(rows)


def best_probabilities(cdf: Floats, eligible: Bools | None = None) -> Floats:
    """P(agent i has the largest value) for independent agents, by quadrature over a common grid.

    Parameters
    ----------
    cdf
        ``batch + (M, G)``: distribution functions of the agents on one increasing grid.
    eligible
        Agents that take part; ``None`` means all.

    Notes
    -----
    p_i = integral of prod_{j != i} F_j dF_i. On each cell the increment of F_i is multiplied by the product of the
    others' values at mid-cell. The result is normalised, so it is a probability vector at any grid size.
    """
    increment = np.diff(cdf, axis=-1, prepend=0.0)
    log_middle = np.log(np.maximum(cdf - 0.5 * increment, 1e-300))
    if eligible is not None:
        increment = increment * eligible[..., None]
        log_middle = np.where(eligible[..., None], log_middle, 0.0)
    others = np.add.reduce(log_middle, axis=-2, keepdims=True) - log_middle
    p = np.add.reduce(increment * np.exp(others), axis=-1)
    return cast(Floats, p / np.add.reduce(p, axis=-1, keepdims=True))


def best_of_family(
    location: Floats,
    scale: Floats,
    cdf: Callable[[Floats], Floats],
    *,
    eligible: Bools | None = None,
    reach: tuple[float, float] = (6.0, 6.0),
    points: int = 128,
) -> Floats:
    """P(agent i has the largest value) when agent i's value is ``location_i + scale_i * Z`` and Z has ``cdf``.

    The grid spans the plausible range of the maximum: from the largest lower end to the largest upper end.
    """
    left, right = location - reach[0] * scale, location + reach[1] * scale
    if eligible is not None:
        left, right = np.where(eligible, left, -np.inf), np.where(eligible, right, -np.inf)
    low = np.maximum.reduce(left, axis=-1, keepdims=True)
    high = np.maximum.reduce(right, axis=-1, keepdims=True)
    grid = low + (high - low) * _unit_grid(points)
    standard = (grid[..., None, :] - location[..., None]) / scale[..., None]
    return best_probabilities(cdf(standard), eligible)


def capped(p: Floats, most: Floats, eligible: Bools | None = None) -> Floats:
    """Probabilities clipped to ``most``; the excess goes to eligible agents without a cap (1).

    They share it in proportion to their probabilities, or evenly if these are zero. Where every eligible agent has a
    cap there is no choice to limit, and nothing changes.

    Examples
    --------
    >>> capped(np.array([0.6, 0.3, 0.1]), np.array([0.2, 1.0, 1.0]))
    array([0.2, 0.6, 0.2])
    """
    free = np.broadcast_to(most >= 1.0, p.shape) if eligible is None else (most >= 1.0) & eligible
    some = free.any(axis=-1, keepdims=True)
    if not (some & (p > most)).any():
        return p
    kept = np.minimum(p, np.where(some, most, 1.0))
    rest = np.where(free, p, 0.0)
    total = np.add.reduce(rest, axis=-1, keepdims=True)
    even = free / np.maximum(np.add.reduce(free, axis=-1, keepdims=True, dtype=np.float64), 1.0)
    spare = 1.0 - np.add.reduce(kept, axis=-1, keepdims=True)
    return np.asarray(kept + spare * np.where(total > 0.0, rest / np.where(total > 0.0, total, 1.0), even))


@lru_cache(maxsize=8)
def _unit_grid(points: int) -> Floats:
    grid = np.linspace(0.0, 1.0, points)
    grid.flags.writeable = False
    return grid


# For a short last axis, NumPy reductions are several times slower than a loop over columns. Below eight columns both
# add from left to right, so the results are bitwise equal.
_FEW_COLUMNS, _MANY_ROWS = 8, 64


def _by_column(x: Floats) -> bool:
    return x.ndim == 2 and x.shape[1] < _FEW_COLUMNS and x.shape[0] >= _MANY_ROWS


def _columns(x: Floats) -> Floats:
    """``x`` with contiguous columns where loops over columns pay."""
    return np.asfortranarray(x) if _by_column(x) else x


def _row_max(x: Floats) -> Floats:
    if not _by_column(x):
        return cast(Floats, np.maximum.reduce(x, axis=-1, keepdims=True))
    return cast(Floats, reduce(np.maximum, x.T)[:, None])


def _row_sum(x: Floats) -> Floats:
    if not _by_column(x):
        return cast(Floats, np.add.reduce(x, axis=-1, keepdims=True))
    return cast(Floats, reduce(np.add, x.T)[:, None])


_SURE = 8.0  # standard deviations beyond which a normal variable is not drawn


def upper_envelope(location: list[float], sd: list[float], among: Sequence[int]) -> list[float]:
    """P(agent i of ``among`` has the largest ``location + |Z| * sd``), by a walk over the lines' upper envelope."""
    p, reached = [0.0] * len(location), 0.0
    if not among:
        return p
    top = max([(location[i], sd[i]) for i in among])
    among = [i for i in among if location[i] + _SURE * sd[i] >= top[0]]
    while True:
        height, rise = top
        cross, above = _SURE, None
        for i in among:
            if sd[i] > rise:
                at = (height - location[i]) / (sd[i] - rise)
                if at < cross or (at == cross and above is not None and (sd[i], location[i]) > (above[1], above[0])):
                    cross, above = at, (location[i], sd[i])
        until = 1.0 if above is None else erf(cross / sqrt(2.0))
        equal = [i for i in among if location[i] == height and sd[i] == rise]
        for i in equal:
            p[i] += max(until - reached, 0.0) / len(equal)
        if above is None:
            return p
        top, reached = above, max(until, reached)


def coupled_randucb(location: Floats, sd: Floats, eligible: Bools | None = None) -> Floats:
    """Coupled RandUCB [1]_: P(agent i has the largest ``location + |Z| * sd``), the same Z for all agents.

    Z is standard normal; the probabilities are exact.

    References
    ----------
    .. [1] Vaswani, Mehrabian, Durand, Kveton. Old dog learns new tricks: randomized UCB for bandit problems.
       AISTATS 2020.

    Examples
    --------
    >>> coupled_randucb(np.array([0.5, 0.4, 0.3]), np.array([0.1, 0.2, 0.1])).round(3)
    array([0.683, 0.317, 0.   ])
    """
    shape = np.broadcast_shapes(location.shape, sd.shape)
    found = np.empty(shape)
    height, rise = np.broadcast_to(location, shape), np.broadcast_to(sd, shape)
    mask = np.ones(shape, dtype=bool) if eligible is None else np.broadcast_to(eligible, shape)
    for at in np.ndindex(shape[:-1]):
        found[at] = upper_envelope(height[at].tolist(), rise[at].tolist(), np.flatnonzero(mask[at]).tolist())
    return found
