"""A good and expensive agent, a fair and cheap one; then a limit on dollars per task, kept by its multiplier."""

from __future__ import annotations

from collections.abc import Sequence

from play import Phase, PhaseResult, Scenario, main

_LIMIT = 0.006
_AGENTS = """
  - {id: large, kind: simulated, price: {per_call_usd: 0.02},
     params: {seed: 1, quality: 0.9, spread: 0.0, median_s: 0.005, sigma: 0.1}}
  - {id: small, kind: simulated, price: {per_call_usd: 0.001},
     params: {seed: 2, quality: 0.6, spread: 0.0, median_s: 0.005, sigma: 0.1}}"""


def _prompt(number: int) -> tuple[str, str]:
    return "letter", f"Answer letter {number}"


def _moved(played: Sequence[PhaseResult]) -> str:
    before, after = played
    return (
        f"budget: large {before.share('large', last=0.5):.0%} -> {after.share('large', last=0.5):.0%} of the traffic, "
        f"${before.usd_per_task:.4f} -> ${after.usd_per_task:.4f} per task, because usd_per_task is limited to "
        f"${_LIMIT}"
    )


SCENARIO = Scenario(
    (
        Phase("no limit", "{policy: auto, seed: 7, floor: 0.02}", _AGENTS),
        Phase(
            f"at most ${_LIMIT} per task",
            f"{{policy: auto, seed: 7, floor: 0.02, subject_to: {{usd_per_task: {_LIMIT}}}}}",
            _AGENTS,
        ),
    ),
    prompt=_prompt,
    moved=_moved,
    rounds=250,
)

if __name__ == "__main__":
    main(SCENARIO)
