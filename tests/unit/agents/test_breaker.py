"""The breaker as a state machine, driven by Hypothesis over a clock of its own."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from bot_orch.agents import Breaker, BreakerSettings, BreakerState, Ending

TRIPS = [ending for ending in Ending if ending.meaning.trips]
NEUTRAL = [ending for ending in Ending if not ending.meaning.trips and ending is not Ending.COMPLETED]


class BreakerMachine(RuleBasedStateMachine):
    """Compares the breaker with its rules written down a second time, as plain bookkeeping."""

    permits = Bundle("permits")

    @initialize(failures=st.integers(1, 4), longest=st.sampled_from([10.0, 35.0]))
    def start(self, failures, longest):
        self.now = 0.0
        self.rules = BreakerSettings(failures=failures, open_s=10.0, longest_open_s=longest)
        self.breaker = Breaker(self.rules, lambda: self.now)
        self.in_a_row = self.reopened = self.generation = 0
        self.out: set[int] = set()  # probes under way
        self.open_until: float | None = None
        self.serial = 0

    def expected(self):
        if self.open_until is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if self.now < self.open_until else BreakerState.HALF_OPEN

    @rule(target=permits)
    def acquire(self):
        permit = self.breaker.acquire()
        state = self.expected()
        room = not self.out
        assert (permit is not None) == (state is BreakerState.CLOSED or (state is BreakerState.HALF_OPEN and room))
        self.serial += 1
        if permit is not None and state is BreakerState.HALF_OPEN:
            self.out.add(self.serial)
        return permit, self.serial, self.generation

    @rule(ticket=consumes(permits), ending=st.sampled_from(list(Ending)))
    def settle(self, ticket, ending):
        permit, serial, generation = ticket
        self.breaker.settle(permit, ending)
        if permit is None or generation != self.generation:
            return
        probe = serial in self.out
        self.out.discard(serial)
        if ending in TRIPS:
            self.in_a_row += 1
            if probe or self.in_a_row == self.rules.failures:
                self.reopened = self.reopened + 1 if probe else 0
                self.open_until = self.now + min(10.0 * 2**self.reopened, self.rules.longest_open_s)
                self.turn()
        elif ending is Ending.COMPLETED:
            self.in_a_row = 0
            if probe:
                self.open_until = None
                self.turn()

    def turn(self):
        self.generation += 1
        self.out = set()

    @rule(seconds=st.sampled_from([0.125, 1.0, 5.0, 10.0, 40.0]))
    def tick(self, seconds):
        self.now += seconds

    @rule()
    def recover(self):
        """From any state, waiting and good answers close it: it never stays open for ever."""
        if self.out:
            return
        if self.expected() is not BreakerState.CLOSED:
            self.now = max(self.now, self.open_until)
            while self.expected() is not BreakerState.CLOSED:
                ticket = self.acquire()
                assert ticket[0] is not None
                self.settle(ticket, Ending.COMPLETED)
        assert self.breaker.state is BreakerState.CLOSED

    @invariant()
    def agrees(self):
        if hasattr(self, "breaker"):
            assert self.breaker.state is self.expected()
            view = self.breaker.view()
            assert view.state is self.expected()
            assert (view.retry_in_s > 0) == (view.state is BreakerState.OPEN)
            assert view.retry_in_s <= self.rules.longest_open_s


TestBreaker = BreakerMachine.TestCase
TestBreaker.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def _opened(clock, **options):
    breaker = Breaker(BreakerSettings(**{"failures": 1, "open_s": 10.0, **options}), clock)
    breaker.settle(breaker.acquire(), Ending.UPSTREAM_5XX)
    return breaker


@pytest.mark.parametrize("ending", NEUTRAL)
def test_neutral_endings_never_open_it(ending):
    breaker = Breaker(BreakerSettings(failures=1), lambda: 0.0)
    for _ in range(50):
        breaker.settle(breaker.acquire(), ending)
    assert breaker.state is BreakerState.CLOSED


@pytest.mark.parametrize("ending", TRIPS)
def test_failures_open_it_and_say_why(ending):
    breaker = Breaker(BreakerSettings(failures=2), lambda: 0.0)
    for _ in range(2):
        breaker.settle(breaker.acquire(), ending)
    assert (breaker.state, breaker.view().last_failure, breaker.view().opened) == (BreakerState.OPEN, ending, 1)


def test_neutral_probe_gives_its_place_back():
    now = [0.0]
    breaker = _opened(lambda: now[0])
    now[0] = 10.0
    probe = breaker.acquire()
    assert breaker.acquire() is None
    breaker.settle(probe, Ending.CALLER_DEADLINE)
    assert breaker.state is BreakerState.HALF_OPEN
    assert breaker.acquire() is not None


def test_success_from_before_it_opened_does_not_close_it():
    breaker = Breaker(BreakerSettings(failures=1), lambda: 0.0)
    early, late = breaker.acquire(), breaker.acquire()
    breaker.settle(late, Ending.TIMEOUT_TOTAL)
    breaker.settle(early, Ending.COMPLETED)
    assert breaker.state is BreakerState.OPEN
