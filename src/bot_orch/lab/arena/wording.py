"""The verdict as sentences."""

from __future__ import annotations

import math

from bot_orch.lab.arena.comparison import ArenaVerdict, GainInterval, WarmStartGain

__all__ = ["words"]


def words(verdict: ArenaVerdict) -> str:
    """A few sentences: what to do, then the numbers behind it."""
    parts = [f"{verdict.dataset} ({verdict.order} order): {_advice(verdict)}"]
    parts += [_gain(name, verdict.differences[name]) for name in ("reward", "cost_usd") if name in verdict.differences]
    if "net" in verdict.differences:
        shown = verdict.differences["net"]
        parts.append(f"Net reward, a dollar counted as {verdict.net_weight:.4g}: {_numbers(shown, '.4f')}.")
    parts += [*_exchange(verdict), _payback(verdict), *_yardsticks(verdict), _basis(verdict)]
    return " ".join(parts)


def _advice(v: ArenaVerdict) -> str:
    now = _now(v)
    chosen = f"{v.policy}, the best of {v.compared} policies," if v.compared > 1 else v.policy
    if v.outcome == "too few tasks":
        return f"too few tasks to decide: keep {now}, and evaluate 20 tasks at least."
    if v.outcome == "better":
        return f"use {v.policy} instead of {now}."
    if v.outcome == "within budget":
        return f"use {chosen.rstrip(',')}: {now} exceeds the budget of {v.budget_usd:.3g} dollars per task."
    if v.outcome == "cheaper":
        return f"use {v.policy} instead of {now} to save money, if it may cost up to {_loss(v)}."
    if v.outcome == "trade":
        return f"{chosen} earns less reward than {now} and costs less."
    if v.outcome == "worse":
        return f"keep {now}: {chosen} earns less."
    return f"keep {now}: no difference found between it and {chosen.rstrip(',')}."


def _loss(v: ArenaVerdict) -> str:
    """The most reward that the interval leaves possible to lose."""
    reward = v.differences["reward"]
    share = f" ({-100.0 * reward.low / reward.baseline:.0f} %)" if reward.baseline > 0.0 else ""
    return f"{-reward.low:.4f} of reward per task{share}"


def _now(v: ArenaVerdict) -> str:
    return v.baseline if v.agent is None else f"sending everything to {v.agent}"


def _gain(name: str, d: GainInterval) -> str:
    if name == "reward":
        if math.isnan(d.low):
            return f"Reward per task: {d.policy:.4f} against {d.baseline:.4f}; too few tasks for an interval."
        none = "no difference found, " if d.sign == 0 else ""
        return f"Reward per task: {none}{_numbers(d, '.4f')}."
    share = f", {100.0 * d.difference / d.baseline:+.0f} %" if d.baseline > 0.0 else ""
    none = "no difference found, " if d.sign == 0 and not math.isnan(d.low) else ""
    return f"Dollars per task: {none}{_numbers(d, '.3g')}{share}."


def _numbers(d: GainInterval, form: str) -> str:
    sign = f"+{form}"
    ends = "" if math.isnan(d.low) else f" [{d.low:{sign}}, {d.high:{sign}}]"
    return f"{d.policy:{form}} against {d.baseline:{form}}, {d.difference:{sign}}{ends}"


def _exchange(v: ArenaVerdict) -> list[str]:
    """What a dollar must be worth where reward and dollars point in opposite directions."""
    if v.metric == "net" or "cost_usd" not in v.differences:
        return []
    reward, usd = v.differences["reward"], v.differences["cost_usd"]
    if reward.sign * usd.sign != 1:
        return []
    rate, side = reward.difference / usd.difference, "less" if usd.sign > 0 else "more"
    return [f"That pays if a dollar is worth {side} than {rate:.3g} reward (--cost-weight says what it is worth)."]


def _payback(v: ArenaVerdict) -> str:
    what = "net reward" if v.metric == "net" else "reward"
    if v.pays_from is None:
        return f"Its total {what} is behind after all {v.rounds} rounds."
    if v.pays_from == 1:
        return f"Its total {what} is never behind in {v.rounds} rounds."
    return f"Its total {what} is ahead for good from round {v.pays_from} of {v.rounds} on."


def _yardsticks(v: ArenaVerdict) -> list[str]:
    found = []
    if math.isfinite(v.best_single):
        found.append(f"In hindsight, the best single agent earns {v.best_single:.4f}")
        if v.mix is not None:
            more = ", more than this policy" if v.mix > v.differences["reward"].policy else ""
            found[-1] += f", the best fixed mix of agents at the same cost {v.mix:.4f}{more}"
        found[-1] += "."
    if v.warm is not None:
        found.append(_warm(v.warm))
    if v.budget_usd is not None and v.differences["cost_usd"].policy > 1.02 * v.budget_usd:
        found.append(f"No policy kept the budget of {v.budget_usd:.3g} dollars per task.")
    return found


def _warm(w: WarmStartGain) -> str:
    """What a user can do who holds the table: teach half of it first."""
    gain, what = w.differences[w.metric], "net reward" if w.metric == "net" else "reward"
    advice = {1: "use it", -1: f"keep {w.agent}", 0: "no difference found"}[gain.sign]
    return (
        f"You hold the table: with a warm start (learn_from) on {w.taught} of these tasks, auto against {w.agent}, the "
        f"best single agent of them, on the other {w.played}: {what} {_numbers(gain, '.4f')} over {w.seeds} seeds; "
        f"{advice}."
    )


def _basis(v: ArenaVerdict) -> str:
    default = "" if v.why == "named by --baseline" else f" Compared with {v.why}; --baseline names another."
    several = f", together for {v.compared} policies" if v.compared > 1 else ""
    return f"Brackets: 95 % intervals over tasks and {v.seeds} seeds{several}.{default}"
