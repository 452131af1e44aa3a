"""Online regression on covariates: a window of recent outcomes and a quadratic approximation of older ones.

The last ``window`` outcomes of an agent are stored. One that leaves the window is replaced by the quadratic expansion
of its log-likelihood at the current estimate. The fit maximises window + quadratic + prior, which is concave. Up to
``window`` outcomes it equals the batch fit. Beyond, the expansion error of an outcome is of the order of the squared
error of the estimate when it left the window, and the sum of these grows like ``log n``: the distance to the batch fit
is of order ``log n / n``, negligible against the statistical error ``1 / sqrt n``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Arrays, Bools, Field, Floats, Schema, allocate
from bot_orch.survival.base import check_observations
from bot_orch.survival.covariates import AcceleratedTime, ProportionalHazards, check_features
from bot_orch.survival.models.location_scale import LocationScaleModel, Triple, likelihood, log_times
from bot_orch.survival.models.piecewise import PiecewiseConstant, exposures, interval
from bot_orch.survival.newton import maximise
from bot_orch.survival.online.base import Prior, agent_index

__all__ = ["AcceleratedLikelihood", "OnlineRegression", "ProportionalLikelihood", "RegressionLikelihood"]

RegressionT = TypeVar("RegressionT", covariant=True)


class RegressionLikelihood(ABC, Generic[RegressionT]):
    """A concave log-likelihood of right-censored times with features."""

    __slots__ = ()

    @abstractmethod
    def start(self, d: int, prior: Prior) -> Floats:
        """Initial parameters for ``d`` features; the features' parameters come last."""

    @abstractmethod
    def terms(self, p: Floats, t_s: Floats, event: Bools, x: Floats, weights: Floats) -> Triple:
        """Value, gradient and Hessian of the weighted sum over the outcomes ``(..., n)``."""

    @abstractmethod
    def prior_terms(self, p: Floats, prior: Prior, d: int) -> Triple:
        """Value, gradient and Hessian of the log prior."""

    @abstractmethod
    def model(self, p: Floats, d: int) -> RegressionT:
        """The model with these parameters."""


@dataclass(frozen=True, slots=True)
class AcceleratedLikelihood(RegressionLikelihood[AcceleratedTime[Any]]):
    """Accelerated time for :class:`Exponential`, :class:`Weibull`, :class:`LogNormal` or :class:`LogLogistic`."""

    kind: type[LocationScaleModel]

    @property
    def _fixed(self) -> bool:
        return self.kind.fixed_spread

    def start(self, d: int, prior: Prior) -> Floats:
        """Shape 1, the prior's scale, no effect of features."""
        head = [np.log(prior.scale_s)] if self._fixed else [1.0, np.log(prior.scale_s)]
        return np.array(head + [0.0] * d)

    def terms(self, p: Floats, t_s: Floats, event: Bools, x: Floats, weights: Floats) -> Triple:
        """In the concave coordinates of :mod:`~bot_orch.survival.models.location_scale`."""
        z = np.concatenate([np.ones((*t_s.shape, 1)), x], axis=-1)
        return likelihood(self.kind.standard, p, log_times(t_s), z, event, weights)

    def prior_terms(self, p: Floats, prior: Prior, d: int) -> Triple:
        """Three events without features, spread like an exponential's log time."""
        lead = p.shape[:-1]
        spread = np.pi / np.sqrt(6) * np.sqrt(1.5) * np.array([-1.0, 0.0, 1.0])
        t = np.broadcast_to(prior.scale_s * np.exp(spread), (*lead, 3))
        weights = np.full(t.shape, prior.weight / 3)
        return self.terms(p, t, np.ones(t.shape, dtype=bool), np.zeros((*t.shape, d)), weights)

    def model(self, p: Floats, d: int) -> AcceleratedTime[Any]:
        """Convert the parameters ``(1, mu, beta) / sigma`` to a model."""
        sigma = np.ones(p.shape[:-1]) if self._fixed else 1 / p[..., 0]
        eta = p if self._fixed else p[..., 1:]
        base = self.kind.from_location(sigma * eta[..., 0], sigma)
        return AcceleratedTime(base, sigma[..., None] * eta[..., 1:])


