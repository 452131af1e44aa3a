"""State as named arrays: one schema drives allocation, adding and removing agents, and serialisation.

A learner declares its state as a *schema*, ``{name: Field}``. Every array has the shape
``batch + (M,) + shape`` when it is per agent, else ``batch + shape``. Online ``batch`` is ``()``; an experiment that
steps many seeds together uses ``(seeds,)``. No learner needs its own code for saving, adding or removing an agent.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from bot_orch.errors import StateFormatError

__all__ = [
    "Arrays",
    "Bools",
    "Field",
    "Floats",
    "Ints",
    "Schema",
    "allocate",
    "chosen_entries",
    "decode",
    "encode",
    "finite_rows",
    "insert_agent",
    "nan_for_null",
    "null_for_nan",
    "remove_agent",
    "row_views",
    "widened",
]

_WORTH_DEFLATING = 1024  # bytes

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Arrays = dict[str, npt.NDArray[Any]]
_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Field:
    """One state array: its trailing shape, its dtype, and the initial value for a new agent."""

    per_agent: bool = True
    shape: tuple[int, ...] = ()
    fill: float | tuple[float, ...] = 0.0  # one value, or one for each entry of the last axis
    dtype: str = "float64"
    identity: bool = False  # a (d, d) field that starts as ``fill`` times the identity matrix

    def block(self, lead: tuple[int, ...]) -> npt.NDArray[Any]:
        """Allocate an array of shape ``lead + shape`` with the initial value."""
        if self.identity:
            unit = np.broadcast_to(np.asarray(self.fill) * np.eye(self.shape[-1]), lead + self.shape)
            return np.array(unit, dtype=self.dtype, order="C")
        return np.full(lead + self.shape, self.fill, dtype=self.dtype)


Schema = Mapping[str, Field]


def allocate(schema: Schema, batch: tuple[int, ...], n_agents: int) -> Arrays:
    """Allocate all arrays of a schema for ``n_agents`` agents, filled with their initial values.

    Examples
    --------
    >>> state = allocate({"mean": Field(), "t": Field(per_agent=False)}, (3,), 2)
    >>> state["mean"].shape, state["t"].shape
    ((3, 2), (3,))
    """
    return {name: field.block((*batch, n_agents) if field.per_agent else batch) for name, field in schema.items()}


def finite_rows(values: Floats) -> Bools:
    """Mask of rows (last axis) without NaN or infinity; NaN rows mark missing values."""
    return np.asarray(np.logical_and.reduce(np.isfinite(values), axis=-1))


def chosen_entries(values: npt.NDArray[_Scalar], agent: Ints) -> npt.NDArray[_Scalar]:
    """Select one agent's entry per batch element: from ``batch + (M,)`` to ``batch``.

    Examples
    --------
    >>> chosen_entries(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, 0]))
    array([2., 3.])
    """
    if np.ndim(agent) == 0:
        return np.asarray(values[int(agent)])
    rows = np.arange(values.size // values.shape[-1])
    return np.asarray(values.reshape(-1, values.shape[-1])[rows, np.ravel(agent)].reshape(np.shape(agent)))


def row_views(state: Arrays, row: tuple[int, ...]) -> Arrays:
    """Views of one batch element; writing to them changes the batch."""
    at: tuple[Any, ...] = (*row, ...)
    return {name: array[at] for name, array in state.items()}


def insert_agent(schema: Schema, arrays: Arrays, batch_ndim: int = 0) -> None:
    """Append one agent with the field's initial value to every per-agent array."""
    for name, field in schema.items():
        if field.per_agent:
            old = arrays[name]
            block = field.block((*old.shape[:batch_ndim], 1))
            arrays[name] = np.concatenate([old, block], axis=batch_ndim)


def remove_agent(schema: Schema, arrays: Arrays, index: int, batch_ndim: int = 0) -> None:
    """Delete agent ``index`` from every per-agent array."""
    for name, field in schema.items():
        if field.per_agent:
            arrays[name] = np.delete(arrays[name], index, axis=batch_ndim)


def widened(fresh: Arrays, learned: Arrays) -> Arrays:
    """The arrays of ``learned`` that also exist in ``fresh``, each copied to the beginning of the larger array.

    For arrays over features, behind which new ones were added: what is learned with them is as if they had been zero.
    An array that does not fit starts again.

    Examples
    --------
    >>> widened({"inverse": np.eye(3)}, {"inverse": np.array([[0.5]])})["inverse"].diagonal().tolist()
    [0.5, 1.0, 1.0]
    """
    found: Arrays = {}
    for name, array in fresh.items():
        known = learned.get(name, array)
        if known.shape == array.shape:
            found[name] = known
        elif known.ndim == array.ndim and all(np.less_equal(known.shape, array.shape)):
            found[name] = array.copy()
            found[name][tuple(map(slice, known.shape))] = known
        else:
            found[name] = array
    return found


def null_for_nan(values: Iterable[float]) -> list[float | None]:
    """Numbers as JSON values, with None for NaN; :func:`nan_for_null` is the inverse."""
    return [None if math.isnan(value) else value for value in values]


def nan_for_null(values: Iterable[float | None]) -> tuple[float, ...]:
    """Numbers, with NaN for None.

    Examples
    --------
    >>> nan_for_null(null_for_nan((0.5, math.nan)))
    (0.5, nan)
    """
    return tuple([math.nan if value is None else value for value in values])


def encode(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """Serialise arrays to JSON values without loss: little-endian bytes in base64, deflated where that halves them.

    Examples
    --------
    >>> copy = decode(encode({"x": np.array([0.1, np.nan])}))
    >>> copy["x"].tobytes() == np.array([0.1, np.nan]).tobytes()
    True
    """
    return {name: _encode_one(array) for name, array in sorted(arrays.items())}


def decode(document: Mapping[str, Any]) -> Arrays:
    """The inverse of :func:`encode`; raises ``StateFormatError`` for a malformed document."""
    return {name: _decode_one(name, entry) for name, entry in document.items()}


def _encode_one(array: npt.NDArray[Any]) -> dict[str, Any]:
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    data = little.tobytes()
    head = {"dtype": little.dtype.str, "shape": list(array.shape)}
    if len(data) >= _WORTH_DEFLATING:
        small = zlib.compress(data, 1)
        if 2 * len(small) < len(data):
            return {**head, "deflated": base64.b64encode(small).decode("ascii")}
    return {**head, "data": base64.b64encode(data).decode("ascii")}


def _decode_one(name: str, entry: Any) -> npt.NDArray[Any]:
    try:
        dtype = np.dtype(entry["dtype"])
        if dtype.kind not in "fiub":
            raise StateFormatError(f"arrays.{name}: type {dtype} is not allowed in a saved state; save it again")
        flat = np.frombuffer(_bytes_of(entry), dtype=dtype)
        return flat.reshape(entry["shape"]).astype(dtype.newbyteorder("="))
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        if isinstance(error, StateFormatError):
            raise
        raise StateFormatError(f"arrays.{name}: damaged ({error}); restore the file from a backup") from error


def _bytes_of(entry: Any) -> bytes:
    if "deflated" not in entry:
        return base64.b64decode(entry["data"], validate=True)
    size = math.prod(entry["shape"]) * np.dtype(entry["dtype"]).itemsize
    reader = zlib.decompressobj()
    data = reader.decompress(base64.b64decode(entry["deflated"], validate=True), size + 1)
    if not reader.eof:
        raise ValueError("deflated data do not end where the shape says")
    return data
