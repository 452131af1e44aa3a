"""State of an orchestrator and its lossless, versioned JSON form."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, astuple, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from bot_orch.arrays import Arrays, decode, encode, nan_for_null
from bot_orch.checks import check_number
from bot_orch.codec import decode_json
from bot_orch.core.completion.silences import Silence, silence_from_dict, silence_to_dict
from bot_orch.core.events import FeedbackGiven
from bot_orch.errors import StateFormatError
from bot_orch.records import builder
from bot_orch.transport.measures import measure_from_dict
from bot_orch.types import TERMS, Agent, Decision, Multiplier, Outcome, RandomKey, Terms, answer_of

_decision, _terms, _random_key = builder(Decision), builder(Terms), builder(RandomKey)

FORMAT = "bot-orch-state"
#: Arrays of a policy with a row per outcome, besides the owners of the rows.
_KEPT_ROWS = ("context_rows", "context_codes", "context_claims", "context_reward", "context_round")
VERSION = 1


@dataclass(frozen=True, slots=True)
class FirstVerdict:
    """The first verdict on an audited decision of ``agent`` in ``round``: the truth if ``audit``, else the judge's."""

    agent: str
    round: int
    _: KW_ONLY
    reward: float
    audit: bool


@dataclass(frozen=True, slots=True)
class MeasuredUsage:
    """Usage of a decision: dollars, seconds, seconds until the first token; None where unknown."""

    cost_usd: float | None = None
    elapsed_s: float | None = None
    first_token_s: float | None = None

    def added_to(self, outcome: Outcome) -> Outcome:
        """The outcome, with these dollars and seconds where it has none."""
        cost_usd = self.cost_usd if outcome.cost_usd is None else outcome.cost_usd
        elapsed_s = self.elapsed_s if outcome.elapsed_s is None else outcome.elapsed_s
        return replace(outcome, cost_usd=cost_usd, elapsed_s=elapsed_s)


def measured_usage(cost_usd: Any, elapsed_s: Any, first_token_s: Any) -> MeasuredUsage:
    """Validate and build a :class:`MeasuredUsage`."""
    given = {"cost_usd": cost_usd, "elapsed_s": elapsed_s, "first_token_s": first_token_s}
    remedy = "pass a number, 0 or more, or None"
    return MeasuredUsage(
        **{name: None if value is None else check_number(name, value, remedy) for name, value in given.items()}
    )


