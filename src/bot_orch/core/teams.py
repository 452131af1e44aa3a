"""Teams: ask an agent, look at its answer, then accept it or ask another one.

A round is a sequence of steps. What an answer is worth is the probability that it is right:

- alone, logit e_i = mu + b_i + (kappa + k_i) z_i + curve (z_i^2 - 1) + l_i + check + context + difficulty; l_i is an
  effect of the agent's label, because many classifiers are surer of one class than of another; z_i is the rank of
  the answer's signal among the agent's own signals, scaled to variance one, so that agents can be compared. Context is
  how much better than usual the policy expects the agent to be on this task, difficulty the mean z of the answers
  before this one: an agent that is asked second is asked about harder tasks;
- given other answers, logit = x_0 + x_1 e_i + sum over equal answers of (g_0 + g_1 e_j) + sum over different ones of
  (h_0 + h_1 e_j), with the same coefficients for every pair of agents. Answers that cannot be compared count by how
  much surer or less sure than usual they are.

Asking agent j gains where its answer is more probable than the best one so far:

    G_j = E[(P_j - P_best)^+] - cost_j

over the distribution of j's next signal, tilted by the signals of this round (difficulty is common to agents). Whether
the answers will be equal cancels out: P(differ) (P(j right | differ) - P(best right | differ)) = P_j - P_best, because
two equal answers are right or wrong together. This is the amount by which Weitzman's reservation value exceeds the best
answer, so G_j > 0 is his rule for opening a box [1]_.
The first step compares whole rounds: asking j first is worth E[P_j + max(0, max_k G_k)], plus a bias per first agent,
which is learned from what its rounds earn, times the share of its calls that j answers, less the cost of j. Exploration
is coupled RandUCB on the ability b_j and that bias, so that what is learned of an agent that was asked second counts,
too.

All coefficients have Gaussian beliefs, updated by one step of the extended Kalman filter per verdict. A verdict on the
delivered answer is one on every equal answer, and if it is right and answers are labels, on every different one; an
answer of unknown verdict counts as its probability given the verdict, with the information of a verdict less what is
missing [2]_; counted in full, agents whose answers are rarely delivered would look well known.

References
----------
.. [1] Weitzman. Optimal search for the best alternative. Econometrica 47 (1979).
.. [2] Louis. Finding the observed information matrix when using the EM algorithm. JRSS B 44 (1982).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from bot_orch.arrays import Arrays, Bools, Field, Floats, Ints, Schema, allocate
from bot_orch.numerics.choice import with_uniform_share
from bot_orch.numerics.choice import coupled_randucb
from bot_orch.types import Answer

RECENT = 0.05  # rate of the share of an agent's calls that are answered
KEPT, GRID = 128, 6  # signals kept per agent, and points of their distribution
BIAS_VAR, NOISE = 1e-4, 0.15  # of the expected worth of rounds by first agent: its error, and the spread of earnings
LABELS, LABEL_VAR = 64, 0.5  # labels that are told apart; prior variance of what a label says of its answer
# optimism: the root mean square of the random multiple of the standard deviation of a worth, and of a later gain
FIRST_SCALE, SCALE = 0.8, 0.1
SHORT = 8  # agents that a round of two steps is looked at for
# 1, z, z^2 - 1, check, context, difficulty
# a check is trusted until rewards show that it errs
_COMMON, _COMMON_VAR = (1.0, 1.0, 0.0, 2.5, 1.0, 0.3), (2.0, 0.5, 0.05, 2.0, 0.1, 0.1)
_CROSS, _CROSS_VAR = (0.0, 1.0, 0.3, 0.5, -0.5, -0.5), (0.1, 0.05, 0.25, 0.1, 0.25, 0.1)
_OTHER, _OTHER_VAR = (0.0, 1.0, 0.3), (0.1, 0.05, 0.1)
_ROOT12 = math.sqrt(12.0)  # the standard deviation of a rank in [0, 1] is its inverse
_ONE, _ALL = np.ones(1), slice(None)
TRUSTED = 20.0  # answers of an agent after which half of the context counts
_LEVELS = (np.arange(GRID) + 0.5) / GRID
_LOW, _HIGH = -2.0, 5.0  # logits of other answers are clipped
_PSEUDO_RANKS, _TIE = 2.0, 1e-6  # an answer that adds nothing is not asked for, even if it is free

_one: dict[str, Any] = {"per_agent": False}
SCHEMA: Schema = {
    "own": Field(shape=(2,)),
    "own_cov": Field(shape=(2, 2), fill=(1.0, 0.3), identity=True),
    "label": Field(shape=(LABELS,)),
    "label_var": Field(shape=(LABELS,), fill=LABEL_VAR),
    "label_count": Field(shape=(LABELS,)),
    "signals": Field(shape=(KEPT,), fill=math.inf),
    "points": Field(shape=(GRID,), fill=tuple(_LEVELS.tolist())),
    "heard": Field(),
    "answered": Field(),
    "checked": Field(),
    "passed": Field(),
    "lessons": Field(),
    "answering": Field(fill=1.0),
    "bias": Field(),
    "bias_var": Field(fill=BIAS_VAR),
    "usual": Field(fill=math.nan),
    "common": Field(shape=(6,), fill=_COMMON, **_one),
    "common_cov": Field(shape=(6, 6), fill=_COMMON_VAR, identity=True, **_one),
    "cross": Field(shape=(6,), fill=_CROSS, **_one),
    "cross_cov": Field(shape=(6, 6), fill=_CROSS_VAR, identity=True, **_one),
    "other": Field(shape=(3,), fill=_OTHER, **_one),
    "other_cov": Field(shape=(3, 3), fill=_OTHER_VAR, identity=True, **_one),
    "alike": Field(shape=(2,), fill=(2.0, 5.0), **_one),
}
# for answers with outputs: the slope of W to the task's reference; count, sum and sum of squares of that W; count and
# sum of W between outputs without labels
_OUTPUT_SCHEMA: Schema = {
    "distance": Field(shape=(1,), fill=-0.3, **_one),
    "distance_cov": Field(shape=(1, 1), fill=0.3, identity=True, **_one),
    "distances": Field(shape=(3,), **_one),
    "apart": Field(shape=(2,), **_one),
}


@dataclass(slots=True, eq=False)
class Seen:
    """The answers of a round as arrays: places of their agents, signals, checks, estimates and equality.

    ``estimate`` is the policy's of the agents on this task. ``similar`` is 1 for equal answers, 0 for different ones,
    NaN where two answers cannot be compared; of outputs it falls with their W. ``equal`` is what the verdict on one
    implies for the other: 1 the same, 0 that at most one is right, NaN nothing. ``label`` is the place of an answer's
    label, -1 without one. ``distance`` is W to the task's reference, standardised, 0 where unknown.
    ``comparable``: none of ``similar`` is NaN. ``exclusive``: at most one of two different answers is right.
    """

    at: Ints
    signal: Floats
    check: Floats
    estimate: Floats
    similar: Floats
    label: Ints
    equal: Floats
    distance: Floats
    comparable: bool = False
    exclusive: bool = False


@dataclass(slots=True, eq=False)
class Step:
    """Options of a step: probabilities over agents (ask, or accept an earlier answer), and values."""

    propensities: Floats
    estimate: Floats
    exploration: Floats


@dataclass(slots=True, eq=False)
class _View:
    """Logits of the answers of a round, each alone and given the others, and the features of both."""

    z: Floats
    alone: Floats
    logit: Floats
    features: Floats
    _: KW_ONLY
    context: Floats
    difficulty: Floats


def see_all(answers: Sequence[Answer], places: Sequence[int], state: Arrays | None = None) -> Seen:
    """Answers as arrays; ``places`` are the indices of their agents, ``state`` has the usual W of outputs."""
    signal = np.array([math.nan if each.signal is None else each.signal for each in answers])
    check = np.array([0.0 if each.check is None else 2.0 * each.check - 1.0 for each in answers])
    estimate = np.array([math.nan if each.estimate is None else each.estimate for each in answers])
    equal = np.array([[_equal(a, b) for b in answers] for a in answers]).reshape(len(answers), len(answers))
    similar, distance = equal, np.zeros(len(answers))
    if any(each.apart or each.distance is not None for each in answers):
        known = {} if state is None else state
        similar, distance = _similarity(known, answers, equal), _standardised(known, answers)
        equal = np.where(np.isnan(equal) & (similar == 1.0), 1.0, equal)
    exclusive = all(each.label is not None for each in answers)
    at = np.array(places, dtype=int)
    label = np.array([each.label % LABELS if isinstance(each.label, int) else -1 for each in answers], dtype=int)
    comparable = not np.isnan(similar).any()
    return Seen(at, signal, check, estimate, similar, label, equal, distance, comparable, exclusive)


def _part(seen: Seen, of: Ints) -> Seen:
    similar = seen.similar[np.ix_(of, of)]
    rest = (seen.signal[of], seen.check[of], seen.estimate[of], similar, seen.label[of], seen.equal[np.ix_(of, of)])
    return Seen(seen.at[of], *rest, seen.distance[of], not np.isnan(similar).any(), seen.exclusive)


def _similarity(state: Arrays, answers: Sequence[Answer], equal: Floats) -> Floats:
    """How alike answers are: 1 at W = 0; 1 - W for label distributions, else exp(-W / mean W); equality without W."""
    similar, usual = equal.copy(), _mean(state.get("apart", np.zeros(2)))
    np.fill_diagonal(similar, 1.0)
    for j, later in enumerate(answers):
        for i, w in enumerate(later.apart):
            if not math.isnan(w):
                labels = later.label is not None and answers[i].label is not None
                found = max(1.0 - w, 0.0) if labels else math.exp(-w / (usual or w or 1.0))
                similar[i, j] = similar[j, i] = found
    return similar


def _standardised(state: Arrays, answers: Sequence[Answer]) -> Floats:
    """W to the task's reference in standard deviations from its mean, (n,); 0 where unknown."""
    n, total, squares = state.get("distances", np.zeros(3)).tolist()
    spread = math.sqrt(max(squares / n - (total / n) ** 2, 0.0)) if n > 1.0 else 0.0
    found = [0.0 if each.distance is None or not spread else (each.distance - total / n) / spread for each in answers]
    return _clip(np.array(found), -3.0, 3.0)


