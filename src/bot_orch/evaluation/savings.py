"""Savings of a router: dollars, quality and seconds against always using one agent, or a fixed mix.

A request that was served by the router is compared with the doubly robust estimate of what another agent would have
cost and earned on it: the mean of the agent on like requests, corrected on the requests that it got by chance, with
the weight 1 / propensity. Differences are paired row by row. Requests on which the agent could not be drawn say nothing
about it; they are left out, and counted.

In mode ``observe`` the router serves nobody. A share of the requests is decided by it in the background, and the agent
that it chooses is asked beside the one that serves: :func:`observed` compares the two answers to the same request.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from bot_orch.arrays import Bools, Floats
from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.offpolicy import LogSample, Support, doubly_robust, out_of_fold, quantile, support
from bot_orch.evaluation.rounds import LoggedRounds
from bot_orch.numerics.hull import upper_hull

#: What is compared: dollars, reward and seconds of a request.
MEASURES = ("usd", "reward", "seconds")
_LEAST_EFFECTIVE = 50.0
_MOST_UNCOVERED = 0.5
_LEAST_DIFFERENT = 20  # known differences that an interval needs
_FLOORS = (0.1, 0.3)  # that are recommended
_NEWEST = 100  # requests that say how often an agent is drawn now


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of two values, with a confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ServedRequests:
    """Requests with their costs and rewards, one entry each.

    Parameters
    ----------
    agents
        Names, in the order of the propensities.
    logged
        First decisions; the reward is not used.
    served
        By measure, what the whole request took, other agents that were asked included; NaN if unknown.
    first
        By measure, what the agent that was asked first took.
    ids
        Of the first decisions.
    """

    agents: tuple[str, ...]
    logged: LogSample
    served: Mapping[str, Floats]
    first: Mapping[str, Floats]
    ids: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.logged)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The router less an alternative, per request, by measure; ``n`` requests were compared, ``left_out`` could not be.

    ``unknown`` says why quality is not known, where the alternative was drawn too rarely; dollars may still be, by a
    model of its ``modelled`` answers. Totals are of ``total`` requests, by default of the ``n`` compared ones.
    """

    name: str
    n: int
    _: KW_ONLY
    left_out: int
    differences: Mapping[str, Difference]
    unknown: str = ""
    total: int | None = None
    modelled: int = 0

    def total_usd(self) -> Difference | None:
        """Dollars of all requests."""
        found, n = self.differences.get("usd"), self.n if self.total is None else self.total
        return None if found is None else Difference(*(n * each for each in (found.value, found.low, found.high)))

    def __str__(self) -> str:
        usd, parts = self.total_usd(), []
        if usd is not None:
            half = _half(usd)
            saved, uncertain = dollars(abs(usd.value), half), dollars(half)
            parts.append(f"${saved} +- {uncertain} {'less' if usd.value <= 0 else 'more'}")
        if self.unknown and usd is None:
            return f"{self.name}: cannot be known; {self.unknown}"
        if self.unknown:
            like = f"if the others cost what its {self.modelled} answers to like requests did"
            return f"{self.name}, {self.total} requests: {parts[0]}, {like}; quality cannot be known: {self.unknown}"
        for name, unit in (("reward", "quality"), ("seconds", "seconds a request")):
            if name in self.differences:
                each = self.differences[name]
                parts.append(f"{unit} {each.value:+.3f} +- {_half(each):.3f}")
        rest = f" ({self.left_out} more requests could not have gone to it)" if self.left_out else ""
        n = f"{self.n} of {self.total}" if self.total is not None else str(self.n)
        return f"{self.name}, {n} requests: {'; '.join(parts)}{rest}"


def observed(rounds: LoggedRounds, *, confidence: float = 0.95) -> Comparison | None:
    """The router less the agents that served in mode ``observe``, paired by request; None without such requests.

    Where the router chose the agent that served, nothing differs. Where it chose another one and one of the two values
    is not known, the others of that sort stand for it.
    """
    served = {event.task.id: event for event in rounds.made if event.by == "observe" and not event.round}
    if not served:
        return None
    requests = served_requests(rounds, shadows=True)
    places = {one: place for place, one in enumerate(requests.ids)}
    chosen = [event for event in rounds.made if event.by == "shadow" and not event.round and event.task.id in served]
    one = np.array([places[event.id] for event in chosen], dtype=int)
    other = np.array([places[served[event.task.id].id] for event in chosen], dtype=int)
    same = np.array([event.agent == served[event.task.id].agent for event in chosen], dtype=bool)
    differences: dict[str, Difference] = {}
    for name in MEASURES:
        gap = (requests.served[name][one] - requests.served[name][other])[~same]
        known = gap[np.isfinite(gap)]
        if len(chosen) >= _LEAST_EFFECTIVE and len(known) >= min(len(gap), _LEAST_DIFFERENT):
            differences[name] = _mixed_interval(known, len(gap), len(chosen), confidence)
    unknown = "" if differences else f"{len(chosen)} requests were compared, {_LEAST_EFFECTIVE:.0f} are needed"
    name = "what was served (router.observe)"
    return Comparison(name, len(chosen), left_out=0, differences=differences, unknown=unknown, total=len(served))


