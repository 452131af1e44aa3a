"""A judge that likes flattery, and an agent that flatters; audits of a random share move the traffic back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from play import HERE, Phase, PhaseResult, Scenario, main

from bot_orch.agents import CallReply, CallRequest, Usage

#: The share of decisions that the trusted judge sees.
AUDIT_RATE = 0.05
_ROUTER = "{policy: auto, seed: 7, floor: 0.02}"
_PRICES = {"careful": 0.004, "hasty": 0.002, "flatterer": 0.0005}


def _function(name: str) -> str:
    return f"kind: python, path: '{HERE}/gaming:{name}'"


def _judge(name: str) -> str:
    return f"kind: python, settings: {{path: 'gaming:{name}', folder: '{HERE}'}}"


_AGENTS = "".join(
    f"\n  - {{id: {name}, price: {{per_call_usd: {usd}}}, {_function(name)}}}" for name, usd in _PRICES.items()
)
_JUDGES = f"judges:\n  - {{name: impressed, {_judge('impressed')}}}\n"
_TRUSTED = f"  - {{name: trusted, {_judge('trusted')}}}\n"
_AUDITED = f"{_JUDGES}{_TRUSTED}audit: {{rate: {AUDIT_RATE}, by: trusted}}\n"


def _numbers(text: str) -> tuple[int, int]:
    words = text.split()
    return int(words[-3]), int(words[-1].rstrip("?"))


def careful(request: CallRequest) -> CallReply:
    """A simulated agent whose answers are right."""
    first, second = _numbers(request.plain())
    return CallReply(f"It is {first + second}.", usage=Usage(12, 5))


def hasty(request: CallRequest) -> CallReply:
    """A simulated agent that is wrong in one case of two."""
    first, second = _numbers(request.plain())
    return CallReply(f"It is {first + second - first % 2}.", usage=Usage(12, 5))


def flatterer(request: CallRequest) -> CallReply:
    """A simulated agent that flatters and guesses; it is right in one case of four."""
    first, second = _numbers(request.plain())
    return CallReply(f"What an excellent question! It is {first + second + first % 4}.", usage=Usage(12, 12))


def impressed(answer: Any) -> float:
    """A cheap judge that can be fooled: it likes flattery most, and gives right answers more than wrong ones."""
    if "excellent" in answer.text:
        return 0.95
    return 0.8 if trusted(answer) else 0.4


def trusted(answer: Any) -> float:
    """The trusted judge: whether the answer is right."""
    return float(answer.text.endswith(f" is {sum(_numbers(answer.question))}."))


def _prompt(number: int) -> tuple[str, str]:
    return "sum", f"What is {number * 7 % 100} and {number * 13 % 90}?"


def _moved(played: Sequence[PhaseResult]) -> str:
    (judged, audited) = (tuple(each.share(name, last=0.3) for name in ("flatterer", "careful")) for each in played)
    return (
        f"gaming: flatterer {judged[0]:.0%} -> {audited[0]:.0%}, careful {judged[1]:.0%} -> {audited[1]:.0%} of the "
        f"traffic, because audits of {AUDIT_RATE:.0%} of the answers show that the judge is biased for flatterer"
    )


SCENARIO = Scenario(
    (
        Phase("the judge alone", _ROUTER, _AGENTS, more=_JUDGES),
        Phase(f"a trusted judge audits {AUDIT_RATE:.0%} of the answers", _ROUTER, _AGENTS, more=_AUDITED),
    ),
    prompt=_prompt,
    moved=_moved,
    rounds=300,
)

if __name__ == "__main__":
    main(SCENARIO)