def _mean(sums: Floats) -> float:
    """The mean of a count and a sum; 0 for none."""
    return float(sums[1] / sums[0]) if sums[0] else 0.0


def hear_output(state: Arrays, answer: Answer) -> None:
    """Learn how far the newest answer of a round lies from the task's reference and from the answers before it."""
    if answer.distance is None and not answer.apart:
        return
    for name, values in allocate(_OUTPUT_SCHEMA, (), 0).items():
        state.setdefault(name, values)
    if answer.distance is not None:
        state["distances"] += 1.0, answer.distance, answer.distance**2
    if answer.label is None:
        known = [w for w in answer.apart if not math.isnan(w)]
        state["apart"] += len(known), sum(known)


def _equal(a: Answer, b: Answer) -> float:
    if a.label is not None and b.label is not None:
        return float(a.label == b.label)
    if a.key is not None and b.key is not None:
        return float(a.key == b.key)
    return math.nan


def next_step(
    state: Arrays,
    seen: Seen,
    *,
    estimate: Floats,
    penalty: Floats,
    eligible: Bools | None,
    left: int,
    floor: float,
) -> Step:
    """The next step of a round after its first answer: no side effects. An answer that passed its check is accepted.

    Otherwise the answer to accept is the most probable one given the others, a log-opinion pool with learned weights.
    ``estimate`` is the policy's for this task, ``penalty`` what asking each agent costs in units of reward, ``left``
    how many more agents may be asked.
    """
    view, m = _view(state, seen), len(estimate)
    asked = np.zeros(m, dtype=bool)
    asked[seen.at] = True
    passed = np.flatnonzero(seen.check == 1.0)
    best = int(passed[np.argmax(view.logit[passed])]) if passed.size else int(np.argmax(view.logit))
    worth = _expit(view.logit[best])
    free = ~asked if eligible is None else ~asked & eligible
    values, spread = np.full(m, worth), np.zeros(m)
    values[seen.at] = _expit(view.logit)
    accepted = int(seen.at[best])
    if passed.size or left <= 0 or not free.any():
        p = np.zeros(m)
        p[accepted] = 1.0
        return Step(p, values, spread)
    gain, spread = _gains(state, seen, view, best=best, context=_context(state, estimate))
    values = np.where(asked, values, worth + gain)
    spread = np.where(free, SCALE * spread, 0.0)
    actions = free.copy()
    actions[accepted] = True
    p = coupled_randucb(values - np.where(asked, 0.0, penalty + _TIE), spread, actions)
    return Step(with_uniform_share(p, floor, actions), values, spread)