@dataclass(slots=True)
class State:
    """Registered agents, learned arrays, pending decisions and recent silences: the fold of the events so far.

    ``parts`` holds the arrays of each learner: ``policy`` and ``reward`` always, the alignment's once it is chosen.
    ``verdicts`` holds the first of two verdicts on audited decisions, ``shown`` the ids of pending decisions whose
    output is known, ``provisional`` decisions whose reward may still be replaced, ``used`` what pending decisions are
    known to have used. ``prefix`` begins the ids of decisions; empty: the key of the random stream does.

    Of a log alone: ``attempts`` holds the dollars and seconds of the attempts at pending decisions, ``early`` the
    reports on decisions that are not known yet.
    """

    agents: tuple[Agent, ...]
    parts: dict[str, Arrays]
    pending: dict[str, Decision] = field(default_factory=dict)
    _: KW_ONLY
    rounds: int = 0
    seq: int = 0
    silences: dict[str, Silence] = field(default_factory=dict)
    verdicts: dict[str, FirstVerdict] = field(default_factory=dict)
    shown: dict[str, None] = field(default_factory=dict)
    provisional: dict[str, Silence] = field(default_factory=dict)
    used: dict[str, MeasuredUsage] = field(default_factory=dict)
    attempts: dict[str, MeasuredUsage] = field(default_factory=dict)
    early: dict[str, list[FeedbackGiven]] = field(default_factory=dict)
    prefix: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON values; :meth:`from_dict` is the inverse."""
        return {
            "agents": [agent_to_dict(agent) for agent in self.agents],
            "parts": {name: encode(arrays) for name, arrays in self.parts.items()},
            "pending": [each.to_dict() for each in self.pending.values()],
            "rounds": self.rounds,
            "seq": self.seq,
            "silences": [silence_to_dict(silence) for silence in self.silences.values()],
            **self._optional(),
        }

    def _optional(self) -> dict[str, Any]:
        """JSON values of optional parts."""
        return {
            **({"verdicts": [[key, *astuple(entry)] for key, entry in self.verdicts.items()]} if self.verdicts else {}),
            **({"shown": list(self.shown)} if self.shown else {}),
            **(
                {"provisional": [silence_to_dict(each) for each in kept.values()]} if (kept := self.provisional) else {}
            ),
            **{
                name: [[key, *astuple(entry)] for key, entry in kept.items()]
                for name, kept in (("used", self.used), ("attempts", self.attempts))
                if kept
            },
            **({"early": [asdict(each) for kept in self.early.values() for each in kept]} if self.early else {}),
            **({"prefix": self.prefix} if self.prefix else {}),
        }

    def forget(self, decisions: Mapping[str, int]) -> None:
        """Remove what is kept of ended decisions one by one; ``decisions`` are their rounds by id.

        Sums and regressions keep what they have learned. Outcomes that policies keep to learn them again lose their
        features and their agent, as if they were withdrawn.
        """
        for entries in (self.silences, self.provisional, self.verdicts, self.shown, self.used, self.attempts):
            for name in decisions:
                entries.pop(name, None)
        rounds = list(decisions.values())
        arrays = self.parts["policy"]
        if "context_owner" in arrays:
            gone = np.isin(arrays["context_round"], rounds)
            arrays["context_owner"][gone] = -1
            for name in _KEPT_ROWS:
                if name in arrays:
                    arrays[name][gone] = 0

    def copied(self) -> State:
        """A copy that later events do not change. Decisions and silences are frozen, so only arrays are copied."""
        return State(
            self.agents,
            {part: {name: array.copy() for name, array in arrays.items()} for part, arrays in self.parts.items()},
            dict(self.pending),
            rounds=self.rounds,
            seq=self.seq,
            silences=dict(self.silences),
            verdicts=dict(self.verdicts),
            shown=dict(self.shown),
            provisional=dict(self.provisional),
            used=dict(self.used),
            attempts=dict(self.attempts),
            early={key: list(kept) for key, kept in self.early.items()},
            prefix=self.prefix,
        )

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> State:
        """The inverse of :meth:`to_dict`."""
        early: dict[str, list[FeedbackGiven]] = {}
        for each in document.get("early", ()):
            early.setdefault(each["decision_id"], []).append(FeedbackGiven(**each))
        return cls(
            tuple(agent_from_dict(entry) for entry in document["agents"]),
            {name: decode(arrays) for name, arrays in document["parts"].items()},
            {decision.id: decision for decision in map(decision_from_dict, document["pending"])},
            rounds=int(document["rounds"]),
            seq=int(document["seq"]),
            silences={entry["id"]: silence_from_dict(entry) for entry in document.get("silences", ())},
            verdicts={
                key: FirstVerdict(agent, round_, reward=reward, audit=audit)
                for key, agent, round_, reward, audit in document.get("verdicts", [])
            },
            shown=dict.fromkeys(document.get("shown", [])),
            provisional={entry["id"]: silence_from_dict(entry) for entry in document.get("provisional", ())},
            used={key: MeasuredUsage(*values) for key, *values in document.get("used", [])},
            attempts={key: MeasuredUsage(*values) for key, *values in document.get("attempts", [])},
            early=early,
            prefix=document.get("prefix", ""),
        )

    def fingerprint(self, derived: str) -> str:
        """A hash of the whole state, as if ``derived`` was the prefix of ids: equal for states that learned alike."""
        document = self.to_dict()
        prefix = document.pop("prefix", derived)
        text = json.dumps(document, sort_keys=True, separators=(",", ":")).replace(f'"{prefix}-', f'"{derived}-')
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class CapturedState(NamedTuple):
    """Format, version and settings of an orchestrator, and a snapshot of its state."""

    head: dict[str, Any]
    state: State


def parse(text: str) -> dict[str, Any]:
    """Parse a saved document and check its format and version."""
    try:
        document = decode_json(text)
    except ValueError as error:
        raise StateFormatError(f"state: not JSON ({error}); restore the file from a backup") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise StateFormatError(f"state.format: not a {FORMAT} document; pass a file written by save()")
    if document.get("version") != VERSION:
        raise StateFormatError(
            f"state.version: is {document.get('version')}, this release reads {VERSION}; load it with the release "
            "that wrote it"
        )
    return document


def agent_to_dict(agent: Agent) -> dict[str, Any]:
    """JSON values; :func:`agent_from_dict` is the inverse."""
    profile = None if agent.profile is None else agent.profile.to_dict()
    price = {} if agent.price is None else {"price": agent.price}
    return {"id": agent.id, "cost": agent.cost, "profile": profile, **price}


def agent_from_dict(document: dict[str, Any]) -> Agent:
    """The inverse of :func:`agent_to_dict`."""
    profile = document["profile"]
    measure = None if profile is None else measure_from_dict(profile)
    return Agent(document["id"], document["cost"], measure, price=document.get("price"))


def decision_from_dict(document: dict[str, Any]) -> Decision:
    """The inverse of :meth:`bot_orch.types.Decision.to_dict`."""
    terms = document["terms"]
    columns = np.array([document["propensities"], *(terms[name] for name in TERMS if name in terms)], dtype=float)
    return _decision(
        document["id"],
        document["task_id"],
        document["agent"],
        tuple(document["agents"]),
        columns[0],
        _terms(*columns[1:]),
        document["policy"],
        document["lambda"],
        document["state_seq"],
        _random_key(document["key"]["stream"], document["key"]["counter"]),
        nan_for_null(document["features"]),
        nan_for_null(document.get("claims", ())),
        document.get("encoder", ""),
        document.get("audit", False),
        document.get("audit_probability", 0.0),
        tuple(Multiplier(*each) for each in document.get("multipliers", ())),
        tuple(document.get("names", ())),
        document.get("action", "ask"),
        tuple(answer_of(*each) for each in document.get("answers", ())),
        document.get("attempts", 1),
    )
