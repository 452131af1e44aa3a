"""Tests gate a cheap coding model: what fails them is not delivered, and a dear model is asked instead."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from play import HERE, Phase, PhaseResult, Scenario, main

_CHEAP, _DEAR = 0.7, 0.95  # shares of right answers
_AGENTS = f"""
  - {{id: small, kind: python, price: {{per_call_usd: 0.001}}, path: "{HERE}/verify:small"}}
  - {{id: large, kind: python, price: {{per_call_usd: 0.020}}, path: "{HERE}/verify:large"}}"""
_JUDGES = f'judges: [{{name: tests, kind: python, settings: {{path: "verify:tests", folder: "{HERE}"}}}}]'
_ROUTER = "policy: auto, seed: 7, floor: 0.05, objective: {usd: 5.0}"


def _function(request: Any, right: float, name: str) -> str:
    number = _number(request.plain())
    lucky = random.Random(f"{name} {number}").random() < right  # noqa: S311
    return f"def plus(x):\n    return x + {number if lucky else number + 1}\n"


def small(request: Any) -> str:
    """A cheap model: wrong in three of ten functions."""
    return _function(request, _CHEAP, "small")


def large(request: Any) -> str:
    """A dear model: wrong in one of twenty."""
    return _function(request, _DEAR, "large")


def tests(answer: Any) -> tuple[float, str]:
    """Run three tests of the answered function in a process of its own."""
    number = _number(answer.question)
    script = f"{answer.text}\nprint(sum(plus(x) != x + {number} for x in (0, 1, 5)))"
    command = [sys.executable, "-I", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)  # noqa: S603
    failed = int(done.stdout) if done.returncode == 0 else 3
    return float(failed == 0), f"failed: {failed} of 3"


def _number(text: str) -> int:
    return int(re.findall(r"\d+", text)[0])


def _prompt(number: int) -> tuple[str, str]:
    return "code", f"Write a Python function plus(x) that returns x + {number}"


def _moved(played: Sequence[PhaseResult]) -> str:
    one, gated = played
    return (
        f"verify: tests pass for {one.reward:.0%} -> {gated.reward:.0%} of the answers at ${one.usd_per_task:.4f} -> "
        f"${gated.usd_per_task:.4f} a task, because tests run before delivery and large is asked for what fails"
    )


SCENARIO = Scenario(
    (
        Phase("one agent per task; tests run after delivery", f"{{{_ROUTER}}}", _AGENTS, more=_JUDGES),
        Phase("tests before delivery", f"{{{_ROUTER}, checks: [tests], attempts: 2}}", _AGENTS, more=_JUDGES),
    ),
    prompt=_prompt,
    moved=_moved,
    rounds=200,
)

if __name__ == "__main__":
    main(SCENARIO)