def first_step(state: Arrays, *, estimate: Floats, penalty: Floats, eligible: Bools | None, floor: float) -> Step:
    """The first step of a round: the agent with which the best round of two steps begins; no side effects.

    Arguments are those of :func:`next_step`. Exploration is that of the ability of an agent.
    """
    context = _context(state, estimate)
    z, check, weight = _points(state)
    e = _evidence(state, np.arange(len(estimate)), z, check, context) + _label_effect(state)[:, None]
    p = _expit(e)
    value = (weight * p).sum(axis=1)
    spread = FIRST_SCALE * (weight * p * (1.0 - p)).sum(axis=1) * np.sqrt(_intercept_variance(state))
    actions = np.ones(len(estimate), dtype=bool) if eligible is None else eligible
    most = np.where(actions, value + spread - penalty, -np.inf)
    among = np.sort(np.argsort(-most, kind="stable")[: min(SHORT, int(actions.sum()))])
    going_on = weight[among] * (check[among] < 1.0)  # a passed check ends the round
    value[among] += _later_gains(state, e[among], z[among], weight[among], going_on=going_on, penalty=penalty[among])
    value = state["answering"] * (value + state["bias"])
    spread = np.where(actions, np.hypot(spread, FIRST_SCALE * np.sqrt(state["bias_var"])), 0.0)
    chance = coupled_randucb(value - penalty, spread, actions)
    return Step(with_uniform_share(chance, floor, actions), value, spread)


