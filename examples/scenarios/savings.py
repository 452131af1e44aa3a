"""Watch first, then serve with a guarantee, until the cheap agent becomes worse: the baseline gets its traffic back."""

from __future__ import annotations

from collections.abc import Sequence

from play import Phase, PhaseResult, Scenario, main

_SETTINGS = "params: {{seed: 1, quality: {quality}, spread: 0.0, median_s: 0.001, sigma: 0.1}}"
_AGENT = f"{{{{id: {{id}}, kind: simulated, price: {{{{per_call_usd: {{usd}}}}}}, {_SETTINGS}}}}}"
_ROUTER = "policy: ucb1, seed: 7, floor: 0.02, objective: {usd: 20}"
_OBSERVE = "observe: {baseline: large, usd_per_day: 100000}"
_PROMISE = "guarantee: {baseline: large, loss_at_most: 0.3}"


def _agents(small: float) -> str:
    large = _AGENT.format(id="large", usd=0.02, quality=0.9)
    return f"[{large}, {_AGENT.format(id='small', usd=0.001, quality=small)}]"


def _prompt(number: int) -> tuple[str, str]:
    return "letter", f"Answer letter {number}"


def _moved(played: Sequence[PhaseResult]) -> str:
    watched, served, worse = (each.share("small", last=0.5) for each in played)
    return (
        f"savings: small {watched:.0%} -> {served:.0%} -> {worse:.0%} of the traffic, because it was watched only, "
        "then served within a certified loss, and became worse, which used up the credit"
    )


SCENARIO = Scenario(
    (
        Phase("mode observe: large serves", f"{{{_ROUTER}, {_OBSERVE}}}", _agents(0.9)),
        Phase("served, with a guarantee", f"{{{_ROUTER}, {_PROMISE}}}", _agents(0.9)),
        Phase("small becomes worse", f"{{{_ROUTER}, {_PROMISE}}}", _agents(0.1)),
    ),
    prompt=_prompt,
    moved=_moved,
    rounds=400,
)

if __name__ == "__main__":
    main(SCENARIO)
