"""Several attempts at one task: ask an agent, look at its answer, then deliver an answer or ask another agent.

How probable it is that an answer is right is one logistic regression of the verdicts so far:

    logit P = (w0 + a_i) + (w1 + b_i) z + w2 c + w3 h + g0 (number of equal answers) + g1 (number of different ones)

- z: log odds of the signal, standardised by the mean and spread of those of the agent, so that agents can be compared;
- c: the check, from -1 (failed) to 1 (passed), 0 without one;
- h: the mean z of the answers before this one: an agent that is asked second is asked about harder tasks;
- a_i, b_i: the agent's own calibration. A priori it is 0, so that few verdicts leave an agent at that of all agents.

Coefficients have independent Gaussian beliefs, updated by one step of an extended Kalman filter per verdict. A verdict
on the delivered answer is one on every equal answer, and where labels exclude each other, a right one on every
different answer. Any other answer counts as its probability given the verdict, with the information of a verdict less
what is missing [1]_: learned from delivered answers alone, agents would look as good as their best answers.

Asking agent j gains E[(P_j - P_best)^+], less its price: Weitzman's rule for opening a box [2]_. Whether the two
answers will be equal cancels out, because equal answers are right or wrong together. A gain that ties with nothing
delivers; so does an answer that passed its check.

References
----------
.. [1] Louis. Finding the observed information matrix when using the EM algorithm. JRSS B 44 (1982).
.. [2] Weitzman. Optimal search for the best alternative. Econometrica 47 (1979).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bot_orch.arrays import Arrays, Bools, Field, Floats, Schema
from bot_orch.checks import check_count
from bot_orch.core.warm import Evaluations, WarmStart, row_lessons
from bot_orch.errors import InvalidInputError, require_type
from bot_orch.policies.auto import Auto
from bot_orch.policies.base import Choice
from bot_orch.records import builder
from bot_orch.types import Answer, Decision, Outcome

if TYPE_CHECKING:
    from bot_orch.core.engine import Engine, Observation
    from bot_orch.core.roster import Roster
    from bot_orch.core.state import State

Chooser = Callable[[Floats, Bools | None], Choice]

OPTIMISM = 0.3  # exploration of the first step, in standard deviations of an agent's intercept
TIE = 0.005  # what a further answer must gain, as in `bot_orch.numerics.choice`; twice that at the largest idle price
RECENT = 0.05  # weight of an agent's last answer in what its next one is expected to tell
SOFT, LEAST_SD, MOST = 1e-3, 0.1, 2.5  # of log odds: their limits, the least standard deviation, and the largest z
_Z = np.arange(-3.0, 4.0) * 0.5  # values of z that the next signal of an agent may have
# of 1, z, c and h; a check is trusted until verdicts show that it errs
_WEIGHTS, _WEIGHTS_VAR = (1.0, 1.0, 2.5, 0.3), (2.0, 0.5, 2.0, 0.1)

SCHEMA: Schema = {
    "own": Field(shape=(2,)),
    "own_var": Field(shape=(2,), fill=(1.0, 0.5)),
    "signal": Field(shape=(3,), fill=(0.0, 0.0, 4.0)),  # number, mean and variance of log odds
    "shares": Field(shape=(len(_Z),), fill=1.0 / len(_Z)),  # how often a signal had each z
    "checks": Field(shape=(2,), fill=(2.0, 1.0)),  # checked and passed, and one of either before the first
    "answering": Field(fill=1.0),
    "weights": Field(shape=(4,), fill=_WEIGHTS, per_agent=False),
    "weights_var": Field(shape=(4,), fill=_WEIGHTS_VAR, per_agent=False),
    "agreement": Field(shape=(2,), fill=(0.3, -0.3), per_agent=False),
    "agreement_var": Field(shape=(2,), fill=0.25, per_agent=False),
    "lessons": Field(per_agent=False),
}

_answer = builder(Answer)


@dataclass(frozen=True, slots=True)
class Round:
    """A round so far: its answers, and the number of agents it may ask."""

    seen: tuple[Answer, ...] = ()
    attempts: int = 1

    def __post_init__(self) -> None:
        check_count("attempts", self.attempts, "pass how many agents may be asked, 1 or more", low=1)
        for each in self.seen:
            require_type("seen", each, Answer, "pass answers: Answer(decision.agent, decision.id, ...)")
        if len({each.agent for each in self.seen}) < len(self.seen):
            raise InvalidInputError("seen", "has two answers of one agent", "pass the answer of each agent once")

    @property
    def left(self) -> int:
        """How many more agents may be asked."""
        return self.attempts - len(self.seen)


@dataclass(slots=True, eq=False)
class Seen:
    """The answers of a round as numbers: places of their agents, and the inputs of the regression.

    ``equal`` is 1 for two equal answers, 0 for different ones, NaN where they cannot be compared. ``exclusive``: at
    most one of two different answers is right.
    """

    at: list[int]
    z: list[float]
    check: list[float]
    before: list[float]
    equal: list[list[float]]
    exclusive: bool

    def agreeing(self, k: int) -> tuple[float, float]:
        """Numbers of other answers that equal answer ``k``, and that differ from it."""
        row = self.equal[k]
        return row.count(1.0) - 1.0, float(row.count(0.0))


def see(state: Arrays, answers: Sequence[Answer], places: Sequence[int]) -> Seen:
    """Answers as numbers; ``places`` are the indices of their agents."""
    z = [_standardised(state, i, each.signal) for i, each in zip(places, answers, strict=True)]
    check = [0.0 if each.check is None else 2.0 * each.check - 1.0 for each in answers]
    before = [sum(z[:k]) / k if k else 0.0 for k in range(len(z))]
    equal = [[1.0 if a is b else _equal(a, b) for b in answers] for a in answers]
    return Seen(list(places), z, check, before, equal, all(each.label is not None for each in answers))


def _equal(a: Answer, b: Answer) -> float:
    if a.label is not None and b.label is not None:
        return float(a.label == b.label)
    if a.key is not None and b.key is not None:
        return float(a.key == b.key)
    return math.nan


def _standardised(state: Arrays, agent: int, signal: float | None) -> float:
    if signal is None:
        return 0.0
    _, mean, variance = state["signal"][agent].tolist()
    z = (_log_odds(signal) - mean) / max(math.sqrt(variance), LEAST_SD)
    return float(min(max(z, -MOST), MOST))


def _log_odds(p: float) -> float:
    return math.log((p + SOFT) / (1.0 - p + SOFT))


def _right(logit: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-logit))


def _alone(state: Arrays, seen: Seen) -> list[float]:
    """Logits of answers without regard to agreement."""
    w0, w1, w2, w3 = state["weights"].tolist()
    own = [state["own"][i].tolist() for i in seen.at]
    rows = zip(own, seen.z, seen.check, seen.before, strict=True)
    return [w0 + a + (w1 + b) * z + w2 * c + w3 * h for (a, b), z, c, h in rows]


def _logits(state: Arrays, seen: Seen) -> list[float]:
    """Logits of answers given the others."""
    alone, (g0, g1) = _alone(state, seen), state["agreement"].tolist()
    counts = map(seen.agreeing, range(len(alone)))
    return [e + g0 * same + g1 * other for e, (same, other) in zip(alone, counts, strict=True)]


def _expected(state: Arrays, before: float = 0.0) -> tuple[Floats, Floats, Floats, Floats]:
    """What the next answer of each agent may tell: P(right) and weights, (M, K), z and check of the points, (K,)."""
    w0, w1, w2, w3 = state["weights"].tolist()
    z, check, share = _Z, np.zeros(len(_Z)), state["shares"]
    if state["checks"][:, 0].max() > 2.0:
        passing = state["checks"][:, 1:] / state["checks"][:, :1]
        z, check = np.concatenate((_Z, _Z)), np.repeat((-1.0, 1.0), len(_Z))
        share = np.concatenate((share * (1.0 - passing), share * passing), axis=1)
    logit = (state["own"][:, :1] + (w0 + w3 * before)) + (state["own"][:, 1:] + w1) * z
    return _right(logit + w2 * check), share, z, check


def first_step(state: Arrays, *, penalty: Floats, eligible: Bools | None, floor: float) -> Choice:
    """The agent with which the best round of two steps begins; no side effects.

    The second agent is the one that gains most by what its answers are worth on average. ``penalty`` is what asking
    costs in units of reward.
    """
    p, share, z, check = _expected(state)
    worth = np.add.reduce(share * p, axis=1)
    later = _right(np.log(worth / (1.0 - worth)) + state["weights"][3] * z[:, None]) - penalty  # (K, M)
    others = ~np.eye(len(worth), dtype=bool)[:, None]  # (first, 1, second)
    others = others if eligible is None else others & eligible
    best = np.maximum.reduce(np.where(others, later, -np.inf), axis=2)
    gain = np.maximum(best - p, 0.0) * (check < 1.0)
    value = state["answering"] * (worth + np.add.reduce(share * gain, axis=1))
    bonus = OPTIMISM * np.sqrt(state["own_var"][:, 0] + state["weights_var"][0]) * worth * (1.0 - worth)
    actions = _places(len(worth), eligible)
    score = (value + bonus - penalty).tolist()
    return Choice(_propensities(len(worth), max(actions, key=score.__getitem__), actions, floor), value, bonus)


def next_step(state: Arrays, seen: Seen, *, penalty: Floats, eligible: Bools | None, left: int, floor: float) -> Choice:
    """Accept the most probable answer, or ask the agent that gains most; no side effects.

    An answer that passed its check is accepted. ``left`` is how many more agents may be asked.
    """
    m, logit = len(penalty), _logits(state, seen)
    passed = [k for k, check in enumerate(seen.check) if check == 1.0]
    best = max(passed or range(len(logit)), key=logit.__getitem__)
    chosen, worth = seen.at[best], float(_right(logit[best]))
    free = [] if passed or left <= 0 else [i for i in _places(m, eligible) if i not in seen.at]
    value = np.full(m, worth)
    if free:
        p, share, _, _ = _expected(state, sum(seen.z) / len(seen.z))
        value += state["answering"] * np.add.reduce(share * np.maximum(p - worth, 0.0), axis=1)
        net = (value - penalty).tolist()
        most = max(free, key=net.__getitem__)
        chosen = most if net[most] > worth else chosen
    for at, each in zip(seen.at, logit, strict=True):
        value[at] = _right(each)
    return Choice(_propensities(m, chosen, [*free, seen.at[best]], floor), value, np.zeros(m))


def _places(m: int, eligible: Bools | None) -> Sequence[int]:
    return range(m) if eligible is None else np.flatnonzero(eligible).tolist()


def _propensities(m: int, chosen: int, actions: Sequence[int], floor: float) -> Floats:
    p = np.zeros(m)
    p[actions] = floor / len(actions)
    p[chosen] += 1.0 - floor
    return p


def hear(state: Arrays, seen: Seen, signal: float | None) -> None:
    """Learn the newest answer of a round before any verdict; ``signal`` is its own."""
    at, z, check = seen.at[-1], seen.z[-1], seen.check[-1]
    state["answering"][at] += RECENT * (1.0 - state["answering"][at])
    state["shares"][at] *= 1.0 - RECENT
    state["shares"][at, int(np.abs(_Z - z).argmin())] += RECENT
    if check:
        state["checks"][at] += 1.0, check > 0.0
    if signal is not None:
        n, mean, variance = state["signal"][at].tolist()
        rate, off = max(1.0 / (n + 3.0), 0.5 * RECENT), _log_odds(signal) - mean
        state["signal"][at] = n + 1.0, mean + rate * off, variance + rate * ((1.0 - rate) * off * off - variance)


def learn(state: Arrays, seen: Seen, *, delivered: int, reward: float) -> None:
    """Learn the reward of the delivered answer, a position in ``seen``, and what it implies for the others."""
    p, known = _right(np.array(_logits(state, seen))).tolist(), verdicts(seen, delivered, reward)
    wrong = seen.exclusive and reward < 0.5
    for k, verdict in enumerate(known):
        expected = min(p[k] / max(1.0 - p[delivered], 0.05), 1.0) if wrong else p[k]
        _learn(state, seen, k, expected if verdict is None else verdict, verdict is not None)


def verdicts(seen: Seen, delivered: int, reward: float) -> list[float | None]:
    """Rewards of all answers implied by the reward of one; None where unknown."""
    excluded = 0.0 if seen.exclusive and reward == 1.0 else None
    return [reward if same == 1.0 else excluded if same == 0.0 else None for same in seen.equal[delivered]]


def _learn(state: Arrays, seen: Seen, k: int, y: float, known: bool) -> None:
    """Learn a verdict on one answer, or the probability of one: alone, then what agreement adds."""
    at, x, alone = seen.at[k], np.array((1.0, seen.z[k], seen.check[k], seen.before[k])), _alone(state, seen)[k]
    own = (state["own"][at], state["own_var"][at], x[:2])
    _update([(state["weights"], state["weights_var"], x), own], y, known)
    state["lessons"] += 1.0
    agreeing = np.array(seen.agreeing(k))
    if (known or seen.exclusive) and agreeing.any():
        _update([(state["agreement"], state["agreement_var"], agreeing)], y, known, offset=alone)


def _update(blocks: Sequence[tuple[Floats, Floats, Floats]], y: float, known: bool, *, offset: float = 0.0) -> None:
    """One step of the extended Kalman filter of a logistic model, in place; blocks are means, variances and inputs."""
    eta = offset + sum(float(mean @ x) for mean, _, x in blocks)
    variance = sum(float(var @ (x * x)) for _, var, x in blocks)
    p = float(_right(eta / math.sqrt(1.0 + math.pi / 8.0 * variance)))
    information = max(p * (1.0 - p), 0.02) if known else max(p * (1.0 - p) - y * (1.0 - y), 0.0)
    step = 1.0 / (1.0 + information * variance)
    for mean, var, x in blocks:
        gain = var * x
        mean += gain * ((y - p) * step)
        var -= gain * gain * (information * step)


# What an orchestrator asks of this model.


def wanted(seen: Sequence[Answer], attempts: int) -> Round | None:
    """The round that a decision belongs to, labels and keys numbered as they appear; None for a round of one step."""
    if type(attempts) is int and attempts == 1 and type(seen) in (tuple, list) and not seen:  # the usual case
        return None
    require_type("seen", seen, Sequence, "pass a list of answers")
    found, labels, keys = Round(tuple(seen), attempts), dict[Any, int](), dict[Any, int]()
    numbered = []
    for each in found.seen:
        names = _number(each.label, labels), _number(each.key, keys)
        told = (each.signal, each.check, *names, each.cost_usd, each.elapsed_s)
        numbered.append(_answer(each.agent, each.decision, *told))
    return None if attempts == 1 and not numbered else replace(found, seen=tuple(numbered))


def _number(name: Any, known: dict[Any, int]) -> int | None:
    return None if name is None else known.setdefault(name, len(known))


@dataclass(slots=True)
class Step:
    """A step of a round. ``price`` are idle prices: no objective or constraint says what a dollar is worth."""

    engine: Engine
    state: State
    parts: dict[str, Arrays]
    roster: Roster
    round: Round
    price: Floats | None

    def choose(self, penalty: Floats, eligible: Bools | None) -> Choice:
        """Choose in place of the policy; no side effects."""
        part, floor, penalty = self.parts["cascade"], self.engine.settings.floor, penalty + TIE
        if self.price is not None:
            penalty += TIE * np.nan_to_num(self.price) / max(float(np.nanmax(self.price)), 1e-300)
        if not self.round.seen:
            return first_step(part, penalty=penalty, eligible=eligible, floor=floor)
        seen = see(part, self.round.seen, [self.roster.find(each.agent) for each in self.round.seen])
        choice = next_step(part, seen, penalty=penalty, eligible=eligible, left=self.round.left, floor=floor)
        choice.propensities = self._promised(choice, seen, eligible)
        return choice

    def _promised(self, choice: Choice, seen: Seen, eligible: Bools | None) -> Floats:
        """Propensities under a guarantee: an answer of the baseline is delivered, and one attempt is kept for it.

        A baseline that may not be asked changes nothing, nor does an answer that was asked for alone: the control share
        was drawn then.
        """
        guarantee, p, left = self.engine.settings.guarantee, choice.propensities, self.round.left
        if guarantee is None:
            return p
        index = self.roster.index[guarantee.baseline]
        if index in seen.at:
            return np.asarray(np.eye(len(p))[index])
        asked = self.state.pending.get(self.round.seen[0].decision)
        counted = left < 1 and asked is not None and asked.attempts == 1
        if counted or (eligible is not None and not eligible[index]):
            return p
        if left < 1:
            problem = f"leaves none for {guarantee.baseline}, whose answer the guarantee may need"
            raise InvalidInputError("attempts", problem, "pass in every step of a round how many agents it may ask")
        accept, part = seen.at[int(np.argmax(p[seen.at]))], self.parts["guarantee"]
        return guarantee.restrict_step(part, p, index, estimate=choice.estimate, accept=accept, left=left)


def step_of(
    engine: Engine, state: State, parts: dict[str, Arrays], roster: Roster, *, round_: Round, observed: Observation
) -> Step | None:
    """The step of a round that this model chooses; None where the policy does.

    That is so for the first step where the policy knows more: features or claims of the task, or limits; where it is
    not ``auto``; and before the first lesson.
    """
    policy = engine.settings.policy
    inner = policy.policy if isinstance(policy, WarmStart) else policy
    limited = engine.pacing is not None or engine.settings.guarantee is not None
    informed = observed.context is not None or observed.claims is not None
    begins = isinstance(inner, Auto) and round_.attempts > 1 and not (limited or informed)
    if not round_.seen and not (begins and parts["cascade"]["lessons"] > 0.0):
        return None
    return Step(engine, state, parts, roster, round_, observed.price if engine.breaks_ties else None)


def described(round_: Round, agent: str) -> tuple[Any, ...]:
    """The last fields of a decision that is a step of a round: action, answers, attempts."""
    action = "accept" if any(each.agent == agent for each in round_.seen) else "ask"
    return action, round_.seen, round_.attempts


def commit(state: State, roster: Roster, decision: Decision) -> None:
    """Learn the newest answer that a decision was made on."""
    if all(each.agent in roster.index for each in decision.answers):
        part, places = state.parts["cascade"], [roster.index[each.agent] for each in decision.answers]
        hear(part, see(part, decision.answers, places), decision.answers[-1].signal)


def end(state: State, roster: Roster, decision: Decision, reward: float) -> None:
    """Learn the reward of the answer that a decision accepted."""
    if all(each.agent in roster.index for each in decision.answers):
        part, places = state.parts["cascade"], [roster.index[each.agent] for each in decision.answers]
        delivered = places.index(roster.index[decision.agent])
        learn(part, see(part, decision.answers, places), delivered=delivered, reward=reward)


def fail(state: State, roster: Roster, decision: Decision, outcome: Outcome) -> None:
    """Learn that an agent that was asked in a round of several steps gave no answer."""
    if not outcome.reward and decision.attempts > 1 and decision.agent in roster.index:
        state.parts["cascade"]["answering"][roster.index[decision.agent]] *= 1.0 - RECENT


def teach(part: Arrays, given: Evaluations, most: float) -> None:
    """Learn evaluated answers: the agents of a row form rounds of two at random, by a fixed seed."""
    rng, known = np.random.default_rng(0), np.isfinite(given.rewards)
    for row in row_lessons(given, most).tolist():
        agents = rng.permutation(np.flatnonzero(known[row])).tolist()
        for pair in (agents[begin : begin + 2] for begin in range(0, len(agents), 2)):
            answers = given.answers_of(row, pair)
            for n in range(1, len(pair) + 1):
                hear(part, see(part, answers[:n], pair[:n]), answers[n - 1].signal)
            seen = see(part, answers, pair)
            for k, agent in enumerate(pair):
                _learn(part, seen, k, float(given.rewards[row, agent]), True)


def earned(outcome: Outcome, first: Answer, later: Sequence[Decision]) -> Outcome:
    """What a round earned for its first step: less the expected cost of later answers, with its own usage if known."""
    reward = outcome.reward
    if reward is not None:
        paid = sum(float(each.terms.penalty()[each.agents.index(each.agent)]) for each in later)
        reward = min(max(reward - paid, 0.0), 1.0)
    cost_usd = outcome.cost_usd if first.cost_usd is None else first.cost_usd
    elapsed_s = outcome.elapsed_s if first.elapsed_s is None else first.elapsed_s
    return replace(outcome, reward=reward, cost_usd=cost_usd, elapsed_s=elapsed_s)
