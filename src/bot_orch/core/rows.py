"""Decisions and arrays as plain values with binary numbers: smaller than JSON, and quicker to write and to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Arrays
from bot_orch.errors import StateFormatError
from bot_orch.records import builder
from bot_orch.types import Decision, Multiplier, RandomKey, Terms, answer_of

__all__ = ["arrays_from_rows", "arrays_to_rows", "decision_reader", "decision_to_row"]

_decision, _terms, _random_key = builder(Decision), builder(Terms), builder(RandomKey)
_ALWAYS = 6  # columns that every decision has; the judge's bias is one more


def decision_to_row(decision: Decision) -> list[Any]:
    """Convert a decision to plain values; :func:`decision_reader` is the inverse."""
    terms, key = decision.terms, decision.key
    columns = [
        decision.propensities,
        terms.estimate,
        terms.exploration,
        terms.distance,
        terms.alignment,
        terms.cost,
    ]
    if terms.bias is not None:
        columns.append(terms.bias)
    return [
        decision.id,
        decision.task_id,
        decision.agent,
        decision.agents,
        b"".join([np.asarray(column, "<f8").tobytes() for column in columns]),
        decision.policy,
        decision.lambda_,
        decision.state_seq,
        key.stream,
        key.counter,
        decision.features,
        decision.claims,
        decision.encoder,
        decision.audit,
        decision.audit_probability,
        [[each.constraint, each.value, each.unit] for each in decision.multipliers],
        decision.action,
        [[each.agent, each.decision, each.covariates()] for each in decision.answers],
        decision.attempts,
        decision.combine,
    ]


def decision_reader() -> Callable[[Sequence[Any]], Decision]:
    """A function that converts rows of :func:`decision_to_row` to decisions with shared agent names."""
    rosters: dict[tuple[str, ...], tuple[str, ...]] = {}

    def read(row: Sequence[Any]) -> Decision:
        id_, task_id, agent, names, columns, policy, lambda_, state_seq, stream, counter, *rest = row
        features, claims, encoder, audit, audit_probability, multipliers, action, answers, *more = rest
        agents = rosters.setdefault(tuple(names), tuple(names))
        table = np.frombuffer(columns, "<f8").astype(float).reshape(-1, len(agents))
        if len(table) not in (_ALWAYS, _ALWAYS + 1):
            raise StateFormatError(f"decision {id_}: has {len(table)} columns; delete the snapshot")
        return _decision(
            id_,
            task_id,
            agent,
            agents,
            table[0],
            _terms(*table[1:]),
            policy,
            lambda_,
            state_seq,
            _random_key(stream, counter),
            tuple(features),
            tuple(claims),
            encoder,
            audit,
            audit_probability,
            tuple(Multiplier(*each) for each in multipliers),
            action,
            tuple(answer_of(*each) for each in answers),
            *more,
        )

    return read


def arrays_to_rows(arrays: Mapping[str, npt.NDArray[Any]]) -> list[list[Any]]:
    """Plain values, bit for bit; :func:`arrays_from_rows` is the inverse."""
    found = []
    for name, array in sorted(arrays.items()):
        little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        found.append([name, little.dtype.str, array.shape, little.tobytes()])
    return found


def arrays_from_rows(rows: Sequence[Sequence[Any]]) -> Arrays:
    """The inverse of :func:`arrays_to_rows`.

    Examples
    --------
    >>> arrays_from_rows(arrays_to_rows({"x": np.array([0.1, np.nan])}))
    {'x': array([0.1, nan])}
    """
    found = {}
    for name, dtype, shape, data in rows:
        if (kind := np.dtype(dtype)).kind not in "fiub":
            raise StateFormatError(f"arrays.{name}: type {kind} is not allowed in a saved state; delete the snapshot")
        found[name] = np.frombuffer(data, kind).astype(kind.newbyteorder("=")).reshape(shape)
    return found
