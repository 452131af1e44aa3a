"""The table of endings is whole, consistent with the survival models, and the same in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

import bot_orch.agents as agents
from bot_orch.agents import KINDS, MEANING, Attempt, CallFailure, CallRequest, Ending, Guard, SimulatedRunner
from bot_orch.agents import SimulatedSettings as Sim
from bot_orch.agents.base import AgentRunner
from bot_orch.agents.rejections import CODES, PHRASES
from bot_orch.survival.causes import REASONS, Cause, cause_of

PAGE = (Path(__file__).parents[3] / "docs/concepts/agents.md").read_text()


def test_every_ending_has_a_meaning_and_a_known_reason():
    assert set(MEANING) == set(Ending)
    assert all(meaning.reason in REASONS and meaning.what for meaning in MEANING.values())


@pytest.mark.parametrize("ending", Ending)
def test_outcome_is_filed_under_the_cause_the_table_says(ending):
    outcome = Attempt("a", "r", 1, ending=ending, elapsed_s=2.0).outcome(1.0)
    if not ending.meaning.attempted:
        assert outcome is None
        return
    assert cause_of(outcome) is ending.meaning.cause
    assert outcome.elapsed_s == 2.0
    if ending is not Ending.COMPLETED:
        assert CallFailure(ending, elapsed_s=2.0).outcome() == outcome
        assert outcome.reward is None


def test_silence_is_censored_and_crashes_are_failures():
    silence = {Ending.TIMEOUT_FIRST_BYTE, Ending.TIMEOUT_TOTAL, Ending.CANCELLED_BY_CALLER, Ending.CALLER_DEADLINE}
    assert {ending.meaning.cause for ending in silence | {Ending.UNANSWERED, Ending.SHUTDOWN}} == {Cause.CENSORED}
    assert Ending.CRASHED.meaning.cause is Cause.CRASHED
    assert Ending.OUT_OF_MEMORY.meaning.cause is Cause.OUT_OF_MEMORY


def test_the_agents_limit_and_the_callers_deadline_are_told_apart():
    assert Ending.TIMEOUT_FIRST_BYTE.meaning.reason == Ending.TIMEOUT_TOTAL.meaning.reason == "timeout"
    assert Ending.CALLER_DEADLINE.meaning.reason == "deadline"


def test_callers_own_doing_does_not_trip_the_breaker():
    own = {Ending.UPSTREAM_4XX, Ending.UPSTREAM_MISSING, Ending.RATE_LIMITED, Ending.CALLER_DEADLINE}
    own |= {Ending.CANCELLED_BY_CALLER, Ending.TOO_LARGE, Ending.REFUSED_REQUEST}
    assert not any(ending.meaning.trips for ending in own)


def test_what_was_never_asked_is_neither_learned_nor_held_against_the_agent():
    assert not any(meaning.trips for meaning in MEANING.values() if not meaning.attempted)


def test_public_names_are_sorted_and_present():
    assert all(hasattr(agents, name) for name in agents.__all__)
    assert agents.__all__ == sorted(agents.__all__, key=lambda name: (not name.isupper(), name))


def test_guard_and_runners_are_runners():
    runner = SimulatedRunner(Sim())
    assert isinstance(runner, AgentRunner)
    assert isinstance(Guard("a", runner), AgentRunner)


def test_request_as_text_and_as_chat():
    chat = ({"role": "system", "content": "be brief"}, {"role": "user", "content": None})
    request = CallRequest("r", messages=chat)
    assert (request.chat(), request.plain()) == (chat, "be brief\n")
    parts = [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": "data:"}}, "now", 3]
    assert CallRequest("r", messages=({"role": "user", "content": parts},)).plain() == "what?\n[image_url]\nnow"


def test_reasons_of_codes_and_phrases_agree():
    assert set(CODES.values()) == set(PHRASES)


def test_page_names_every_kind():
    assert all(f"| `{kind}` |" in PAGE for kind in KINDS)