def _later_gains(state: Arrays, e: Floats, z: Floats, weight: Floats, *, going_on: Floats, penalty: Floats) -> Floats:
    """Expected gain of asking a second agent if that pays, by first agent, (M,); evidence at their points, (M, K).

    ``going_on`` are the weights of the points of a first answer after which a second one may be asked for.
    """
    m, k = e.shape
    before = (m * k, 1, 1)
    later = e + float(state["common"][5]) * z.reshape(before)  # (first agent and point, second agent, point)
    shares = weight * np.exp(_tilt(state) * z.reshape(before) * z)
    surplus = np.maximum(_expit(later) - _expit(e).reshape(before), 0.0)
    gain = (shares * surplus).sum(axis=2) / shares.sum(axis=2) - penalty - _TIE
    gain = gain.reshape(m, k, m)
    gain[np.arange(m), :, np.arange(m)] = 0.0
    return np.asarray((going_on * np.maximum(gain.max(axis=2), 0.0)).sum(axis=1))


def _gains(state: Arrays, seen: Seen, view: _View, *, best: int, context: Floats) -> tuple[Floats, Floats]:
    """Expected gain of each agent's answer over the best one so far, before its cost, with uncertainty, (M,)."""
    m = len(state["lessons"])
    z, check, weight = _points(state)
    mean = float(view.z.mean())
    e = _evidence(state, np.arange(m), z, check, context) + float(state["common"][5]) * mean
    e += _label_effect(state)[:, None]
    if not seen.comparable:
        o0, o1, o2 = state["other"].tolist()
        e = o0 + o1 * e + o2 * _surprise(state, seen, view).sum()
    theirs = _expit(e)
    gain = np.maximum(theirs - _expit(view.logit[best]), 0.0)
    shares = weight * np.exp(_tilt(state) * mean * z)
    shares /= shares.sum(axis=1, keepdims=True)
    slope = ((gain > 0.0) * shares * theirs * (1.0 - theirs)).sum(axis=1)
    return (gain * shares).sum(axis=1), slope * np.sqrt(_intercept_variance(state))


