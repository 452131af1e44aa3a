"""The queue without HTTP: leases, stale answers, undo, blind mode; what is logged is all there is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bot_orch.core.events import Noted
from bot_orch.log.events import decode_event, encode_event
from bot_orch.log.log import Row
from bot_orch.service.queue import rules
from bot_orch.service.queue.rules import Person, PersonReply, QueueError, QueueSettings
from bot_orch.service.queue.state import QueueState, fold_queue

S = QueueSettings(lease_s=60.0, undo_s=5.0)
ADA, BOB, BOSS = Person("ada"), Person("bob"), Person("boss", admin=True)
SECOND = 1_000_000


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

    def open(self, name="t", within_s=600.0, **data):
        self.note(Noted("queue.opened", name, {"deadline_us": self.now + round(within_s * SECOND), **data}))
        return self.state.tickets[name]

    def pass_(self, seconds):
        self.now += round(seconds * SECOND)
        for note in list(rules.due(self.state, self.now)):
            self.note(note)

    def claim(self, who=ADA, name="t"):
        return self.note(rules.claim(self.state, name, who, now_us=self.now, settings=S))

    def answer(self, reply, who=ADA, name="t", number=None):
        return self.note(rules.answer(self.state, name, who, reply=reply, now_us=self.now, settings=S, number=number))


def refused(code, function, *args, **options):
    with pytest.raises(QueueError) as error:
        function(*args, **options)
    assert error.value.code == code
    return error.value


def test_claim_answer_seal():
    book = Book()
    ticket = book.open(text="2 + 2?")
    book.claim()
    assert (ticket.status, ticket.holder) == ("claimed", "ada")
    book.answer(PersonReply("answer", "4"))
    assert ticket.status == "answered"
    book.pass_(5.1)
    assert ticket.status == "done" and ticket.given.text == "4" and ticket.given.by == "ada"


def test_a_lease_that_runs_out_returns_the_task_and_the_late_answer_is_refused():
    book = Book()
    ticket = book.open()
    book.claim()
    book.pass_(60.1)
    assert ticket.status == "open" and not ticket.holder
    refused("stale", book.answer, PersonReply("answer", "late"))
    book.claim(BOB)
    refused("stale", book.answer, PersonReply("answer", "later still"))
    assert ticket.holder == "bob"


def test_an_answer_after_the_lease_is_refused_even_before_anybody_noticed():
    book = Book()
    book.open()
    book.claim()
    book.now += 61 * SECOND
    refused("stale", book.answer, PersonReply("answer", "late"))


def test_an_older_claim_of_the_same_person_does_not_count():
    book = Book()
    book.open()
    book.claim()
    book.pass_(61)
    book.claim()
    refused("stale", lambda: book.answer(PersonReply("answer", "from an old tab"), number=1))
    book.answer(PersonReply("answer", "ok"), number=2)


def test_only_the_holder_may_answer_release_skip_or_renew():
    book = Book()
    book.open()
    book.claim()
    for act in (rules.release, rules.skip):
        refused("stale", act, book.state, "t", BOB, now_us=book.now)
    refused("stale", rules.renew, book.state, "t", BOB, now_us=book.now, settings=S)
    refused("stale", lambda: book.answer(PersonReply("answer", "x"), BOB))
    refused("taken", lambda: book.claim(BOB))
    assert rules.release(book.state, "t", BOSS, now_us=book.now).topic == "queue.released"


def test_renewing_moves_the_lease_but_not_past_the_deadline():
    book = Book()
    ticket = book.open(within_s=100)
    book.claim()
    book.pass_(30)
    book.note(rules.renew(book.state, "t", ADA, now_us=book.now, settings=S))
    assert book.now < ticket.lease_until_us <= ticket.deadline_us
    book.pass_(50)
    book.note(rules.renew(book.state, "t", ADA, now_us=book.now, settings=S))
    assert ticket.lease_until_us == ticket.deadline_us


def test_undo_gives_the_task_back_to_the_same_person_only_in_time():
    book = Book()
    ticket = book.open()
    book.claim()
    book.answer(PersonReply("reject", reason="unclear"))
    refused("nothing_to_undo", rules.undo, book.state, "t", BOB, now_us=book.now, settings=S)
    book.note(rules.undo(book.state, "t", ADA, now_us=book.now, settings=S))
    assert ticket.status == "claimed" and ticket.given is None
    book.answer(PersonReply("answer", "clear now"))
    book.pass_(6)
    refused("too_late", rules.undo, book.state, "t", ADA, now_us=book.now, settings=S)


def test_the_undo_window_ends_before_the_deadline():
    book = Book()
    ticket = book.open(within_s=3.0)
    book.claim()
    book.pass_(1.0)
    book.answer(PersonReply("answer", "just in time"))
    assert ticket.given.until_us < ticket.deadline_us


def test_skipped_tasks_come_last_for_whoever_skipped():
    book = Book()
    book.open("urgent", 100)
    book.open("later", 200)
    assert book.note(rules.claim_next(book.state, ADA, now_us=book.now, settings=S)).ref == "urgent"
    book.note(rules.skip(book.state, "urgent", ADA, now_us=book.now))
    assert rules.claim_next(book.state, ADA, now_us=book.now, settings=S).ref == "later"
    assert rules.claim_next(book.state, BOB, now_us=book.now, settings=S).ref == "urgent"
    refused("queue_empty", rules.claim_next, QueueState(), ADA, now_us=0, settings=S)


DRAFTS = [{"agent": "m", "text": "draft"}]


@pytest.mark.parametrize(
    ("reply", "blind", "said"),
    [
        (PersonReply("accept", draft=0), False, "draft"),
        (PersonReply("edit", "better", draft=0), False, "better"),
        (PersonReply("answer", "own"), True, "own"),
        (PersonReply("reject", reason="no"), True, ""),
    ],
)
def test_ways_to_answer(reply, blind, said):
    book = Book()
    ticket = book.open(drafts=DRAFTS, blind=blind)
    book.claim()
    book.answer(reply)
    assert ticket.given.text == said and ticket.given.action == reply.action


@pytest.mark.parametrize(
    ("reply", "blind", "code"),
    [
        (PersonReply("accept", draft=0), True, "blind"),
        (PersonReply("edit", "x", draft=0), True, "blind"),
        (PersonReply("accept", draft=1), False, "invalid_answer"),
        (PersonReply("accept"), False, "invalid_answer"),
        (PersonReply("edit", " ", draft=0), False, "invalid_answer"),
        (PersonReply("answer", " \n"), False, "invalid_answer"),
        (PersonReply("reject", reason=" "), False, "invalid_answer"),
        (PersonReply("explode"), False, "invalid_answer"),
    ],
)
def test_ways_not_to_answer(reply, blind, code):
    book = Book()
    book.open(drafts=DRAFTS, blind=blind)
    book.claim()
    refused(code, book.answer, reply)


def test_after_the_end_nothing_is_taken():
    book = Book()
    book.open()
    book.claim()
    book.note(Noted("queue.expired", "t"))
    refused("stale", book.answer, PersonReply("answer", "x"))
    refused("stale", book.claim)
    refused("unknown_ticket", lambda: book.claim(name="nobody"))


def test_notes_of_others_are_not_for_the_queue():
    state = QueueState()
    state.apply(1, Noted("draft", "t", {}))
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
        self.book, self.opened, self.sealed = Book(), 0, {}

    def some(self, data):
        return data.draw(st.sampled_from(sorted(self.book.state.tickets)))

    @rule(within=st.floats(1, 300), blind=st.booleans())
    def open(self, within, blind):
        self.opened += 1
        self.book.open(f"t{self.opened}", within, blind=blind, drafts=DRAFTS)

    @precondition(lambda self: self.book.state.tickets)
    @rule(
        data=st.data(),
        who=st.sampled_from([ADA, BOB, BOSS]),
        what=st.sampled_from(["claim", "skip", "release", "undo"]),
    )
    def act(self, data, who, what):
        name, book = self.some(data), self.book
        extra = {"settings": S} if what in ("claim", "undo") else {}
        before = book.state.tickets[name].status
        try:
            note = getattr(rules, what)(book.state, name, who, now_us=book.now, **extra)
        except QueueError:
            return
        book.note(note)
        assert before in {"claim": ("open",), "undo": ("answered",)}.get(what, ("claimed",))

    @precondition(lambda self: self.book.state.tickets)
    @rule(
        data=st.data(), who=st.sampled_from([ADA, BOB]), action=st.sampled_from(["accept", "edit", "answer", "reject"])
    )
    def answer(self, data, who, action):
        name, book = self.some(data), self.book
        ticket = book.state.tickets[name]
        mine = ticket.status == "claimed" and ticket.holder == who.name and ticket.lease_until_us > book.now
        hidden = ticket.blind and action in ("accept", "edit")
        try:
            book.answer(PersonReply(action, "text", "reason", draft=0), who, name)
        except QueueError:
            assert not mine or hidden
        else:
            assert mine and not hidden

    @rule(seconds=st.floats(0, 70))
    def pass_(self, seconds):
        self.book.pass_(seconds)
        for ticket in self.book.state.live():
            if ticket.deadline_us <= self.book.now and ticket.status != "answered":
                self.book.note(Noted("queue.expired", ticket.id))

    @invariant()
    def the_log_is_the_state(self):
        assert fold_queue(self.book.rows).tickets == self.book.state.tickets

    @invariant()
    def who_holds_and_who_answered(self):
        for ticket in self.book.state.tickets.values():
            assert (ticket.status != "claimed") or (ticket.holder and ticket.given is None)
            assert ticket.status not in ("answered", "done") or ticket.given.by == ticket.holder
            assert ticket.status != "open" or (not ticket.holder and ticket.given is None)
            assert ticket.lease_until_us <= ticket.deadline_us
            if ticket.status == "done":
                assert self.sealed.setdefault(ticket.id, ticket.given) == ticket.given


TestQueue = Queue.TestCase
TestQueue.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


@given(st.floats(0.5, 1e5), st.floats(0.1, 1e5), st.floats(0.0, 100.0))
@settings(max_examples=50, deadline=None)
def test_leases_and_undo_never_pass_the_deadline(within, lease, undo):
    book, s = Book(), QueueSettings(lease, undo)
    ticket = book.open(within_s=within)
    book.note(rules.claim(book.state, "t", ADA, now_us=book.now, settings=s))
    assert ticket.lease_until_us <= ticket.deadline_us
    book.note(rules.answer(book.state, "t", ADA, reply=PersonReply("answer", "x"), now_us=book.now, settings=s))
    assert ticket.given.until_us <= ticket.deadline_us


def test_of_two_notes_that_exclude_each_other_the_first_in_the_log_counts():
    book = Book()
    ticket = book.open()
    book.claim()
    late = list(rules.due(book.state, book.now + 61 * SECOND))
    book.note(rules.release(book.state, "t", ADA, now_us=book.now))
    book.claim(BOB)
    book.note(late[0])  # of ada's lease, from somebody who had not heard of bob yet
    assert ticket.holder == "bob"
    mine = rules.answer(book.state, "t", BOB, reply=PersonReply("answer", "first"), now_us=book.now, settings=S)
    book.note(mine)
    book.note(rules.Noted("queue.answered", "t", {**mine.data, "text": "second"}))
    assert ticket.given.text == "first"
