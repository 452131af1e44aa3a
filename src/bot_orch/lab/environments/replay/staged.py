"""A replay under a condition: each seed has its own task rows, so that they can be changed separately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any

import numpy as np

from bot_orch.arrays import Bools, Floats, Ints
from bot_orch.lab.environments.matrix.check import known_mean
from bot_orch.lab.environments.matrix.context import Inputs
from bot_orch.lab.environments.matrix.model import Matrix, RuntimeOutcomes
from bot_orch.lab.environments.replay.bandit import Replay, RoundOutcome

#: In place of a number of rounds: the outcome never comes.
NEVER = -1


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """The rounds of one seed, in order, and the delays of their outcomes.

    Attributes
    ----------
    matrix
        What can be learned; one row per round.
    ranking
        The agents of the file by mean reward, best first.
    context, inputs
        Of the rounds, as :class:`~bot_orch.lab.environments.replay.bandit.RoundContext` has them, or None.
    truth
        ``(rounds, M)`` what is scored, where that differs from the reward learned.
    late
        ``(rounds, M)`` rounds until the outcome is observed, 0 is before the next choice, :data:`NEVER` for never.
    cut
        ``(rounds, M)`` where the agent times out.
    gives_up
        Rounds after which an outcome that never comes is not waited for any longer.
    restarts
        Rounds (from 0) before which the router is stopped, and started again from its saved state.
    phases
        Rounds (from 0) at which agents change.
    audit_rate
        Share of rounds in which the truth is observed.
    """

    matrix: Matrix
    ranking: Ints
    context: Floats | None = None
    _: KW_ONLY
    inputs: Inputs | None = None
    truth: Floats | None = None
    late: Ints | None = None
    cut: Bools | None = None
    gives_up: int = 100
    restarts: tuple[int, ...] = ()
    phases: tuple[int, ...] = ()
    audit_rate: float = 0.0

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return self.matrix.n_tasks


def rows_of(matrix: Matrix, rows: Ints) -> Matrix:
    """A matrix of these rows, in order, without features, texts and groups, which a stage stores separately.

    Examples
    --------
    >>> rows_of(Matrix("toy", ("a",), np.array([[0.0], [1.0]])), np.array([1, 1, 0])).reward[:, 0]
    array([1., 1., 0.])
    """
    changed: dict[str, Any] = {"features": None, "feature_names": (), "text": None, "groups": {}}
    for field in fields(matrix):
        value = getattr(matrix, field.name)
        if field.name not in changed and isinstance(value, np.ndarray):
            changed[field.name] = value[rows]
    if matrix.runtime is not None:
        changed["runtime"] = RuntimeOutcomes(*(getattr(matrix.runtime, f.name)[rows] for f in fields(matrix.runtime)))
    return replace(matrix, **changed)


def unrolled(replay: Replay) -> list[Stage]:
    """The rounds of every seed of a replay, unchanged."""
    m, context, inputs = replay.matrix, replay.context, replay.inputs
    ranking = np.argsort(-np.nan_to_num(known_mean(m.reward)), kind="stable")
    return [
        Stage(
            rows_of(m, rows),
            ranking,
            None if context is None else context[rows],
            inputs=None if inputs is None else replace(inputs, values=inputs.values[rows]),
        )
        for rows in np.ascontiguousarray(replay.rows.T)
    ]


class StagedReplay(Replay):
    """A replay with one stage per seed, played one seed at a time (:meth:`only`) and scored as a whole.

    Parameters
    ----------
    stages
        One per seed, of equal length.
    options
        Keyword arguments of :class:`~bot_orch.lab.environments.replay.bandit.Replay`.
    """

    def __init__(self, stages: Sequence[Stage], seeds: Sequence[int], **options: Any) -> None:
        first, rounds = stages[0], stages[0].rounds
        self.stages, self._options = list(stages), options
        rows = np.arange(len(stages) * rounds).reshape(len(stages), rounds).T
        super().__init__(
            _joined([stage.matrix for stage in stages]),
            "given",
            rounds,
            seeds=list(seeds),
            rows=rows,
            context=_stacked([stage.context for stage in stages]),
            inputs=_together([stage.inputs for stage in stages]),
            audit_rate=first.audit_rate,
            **options,
        )
        self._late, self._cut = (_stacked([getattr(stage, name) for stage in stages]) for name in ("late", "cut"))

    @property
    def restarts(self) -> frozenset[int]:
        """Rounds at which the router restarts."""
        return frozenset(self.stages[0].restarts)

    @property
    def phases(self) -> tuple[int, ...]:
        """Rounds at which agents change."""
        return self.stages[0].phases

    @property
    def gives_up(self) -> int:
        """Number of rounds after which a missing outcome expires."""
        return self.stages[0].gives_up

    def only(self, index: int) -> StagedReplay:
        """The replay of the seed at a position."""
        return StagedReplay([self.stages[index]], [self.seeds[index]], **self._options)

    def without_restarts(self) -> StagedReplay:
        """The same without restarts."""
        return StagedReplay([replace(each, restarts=()) for each in self.stages], self.seeds, **self._options)

    def scored(self) -> StagedReplay:
        """The same replay with the scored values as rewards."""
        if all(stage.truth is None for stage in self.stages):
            return self
        changed = [
            stage if stage.truth is None else replace(stage, matrix=replace(stage.matrix, reward=stage.truth))
            for stage in self.stages
        ]
        return StagedReplay(changed, self.seeds, **self._options)

    def lateness(self, t: int, agent: Ints | None = None) -> int | None:
        """Delay of the chosen agent's outcome, for one seed."""
        if self._late is None or agent is None:
            return 0
        (found,) = self._late[self.rows[t], agent]  # every seed waits for its own outcomes: played one by one
        return None if found == NEVER else int(found)

    def after(self, t: int, agent: Ints, audit: Bools | None = None) -> RoundOutcome:
        """The cells of the chosen agents, cut off where they time out."""
        found = super().after(t, agent, audit)
        if self._cut is None:
            return found
        cut = self._cut[self.rows[t], agent]
        if not cut.any():
            return found
        reason = tuple("timeout" if each else None for each in cut)
        return replace(found, reward=np.where(cut, np.nan, found.reward), reason=reason)


def _joined(matrices: Sequence[Matrix]) -> Matrix:
    """Concatenate the rows of all matrices."""
    first = matrices[0]
    changed: dict[str, Any] = {}
    for field in fields(first):
        if isinstance(getattr(first, field.name), np.ndarray):
            changed[field.name] = np.concatenate([getattr(matrix, field.name) for matrix in matrices])
    if first.runtime is not None:
        joined = {f.name: np.concatenate([getattr(m.runtime, f.name) for m in matrices]) for f in fields(first.runtime)}
        changed["runtime"] = RuntimeOutcomes(**joined)
    return replace(first, **changed)


def _together(inputs: Sequence[Inputs | None]) -> Inputs | None:
    known = [each for each in inputs if each is not None]
    return replace(known[0], values=np.concatenate([each.values for each in known])) if known else None


def _stacked(arrays: Sequence[Any]) -> Any:
    return None if arrays[0] is None else np.concatenate(arrays)
