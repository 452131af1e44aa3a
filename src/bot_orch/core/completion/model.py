"""Converts outcomes to lessons: the rewards from which a policy estimates what asking an agent is worth.

The value of asking an agent is P(it completes in time) times the mean reward of a completion. Outcomes become lessons
whose mean tends to that value:

- **A reward** is a lesson as it is.
- **A timeout or a failure** is a lesson of zero.
- **Silence until time t, before the patience ran out,** leaves E[reward in time | still running at t], which is
  ``1 - rho`` times the value of asking. So it counts as the share rho of a lesson of zero
  (:meth:`~bot_orch.core.completion.law.CompletionLaw.information`). Policies take whole lessons: the shares of an agent
  are added up, and whenever the sum reaches 1, one lesson of zero is due.
- **Silence of unknown duration** (nobody reported, the request was not accepted, or no completion has a time yet) is
  compared with the other agents: rho = 1 - (silence rate of the others) / (silence rate of the agent). For an agent
  that has never completed, the larger of both values of rho counts.
- **A default reward** is what an answer earns unless somebody reports another one. An answer without a report says
  little: if reports do not depend on quality, its expected reward is the mean of the reports; if only failures are
  reported, it is the default. With a share q of answers reported, the default counts as the share
  max((1 - q)^100, q / 5) of a lesson (``_belief``): in full without reports, little where reports are common. Failures
  of an agent are lessons of zero at once, so its unreported answers count at least as much as balances them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from bot_orch.arrays import Arrays, Field, Floats, Ints, Schema, row_views
from bot_orch.core.completion.law import BINS, CompletionLaw, bin_of, law_of, shrunk
from bot_orch.survival.causes import Cause, cause_of
from bot_orch.types import Outcome

#: ``reward``: a lesson as given. ``zero``: a lesson of zero. ``silence``: a share of one. ``time``: no reward yet.
OutcomeMeaning = Literal["reward", "zero", "silence", "time"]

#: Reasons of silence whose time says nothing about the agent: no report, or a request that was not taken.
UNTIMED_REASONS = frozenset({"horizon", "not_applicable"})

_PSEUDO_OUTCOMES = 3.0
_MEMORY = 4096.0
_ALONE, _BESIDE = 100.0, 0.2  # power of 1 - q, and weight of q, in the belief in silent answers
_STEP = 2.0**-20  # shares are rounded to it, so that sums of them are exact and can be taken back
_DONE, FAILED, _GONE = range(3)
_ANSWERS, _REPORTS, _TOTAL, _FAILURES, _LESSONS, _OPEN = range(6)


class Exit(NamedTuple):
    """The end of an attempt as counted in the state.

    ``cause``: 0 completed, 1 failed, 2 censored. ``bin``: that of its time, -1 if unknown. ``silent``: whether it was
    counted as a silence of the agent.
    """

    cause: int
    bin: int
    silent: bool = False

    @property
    def completed(self) -> bool:
        """Whether the attempt was completed."""
        return self.cause == _DONE


_UNTIMED = Exit(_DONE, -1)


class OutcomeEffect(NamedTuple):
    """The effect of an outcome on the state, to be undone if a reward replaces it.

    Parameters
    ----------
    lesson
        Lesson for the policy; None for none.
    share
        What it added to the sum of shares, apart from the lesson.
    exit
        Which exit was counted.
    default
        The default reward, if the reward was that; ``share`` is then one of silent answers.
    """

    lesson: float | None
    share: float = 0.0
    exit: Exit = Exit(2, -1)
    default: float | None = None

    def to_list(self) -> list[Any]:
        """JSON values; :meth:`from_list` is the inverse."""
        return [self.lesson, self.share, *self.exit, *([] if self.default is None else [self.default])]

    @classmethod
    def from_list(cls, values: Sequence[Any]) -> OutcomeEffect:
        """The inverse of :meth:`to_list`."""
        lesson, share, cause, at, silent, *default = values
        return cls(lesson, share, Exit(cause, at, silent), *default)


@dataclass(frozen=True, slots=True)
class Completion:
    """Converts outcomes to lessons and keeps the statistics per agent that silence is judged by.

    Parameters
    ----------
    patience_s
        Seconds after which silence counts as not completed; None if no patience is stated.

    Examples
    --------
    >>> from bot_orch.arrays import allocate
    >>> completion = Completion()
    >>> state = allocate(completion.schema, (), 2)
    >>> for _ in range(50):
    ...     _ = completion.take(state, 0, Outcome.completed(reward=1.0, elapsed_s=1.0), reward=1.0)
    >>> for elapsed_s in (0.1, 10.0):
    ...     silence = Outcome.censored(elapsed_s=elapsed_s, reason="cancelled")
    ...     print(completion.take(state, 0, silence, reward=None).lesson)
    None
    0.0
    """

    patience_s: float | None = None

    @property
    def schema(self) -> Schema:
        """State per agent.

        ``exits``: ends of attempts by cause and bin of time. ``reward``: sums of rewards by bin. ``untimed``: number
        and rewards of completions without a time. ``outcomes``, ``silent``: number of all outcomes, and of silences.
        ``share``: sum of shares of lessons so far. ``reports``: answers with a default reward, reports in its place
        and their sum, lessons given for failures and for unreported answers, sum of shares of the latter.
        """
        return {
            "exits": Field(shape=(3, BINS), dtype="uint16"),
            "reward": Field(shape=(BINS,), dtype="float32"),
            "untimed": Field(shape=(2,)),
            "outcomes": Field(),
            "silent": Field(),
            "share": Field(),
            "reports": Field(shape=(6,)),
        }

    def meaning(self, outcome: Outcome, reward: float | None) -> OutcomeMeaning:
        """The meaning of an outcome for which the reward model returned ``reward``."""
        if outcome.event:
            return "time" if reward is None else "reward"
        if outcome.reward is None and self._reached(outcome):
            return "zero"
        if reward is not None:
            return "reward"
        return "zero" if cause_of(outcome) is not Cause.CENSORED or _is_timeout(outcome) else "silence"

    def take(
        self,
        state: Arrays,
        agent: int,
        outcome: Outcome,
        *,
        reward: float | None,
        default: bool = False,
        earlier: OutcomeEffect | None = None,
    ) -> OutcomeEffect:
        """Learn an outcome of one agent; returns the lesson for the policy and what :meth:`undo` needs.

        ``state`` is that of one batch element. ``default``: the reward is the default one. ``earlier`` is the effect of
        an outcome that this one replaces; it was undone before.
        """
        before = None if earlier is None else earlier.default
        if outcome.event:
            at = self._completed(state, agent, outcome.elapsed_s, reward=float(reward or 0.0))
            ending = _UNTIMED if at < 0 else Exit(_DONE, at)
            if default and reward is not None:
                return _presumed(state, agent, reward, ending=ending, again=before is not None)
            if before is not None and reward is not None:
                state["reports"][agent, _REPORTS : _TOTAL + 1] += (1.0, reward)
            return OutcomeEffect(reward, 0.0, ending)
        meaning, elapsed_s = self.meaning(outcome, reward), outcome.elapsed_s
        if meaning == "silence":
            found = self._silence(state, agent, outcome)
            state["reports"][agent, _FAILURES] += found.lesson is not None
            return found
        state["reports"][agent, _FAILURES] += 1.0
        cause = _GONE if cause_of(outcome) is Cause.CENSORED else FAILED
        at = -1 if elapsed_s is None else bin_of(elapsed_s)
        if at >= 0:
            state["exits"][agent, cause, at] += 1
        self._count(state, agent)
        return OutcomeEffect(0.0 if meaning == "zero" else reward, 0.0, Exit(cause, at))

    def undo(self, state: Arrays, agent: int, taken: OutcomeEffect) -> None:
        """Undo the effect of an outcome, except the policy's lesson."""
        cause, at, silent = taken.exit
        state["outcomes"][agent] = max(0.0, state["outcomes"][agent] - 1.0)
        state["silent"][agent] = max(0.0, state["silent"][agent] - silent)
        if taken.default is None:
            state["share"][agent] -= taken.share
        else:
            state["reports"][agent, _OPEN] -= taken.share
            self.withdrawn(state, agent, taken)
        if not taken.exit.completed and taken.lesson is not None:
            state["reports"][agent, _FAILURES] = max(0.0, state["reports"][agent, _FAILURES] - 1.0)
        if at >= 0 and state["exits"][agent, cause, at]:
            state["exits"][agent, cause, at] -= 1
        reward = taken.lesson if taken.default is None else taken.default
        if taken.exit.completed and reward is not None:  # a reward that is replaced
            if at >= 0:
                state["reward"][agent, at] = max(0.0, state["reward"][agent, at] - reward)
            else:
                state["untimed"][agent] = np.maximum(0.0, state["untimed"][agent] - (1.0, reward))

    def excess(self, state: Arrays) -> Floats:
        """Lessons given for unreported answers beyond what the present share of reports justifies, per agent."""
        reports = state["reports"]
        found = np.zeros(len(reports))
        for agent in np.flatnonzero(reports[:, _LESSONS] >= 1.0).tolist():
            silent = max(0.0, float(reports[agent, _ANSWERS] - reports[agent, _REPORTS]))
            found[agent] = reports[agent, _LESSONS] - 1.0 - silent * _belief(reports, agent, 1.0)
        return found

    def withdrawn(self, state: Arrays, agent: int, taken: OutcomeEffect) -> OutcomeEffect:
        """Count the lesson of an unreported answer as withdrawn; returns the effect that remains."""
        if taken.lesson is not None:
            state["reports"][agent, _LESSONS] = max(0.0, state["reports"][agent, _LESSONS] - 1.0)
        return taken._replace(lesson=None, share=0.0)

    def take_rows(self, state: Arrays, agent: Ints, outcomes: Sequence[Outcome], *, reward: Floats) -> Floats:
        """Lessons of one outcome per row of a batch; NaN where missing, as in ``reward``."""
        lessons = reward.copy()
        self._completed_rows(state, agent, outcomes, reward=reward)
        for row, outcome in enumerate(outcomes):
            if not outcome.event:
                read = None if np.isnan(reward[row]) else float(reward[row])
                found = self.take(row_views(state, (row,)), int(agent[row]), outcome, reward=read).lesson
                lessons[row] = np.nan if found is None else found
        return lessons

    def _completed_rows(self, state: Arrays, agent: Ints, outcomes: Sequence[Outcome], *, reward: Floats) -> None:
        """Vectorised :meth:`_completed` for all completed rows."""
        rows = np.array([row for row, outcome in enumerate(outcomes) if outcome.event], dtype=np.int64)
        times = [outcomes[row].elapsed_s for row in rows]
        at = np.array([-1 if t is None else bin_of(t) for t in times], dtype=np.int64)
        who, worth, timed = agent[rows], np.nan_to_num(reward[rows]), at >= 0
        there = (rows[timed], who[timed])
        state["exits"][(*there, _DONE, at[timed])] += 1
        state["reward"][(*there, at[timed])] += worth[timed].astype(np.float32)
        state["untimed"][rows[~timed], who[~timed]] += np.stack([np.ones(rows.size), worth], axis=-1)[~timed]
        state["outcomes"][rows, who] += 1.0
        for row in rows[state["outcomes"][rows, who] >= _MEMORY]:
            _fade(row_views(state, (row,)), int(agent[row]))

    def law(self, state: Arrays, agent: int) -> CompletionLaw | None:
        """Distribution of an agent's completion time and reward; None before any completion at a known time."""
        pool = state["exits"].sum(axis=0, dtype=np.float64)
        timed = float(np.add.reduce(pool[_DONE]))
        if timed == 0.0:
            return None
        shape, reward = pool[_DONE] / timed, state["reward"].sum(axis=0, dtype=np.float64)
        common = law_of(*_with_untimed(pool, reward, state["untimed"].sum(axis=0), shape=shape))
        own = _with_untimed(
            state["exits"][agent].astype(float), state["reward"][agent], state["untimed"][agent], shape=shape
        )
        return shrunk(*own, common, weight=_PSEUDO_OUTCOMES)

    def _reached(self, outcome: Outcome) -> bool:
        """Whether the silence lasted for the configured patience."""
        return self.patience_s is not None and outcome.elapsed_s is not None and outcome.elapsed_s >= self.patience_s

    def _completed(self, state: Arrays, agent: int, elapsed_s: float | None, *, reward: float) -> int:
        """Record a completion, the usual case; returns the bin of its time, -1 if unknown."""
        if elapsed_s is None:
            at, untimed = -1, state["untimed"]
            untimed[agent, 0] += 1.0
            untimed[agent, 1] += reward
        else:
            at = bin_of(elapsed_s)
            state["exits"][agent, _DONE, at] += 1
            state["reward"][agent, at] += reward
        self._count(state, agent)
        return at

    def _silence(self, state: Arrays, agent: int, outcome: Outcome) -> OutcomeEffect:
        elapsed_s, reason = outcome.elapsed_s, (outcome.reason or "").strip().lower()
        law = None if elapsed_s is None or reason in UNTIMED_REASONS else self.law(state, agent)
        said = None if law is None or elapsed_s is None else law.information(elapsed_s, self.patience_s)
        at = -1 if elapsed_s is None or reason in UNTIMED_REASONS else bin_of(elapsed_s)
        self._count(state, agent)
        state["silent"][agent] += 1.0
        if said is None or not (state["exits"][agent, _DONE].any() or state["untimed"][agent, 0]):
            said = max(-1.0 if said is None else said, _excess(state, agent))  # it has never completed: compare
        if at >= 0:
            state["exits"][agent, _GONE, at] += 1
        lesson, change = _counted(state, agent, said)
        return OutcomeEffect(lesson, change, Exit(_GONE, at, silent=True))

    def _count(self, state: Arrays, agent: int) -> None:
        """Count an outcome; occasionally halve an agent's counts, so that old ones fade and none overflows."""
        outcomes = state["outcomes"]
        counted = outcomes[agent] + 1.0
        outcomes[agent] = counted
        if counted >= _MEMORY:
            _fade(state, agent)


