"""Typed measures: the type distinguishes probabilities, samples, point clouds and Gaussians."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.checks import check_array, check_count
from bot_orch.errors import InvalidInputError
from bot_orch.types import Measure

_MOST_LABELS = 10**8
_ROUNDING = 4.0 * float(np.finfo(float).eps)  # tolerance per entry for a sum of one


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """A distribution over a finite set of labels ``0 .. K-1``.

    Examples
    --------
    >>> Labels([0.2, 0.8]).probabilities.sum()
    np.float64(1.0)
    >>> Labels.one_hot(1, 3).probabilities
    array([0., 1., 0.])
    """

    probabilities: Floats
    kind: ClassVar[str] = "labels"

    def __init__(self, probabilities: npt.ArrayLike) -> None:
        p = check_array("probabilities", probabilities, "pass a list of numbers, one per label")
        if p.ndim != 1 or p.size == 0:
            raise InvalidInputError("probabilities", f"has shape {p.shape}", "pass one number per label")
        _set(self, "probabilities", _normalised("probabilities", p))

    @classmethod
    def one_hot(cls, label: int, n_labels: int) -> Labels:
        """All mass on one label."""
        if check_count("n_labels", n_labels, "pass how many labels there are, 1 or more", low=1) > _MOST_LABELS:
            raise InvalidInputError("n_labels", "is too large", f"pass {_MOST_LABELS} at most")
        if check_count("label", label, f"pass a number from 0 to {n_labels - 1}") >= n_labels:
            raise InvalidInputError("label", f"is {label}", f"pass a number from 0 to {n_labels - 1}")
        p = np.zeros(n_labels)
        p[label] = 1.0
        return cls(p)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"kind": self.kind, "probabilities": self.probabilities.tolist()}


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Real-valued samples of a distribution, with optional weights.

    Examples
    --------
    >>> Samples([3.0, 1.0]).weights
    array([0.5, 0.5])
    >>> Samples(0.25).values
    array([0.25])
    """

    values: Floats
    weights: Floats
    kind: ClassVar[str] = "samples"

    def __init__(self, values: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> None:
        x = np.atleast_1d(check_array("values", values, "pass a number or a list of numbers"))
        if x.ndim != 1 or x.size == 0:
            raise InvalidInputError("values", f"has shape {x.shape}", "pass a non-empty list of numbers")
        _set(self, "values", _finite("values", x))
        _set(self, "weights", _weights(weights, x.size))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"kind": self.kind, "values": self.values.tolist(), "weights": self.weights.tolist()}


@dataclass(frozen=True, slots=True, eq=False)
class Cloud:
    """Points in R^d, one per row, with optional weights.

    Examples
    --------
    >>> Cloud([[0.0, 1.0], [2.0, 3.0]]).dimension
    2
    """

    points: Floats
    weights: Floats
    kind: ClassVar[str] = "cloud"

    def __init__(self, points: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> None:
        x = check_array("points", points, "pass an n x d array, one point per row")
        if x.ndim != 2 or x.size == 0:
            raise InvalidInputError("points", f"has shape {x.shape}", "pass an n x d array, one point per row")
        _set(self, "points", _finite("points", x))
        _set(self, "weights", _weights(weights, x.shape[0]))

    @property
    def dimension(self) -> int:
        """The number of coordinates, d."""
        return int(self.points.shape[1])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"kind": self.kind, "points": self.points.tolist(), "weights": self.weights.tolist()}


