"""Steps of a round that looks at answers before it delivers one: what is known of an answer, and how steps read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

from bot_orch.agents.base import CallFailure, CallReply, CallRequest
from bot_orch.agents.replies import load_json
from bot_orch.core.events import AttemptEnded, DecisionMade, Event, Noted
from bot_orch.service.config import RouterConfig
from bot_orch.service.judges.answer import Verdict
from bot_orch.types import Answer

#: Topic of the note, about a decision that asked, that says what was known of the answer; it has no text of it.
ANSWER = "round.answer"
#: Field of ``reply.extra`` with the confidence of an answer whose text another process has.
SURE = "sure"
_SHORT = 200  # characters; longer answers are hardly ever equal, and are not compared
_encode = msgspec.json.Encoder().encode


class Team(NamedTuple):
    """The answers of a round so far, and how many agents it may ask."""

    seen: tuple[Answer, ...]
    attempts: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """An answer that may be delivered, and what is known of it."""

    reply: CallReply
    answer: Answer
    verdicts: Mapping[str, Verdict]


def candidate_of(
    decision: DecisionMade,
    reply: CallReply,
    *,
    verdicts: Mapping[str, Verdict],
    settings: RouterConfig,
) -> Candidate:
    """An answer with its covariates: the lowest check, the signal, and a key that equal answers share."""
    checks = [found.value for name in settings.checks if (found := verdicts.get(name)) and found.value is not None]
    signal = None
    if settings.signal == "logprobs":
        signal = reply.extra[SURE] if SURE in reply.extra else confidence(reply)
    answer = Answer(
        decision.agent,
        decision.id,
        signal=signal,
        check=min(checks, default=None),
        key=_key(reply.text),
        cost_usd=reply.cost_usd,
        elapsed_s=reply.elapsed_s,
    )
    return Candidate(reply, answer, verdicts)


def confidence(reply: CallReply) -> float | None:
    """The geometric mean of the probabilities of an answer's tokens; None if the agent does not tell them."""
    if reply.raw is None or b'"logprob"' not in reply.raw:
        return None
    try:
        choice = load_json(reply.raw)["choices"][0]
        found = [float(each["logprob"]) for each in choice["logprobs"]["content"]]
    except (CallFailure, TypeError, ValueError, LookupError, AttributeError):
        return None
    mean = sum(found) / len(found) if found else math.nan
    return None if math.isnan(mean) else math.exp(min(mean, 0.0))


def _key(text: str) -> str | None:
    r"""Equal for equal short answers: JSON by value, other texts without case and extra space; None if it is long.

    Examples
    --------
    >>> _key(" Yes\n") == _key("yes"), _key('{"b": 1, "a": 2}') == _key('{"a":2,"b":1}'), _key("x" * 300)
    (True, True, None)
    """
    plain = " ".join(text.split()).casefold()
    if not plain or len(plain) > _SHORT:
        return None
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return plain.rstrip(".!")


def with_logprobs(request: CallRequest) -> CallRequest:
    """The request, asking for probabilities of tokens; as it is if it asks or is in another interface's words."""
    if request.document is not None or "logprobs" in request.params:
        return request
    return replace(request, params={**request.params, "logprobs": True})


def without_logprobs(raw: bytes | None) -> bytes | None:
    """A chat completion without the probabilities that the caller has not asked for."""
    if raw is None or b'"logprobs"' not in raw:
        return raw
    try:
        document = load_json(raw)
        choices = [{name: part for name, part in each.items() if name != "logprobs"} for each in document["choices"]]
        return _encode({**document, "choices": choices})
    except (CallFailure, TypeError, LookupError, AttributeError):
        return raw


def reasons_of(candidate: Candidate, settings: RouterConfig, *, logged: bool = False) -> str:
    r"""What is known of an answer, in words; ``logged``: without messages that may quote it.

    Examples
    --------
    >>> verdicts = {"tests": Verdict(0.0, "ran 9 tests\nfailed: 2 of 9", own=True)}
    >>> found = Candidate(CallReply(), Answer("small", signal=0.41), verdicts)
    >>> reasons_of(found, RouterConfig(checks=("tests",), signal="logprobs"))
    'tests failed: 2 of 9, sure 0.41'
    """
    parts = [
        _said(name, verdict, quiet=logged and not verdict.own)
        for name in settings.checks
        if (verdict := candidate.verdicts.get(name)) is not None and (verdict.failed or verdict.value is not None)
    ]
    if candidate.answer.signal is not None:
        parts.append(f"sure {candidate.answer.signal:.2f}")
    return ", ".join(parts) or "nothing is known of it"


def _said(name: str, verdict: Verdict, *, quiet: bool) -> str:
    value, reason = verdict.value or 0.0, "" if quiet else verdict.reason
    if verdict.failed:
        return f"{name} could not run: {reason}" if reason else f"{name} could not run"
    if value >= 1.0:
        return f"{name} passed"
    outcome = f"{name} failed" if value <= 0.0 else f"{name} {value:.2f}"
    reason = reason.removeprefix("failed").removeprefix("FAILED").lstrip(": ")
    return f"{outcome}: {reason}" if reason else outcome


def step_lines(decisions: Iterable[DecisionMade], reasons: Mapping[str, str]) -> list[str]:
    """The steps of a round, one per line: agents asked with what was known of their answers, and the one delivered."""
    lines = []
    for each in decisions:
        place = each.agents.index(each.agent)
        worth = float(each.column("estimate")[place])
        if each.action == "accept":
            lines.append(f"delivered {each.agent} ({worth:.2f})")
            continue
        cost = float(each.decision().terms.penalty()[place]) if each.answers else 0.0
        why = f" (worth of asking {worth:.2f} - {cost:.2f})" if each.answers else ""
        lines.append(f"{each.agent}{why}: {reasons.get(each.id, 'no answer')}")
    return lines


def steps_in(events: Sequence[Event]) -> list[str]:
    """The steps of a round by its events in the log; none for a round of one step."""
    decisions = [each for each in events if isinstance(each, DecisionMade)]
    if not any(each.action == "accept" for each in decisions):
        return []
    reasons: dict[str, Any] = {
        each.decision_id: each.ending
        for each in events
        if isinstance(each, AttemptEnded) and each.ending != "completed"
    }
    reasons |= {each.ref: each.data["reasons"] for each in events if isinstance(each, Noted) and each.topic == ANSWER}
    return step_lines(decisions, reasons)
