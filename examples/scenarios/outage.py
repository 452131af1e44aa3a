"""The best agent stops answering and comes back: its circuit opens, the other agent takes over, no request fails."""

from __future__ import annotations

from collections.abc import Sequence

from play import Phase, PhaseResult, Scenario, main

_ROUTER = "{policy: auto, seed: 7, floor: 0.05}"


def _agents(crash: float) -> str:
    return f"""
  - {{id: first, kind: simulated,
     params: {{seed: 1, quality: 0.95, spread: 0.0, median_s: 0.005, sigma: 0.1, crash: {crash}}}}}
  - {{id: second, kind: simulated,
     params: {{seed: 2, quality: 0.6, spread: 0.0, median_s: 0.005, sigma: 0.1}}}}"""


def _prompt(number: int) -> tuple[str, str]:
    return "note", f"Summarise note {number}"


def _moved(played: Sequence[PhaseResult]) -> str:
    before, during, after = (each.share("first", last=0.5) for each in played)
    failed = sum(each.failed for each in played)
    return (
        f"outage: first {before:.0%} -> {during:.0%} -> {after:.0%} of the traffic, because it crashed and its circuit "
        f"opened, then recovered; {failed} requests failed"
    )


SCENARIO = Scenario(
    (
        Phase("both agents answer, first is better", _ROUTER, _agents(0.0)),
        Phase("first crashes at every call", _ROUTER, _agents(1.0)),
        Phase("first answers again", _ROUTER, _agents(0.0)),
    ),
    prompt=_prompt,
    moved=_moved,
    rounds=150,
)

if __name__ == "__main__":
    main(SCENARIO)