def _fade(state: Arrays, agent: int) -> None:
    exits = state["exits"][agent]
    exits[...] = (exits >> 1) + (exits & 1)
    for name in ("reward", "untimed", "outcomes", "silent"):
        state[name][agent] *= 0.5


def _counted(state: Arrays, agent: int, said: float) -> tuple[float | None, float]:
    """Add a share to an agent's sum; returns the lesson if one is due, and the change of the sum."""
    before = float(state["share"][agent])
    due, state["share"][agent] = _added(before, said)
    return (0.0 if due else None), float(state["share"][agent]) - before


def _added(before: float, share: float) -> tuple[bool, float]:
    """Whether a lesson is due after adding a share to a sum, and the sum that remains."""
    after = max(-1.0, before + round(share / _STEP) * _STEP)
    return after >= 1.0, after - (after >= 1.0)


def _presumed(state: Arrays, agent: int, reward: float, *, ending: Exit, again: bool) -> OutcomeEffect:
    """The effect of an answer with a default reward: the share of a lesson that :func:`_belief` gives."""
    reports = state["reports"]
    if not again:
        reports[agent, _ANSWERS] += 1.0
        if float(np.add.reduce(reports[:, _ANSWERS])) >= _MEMORY:
            reports[:, :_OPEN] *= 0.5
    before = float(reports[agent, _OPEN])
    due, reports[agent, _OPEN] = _added(before, _belief(reports, agent, reward))
    reports[agent, _LESSONS] += due
    return OutcomeEffect(reward if due else None, float(reports[agent, _OPEN]) - before, ending, default=reward)


