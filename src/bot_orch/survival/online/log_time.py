"""Online fits of Weibull, log-normal and log-logistic models from moments of log time.

These likelihoods have no small sufficient statistic for censored times. The state is a histogram of ``log t``, separate
for completed and censored outcomes, with the count and the first three moments in every bin. Each bin is then replaced
by the two weighted points with the same four moments (a two-point Gauss rule), and the model is fitted to those points
by the concave Newton method of :mod:`~bot_orch.survival.models.location_scale`.

The rule integrates cubics exactly, so a bin of width ``h`` in log time costs an error of order ``h^4`` in the
log-likelihood (parameters within 1e-6 of the batch fit at the default ``h = 0.1``); a bin that holds at most two
distinct times costs none. The state is additive, so the order of outcomes does not matter and two states of the same
agents can be added.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Arrays, Bools, Field, Floats, Schema
from bot_orch.errors import InvalidInputError
from bot_orch.survival.base import Fit, Observations
from bot_orch.survival.models.location_scale import LocationScaleModel, fit_log_times, log_times
from bot_orch.survival.online.base import AgentIndex, OnlineFit, Prior

__all__ = ["OnlineLogTime"]

ModelT = TypeVar("ModelT", bound=LocationScaleModel)


class Nodes(NamedTuple):
    """Weighted log times that represent all outcomes."""

    y: Floats
    event: Bools
    weights: Floats


@dataclass(frozen=True, slots=True)
class OnlineLogTime(OnlineFit[ModelT], Generic[ModelT]):
    """Online fit of a location-scale model of log time.

    Parameters
    ----------
    kind
        :class:`Weibull`, :class:`LogNormal` or :class:`LogLogistic`.
    prior
        Prior before the first outcome. Without it an agent without a completed outcome has S = 1
        everywhere.
    discount
        Factor of the weights of an agent's earlier outcomes per new outcome of that agent.
    shortest_s, longest_s, bins
        The grid; times outside it are counted in the end bins, with their moments.

    Examples
    --------
    >>> from bot_orch.survival.models.weibull import Weibull
    >>> fit = OnlineLogTime(Weibull)
    >>> state = fit.init((), 1)
    >>> for t, event in [(1.0, True), (2.0, True), (3.0, True), (4.0, False)]:
    ...     fit.update(state, t, event, agent=0)
    >>> fit.model(state).scale_s.round(4)  # what the batch fit gives
    array([3.1619])
    """

    kind: type[ModelT]
    prior: Prior | None = None
    discount: float = 1.0
    _: KW_ONLY
    shortest_s: float = 1e-3
    longest_s: float = 1e6
    bins: int = 207

    def __post_init__(self) -> None:
        if not 0 < self.shortest_s < self.longest_s:
            raise InvalidInputError("shortest_s", f"is {self.shortest_s}", "pass a positive time below longest_s")

    @property
    def schema(self) -> Schema:
        """Power sums 0..3 of log time about the bin centre, for censored (0) and completed (1) outcomes."""
        return {"moments": Field(shape=(2, self.bins, 4))}

    @property
    def centres(self) -> Floats:
        """Log times at the centres of the bins."""
        edges = np.linspace(np.log(self.shortest_s), np.log(self.longest_s), self.bins + 1)
        return (edges[1:] + edges[:-1]) / 2

    def _add(self, state: Arrays, at: AgentIndex, data: Observations, cause: npt.ArrayLike) -> None:
        moments = state["moments"]
        if self.discount != 1.0:
            moments[at] *= np.where(data.weights > 0, self.discount, 1.0)[..., None, None, None]
        y, centres = log_times(data.t_s), self.centres
        width = centres[1] - centres[0]
        k = np.clip(np.floor((y - centres[0]) / width + 0.5), 0, self.bins - 1).astype(np.int64)
        offset = (y - centres[k])[..., None] ** np.arange(4)
        index = (*at, data.event.astype(np.int64), k)
        moments[index] += data.weights[..., None] * offset

    def nodes(self, state: Arrays) -> Nodes:
        """Two weighted points per bin and kind of outcome, and the prior's three."""
        offset, weights = _two_points(state["moments"])
        y = self.centres[:, None] + offset
        lead = y.shape[:-3]
        event: Bools = np.broadcast_to(np.array([False, True])[:, None, None], y.shape).reshape(*lead, -1)
        y, weights = y.reshape(*lead, -1), weights.reshape(*lead, -1)
        used = np.any(weights > 0, axis=tuple(range(len(lead))))
        y, event, weights = y[..., used], event[..., used], weights[..., used]
        if self.prior is not None:
            # Three events spread like an exponential's log time (whose standard deviation is pi / sqrt 6).
            spread = np.pi / np.sqrt(6) * np.sqrt(1.5) * np.array([-1.0, 0.0, 1.0])
            extra = np.broadcast_to(np.log(self.prior.scale_s) + spread, (*lead, 3))
            y = np.concatenate([y, extra], axis=-1)
            event = np.concatenate([event, np.ones((*lead, 3), dtype=bool)], axis=-1)
            weights = np.concatenate([weights, np.full((*lead, 3), self.prior.weight / 3)], axis=-1)
        return Nodes(y, event, weights)

    def fit(self, state: Arrays) -> Fit[ModelT]:
        """The fit of every agent, with its convergence."""
        nodes = self.nodes(state)
        mu, sigma, _, top = fit_log_times(self.kind.standard, *nodes, fixed_scale=self.kind.fixed_spread)
        return Fit(self.kind.from_location(mu, sigma), top.value, top.converged, n_iterations=top.n_iterations)

    def model(self, state: Arrays) -> ModelT:
        """The fitted model of every agent."""
        return self.fit(state).model


def _two_points(moments: Floats) -> tuple[Floats, Floats]:
    """Offsets and weights ``(..., 2)`` of the two-point measures with these power sums 0..3."""
    n = moments[..., 0]
    m1, m2, m3 = (np.divide(moments[..., j], n, out=np.zeros_like(n), where=n > 0) for j in (1, 2, 3))
    variance = m2 - m1**2
    spread = np.where(variance > 1e-13 * (m2 + 1e-300), np.sqrt(np.maximum(variance, 0.0)), 0.0)
    third = m3 - 3 * m1 * m2 + 2 * m1**3
    skew = np.divide(third, spread**3, out=np.zeros_like(n), where=spread > 1e-9)
    root = np.sqrt(skew**2 + 4)
    offset = np.stack([m1 + spread * (skew - root) / 2, m1 + spread * (skew + root) / 2], axis=-1)
    weights = np.stack([n * (root + skew) / (2 * root), n * (root - skew) / (2 * root)], axis=-1)
    return offset, weights
