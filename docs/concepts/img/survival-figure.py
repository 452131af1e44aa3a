"""Draws survival-overview.png for docs/concepts/survival.md: python docs/concepts/img/survival-figure.py."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from bot_orch.rng import generator
from bot_orch.survival import (
    Cause,
    Exponential,
    GammaFrailty,
    Weibull,
    completion_survival,
    expected_reward,
    kaplan_meier,
    life_table,
    observe,
)

BLUE, ORANGE, GREEN, GREY = "#1f5fa8", "#d9730d", "#2a7f4f", "#777777"


def censoring(ax: plt.Axes) -> None:
    """A timeout is not an event and not nothing."""
    truth, cutoff = Weibull(10.0, 1.5), 9.0
    seen = observe(truth.sample(generator("figure", 1).random(300)), cutoff)
    t = np.linspace(0, 20, 400)
    ax.plot(t, truth.survival(t), color=GREY, lw=4, alpha=0.35, label="truth")
    km = kaplan_meier(life_table(seen.t_s, seen.cause))
    ax.step(t[t <= cutoff], km.survival(t[t <= cutoff]), color=BLUE, label="Kaplan-Meier")
    dropped = kaplan_meier(life_table(seen.t_s[seen.event], seen.cause[seen.event]))
    ax.step(t[t <= cutoff], dropped.survival(t[t <= cutoff]), color=ORANGE, ls="--", label="timeouts dropped")
    ax.axvline(cutoff, color=GREY, ls=":", lw=1)
    ax.text(cutoff + 0.3, 0.93, "timeout", color=GREY)
    ax.set(title="A timeout means “not yet”", xlabel="seconds", ylabel="P(not completed)")
    ax.legend(frameon=False, fontsize=8, loc="upper right", bbox_to_anchor=(1.0, 0.9))


def failures(ax: plt.Axes) -> None:
    """A crash is known at its time."""
    rng = generator("figure", 2)
    crash = Exponential(20.0).sample(rng.random(600))
    seen = observe(Exponential(10.0).sample(rng.random(600)), 80.0, {Cause.CRASHED: crash})
    table, t = life_table(seen.t_s, seen.cause), np.linspace(0, 60, 400)
    ax.step(t, kaplan_meier(table).survival(t), color=ORANGE, ls="--", label="crash read as “still running”")
    ax.step(t, completion_survival(table).survival(t), color=BLUE, label="crash as an event (Aalen-Johansen)")
    ax.axhline(1 / 3, color=GREY, ls=":", lw=1)
    ax.text(60, 0.345, "a third crashes", color=GREY, ha="right", va="bottom")
    ax.set(title="A crash means “never”", xlabel="seconds", ylabel="P(not completed)", ylim=(-0.03, 1.03))
    ax.legend(frameon=False, fontsize=8)


def belief(ax: plt.Axes) -> None:
    """What outcomes tell of theta."""
    law, h = GammaFrailty(0.5), np.linspace(0, 5, 200)
    for events, color in ((0, ORANGE), (1, BLUE), (2, GREEN)):
        ax.plot(h, law.posterior_mean(events, h), color=color, label=f"{events} completed")
    ax.axhline(1, color=GREY, ls=":", lw=1)
    ax.set(title="Belief in θ, gamma of variance 0.5", xlabel="cumulative hazard run through", ylabel="E[θ | outcomes]")
    ax.legend(frameon=False, fontsize=8)


def rewards(ax: plt.Axes) -> None:
    """The mean reward of an agent as its speed varies."""
    scale = np.geomspace(1, 100, 200)
    agents, common = Exponential(scale), Exponential(10.0)
    ax.semilogx(scale, expected_reward(agents), color=GREY, label="own S, no cutoff: always 1/2")
    ax.semilogx(scale, expected_reward(agents, 20.0), color=ORANGE, label="own S, cutoff 20 s")
    ax.semilogx(scale, expected_reward(agents, 20.0, reference=common), color=BLUE, label="common S, cutoff 20 s")
    ax.set(title="Mean reward by speed", xlabel="mean time of the agent (seconds)", ylabel="E R", ylim=(0, 1))
    ax.legend(frameon=False, fontsize=8)


def main() -> None:
    """Draw and save."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    fig, axes = plt.subplots(2, 2, figsize=(9.5, 6.6), layout="constrained")
    for draw, ax in zip((censoring, failures, belief, rewards), axes.flat, strict=True):
        draw(ax)
    fig.savefig(Path(__file__).with_name("survival-overview.png"), dpi=130)


if __name__ == "__main__":
    main()
