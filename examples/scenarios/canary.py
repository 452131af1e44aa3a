"""Two new agents on trial: the better one gets a larger share, the worse one is held at its cap and drained."""

from __future__ import annotations

from collections.abc import Sequence

from play import Phase, PhaseResult, Scenario, main

_ROUTER = "{policy: auto, seed: 7, floor: 0.05}"
_OLD = """
  - {id: old, kind: simulated, params: {seed: 1, quality: 0.6, spread: 0.0, median_s: 0.005, sigma: 0.1}}"""
_NEW = """
  - {id: better, kind: simulated, params: {seed: 2, quality: 0.95, spread: 0.0, median_s: 0.005, sigma: 0.1},
     canary: 0.1}
  - {id: worse, kind: simulated, params: {seed: 3, quality: 0.2, spread: 0.0, median_s: 0.005, sigma: 0.1},
     canary: 0.1}"""
_RAISED = _NEW.replace("canary: 0.1", "canary: 1.0", 1)


def _prompt(number: int) -> tuple[str, str]:
    return "note", f"Summarise note {number}"


def _moved(played: Sequence[PhaseResult]) -> str:
    _, trial, after = played
    return (
        f"canary: better {trial.share('better'):.0%} -> {after.share('better', last=0.5):.0%} of the traffic, "
        f"because its cap rose from 10 % and it earns more; worse {trial.share('worse'):.0%} (10 % at most), then "
        f"{after.share('worse'):.0%}, because it was drained"
    )


SCENARIO = Scenario(
    (
        Phase("old answers everything", _ROUTER, _OLD),
        Phase("better and worse come, 10 % each at most", _ROUTER, _OLD + _NEW),
        Phase("worse is drained, the cap of better is gone", _ROUTER, _OLD + _RAISED, drained=("worse",)),
    ),
    prompt=_prompt,
    moved=_moved,
    rounds=150,
)

if __name__ == "__main__":
    main(SCENARIO)