@dataclass(frozen=True, slots=True)
class ProportionalLikelihood(RegressionLikelihood[ProportionalHazards[PiecewiseConstant]]):
    """Proportional hazards over a piecewise-constant baseline; parameters are log rates and coefficients."""

    breaks_s: tuple[float, ...]

    def start(self, d: int, prior: Prior) -> Floats:
        """The prior's rate in every interval, no effect of features."""
        return np.array([-np.log(prior.scale_s)] * (len(self.breaks_s) + 1) + [0.0] * d)

    def terms(self, p: Floats, t_s: Floats, event: Bools, x: Floats, weights: Floats) -> Triple:
        """A Poisson likelihood per interval, with the exposure as offset."""
        breaks = np.asarray(self.breaks_s)
        k = breaks.size + 1
        effect = np.einsum("...nj,...j->...n", x, p[..., k:])
        with np.errstate(over="ignore", invalid="ignore"):
            spent = weights[..., None] * exposures(t_s, breaks) * np.exp(effect)[..., None]
            mean = spent * np.exp(p[..., None, :k])
            seen = (weights * event)[..., None] * (interval(t_s, breaks)[..., None] == np.arange(k))
            log_rate = p[..., None, :k] + effect[..., None]
            value = np.sum(seen * log_rate - mean, axis=(-1, -2))
        rest, row = seen - mean, mean.sum(axis=-1)
        gradient = np.concatenate([rest.sum(axis=-2), np.einsum("...nk,...nj->...j", rest, x)], axis=-1)
        cross = np.einsum("...nk,...nj->...kj", mean, x)
        top = np.concatenate([mean.sum(axis=-2)[..., None] * np.eye(k), cross], axis=-1)
        low = np.concatenate([np.swapaxes(cross, -1, -2), np.einsum("...n,...ni,...nj->...ij", row, x, x)], axis=-1)
        return value, gradient, -np.concatenate([top, low], axis=-2)

    def prior_terms(self, p: Floats, prior: Prior, d: int) -> Triple:
        """``weight`` events in ``weight * scale`` seconds, in every interval."""
        k = len(self.breaks_s) + 1
        with np.errstate(over="ignore"):
            mean = prior.weight * prior.scale_s * np.exp(p[..., :k])
        gradient, hessian = np.zeros(p.shape), np.zeros((*p.shape, p.shape[-1]))
        gradient[..., :k] = prior.weight - mean
        hessian[..., np.arange(k), np.arange(k)] = -mean
        return np.sum(prior.weight * p[..., :k] - mean, axis=-1), gradient, hessian

    def model(self, p: Floats, d: int) -> ProportionalHazards[PiecewiseConstant]:
        """Rates and coefficients."""
        k = len(self.breaks_s) + 1
        return ProportionalHazards(PiecewiseConstant(np.asarray(self.breaks_s), np.exp(p[..., :k])), p[..., k:])