def _context(state: Arrays, estimate: Floats, at: Ints | slice = _ALL) -> Floats:
    """How much more than usual the policy expects of agents, in logits; less of it for those with few answers.

    Early estimates of a policy are of agents rather than of tasks, and change with every reward.
    """
    trust = state["answered"][at] / (state["answered"][at] + TRUSTED)
    more = _logit(estimate) - state["usual"][at]
    return np.asarray(np.where(np.isnan(more), 0.0, trust * more))


def _view(state: Arrays, seen: Seen) -> _View:
    n, z = len(seen.at), _rank(state, seen.at, seen.signal)
    context = _context(state, seen.estimate, seen.at)
    difficulty = np.zeros(n)
    if n > 1:
        difficulty[1:] = np.cumsum(z)[:-1] / np.arange(1, n)
    alone = _evidence(state, seen.at, z[:, None], seen.check[:, None], context)[:, 0]
    if "distance" in state:
        alone += state["distance"] * seen.distance
    alone += state["common"][5] * difficulty + np.where(seen.label < 0, 0.0, state["label"][seen.at, seen.label])
    view = _View(z, alone, alone, np.empty((n, 0)), context=context, difficulty=difficulty)
    if n == 1:
        return view
    if seen.comparable:
        off = 1.0 - np.eye(n)
        same, apart, e = seen.similar * off, (1.0 - seen.similar) * off, _clip(alone, _LOW, _HIGH)
        columns = (np.ones(n), alone, same.sum(axis=1), same @ e, apart.sum(axis=1), apart @ e)
        view.features = np.stack(columns, axis=1)
        view.logit = view.features @ state["cross"]
    else:
        surprise = _surprise(state, seen, view)
        view.features = np.stack([np.ones(n), alone, surprise.sum() - surprise], axis=1)
        view.logit = view.features @ state["other"]
    return view


def _surprise(state: Arrays, seen: Seen, view: _View) -> Floats:
    """How much more certain than usual for its agent each answer is, (n,)."""
    z, check, weight = (each[seen.at] for each in _points(state))
    e = _evidence(state, seen.at, z, check, view.context)
    return np.asarray(view.alone - (e * weight).sum(axis=1))


def _points(state: Arrays) -> tuple[Floats, Floats, Floats]:
    """The distribution of each agent's next signal and check: values of z and check, and weights, (M, K) each."""
    z = (state["points"] - 0.5) * _ROOT12
    mute = (state["answered"] > 0.0) & (state["heard"] == 0.0)
    if mute.any():
        z = np.where(mute[:, None], 0.0, z)
    weight = np.full(z.shape, 1.0 / GRID)
    if not state["checked"].any():
        return z, np.zeros(z.shape), weight
    passes = ((state["passed"] + 1.0) / (state["checked"] + 2.0))[:, None]
    check = np.repeat([[-1.0, 1.0]], GRID, axis=1) * np.ones((len(z), 1))
    return np.hstack([z, z]), check, np.hstack([weight * (1.0 - passes), weight * passes])


def _evidence(state: Arrays, at: Ints, z: Floats, check: Floats, context: Floats) -> Floats:
    """Logits of single answers, (n, K), of agents ``at`` with these z and checks; without difficulty."""
    mu, kappa, curve, checked, weight, _ = state["common"].tolist()
    own = state["own"][at]
    base = mu + own[:, 0] + weight * context
    e: Floats = base[:, None] + (kappa + own[:, 1])[:, None] * z + curve * _curve(z)
    if check.any():
        e += checked * check
    return e


def _label_effect(state: Arrays) -> Floats:
    """Mean effect of each agent's next label, (M,)."""
    count = state["label_count"]
    total = np.einsum("ij,ij->i", count, state["label"])
    return np.asarray(total / np.maximum(np.add.reduce(count, axis=1), 1.0))


