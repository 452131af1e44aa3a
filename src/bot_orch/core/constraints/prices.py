"""Expected dollars of a call per agent: learned means, or predictions from task features where available."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bot_orch.arrays import Arrays, Bools, Field, Floats, Ints, Schema, widened

_PSEUDO_OUTCOMES = 2.0
_FEW_OUTCOMES = 0.25  # weight of a price where a limit counts on the means: one outcome says more
_RIDGE = 1.0
_DOUBT = 10.0  # outcomes after which the prediction from features counts as much as the mean
_SMEAR = 5.0  # pseudo-outcomes of the correction for retransformation bias
_FOLD = np.log(10.0)  # a prediction is at most ten times the mean, at least a tenth
_MEMORY = 500.0  # effective number of outcomes, so that a change of prices is noticed
_LEAST_USD = 1e-12


@dataclass(frozen=True, slots=True)
class Prices:
    """Expected dollars per agent, and ``weight`` times them in units of reward.

    Means are shrunk towards the agent's configured price, or towards the mean of all agents where there is none: with n
    outcomes an agent's own mean has weight n / (n + 2). Under a limit an agent without price and outcomes counts as
    free, so that it is tried once, and one outcome outweighs its price. With features, a ridge regression of log
    dollars per agent predicts the cost of the task; the ratio of dollars paid to dollars predicted corrects its
    retransformation bias (smearing), and with n outcomes its weight is n / (n + 10), the rest being the mean's.

    Parameters
    ----------
    weight
        Reward units per dollar.
    n_features
        Number of features of a task.
    wanted
        Whether dollars are learned even if ``weight`` is 0, for a constraint.

    Examples
    --------
    >>> from bot_orch.arrays import allocate
    >>> prices = Prices(weight=10.0)
    >>> state = allocate(prices.schema, (), 2)
    >>> for usd in (0.02, 0.04):
    ...     prices.see(state, np.array(1), np.array(usd))
    >>> prices.expected(state, np.array([0.0, 0.1])).round(3)
    array([0.3, 0.4])
    """

    weight: float = 0.0
    n_features: int = 0
    wanted: bool = False

    @property
    def schema(self) -> Schema:
        """State arrays: dollars and outcomes per agent, and the regression; empty if dollars are not used."""
        if not (self.weight or self.wanted):
            return {}
        totals = {"usd": Field(), "outcomes": Field()}
        if not self.n_features:
            return totals
        d = self.n_features + 1
        return totals | {
            "inverse": Field(shape=(d, d), fill=1.0 / _RIDGE, identity=True),
            "response": Field(shape=(d,)),
            "theta": Field(shape=(d,)),
            "base": Field(),
            "predicted": Field(),
        }

    def adopt(self, state: Arrays, learned: Arrays) -> Arrays:
        """The initial ``state`` with the ``learned`` values; new features count as zero so far."""
        found = widened(state, learned)
        if "base" in state and "base" not in learned and "usd" in learned:  # no task had features
            usual = np.maximum(found["usd"] / np.maximum(found["outcomes"], 1.0), _LEAST_USD)
            base = np.where(found["outcomes"] > 0.0, np.log(usual), found["base"])
            found |= {"base": base, "predicted": found["usd"].copy()}
        return found

    def expected(self, state: Arrays, stated: Floats, price: Floats | None = None) -> Floats:
        """Expected costs without features in units of reward, ``batch + (M,)``, from configured costs ``(M,)``."""
        return stated if not self.weight else np.asarray(stated + self.weight * self.means(state, price))

    def means(self, state: Arrays, price: Floats | None = None) -> Floats:
        """Mean dollars per agent, ``batch + (M,)``; ``price`` (M,) is NaN where an agent has none."""
        usd, n = state["usd"], state["outcomes"]
        if self.wanted:
            prior = np.zeros(n.shape[-1]) if price is None else np.where(np.isfinite(price), _FEW_OUTCOMES, 0.0)
            start = 0.0 if price is None else np.where(np.isfinite(price), price, 0.0)
            return np.asarray((usd + prior * start) / np.maximum(n + prior, 1e-9))
        usual = np.add.reduce(usd, axis=-1, keepdims=True) / np.maximum(np.add.reduce(n, axis=-1, keepdims=True), 1.0)
        if price is not None:
            usual = np.where(np.isfinite(price), price, usual)
        return np.asarray((usd + _PSEUDO_OUTCOMES * usual) / (n + _PSEUDO_OUTCOMES))

    def dollars(
        self, state: Arrays, context: Floats | None, price: Floats | None = None, *, mean: Floats | None = None
    ) -> Floats:
        """Expected dollars of this task per agent, ``batch + (M,)``; ``mean`` are those of a usual one, if known."""
        mean = self.means(state, price) if mean is None else mean
        if context is None or not self.n_features:
            return mean
        n, usual = state["outcomes"], np.maximum(mean, _LEAST_USD)
        raw = self._raw(state, context, usual)
        correction = (state["usd"] + _SMEAR * usual) / (state["predicted"] + _SMEAR * usual)
        trust = n / (n + _DOUBT)
        return np.asarray(trust * raw * correction + (1.0 - trust) * mean)

    def see(
        self,
        state: Arrays,
        agent: Ints,
        usd: Floats,
        *,
        context: Floats | None = None,
        price: Floats | None = None,
    ) -> None:
        """Record the dollar cost of one outcome per batch element; NaN where unknown."""
        if not (self.weight or self.wanted):
            return
        known = np.isfinite(usd)
        paid = np.where(known, usd, 0.0)
        at = (*np.indices(np.shape(agent), sparse=True), agent)
        if context is not None and self.n_features:
            self._regress(state, at, paid, known=known, context=context, price=price)
        forgetful_add(state, at, known=known, values={"usd": paid})

    def repriced(self, state: Arrays, factor: Floats) -> Arrays:
        """The state after prices were multiplied by ``factor``, (M,): dollars change, tokens do not."""
        if not (self.weight or self.wanted):
            return state
        changed: Arrays = {name: state[name] * factor for name in ("usd", "predicted") if name in state}
        if "base" in state:
            changed["base"] = np.where(state["outcomes"] > 0.0, state["base"] + np.log(factor), state["base"])
        return {**state, **changed}

    def _raw(self, state: Arrays, context: Floats, usual: Floats) -> Floats:
        x = _with_one(context)
        log = state["base"] + np.add.reduce(state["theta"] * x[..., None, :], axis=-1)
        middle = np.log(usual)
        return np.asarray(np.exp(np.clip(log, middle - _FOLD, middle + _FOLD)))

    def _regress(
        self, state: Arrays, at: tuple[Ints, ...], usd: Floats, *, known: Bools, context: Floats, price: Floats | None
    ) -> None:
        """Sherman-Morrison update on log dollars relative to the agent's first outcome; unknown rows change nothing."""
        usual = np.maximum(self.means(state, price), _LEAST_USD)
        log = np.log(np.maximum(usd, 0.1 * usual[at] + _LEAST_USD))
        first = known & (state["outcomes"][at] == 0.0)
        state["base"][at] = np.where(first, log, state["base"][at])
        state["predicted"][at] += np.where(known, np.where(first, usd, self._raw(state, context, usual)[at]), 0.0)
        x = _with_one(context) * np.asarray(known, dtype=float)[..., None]
        inverse = state["inverse"][at]
        ax = np.einsum("...ij,...j->...i", inverse, x)
        scale = 1.0 + np.add.reduce(ax * x, axis=-1)
        inverse = inverse - ax[..., :, None] * ax[..., None, :] / scale[..., None, None]
        state["inverse"][at] = inverse
        state["response"][at] += (log - state["base"][at])[..., None] * x
        state["theta"][at] = np.einsum("...ij,...j->...i", inverse, state["response"][at])


def forgetful_add(state: Arrays, at: tuple[Ints, ...], *, known: Bools, values: dict[str, Floats]) -> None:
    """Add one outcome to sums and to ``outcomes``, with an effective number of outcomes of at most 500."""
    full = known & (state["outcomes"][at] >= _MEMORY)
    names = [*values, "outcomes", *(["predicted"] if "predicted" in state else [])]
    if np.count_nonzero(full):
        keep = np.where(full, 1.0 - 1.0 / _MEMORY, 1.0)
        for name in names:
            state[name][at] *= keep
    for name, value in values.items():
        state[name][at] += value
    state["outcomes"][at] += known


def _with_one(context: Floats) -> Floats:
    return np.concatenate([np.ones((*context.shape[:-1], 1)), context], axis=-1)
