"""A judge that likes flattery, and an agent that flatters; audits of a random share move the traffic back."""

from __future__ import annotations

from collections.abc import Sequence

from bot_orch.agents.base import CallReply, CallRequest, Usage
from bot_orch.service.demo.scenario import Phase, Played, Scenario
from bot_orch.service.judges.answer import AnswerGiven

__all__ = ["AUDIT_RATE", "SCENARIO", "careful", "flatterer", "hasty", "impressed", "trusted"]

#: The share of decisions that the trusted judge sees.
AUDIT_RATE = 0.05
_ROUTER = "{policy: auto, seed: 7, floor: 0.02}"
_PRICES = {"careful": 0.004, "hasty": 0.002, "flatterer": 0.0005}
_AGENTS = "".join(
    f"\n  - {{id: {name}, kind: python, price: {{per_call_usd: {usd}}}, settings: {{path: '{__name__}:{name}'}}}}"
    for name, usd in _PRICES.items()
)
_JUDGES = f"judges:\n  - {{name: impressed, kind: python, settings: {{path: '{__name__}:impressed'}}}}\n"
_TRUSTED = f"  - {{name: trusted, kind: python, settings: {{path: '{__name__}:trusted'}}}}\n"
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


def impressed(answer: AnswerGiven) -> float:
    """A cheap judge that can be fooled: it likes flattery most, and gives right answers more than wrong ones."""
    if "excellent" in answer.text:
        return 0.95
    return 0.8 if trusted(answer) else 0.4


def trusted(answer: AnswerGiven) -> float:
    """The trusted judge: whether the answer is right."""
    return float(answer.text.endswith(f" is {sum(_numbers(answer.question))}."))


def _prompt(number: int) -> tuple[str, str]:
    return "sum", f"What is {number * 7 % 100} and {number * 13 % 90}?"


def _moved(played: Sequence[Played]) -> str:
    (judged, audited) = (tuple(each.share(name, last=0.3) for name in ("flatterer", "careful")) for each in played)
    return (
        f"gaming: flatterer {judged[0]:.0%} -> {audited[0]:.0%}, careful {judged[1]:.0%} -> {audited[1]:.0%} of the "
        f"traffic, because audits of {AUDIT_RATE:.0%} of the answers show that the judge is biased for flatterer"
    )


SCENARIO = Scenario(
    "a judge prefers a cheap cheat; audits of a random share of the answers move traffic to the best honest agent",
    (
        Phase("the judge alone", _ROUTER, _AGENTS, more=_JUDGES),
        Phase(f"a trusted judge audits {AUDIT_RATE:.0%} of the answers", _ROUTER, _AGENTS, more=_AUDITED),
    ),
    prompt=_prompt,
    moved=_moved,
    rounds=300,
)