@dataclass(frozen=True, slots=True, eq=False)
class Gaussian:
    """A normal distribution on R^d: a mean and either d variances or a d x d covariance.

    Examples
    --------
    >>> Gaussian([0.0, 0.0], [1.0, 4.0]).covariance
    array([[1., 0.],
           [0., 4.]])
    """

    mean: Floats
    covariance: Floats
    diagonal: bool
    kind: ClassVar[str] = "gaussian"

    def __init__(self, mean: npt.ArrayLike, covariance: npt.ArrayLike) -> None:
        m = np.atleast_1d(check_array("mean", mean, "pass d numbers"))
        s = check_array("covariance", covariance, "pass d variances or a d x d matrix")
        if m.ndim != 1 or s.shape not in ((m.size,), (m.size, m.size)):
            raise InvalidInputError(
                "covariance", f"has shape {s.shape} for a mean of shape {m.shape}", "pass d variances or a d x d matrix"
            )
        _set(self, "mean", _finite("mean", m))
        _set(self, "diagonal", s.ndim == 1)
        _set(self, "covariance", _positive(_finite("covariance", np.diag(s) if s.ndim == 1 else s)))

    @property
    def dimension(self) -> int:
        """The number of coordinates, d."""
        return int(self.mean.size)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        spread = np.diag(self.covariance) if self.diagonal else self.covariance
        return {"kind": self.kind, "mean": self.mean.tolist(), "covariance": spread.tolist()}


def measure_from_dict(document: Mapping[str, Any]) -> Labels | Samples | Cloud | Gaussian:
    """The inverse of ``to_dict``.

    Examples
    --------
    >>> measure_from_dict({"kind": "labels", "probabilities": [0.5, 0.5]}).kind
    'labels'
    """
    kinds: dict[str, Any] = {"labels": Labels, "samples": Samples, "cloud": Cloud, "gaussian": Gaussian}
    kind = document.get("kind") if isinstance(document, Mapping) else None
    if kind not in kinds:
        raise InvalidInputError("measure.kind", f"is {kind!r}", f"pass one of {', '.join(sorted(kinds))}")
    arguments = {name: value for name, value in document.items() if name != "kind"}
    try:
        measure: Labels | Samples | Cloud | Gaussian = kinds[kind](**arguments)
    except TypeError as error:
        raise InvalidInputError(f"measure of kind {kind}", f"is malformed ({error})", "see its to_dict()") from error
    return measure


def require(measure: Measure, *kinds: str) -> Any:
    """Return the measure if it has one of these kinds; otherwise raise an error."""
    kind = getattr(measure, "kind", type(measure).__name__)
    if kind not in kinds:
        raise InvalidInputError(
            "measure",
            f"is of kind {kind!r} where {' or '.join(map(repr, kinds))} is needed",
            "kinds do not mix: give tasks, agents and outcomes measures of one kind, or choose another geometry",
        )
    return measure


def _set(instance: object, name: str, value: Any) -> None:
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    object.__setattr__(instance, name, value)


def _finite(name: str, x: Floats) -> Floats:
    if not np.all(np.isfinite(x)):
        raise InvalidInputError(name, "holds a number that is not finite", "impute or drop it")
    return np.array(x)


def _weights(weights: npt.ArrayLike | None, n: int) -> Floats:
    if weights is None:
        return np.full(n, 1.0 / n)
    w = check_array("weights", weights, f"pass {n} numbers, one per sample")
    if w.shape != (n,):
        raise InvalidInputError("weights", f"has shape {w.shape}", f"pass {n} numbers, one per sample")
    return _normalised("weights", w)


def _normalised(name: str, p: Floats) -> Floats:
    if not np.all(np.isfinite(p)) or np.any(p < 0):
        raise InvalidInputError(name, "holds a negative or non-finite number", "pass probabilities")
    total = float(p.sum())
    if abs(total - 1.0) > 1e-6:
        raise InvalidInputError(name, f"sum to {total:.6g}", "divide by their sum")
    return p if abs(total - 1.0) <= _ROUNDING * p.size else p / total  # makes normalisation idempotent


def _positive(s: Floats) -> Floats:
    if not np.allclose(s, s.T, rtol=1e-9, atol=1e-12 * float(np.abs(s).max(initial=1.0))):
        raise InvalidInputError("covariance", "is not symmetric", "pass (S + S.T) / 2")
    s = 0.5 * (s + s.T)
    least = float(np.linalg.eigvalsh(s)[0])
    if least < -1e-9 * max(1.0, float(np.abs(s).max())):
        raise InvalidInputError("covariance", f"has the eigenvalue {least:.3g}", "pass a positive semi-definite matrix")
    return s
