"""Two agents of equal quality; their prices are exchanged, and traffic follows without any outcome to learn from."""

from __future__ import annotations

from collections.abc import Sequence

from play import Phase, PhaseResult, Scenario, main

_ROUTER = "{policy: auto, seed: 7, floor: 0.02, objective: {usd: 20.0}}"


def _agents(north: float, south: float) -> str:
    return "".join(
        f"\n  - {{id: {name}, kind: simulated, price: {{output_usd_per_million: {usd}}},\n"
        f"     params: {{seed: {seed}, quality: 0.8, spread: 0.0, median_s: 0.005, sigma: 0.1}}}}"
        for seed, (name, usd) in enumerate((("north", north), ("south", south)))
    )


def _prompt(number: int) -> tuple[str, str]:
    return "ticket", f"Classify ticket {number}"


def _moved(played: Sequence[PhaseResult]) -> str:
    before, after = (each.share("north", last=0.5) for each in played)
    return (
        f"prices: north {before:.0%} -> {after:.0%} of the traffic at equal quality, because its price rose from 10 to "
        "10000 dollars per million tokens and that of south fell"
    )


SCENARIO = Scenario(
    (
        Phase("north costs 10 dollars per million tokens, south 10000", _ROUTER, _agents(10, 10_000)),
        Phase("north costs 10000 dollars per million tokens, south 10", _ROUTER, _agents(10_000, 10)),
    ),
    prompt=_prompt,
    moved=_moved,
    rounds=150,
)

if __name__ == "__main__":
    main(SCENARIO)