def _curve(z: Floats) -> Floats:
    return np.where(z != 0.0, z * z - 1.0, 0.0)  # 0: no signal


def _intercept_variance(state: Arrays) -> Floats:
    return np.asarray(state["common_cov"][0, 0] + state["own_cov"][:, 0, 0])


def _tilt(state: Arrays) -> float:
    """Strength of the tilt: of a Gaussian copula with the correlation of the signals in a round."""
    found, n = state["alike"].tolist()
    rho = min(max(found / n, 0.0), 0.8)
    return float(rho / (1.0 - rho * rho))


def _rank(state: Arrays, at: Ints, signal: Floats) -> Floats:
    """Ranks of signals among the last ones of their agents, with variance one; 0 without a signal."""
    kept, n = state["signals"][at], np.minimum(state["heard"][at], KEPT)
    below = (kept < signal[:, None]).sum(axis=1) + 0.5 * (kept == signal[:, None]).sum(axis=1)
    rank = (below + _PSEUDO_RANKS * _clip(signal, 0.0, 1.0)) / (n + _PSEUDO_RANKS)
    return np.where(np.isnan(signal), 0.0, (rank - 0.5) * _ROOT12)


def hear(state: Arrays, seen: Seen) -> None:
    """Learn the newest answer of a round before any verdict: its signal, its label and its check."""
    at, last = int(seen.at[-1]), len(seen.at) - 1
    if last and not math.isnan(seen.signal[last]):
        z = _rank(state, seen.at, seen.signal)
        mean = float(z[:-1].mean())
        state["alike"] += mean * float(z[last]), mean * mean
    state["answered"][at] += 1.0
    state["answering"][at] += RECENT * (1.0 - state["answering"][at])
    if seen.label[last] >= 0:
        state["label_count"][at, seen.label[last]] += 1.0
    known, usual = float(_logit(seen.estimate[last])), float(state["usual"][at])
    if not math.isnan(known):
        state["usual"][at] = known if math.isnan(usual) else usual + 0.02 * (known - usual)
    if seen.check[last]:
        state["checked"][at] += 1.0
        state["passed"][at] += seen.check[last] > 0.0
    if not math.isnan(seen.signal[last]):
        _keep_signal(state, at, float(seen.signal[last]))


def _keep_signal(state: Arrays, at: int, signal: float) -> None:
    kept = state["signals"][at]
    kept[int(state["heard"][at]) % KEPT] = signal
    state["heard"][at] += 1.0
    n = min(int(state["heard"][at]), KEPT)
    line = np.sort(kept)
    values = line[(_LEVELS * n).astype(int)]
    below = 0.5 * (np.searchsorted(line, values, "left") + np.searchsorted(line, values, "right"))
    state["points"][at] = (below + _PSEUDO_RANKS * _LEVELS) / (n + _PSEUDO_RANKS)


def learn(state: Arrays, seen: Seen, *, delivered: int, reward: float) -> None:
    """Learn the reward of the delivered answer, a position in ``seen``, and its implications for the others."""
    view, known = _view(state, seen), _verdicts(seen, delivered, reward)
    p = _expit(view.logit)
    wrong = seen.exclusive and reward < 0.5
    expected = np.minimum(p / max(1.0 - float(p[delivered]), 0.05), 1.0) if wrong else p
    target = np.where(np.isnan(known), expected, known)
    for position in range(len(seen.at)):
        _learn_alone(state, seen, view, position, float(target[position]))
        if len(seen.at) > 1 and (seen.exclusive or not math.isnan(known[position])):
            _learn_beside(state, seen, view, position, float(target[position]))


