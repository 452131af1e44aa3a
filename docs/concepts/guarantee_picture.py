"""Draw ``img/guarantee.png``: a guarantee through an agent that is as good as the baseline and then becomes worse."""

from pathlib import Path

import numpy as np

from bot_orch import Agent, Guarantee, Objective, Orchestrator, Outcome, Task
from bot_orch.lab.harness.figures import new_figure, save_figure


def stream(rounds: int = 6000, change: int = 4000, seed: int = 3):
    """True loss, its bound, the credit, and whether the other agent served, round by round."""
    rng, promise = np.random.default_rng(seed), Guarantee("large", 0.05)
    agents = [Agent("small", price=0.001), Agent("large", price=0.02)]
    router = Orchestrator(agents, "ucb1", objective=Objective(usd=20.0), guarantee=promise, seed=seed)
    loss, rows = 0.0, []
    for number in range(rounds):
        small = 0.9 if number < change else 0.4
        right = {"large": float(rng.random() < 0.9), "small": float(rng.random() < small)}
        decision = router.decide(Task())
        router.observe(decision.id, Outcome.completed(right[decision.agent]))
        loss += right["large"] - right[decision.agent]
        found = router.certificate()
        rows.append((loss, found.loss_bound, found.credit, float(decision.agent == "small")))
    return np.array(rows).T


def picture(rounds: int = 6000, change: int = 4000):
    """The loss and its bound below the credit, and the share of traffic of the other agent."""
    loss, bound, credit, small = stream(rounds, change)
    figure, axes = new_figure(2, 1, 7, 5)
    above, below = axes[0, 0], axes[1, 0]
    above.plot(credit, color="#b0bec5", label="credit: 0.05 a task")
    above.plot(bound, color="#e65100", label="upper bound of the loss")
    above.plot(loss, color="#00796b", label="loss (not known to the router)")
    above.set_ylabel("units of reward")
    above.legend(loc="upper left")
    width = 100
    share = small[: rounds // width * width].reshape(-1, width).mean(axis=1)
    below.plot((np.arange(len(share)) + 0.5) * width, share, color="#3949ab")
    below.set_ylabel("served by small")
    below.set_ylim(0.0, 1.0)
    below.set_xlabel("tasks")
    for axis in (above, below):
        axis.axvline(change, color="#90a4ae", linewidth=0.8, linestyle="--")
    return figure


if __name__ == "__main__":
    save_figure(picture, Path(__file__).parent / "img" / "guarantee")