def _belief(reports: Floats, agent: int, reward: float) -> float:
    """The weight of a default reward without a report: the largest of three terms.

    The first two depend on the share of reports, see the top of the module. The third balances failures. With reports
    of mean m and a share f of failures, the agent is worth v = (1 - f) m; lessons of the default reward have that mean
    together with the failures if each counts for (m - v) / (reward - v).
    """
    answers, given, total = np.add.reduce(reports[:, : _TOTAL + 1]).tolist()
    if given <= 0.0:
        return 1.0
    own, own_given, own_total, failures = reports[agent, : _FAILURES + 1].tolist()
    share = min(1.0, given / max(answers, 1.0))
    mean = (own_total + total / given) / (own_given + 1.0)
    value = mean * own / (own + failures)
    balance = (mean - value) / (reward - value) if reward > value else 0.0
    return float(min(1.0, max((1.0 - share) ** _ALONE, _BESIDE * share, balance)))


def _excess(state: Arrays, agent: int) -> float:
    """1 - q0 / q, where q is the agent's silence rate and q0 that of the others, both with pseudo-counts."""
    own, silent = float(state["outcomes"][agent]), float(state["silent"][agent])
    others = float(np.add.reduce(state["outcomes"])) - own
    theirs = float(np.add.reduce(state["silent"])) - silent
    usual = (theirs + 1.0) / (others + 1.0)
    return max(-1.0, 1.0 - usual / ((silent + usual) / (own + 1.0)))


def _with_untimed(exits: Floats, reward: Floats, untimed: Floats, *, shape: Floats) -> tuple[Floats, Floats]:
    """Exits and rewards, with completions at unknown times distributed like the known ones."""
    exits[_DONE] += untimed[0] * shape
    return exits, np.asarray(reward + untimed[1] * shape, dtype=np.float64)


def _is_timeout(outcome: Outcome) -> bool:
    return (outcome.reason or "").strip().lower() == "timeout"
