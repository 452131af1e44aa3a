"""The queue without HTTP: leases, stale answers; what is logged is all there is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bot_orch.core.events import Noted
from bot_orch.log.events import decode_event, encode_event
from bot_orch.log.log import Row
from bot_orch.service.problems import Problem
from bot_orch.service.queue import tickets
from bot_orch.service.queue.tickets import Given, Person, QueueState, fold_queue

ADA, BOB, BOSS = Person("ada"), Person("bob"), Person("boss", admin=True)
SECOND, LEASE_S = 1_000_000, tickets.LEASE_S


class Book:
    """A queue and the rows it has logged."""

    def __init__(self):
        self.state, self.rows, self.now = QueueState(), [], 0

    def note(self, note):
        self.now += 1
        body = encode_event(note)
        self.state.apply(self.now, decode_event(body))
        self.rows.append(Row(len(self.rows) + 1, self.now, "note@1", "queue", body))
        return note

    def open(self, name="t", within_s=3600.0, **data):
        self.note(Noted("queue.opened", name, {"deadline_us": self.now + round(within_s * SECOND), **data}))
        return self.state.tickets[name]

    def pass_(self, seconds):
        self.now += round(seconds * SECOND)
        for note in list(tickets.due(self.state, self.now)):
            self.note(note)

    def claim(self, who=ADA, name="t", number=None):
        return self.note(tickets.claim(self.state, name, who, self.now, number))

    def release(self, who=ADA, name="t", number=None):
        return self.note(tickets.release(self.state, name, who, self.now, number))

    def answer(self, text, who=ADA, name="t", number=None):
        return self.note(tickets.answer(self.state, name, Given("answer", text, "", who.name), self.now, number))

    def reject(self, reason, who=ADA, name="t"):
        return self.note(tickets.answer(self.state, name, Given("reject", "", reason, who.name), self.now))


def refused(code, function, *args, **options):
    with pytest.raises(Problem) as error:
        function(*args, **options)
    assert error.value.code == code
    return error.value


def test_claim_and_answer():
    book = Book()
    ticket = book.open(text="2 + 2?")
    book.claim()
    assert (ticket.status, ticket.holder) == ("claimed", "ada")
    book.answer("4")
    assert ticket.status == "answered" and ticket.given == Given("answer", "4", "", "ada")
    refused("stale", book.answer, "5")


def test_a_lease_that_runs_out_returns_the_task_and_the_late_answer_is_refused():
    book = Book()
    ticket = book.open()
    book.claim()
    book.pass_(LEASE_S + 0.1)
    assert ticket.status == "open" and not ticket.holder
    refused("stale", book.answer, "late")
    book.claim(BOB)
    refused("stale", book.answer, "later still")
    assert ticket.holder == "bob"


def test_an_answer_after_the_lease_is_refused_even_before_anybody_noticed():
    book = Book()
    book.open()
    book.claim()
    book.now += round((LEASE_S + 1) * SECOND)
    refused("stale", book.answer, "late")


def test_an_older_claim_of_the_same_person_does_not_count():
    book = Book()
    book.open()
    book.claim()
    book.pass_(LEASE_S + 1)
    book.claim()
    refused("stale", book.answer, "from an old tab", number=1)
    book.answer("ok", number=2)


def test_only_the_holder_may_answer_release_or_renew():
    book = Book()
    book.open()
    book.claim()
    refused("stale", book.release, BOB)
    refused("stale", book.claim, BOB, number=1)
    refused("stale", book.answer, "x", BOB)
    refused("taken", book.claim, BOB)
    refused("taken", book.claim, ADA)
    assert book.release(BOSS).topic == "queue.released"


def test_renewing_moves_the_lease_but_not_past_the_deadline():
    book = Book()
    ticket = book.open(within_s=LEASE_S + 40)
    book.claim()
    book.pass_(30)
    book.claim(number=1)
    assert ticket.claim == 1 and book.now < ticket.lease_until_us <= ticket.deadline_us
    book.pass_(LEASE_S - 10)
    book.claim(number=1)
    assert ticket.lease_until_us == ticket.deadline_us


def test_the_most_urgent_ticket_is_next():
    book = Book()
    book.open("later", 200)
    book.open("urgent", 100)
    assert book.note(tickets.claim_next(book.state, ADA, book.now)).ref == "urgent"
    assert tickets.claim_next(book.state, BOB, book.now).ref == "later"
    refused("queue_empty", tickets.claim_next, QueueState(), ADA, 0)


@pytest.mark.parametrize("given", [Given("answer", " \n", "", "ada"), Given("reject", "text", " ", "ada")])
def test_ways_not_to_answer(given):
    book = Book()
    book.open()
    book.claim()
    refused("invalid_answer", tickets.answer, book.state, "t", given, book.now)


def test_a_rejection_has_a_reason_and_no_text():
    book = Book()
    ticket = book.open()
    book.claim()
    book.reject(" unclear ")
    assert ticket.given == Given("reject", "", "unclear", "ada")


def test_after_the_end_nothing_is_taken():
    book = Book()
    book.open()
    book.claim()
    book.note(Noted("queue.expired", "t"))
    refused("stale", book.answer, "x")
    refused("stale", book.claim)
    refused("unknown_ticket", book.claim, name="nobody")


def test_notes_of_others_are_not_for_the_queue():
    state = QueueState()
    state.apply(1, Noted("completion", "t", {}))
    assert not state.tickets


def test_old_tickets_are_forgotten_new_ones_kept():
    book = Book()
    for number in range(520):
        book.open(f"t{number}")
        book.note(Noted("queue.expired", f"t{number}"))
    assert len(book.state.tickets) == 500 and "t519" in book.state.tickets and "t0" not in book.state.tickets


class Queue(RuleBasedStateMachine):
    """People doing anything at any time: at most one answer counts, and the log says everything."""

    @initialize()
    def begin(self):
        self.book, self.opened, self.answered = Book(), 0, {}

    def some(self, data):
        return data.draw(st.sampled_from(sorted(self.book.state.tickets)))

    @rule(within=st.floats(1, 900))
    def open(self, within):
        self.opened += 1
        self.book.open(f"t{self.opened}", within)

    @precondition(lambda self: self.book.state.tickets)
    @rule(data=st.data(), who=st.sampled_from([ADA, BOB, BOSS]), what=st.sampled_from(["claim", "release"]))
    def act(self, data, who, what):
        name, book = self.some(data), self.book
        before = book.state.tickets[name].status
        try:
            getattr(book, what)(who, name)
        except Problem:
            return
        assert before == {"claim": "open", "release": "claimed"}[what]

    @precondition(lambda self: self.book.state.tickets)
    @rule(data=st.data(), who=st.sampled_from([ADA, BOB]), action=st.sampled_from(["answer", "reject"]))
    def answer(self, data, who, action):
        name, book = self.some(data), self.book
        ticket = book.state.tickets[name]
        mine = ticket.status == "claimed" and ticket.holder == who.name and ticket.lease_until_us > book.now
        try:
            getattr(book, action)("text", who, name)
        except Problem:
            assert not mine
        else:
            assert mine

    @rule(seconds=st.floats(0, 350))
    def pass_(self, seconds):
        self.book.pass_(seconds)
        for ticket in self.book.state.live():
            if ticket.deadline_us <= self.book.now:
                self.book.note(Noted("queue.expired", ticket.id))

    @invariant()
    def the_log_is_the_state(self):
        assert fold_queue(self.book.rows).tickets == self.book.state.tickets

    @invariant()
    def who_holds_and_who_answered(self):
        for ticket in self.book.state.tickets.values():
            assert (ticket.status != "claimed") or (ticket.holder and ticket.given is None)
            assert ticket.status != "open" or (not ticket.holder and ticket.given is None)
            assert ticket.lease_until_us <= ticket.deadline_us
            if ticket.status == "answered":
                assert ticket.given.by == ticket.holder
                assert self.answered.setdefault(ticket.id, ticket.given) == ticket.given


TestQueue = Queue.TestCase
TestQueue.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


@given(st.floats(0.5, 1e5))
@settings(max_examples=50, deadline=None)
def test_leases_never_pass_the_deadline(within):
    book = Book()
    ticket = book.open(within_s=within)
    book.claim()
    assert ticket.lease_until_us <= ticket.deadline_us


def test_of_two_notes_that_exclude_each_other_the_first_in_the_log_counts():
    book = Book()
    ticket = book.open()
    book.claim()
    late = list(tickets.due(book.state, book.now + round((LEASE_S + 1) * SECOND)))
    book.release()
    book.claim(BOB)
    book.note(late[0])  # of ada's lease, from somebody who had not heard of bob yet
    assert ticket.holder == "bob"
    mine = book.answer("first", BOB)
    book.note(Noted("queue.answered", "t", {**mine.data, "text": "second"}))
    assert ticket.given.text == "first"