def served_requests(rounds: LoggedRounds, *, shadows: bool = False) -> ServedRequests:
    """The requests of a log: decisions for which one agent took over from another are one request.

    A call whose dollars were not reported costs its agent's price. ``shadows``: also the tasks of shadow calls.
    """
    keep = [index for index, event in enumerate(rounds.made) if not event.round and (shadows or event.by != "shadow")]
    followers: dict[str, list[str]] = {}
    for event in rounds.made:
        if event.round:
            followers.setdefault(event.round, []).append(event.id)
    ids = [rounds.made[index].id for index in keep]
    chains = [[one, *followers.get(one, ())] for one in ids]
    prices = {agent.id: agent.price for agent in rounds.members()}
    asked = [event for event in rounds.made if event.action != "accept"]
    usual = {event.id: price for event in asked if (price := prices.get(event.agent)) is not None}
    spent = {"usd": usual | rounds.usd, "seconds": rounds.seconds}
    first = {name: np.array([known.get(one, np.nan) for one in ids]) for name, known in spent.items()}
    served = {name: np.array([_sum(known, chain) for chain in chains]) for name, known in spent.items()}
    first["reward"] = np.array([rounds.rewards.get(one, np.nan) for one in ids])
    served["reward"] = np.array([rounds.rewards.get(chain[-1], np.nan) for chain in chains])
    return ServedRequests(rounds.agents, rounds.decided(keep), served, first, tuple(ids))


def compare(requests: ServedRequests, target: Floats | str, *, name: str = "", confidence: float = 0.95) -> Comparison:
    """The router less ``target``: an agent, or the shares of a fixed mix, (M,)."""
    shares = _shares(requests.agents, target)
    name = name or (target if isinstance(target, str) else "mix")
    able = np.logical_and.reduce(requests.logged.propensities[:, shares > 0.0] > 0.0, axis=1)
    left_out = int((~able).sum())
    weights = np.tile(shares, (len(requests), 1))
    found = support(requests.logged.rows(able), weights[able])
    if found.effective_n < _LEAST_EFFECTIVE or left_out > _MOST_UNCOVERED * len(requests):
        advice = _advice(requests.logged.propensities[able], shares, found)
        problem = (
            f"{int(able.sum())} requests could have gone to it, and they are worth {found.effective_n:.0f} of the "
            f"{_LEAST_EFFECTIVE:.0f} that an interval needs; {advice}"
        )
        if left_out > _MOST_UNCOVERED * len(requests):
            problem = (
                f"{left_out} of {len(requests)} requests could not go to it: limits, rules or failures excluded it"
            )
        usd, answers = _modelled_dollars(requests, weights, confidence)
        n, known = (int(able.sum()), {}) if usd is None else (len(requests), {"usd": usd})
        total = None if usd is None else len(requests)
        return Comparison(name, n, left_out=left_out, differences=known, unknown=problem, total=total, modelled=answers)
    differences = {
        each: value
        for each in MEASURES
        if (value := _difference(requests, each, weights, able=able, confidence=confidence)) is not None
    }
    return Comparison(name, int(able.sum()), left_out=left_out, differences=differences)


def mix_of_same_cost(requests: ServedRequests) -> Floats | None:
    """Shares of the best mix of two agents at the router's cost, (M,); None if costs are unknown, or of no mix."""
    m, paid = len(requests.agents), requests.served["usd"]
    known = np.isfinite(paid)
    if not known.any() or not np.nanmax(paid) > 0.0:
        return None
    means = {name: _agent_means(requests, name) for name in ("usd", "reward")}
    usd, reward, wanted = means["usd"], means["reward"], float(paid[known].mean())
    drawn = np.flatnonzero(np.isfinite(usd) & np.isfinite(reward))
    hull = drawn[upper_hull(reward[drawn], usd[drawn])]
    right = int(np.searchsorted(usd[hull], wanted))
    if not 0 < right < len(hull):
        return None
    a, b = hull[right - 1], hull[right]
    share = (wanted - usd[b]) / (usd[a] - usd[b])
    return np.asarray(share * np.eye(m)[a] + (1.0 - share) * np.eye(m)[b])


def _agent_means(requests: ServedRequests, measure: str) -> Floats:
    """Mean cost or reward of every agent on all requests, (M,), doubly robust; NaN if it was never drawn."""
    values, known = requests.first[measure], np.isfinite(requests.first[measure])
    found = np.full(len(requests.agents), np.nan)
    if not known.any():
        return found
    logged = replace(requests.logged.rows(known), reward=values[known])
    q = out_of_fold(logged)
    for agent, always in enumerate(np.eye(len(found))):
        able = logged.propensities[:, agent] > 0.0
        if (able & (logged.agent == agent)).any():
            found[agent] = doubly_robust(logged.rows(able), np.tile(always, (int(able.sum()), 1)), q[able]).mean()
    return found


