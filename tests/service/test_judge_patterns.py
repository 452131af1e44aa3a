"""Patterns that take exponential time: the search is ended, and neither the service nor other answers wait for it."""

import threading
import time

import pytest
from service_running import until
from test_judges import chat, configured, decision_of, judged, reports, settings_of

from bot_orch.errors import InvalidInputError
from bot_orch.service.build import check
from bot_orch.service.judges.patterns import PatternProcess

SLOW, TEXT = "(a+)+$", "a" * 60 + "b"


@pytest.fixture
def patterns():
    found = PatternProcess(0.2)
    yield found
    found.close()


def test_a_pattern_that_takes_too_long_is_ended_and_the_next_one_matched(patterns):
    for _ in range(2):
        with pytest.raises(TimeoutError, match=r"within 0.2 s"):
            patterns.fits(SLOW, TEXT)
        assert patterns.fits(SLOW, "aaa") and not patterns.fits("^b", "ab")
    assert patterns.fits("a", "ba") and not patterns.fits("a", "ba", whole=True) and patterns.fits(".", "\ud800\n")


def test_the_interpreter_is_free_while_a_pattern_is_searched(patterns):
    """The control: in a thread of this process nothing else would run for the whole search."""
    ended = threading.Event()

    def search():
        with pytest.raises(TimeoutError):
            patterns.fits(SLOW, TEXT)
        ended.set()

    threading.Thread(daemon=True, target=search).start()
    turns = 0
    while not ended.wait(0.01):
        turns += 1
    assert turns >= 5


def test_closing_ends_a_search_under_way(patterns):
    found = patterns.thread.submit(PatternProcess.fits, patterns, SLOW, TEXT)
    while patterns._process is None:
        time.sleep(0.005)
    process = patterns._process
    patterns.close()
    assert isinstance(found.exception(), TimeoutError) and process.returncode is not None
    with pytest.raises(TimeoutError, match="closed"):
        patterns.fits("a", "a")


def test_answers_go_on_being_judged_beside_a_slow_pattern(start):
    """``long`` answers "a long answer": its words make the first pattern and the schema's take exponential time."""
    slow = {"name": "slow", "kind": "regex", "settings": {"pattern": r"^\"([\w ]+ ?)+[!]$", "timeout_s": 0.1}}
    schema = {"type": "string", "pattern": r"^([\w ]+ ?)+[!]$"}
    nested = {"name": "nested", "kind": "json_schema", "settings": {"schema": schema, "timeout_s": 0.1}}
    quick = {"name": "quick", "kind": "regex", "settings": {"pattern": "long"}}
    text = configured(slow, nested, quick).replace("judging_fixtures:long", "judging_fixtures:wordy")
    service = start(text)
    made = decision_of(chat(service, "long"))
    judged(service, made)
    wanted = [f'bot_orch_judgements_total{{judge="{name}",result="timeout"}} 1' for name in ("slow", "nested")]
    until(lambda: all(line in service.get("/metrics").body.decode() for line in wanted))
    assert [event.judge for event in reports(service, made)] == ["quick"]
    assert {event.judge: event.reward for event in judged(service, decision_of(chat(service, "short")), 3)} == {
        "slow": 0.0,
        "nested": 0.0,
        "quick": 0.0,
    }


@pytest.mark.parametrize(
    ("settings", "kind", "said"),
    [
        ({"pattern": "a", "timeout_s": 0}, "regex", "timeout_s"),
        ({"schema": {"type": "string", "pattern": "("}}, "json_schema", "pattern: is no regular expression"),
        ({"schema": {"items": {"pattern": 7}}}, "json_schema", "pattern: is no regular expression"),
    ],
)
def test_mistakes_are_found_before_the_start(settings, kind, said):
    with pytest.raises(InvalidInputError, match=said):
        check(settings_of(configured({"name": "x", "kind": kind, "settings": settings})))