@dataclass(frozen=True, slots=True)
class OnlineRegression(Generic[RegressionT]):
    """Online fit of a survival regression.

    Parameters
    ----------
    likelihood
        :class:`AcceleratedLikelihood` or :class:`ProportionalLikelihood`.
    n_features
        Number of features d.
    prior
        Prior before the first outcome.
    window
        Number of outcomes stored per agent.
    ridge
        Precision of a zero-mean normal prior of the features' parameters; without it they are not identified before
        d + 1 outcomes.

    Examples
    --------
    >>> from bot_orch.survival.models.exponential import Exponential
    >>> fit = OnlineRegression(AcceleratedLikelihood(Exponential), n_features=1, prior=Prior(10.0))
    >>> state = fit.init((), 1)
    >>> for t, x in [(4.0, 0.0), (6.0, 0.0), (20.0, 1.0), (30.0, 1.0)]:
    ...     fit.update(state, t, True, [x], agent=0)
    >>> fit.model(state).at([1.0]).scale_s.round(1)
    array([25.])
    """

    likelihood: RegressionLikelihood[RegressionT]
    n_features: int
    prior: Prior
    _: KW_ONLY
    window: int = 256
    ridge: float = 1e-3

    @property
    def schema(self) -> Schema:
        """The window, the quadratic approximation and the current estimate."""
        n = self.likelihood.start(self.n_features, self.prior).size
        return {
            "t_s": Field(shape=(self.window,), fill=1.0),
            "event": Field(shape=(self.window,), dtype="bool"),
            "x": Field(shape=(self.window, self.n_features)),
            "weight": Field(shape=(self.window,)),
            "next": Field(dtype="int64"),
            "linear": Field(shape=(n,)),
            "curvature": Field(shape=(n, n)),
            "estimate": Field(shape=(n,), fill=np.nan),
        }

    def init(self, batch: tuple[int, ...], n_agents: int) -> Arrays:
        """Initial state, without outcomes."""
        return allocate(self.schema, batch, n_agents)

    def update(
        self,
        state: Arrays,
        t_s: npt.ArrayLike,
        event: npt.ArrayLike,
        x: npt.ArrayLike,
        agent: npt.ArrayLike | None = None,
        weight: npt.ArrayLike = 1.0,
    ) -> None:
        """Add one outcome per batch row, with features ``batch + (d,)``; see :meth:`OnlineFit.update`."""
        at = agent_index(state["next"].shape, agent)
        part: dict[str, Any] = {name: state[name][at] for name in self.schema}
        lead = part["next"].shape
        data = check_observations(t_s, event, weight)
        new = {
            "t_s": np.broadcast_to(data.t_s, lead),
            "event": np.broadcast_to(data.event, lead),
            "weight": np.broadcast_to(data.weights, lead),
            "x": check_features(x, lead),
        }
        used = np.asarray(data.weights > 0) & np.ones(lead, dtype=bool)
        slot = (*np.indices(lead), part["next"] % self.window)
        self._remember(part, slot, used)
        for name, value in new.items():
            mask = used if name != "x" else used[..., None]
            part[name][slot] = np.where(mask, value, part[name][slot])
        part["next"] = part["next"] + used
        for name, value in part.items():
            state[name][at] = value

    def model(self, state: Arrays) -> RegressionT:
        """The fitted model of every agent."""
        return self.likelihood.model(self._maximise(state, 80), self.n_features)

    def _remember(self, part: dict[str, Any], slot: Any, used: Bools) -> None:
        """Add the outcome about to be overwritten to the quadratic approximation."""
        old = {name: part[name][slot][..., None] for name in ("t_s", "event", "weight")}
        weights = np.where(used[..., None], old["weight"], 0.0)
        if not np.any(weights > 0):
            return
        p = self._maximise(part, 4)
        x = part["x"][slot][..., None, :]
        _, gradient, hessian = self.likelihood.terms(p, old["t_s"], old["event"], x, weights)
        part["linear"] = part["linear"] + gradient - np.einsum("...ij,...j->...i", hessian, p)
        part["curvature"] = part["curvature"] - hessian
        part["estimate"] = p

    def _maximise(self, part: dict[str, Any], max_iterations: int) -> Floats:
        start = np.where(
            np.isnan(part["estimate"]), self.likelihood.start(self.n_features, self.prior), part["estimate"]
        )
        ridge = self.ridge * (np.arange(start.shape[-1]) >= start.shape[-1] - self.n_features)

        def objective(p: Floats) -> Triple:
            terms = self.likelihood.terms(p, part["t_s"], part["event"], part["x"], part["weight"])
            prior = self.likelihood.prior_terms(p, self.prior, self.n_features)
            bend = np.einsum("...ij,...j->...i", part["curvature"], p) + ridge * p
            value = np.sum((part["linear"] - bend / 2) * p, axis=-1)
            gradient, hessian = part["linear"] - bend, -part["curvature"] - np.diag(ridge)
            return terms[0] + prior[0] + value, terms[1] + prior[1] + gradient, terms[2] + prior[2] + hessian

        return maximise(objective, start, max_iterations).argument