def _difference(
    requests: ServedRequests,
    measure: str,
    target: Floats,
    *,
    able: Bools,
    confidence: float,
    least: float = _LEAST_EFFECTIVE,
) -> Difference | None:
    """The router minus the target in one measure; None if the measure is rarely known."""
    first, served = requests.first[measure], requests.served[measure]
    rows = able & np.isfinite(first) & np.isfinite(served)
    if rows.sum() < least:
        return None
    logged = replace(requests.logged.rows(rows), reward=first[rows])
    if support(logged, target[rows]).effective_n < least:
        return None
    other = doubly_robust(logged, target[rows], out_of_fold(logged))
    gap = served[rows] - other
    return _interval(float(gap.mean()), float(gap.std(ddof=1)) / math.sqrt(len(gap)), confidence)


def _modelled_dollars(requests: ServedRequests, target: Floats, confidence: float) -> tuple[Difference | None, int]:
    """Dollars of the router less those of the target by its own answers to like requests, and how many these are.

    It needs no chance: what an agent asks for depends on the request, not on why the agent was chosen. So the share
    of the requests that an agent got stands for its propensities.
    """
    logged, known = requests.logged, np.isfinite(requests.first["usd"]) & np.isfinite(requests.served["usd"])
    answers = np.bincount(logged.agent[known], minlength=len(requests.agents))
    least = int(answers[target[0] > 0.0].min())
    if least < _LEAST_DIFFERENT or not requests.served["usd"][known].any():
        return None, least
    shares = np.tile(answers / known.sum(), (len(requests), 1))
    got = replace(requests, logged=replace(logged, propensities=shares))
    usd = _difference(got, "usd", target, able=known, confidence=confidence, least=0.9 * _LEAST_DIFFERENT)
    return usd, least


def _advice(p: Floats, shares: Floats, found: Support) -> str:
    """How many more requests make an interval, at the newest propensities and at a higher floor; p is (n, M)."""
    n, m = p.shape
    if n == 0:
        return "it was never eligible"
    inverse = (shares[shares > 0.0] ** 2 / p[:, shares > 0.0]).sum(axis=1)
    so_far = max(float(inverse.sum()), n * n / found.effective_n if found.effective_n else 0.0)
    lately = float((shares**2).sum() / inverse[-_NEWEST:].mean())

    def more(propensity: float) -> str:  # k with (n + k)^2 = 50 (so_far + k each)
        half = _LEAST_EFFECTIVE * float((shares**2).sum()) / propensity / 2.0 - n
        k = half + math.sqrt(max(0.0, half * half + _LEAST_EFFECTIVE * so_far - n * n))
        return f"{max(1, int(float(f'{k:.2g}'))):,}"

    text = f"drawn as lately (probability {lately:.2g}), that takes about {more(lately)} more"
    higher = next((each for each in _FLOORS if each / m > 2.0 * lately), None)
    return text if higher is None else f"{text}, at a floor of {higher:g} about {more(higher / m)}"


def _mixed_interval(gap: Floats, different: int, n: int, confidence: float) -> Difference:
    """Mean over ``n`` requests of which ``different`` may differ, and ``gap`` is known of some of these."""
    share, mean = different / n, float(gap.mean()) if len(gap) else 0.0
    spread = float(gap.var(ddof=1)) / len(gap) if len(gap) > 1 else 0.0
    return _interval(share * mean, math.sqrt(share**2 * spread + mean**2 * share * (1.0 - share) / n), confidence)


def _interval(value: float, error: float, confidence: float) -> Difference:
    half = quantile(confidence) * error
    return Difference(value, value - half, value + half)


def _shares(agents: tuple[str, ...], target: Floats | str) -> Floats:
    if not isinstance(target, str):
        return np.asarray(target, dtype=float)
    if target not in agents:
        raise InvalidInputError("against", f"{target!r} is not in the log", f"choose from {', '.join(agents)}")
    return np.array([float(name == target) for name in agents])


def _sum(known: Mapping[str, float], chain: list[str]) -> float:
    found = [known[each] for each in chain if each in known]
    return math.fsum(found) if found else math.nan


def dollars(value: float, scale: float | None = None) -> str:
    """Dollars with cents, or with two digits of what is less than ten cents; ``scale`` is such a number beside it.

    Examples
    --------
    >>> dollars(1234.5), dollars(0.000237), dollars(-4e-9), dollars(0.5, 0.012)
    ('1,234.50', '0.00024', '0.00', '0.500')
    """
    size = round(abs(value if scale is None else scale), 6)
    places = 1 - math.floor(math.log10(size)) if 0.0 < size < 0.1 else 2
    return f"{round(value, places) + 0.0:,.{places}f}"


def _half(interval: Difference) -> float:
    return 0.5 * (interval.high - interval.low)
