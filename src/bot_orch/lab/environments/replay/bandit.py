"""Bandit replay of a matrix, all seeds stepping together.

Each round a policy gets a :class:`RoundContext`: what a live router would know of the task. It chooses an agent and
gets a :class:`RoundOutcome`: the outcome of that agent alone. The replay answers a round once; a second
request raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Bools, Floats, Ints
from bot_orch.errors import InvalidInputError
from bot_orch.lab.environments.matrix.context import Inputs, context_of, inputs_of
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.rng import derive_keys, generator, uniform
from bot_orch.survival import Cause, survival_reward
from bot_orch.types import Outcome

Order = Literal["shuffled", "given"]
ORDERS: tuple[Order, ...] = ("shuffled", "given")
#: S(T) of a completion: every doubling of the time costs the same, or 1 - PAR10 / (10 cutoff).
SIGNALS: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "log-uniform": lambda time_s, cutoff_s: np.clip(1.0 - np.log1p(time_s) / np.log1p(cutoff_s), 0.0, 1.0),
    "par10": lambda time_s, cutoff_s: 1.0 - time_s / (10.0 * cutoff_s),
}


@dataclass(frozen=True, slots=True, eq=False)
class RoundContext:
    """What is known before the choice of round ``t`` (from 1); the first axis of every array is the seed.

    Attributes
    ----------
    context
        ``(seeds, d)`` features prepared in hindsight, from all tasks at once, those of the text included, or ``None``:
        for libraries without their own preparation.
    eligible
        ``(seeds, M)`` who can take the task; ``None`` means everybody.
    reference
        ``(seeds, D)`` embedding of what the task wants, or ``None``.
    claims
        ``(seeds, M)`` probability of being right that each agent states of itself, NaN where it states none, or
        ``None``.
    inputs
        ``(seeds, width)`` what a user would hand over with the tasks, or ``None``: their own numbers as they are, NaN
        where one is missing, then those of the encoder for their texts.
    """

    t: int
    context: Floats | None
    eligible: Bools | None
    _: KW_ONLY
    reference: Floats | None
    claims: Floats | None = None
    inputs: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class RoundOutcome:
    """Outcomes of the chosen agents; arrays are ``(seeds,)`` or ``(seeds, ...)``, ``None`` if the data set lacks them.

    Attributes
    ----------
    reward
        What to learn from, in [0, 1].
    output
        ``(seeds, D)`` embedding of the output.
    probs
        ``(seeds, L)`` distribution over labels the agent put out; NaN where it put out none.
    cost_usd, elapsed_s
        NaN where unknown.
    cause
        Why watching ended, a code of :class:`~bot_orch.survival.causes.Cause`; runtime sets only.
    reason
        Why an outcome was cut off, seed by seed; None where it was not. Its reward is NaN then.
    truth
        What the answer was worth, where the round was audited; NaN elsewhere.
    """

    agent: Ints
    reward: Floats
    output: Floats | None = None
    _: KW_ONLY
    probs: Floats | None = None
    cost_usd: Floats | None = None
    elapsed_s: Floats | None = None
    cause: Ints | None = None
    reason: tuple[str | None, ...] | None = None
    truth: Floats | None = None

    def outcomes(self) -> list[Outcome]:
        """One outcome per seed, as a live router would see it, without output and cost, which are separate arrays."""
        seeds = range(len(self.agent))
        return [self._outcome(seed) for seed in seeds]

    def _outcome(self, seed: int) -> Outcome:
        elapsed = None if self.elapsed_s is None else float(self.elapsed_s[seed])
        elapsed = None if elapsed is None or not math.isfinite(elapsed) else elapsed
        reason = None if self.reason is None else self.reason[seed]
        if reason is not None:
            return Outcome.censored(elapsed_s=elapsed or 0.0, reason=reason)
        reward = float(self.reward[seed])
        if self.cause is not None and self.cause[seed] != Cause.COMPLETED:
            why = "timeout" if self.cause[seed] == Cause.CENSORED else "failed"
            return Outcome(False, reward, elapsed, why)
        return Outcome.completed(reward, elapsed_s=elapsed)


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """Delay and censoring of outcomes; by default neither.

    Parameters
    ----------
    late
        Rounds after which the outcomes of a round are learned, ``(rounds,)``; 0 is before the next choice.
    censored
        Which outcomes are cut off, ``(rounds, seeds)``.
    reason
        Why those are cut off, such as ``timeout`` or ``cancelled``.
    """

    late: Ints | None = None
    censored: Bools | None = None
    reason: str = "timeout"


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """What a player knows before the first round: shapes, kinds of evidence to come, and one random key per seed.

    ``latency_target_s``, ``cost_weight`` and ``budget_usd`` are objectives other than reward: outcomes within a
    time, how much reward a dollar is worth, and at most so many dollars per task. ``price`` holds dollars per call that
    are known in advance, NaN where unknown. ``features`` is the width of the context prepared in hindsight; of the raw
    inputs ``inputs`` are the tasks' own, and the others those of the encoder with the label ``text``. ``rounds`` is how
    many there will be, None if unknown: no policy of a live router reads it.
    """

    agents: int
    features: int
    seeds: int
    _: KW_ONLY
    keys: npt.NDArray[np.uint64]
    output_dim: int = 0
    reference_dim: int = 0
    labels: int = 0
    has_cost: bool = False
    has_time: bool = False
    latency_target_s: float | None = None
    cost_weight: float = 0.0
    audit_rate: float = 0.0
    budget_usd: float | None = None
    price: tuple[float, ...] | None = None
    rounds: int | None = None
    inputs: int = 0
    text: str = ""
    floor: float = 0.0  # of our policies


def task_order(matrix: Matrix, order: Order, rounds: int, *, seed: int) -> Ints:
    """The tasks of one seed's rounds; after the last task they repeat in a new shuffled order.

    Examples
    --------
    >>> toy = Matrix("toy", ("a",), np.zeros((3, 1)))
    >>> task_order(toy, "given", 5, seed=0)[:3]
    array([0, 1, 2])
    """
    tasks = matrix.playable
    rng = generator("arena order", matrix.name, seed)
    passes = []
    for index in range(-(-rounds // len(tasks))):
        shuffled = tasks[rng.permutation(len(tasks))]
        passes.append(tasks if order == "given" and index == 0 else shuffled)
    return np.concatenate(passes)[:rounds]


class Replay:
    """One pass over a matrix for several seeds.

    Parameters
    ----------
    rounds
        Number of rounds; as many as there are tasks if None.
    seeds
        Which seeds; seed s sees the same tasks and trials whatever the policy and whatever the other seeds.
    signal
        How a set of runtimes is learned from: a name in :data:`SIGNALS`. A completion earns S(T), common to all
        agents, so that speed counts; a timeout (right-censored at the cutoff) and a failure earn nothing.
    latency_target_s, cost_weight, budget_usd, price
        Handed to players in :attr:`setup`.
    arrival
        When outcomes come back.
    audit_rate
        Share of rounds, drawn at random, in which the true reward is observed together with the judge's.
    rows, context, inputs
        Tasks of the rounds, ``(rounds, seeds)``, instead of an order, and context and inputs of all tasks then.

    Examples
    --------
    >>> toy = Matrix("toy", ("a", "b"), np.array([[0.0, 1.0], [0.5, 0.25]]))
    >>> replay = Replay(toy, "given", seeds=range(2))
    >>> before = replay.before(0)
    >>> replay.after(0, np.array([0, 1])).reward
    array([0., 1.])
    >>> replay.after(0, np.array([1, 0]))
    Traceback (most recent call last):
    RuntimeError: round 0 has been answered; a round shows one cell, once
    """

    def __init__(
        self,
        matrix: Matrix,
        order: Order = "shuffled",
        rounds: int | None = None,
        *,
        seeds: range | list[int] = range(10),
        signal: str = "log-uniform",
        latency_target_s: float | None = None,
        cost_weight: float = 0.0,
        budget_usd: float | None = None,
        price: tuple[float, ...] | None = None,
        arrival: Arrival | None = None,
        audit_rate: float = 0.0,
        rows: Ints | None = None,
        context: Floats | None = None,
        inputs: Inputs | None = None,
    ) -> None:
        if order not in ORDERS:
            raise InvalidInputError("order", f"{order!r} is not known", f"choose one of {', '.join(ORDERS)}")
        if signal not in SIGNALS:
            raise InvalidInputError("signal", f"{signal!r} is not known", f"choose one of {', '.join(SIGNALS)}")
        n = len(matrix.playable) if rounds is None else rounds
        if n < 1 or len(seeds) < 1:
            raise InvalidInputError("rounds", f"is {n}, with {len(seeds)} seeds", "pass 1 or more of both")
        self.matrix, self.order, self.rounds, self.seeds = matrix, order, n, list(seeds)
        if rows is None:
            rows = np.stack([task_order(matrix, order, n, seed=seed) for seed in self.seeds], axis=1)
            context, inputs = context_of(matrix), inputs_of(matrix)
        self.rows, self.context, self.inputs = rows, context, inputs
        self._draw_keys = derive_keys(["arena draw", matrix.name], self.seeds)
        self._trial_keys = derive_keys(["arena trial", matrix.name], self.seeds)
        self._player_keys = derive_keys(["arena player", matrix.name], self.seeds)
        eligible = matrix.eligible
        self._eligible = None if eligible[matrix.playable].all() else eligible
        self._trials = _Trials(matrix.trials) if matrix.trials is not None else None
        # A reward the file gives is learned from as it is; only a set without one goes through the survival reward.
        self._learn_time = matrix.runtime is not None and matrix.runtime_only
        self._survival = SIGNALS[signal]
        self._asked, self._answered = -1, -1
        self._wanted = (latency_target_s, cost_weight, budget_usd, price)
        self.arrival = arrival or Arrival()
        self._audit_rate, self._audit_keys = audit_rate, derive_keys(["arena audit", matrix.name], self.seeds)
        if audit_rate and matrix.true_reward is None:
            raise InvalidInputError("audit_rate", "needs true rewards", "pass a matrix that has them")

    @property
    def setup(self) -> Setup:
        """Shapes and kinds of evidence that a player knows before the first round."""
        m = self.matrix
        latency_target_s, cost_weight, budget_usd, price = self._wanted
        return Setup(
            m.n_agents,
            0 if self.context is None else self.context.shape[1],
            len(self.seeds),
            keys=self._player_keys,
            output_dim=0 if m.output_embed is None else m.output_embed.shape[-1],
            reference_dim=0 if m.reference_embed is None else m.reference_embed.shape[-1],
            labels=0 if m.output_probs is None else m.output_probs.shape[-1],
            has_cost=m.cost_usd is not None,
            has_time=m.elapsed_s is not None,
            latency_target_s=latency_target_s,
            cost_weight=cost_weight,
            audit_rate=self._audit_rate,
            budget_usd=budget_usd,
            price=price,
            rounds=self.rounds,
            inputs=0 if self.inputs is None else self.inputs.own,
            text="" if self.inputs is None else self.inputs.text,
        )

    def draws(self, t: int) -> Floats:
        """One number in [0, 1) per seed for the choice of round ``t`` (from 0), the same for every policy."""
        return uniform(self._draw_keys, t)

    @property
    def restarts(self) -> frozenset[int]:
        """Rounds (from 0) before which the router is stopped and started again from its saved state."""
        return frozenset()

    @property
    def phases(self) -> tuple[int, ...]:
        """Rounds (from 0) at which agents change; each phase has its own best single agent."""
        return ()

    @property
    def gives_up(self) -> int:
        """Number of rounds after which a missing outcome expires."""
        return self.rounds

    def lateness(self, t: int, agent: Ints | None = None) -> int | None:
        """Delay in rounds of the outcomes of round ``t`` (from 0); None for never."""
        return 0 if self.arrival.late is None else int(self.arrival.late[t])

    def before(self, t: int) -> RoundContext:
        """Open round ``t`` (from 0)."""
        m, rows = self.matrix, self.rows[t]
        self._asked = t
        return RoundContext(
            t + 1,
            None if self.context is None else self.context[rows],
            None if self._eligible is None else self._eligible[rows],
            reference=None if m.reference_embed is None else m.reference_embed[rows],
            claims=None if m.claims is None else m.claims[rows],
            inputs=None if self.inputs is None else self.inputs.values[rows],
        )

    def after(self, t: int, agent: Ints, audit: Bools | None = None) -> RoundOutcome:
        """Close round ``t`` (from 0); returns the outcome of each seed's chosen agent.

        ``audit``: which seeds are audited, where the player draws that itself.
        """
        if t != self._asked:
            raise RuntimeError(f"round {t} is not open; rounds are played in order")
        if t <= self._answered:
            raise RuntimeError(f"round {t} has been answered; a round shows one cell, once")
        self._answered = t
        m, at = self.matrix, (self.rows[t], agent)
        if not np.isfinite(m.reward[at]).all():
            raise InvalidInputError("agent", "cannot take this task", "choose among the eligible agents")
        reward, reason = self._reward(t, at), None
        if self.arrival.censored is not None:
            cut = self.arrival.censored[t]
            reward = np.where(cut, np.nan, reward)
            reason = tuple(self.arrival.reason if each else None for each in cut)
        return RoundOutcome(
            agent,
            reward,
            None if m.output_embed is None else m.output_embed[at],
            probs=None if m.output_probs is None else m.output_probs[at],
            cost_usd=None if m.cost_usd is None else m.cost_usd[at],
            elapsed_s=None if m.elapsed_s is None else m.elapsed_s[at],
            cause=None if m.runtime is None else m.runtime.cause[at],
            reason=reason,
            truth=self._truth(t, at, audit),
        )

    def _truth(self, t: int, at: tuple[Ints, Ints], audit: Bools | None) -> Floats | None:
        if not self._audit_rate or self.matrix.true_reward is None:
            return None
        told = uniform(self._audit_keys, t) < self._audit_rate if audit is None else audit
        return np.where(told, self.matrix.true_reward[at], np.nan)

    def _reward(self, t: int, at: tuple[Ints, Ints]) -> Floats:
        if self._trials is not None:
            return self._trials.pick(at, uniform(self._trial_keys, t))
        runtime = self.matrix.runtime
        if runtime is not None and self._learn_time:
            return self._signal(runtime.time_s[at], runtime.cause[at], runtime.cutoff_s[at])
        reward: Floats = self.matrix.reward[at]
        return reward

    def _signal(self, time_s: Floats, cause: Ints, cutoff_s: Floats) -> Floats:
        """The survival reward of one outcome per seed."""
        return survival_reward(self._survival(time_s, cutoff_s), cause == Cause.COMPLETED)


class _Trials:
    """Repeated trials of each cell, missing ones sorted to the end."""

    def __init__(self, trials: Floats) -> None:
        order = np.argsort(np.isnan(trials), axis=-1, kind="stable")
        self._values = np.take_along_axis(trials, order, axis=-1)
        self._count = np.isfinite(trials).sum(axis=-1)

    def pick(self, at: tuple[Ints, Ints], u: Floats) -> Floats:
        index = (u * self._count[at]).astype(np.int64)
        picked: Floats = self._values[(*at, index)]
        return picked