def teach(state: Arrays, seen: Seen, rewards: Floats) -> None:
    """Learn evaluated answers to one task, all with rewards, as rounds of two agents in the order of ``seen``.

    Every answer counts once, as the first or the second of a round, with the verdicts on both. They tell nothing of the
    policy's estimates: the trust in the context begins as it does without them.
    """
    answered = np.maximum(state["answered"], 1.0)
    for begin in range(0, len(seen.at), 2):
        pair = np.arange(begin, min(begin + 2, len(seen.at)))
        for end in range(1, len(pair) + 1):
            hear(state, _part(seen, pair[:end]))
        both = _part(seen, pair)
        view = _view(state, both)
        for position, reward in enumerate(rewards[pair].tolist()):
            _learn_alone(state, both, view, position, reward)
            if len(pair) > 1:
                _learn_beside(state, both, view, position, reward)
    state["answered"] = np.minimum(state["answered"], answered)


def learn_loss(state: Arrays, agent: int) -> None:
    """Learn that an agent that was asked gave no answer."""
    state["answering"][agent] *= 1.0 - RECENT


def learn_earning(state: Arrays, first: int, surprise: float) -> None:
    """Learn by how much a round earned more than was expected of its first agent, before the cost of that."""
    gain = float(state["bias_var"][first]) / (float(state["bias_var"][first]) + NOISE)
    state["bias"][first] += gain * surprise
    state["bias_var"][first] *= 1.0 - gain


def _learn_alone(state: Arrays, seen: Seen, view: _View, position: int, y: float) -> None:
    at, z, check = int(seen.at[position]), float(view.z[position]), float(seen.check[position])
    curve = z * z - 1.0 if z else 0.0
    shared = np.array([1.0, z, curve, check, view.context[position], view.difficulty[position]])
    blocks = [
        (state["common"], state["common_cov"], shared),
        (state["own"][at], state["own_cov"][at], np.array([1.0, z])),
    ]
    if seen.label[position] >= 0:
        label = (at, slice(seen.label[position], seen.label[position] + 1))
        blocks.append((state["label"][label], state["label_var"][label][:, None], _ONE))
    if "distance" in state and seen.distance[position]:
        blocks.append((state["distance"], state["distance_cov"], seen.distance[position : position + 1]))
    _update(blocks, y)
    state["lessons"][at] += 1.0


def _learn_beside(state: Arrays, seen: Seen, view: _View, position: int, y: float) -> None:
    name = "cross" if seen.comparable else "other"
    _update([(state[name], state[f"{name}_cov"], view.features[position])], y)


def _verdicts(seen: Seen, delivered: int, reward: float) -> Floats:
    """Rewards of all answers implied by the reward of one; NaN where unknown."""
    equal = seen.equal[delivered]
    known = np.where(equal == 1.0, reward, np.nan)
    if seen.exclusive and reward == 1.0:
        known = np.where(equal == 0.0, 0.0, known)
    known[delivered] = reward
    return known


def _update(blocks: Sequence[tuple[Floats, Floats, Floats]], y: float) -> None:
    """One step of the extended Kalman filter of a logistic model, in place.

    Blocks are means, covariances and features; covariances between blocks are taken as zero.
    """
    gains = [cov @ x for _, cov, x in blocks]
    eta = sum(float(mean @ x) for mean, _, x in blocks)
    variance = sum(float(x @ gain) for (_, _, x), gain in zip(blocks, gains, strict=True))
    p = float(_expit(eta / math.sqrt(1.0 + math.pi / 8.0 * variance)))
    h = _information(p, y)
    for (mean, cov, _), gain in zip(blocks, gains, strict=True):
        mean += gain * ((y - p) / (1.0 + h * variance))
        cov -= np.outer(gain, gain) * (h / (1.0 + h * variance))


def _information(p: float, y: float) -> float:
    """Fisher information of an outcome: what a verdict would give, less what is missing if y is a probability."""
    return max(p * (1.0 - p), 0.02) if y in (0.0, 1.0) else max(p * (1.0 - p) - y * (1.0 - y), 0.0)


def _clip(x: Floats | float, low: float, high: float) -> Floats:
    return np.minimum(np.maximum(x, low), high)  # np.clip takes ten times as long for a few numbers


def _expit(x: Floats | float) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-_clip(x, -30.0, 30.0))))


def _logit(p: Floats) -> Floats:
    clipped = _clip(p, 0.02, 0.98)
    return np.asarray(np.log(clipped / (1.0 - clipped)))
