"""A router with an owner: every process answers for it, and it moves with its state."""

import asyncio
import json
import socket
import threading
import time
from collections import Counter
from contextlib import closing
from functools import partial

import msgspec
import pytest
from service_running import Running, until

from bot_orch.clock import SystemClock
from bot_orch.core.events import DecisionMade, FeedbackGiven
from bot_orch.log.stores.open import open_log
from bot_orch.log.stores.postgres.log import ClockAheadError
from bot_orch.log.verification import replay
from bot_orch.service.cluster.forwarding import Directory, Forwarder, process_name
from bot_orch.service.cluster.ownership import OwnerCluster
from bot_orch.service.cluster.wire import Hello
from bot_orch.service.config import parse_config

TEXT = """
version: 1
database: {database}
listen: {{port: 0}}
log_level: error
limits: {{grace_s: 1}}
router: {{policy: bot}}
agents: [{{id: general, kind: simulated, params: {{median_s: 0.0, sigma: 0.0}}}}]
"""
PERSON = ", {{id: person, kind: human}}]"
CHAT = {"model": "auto", "messages": [{"role": "user", "content": "x"}]}


def config(database, lease_s=2, grace_s=1, more="]"):
    text = TEXT.replace("}}}}]", "}}}}" + more).format(database=json.dumps(f"{database}&lease_s={lease_s}"))
    return parse_config(text.replace("grace_s: 1}", f"grace_s: {grace_s}}}"))


@pytest.fixture
def begin(database):
    running = []

    def start(clock=None, read=None, stream="", **options):
        url = f"{database}&stream={stream}" if stream else database
        running.append(Running(config(url, **options), read=read, **({"clock": clock} if clock else {})))
        return running[-1]

    yield start
    for each in running:
        if each.thread.is_alive():
            each.stop()


def owner_first(*services):
    """The services, the owner of the router first, once there is one and its front knows it."""

    def found():
        first, *rest = sorted(services, key=lambda each: not each.serves)
        alone = first.serves and not any(each.serves for each in rest)
        return (
            (first, *rest) if alone and all(each.runtime.forwarder.directory.owner_elsewhere for each in rest) else None
        )

    return until(found)


class WrongClock(SystemClock):
    ahead_us = 0

    def now_us(self):
        return super().now_us() + self.ahead_us


def decide(service):
    answer = until(lambda: _unless_moving(service.post("/v1/decisions", {"task": {}, "eligible": ["general"]})))
    assert answer.status == 200, answer
    return answer.json()["id"]


def _unless_moving(answer):
    return None if answer.status == 503 else answer


def test_a_process_carries_the_chats_of_others_and_nobody_else_can(begin):
    owner, front = owner_first(begin(), begin())
    before = owner.runtime.ledger.router.rounds
    for stream in (False, True):
        answer = front.post("/v1/chat/completions", {**CHAT, "stream": stream})
        assert (answer.status, answer.headers["x-bot-orch-agent"]) == (200, "general")
    assert owner.runtime.ledger.router.rounds == before + 2
    assert b'how="carried"' in front.get("/metrics").body
    host, _, secret = front.runtime.forwarder.directory.owner_elsewhere.rounds.partition(" ")
    assert len(secret) >= 32
    with closing(socket.create_connection((host.partition(":")[0], int(host.partition(":")[2])), 10)) as client:
        message = msgspec.msgpack.encode(Hello(0, "a guess"))
        client.sendall(len(message).to_bytes(4, "little") + message)
        while said := client.recv(4):
            assert said == bytes(4)  # until the connection is closed


def test_every_process_answers_for_the_router(begin):
    services = owner_first(begin(), begin())
    for service in services:
        made = decide(service)
        assert service.get(f"/v1/decisions/{made}").json()["decision"]["agent"] == "general"
        for told in (False, True):
            report = service.post("/v1/feedback", {"decision_id": made, "reward": 1.0}).json()
            assert (report["effect"], report["duplicate"]) == ("learned", told)
        answer = service.post("/v1/chat/completions", {**CHAT, "stream": True})
        assert answer.status == 200 and b"[DONE]" in answer.body
        pages = ("/", "/decisions", "/queue", "/dashboard/share.csv", "/login")
        for path in (*pages, "/health/ready", "/openapi.json", "/v1/models", "/metrics"):
            assert service.get(path).status == 200, path
    state = services[1].get("/v1/admin/state").json()
    assert state["process"] == process_name(), "both servers are threads of this process"


def test_a_key_has_one_answer_before_and_after_a_move(begin):
    one = begin()
    until(lambda: one.serves)
    headers = {"Idempotency-Key": "k"}
    made = one.post("/v1/decisions", {"task": {}}, headers=headers).json()["id"]
    other = begin()
    owner_first(one, other)
    assert other.post("/v1/decisions", {"task": {}}, headers=headers).json()["id"] == made
    one.stop()
    until(lambda: other.serves)
    assert other.post("/v1/decisions", {"task": {}}, headers=headers).json()["id"] == made


def test_the_router_moves_under_load_and_nothing_is_lost_or_doubled(begin, database):
    """Owners leave and new processes join while clients ask all; the log holds what was acknowledged, once."""
    services = [begin(), begin()]
    owner_first(*services)
    acked, statuses, done = [], Counter(), threading.Event()

    def client(number):
        step = number
        while not done.is_set():
            step += 1
            service = services[step % len(services)]
            try:
                answer = service.post("/v1/decisions", {"task": {}})
                statuses[answer.status] += 1
                if answer.status != 200:
                    continue
                made = answer.json()["id"]
                acked.append(made)
                service.post("/v1/feedback", {"decision_id": made, "reward": 0.5})
            except OSError:
                statuses["broken"] += 1

    clients = [threading.Thread(daemon=True, target=client, args=(number,)) for number in range(3)]
    for each in clients:
        each.start()
    for _ in range(2):
        services.append(begin())
        first, *_ = owner_first(*services)
        known = len(acked)
        until(lambda known=known: len(acked) > known + 30)
        services.remove(first)  # nobody asks it from now on
        time.sleep(0.2)
        first.stop()
        owner_first(*services)
        known = len(acked)
        until(lambda known=known: len(acked) > known + 30)
    done.set()
    for each in clients:
        each.join()
    assert set(statuses) <= {200, 503}
    assert statuses[200] > 10 * statuses[503]
    for service in services:
        service.stop()
    log = open_log(database)
    events = [row.event() for row in log.read()]
    made = Counter(event.id for event in events if isinstance(event, DecisionMade))
    learned = Counter(event.decision_id for event in events if isinstance(event, FeedbackGiven))
    assert set(acked) <= set(made)
    assert set(made.values()) == {1} and set(learned.values()) == {1}
    assert replay(log).ok
    log.close()


def test_a_move_does_not_wait_for_a_grace_that_nobody_needs(begin):
    owner, front = owner_first(begin(grace_s=600), begin(grace_s=600))
    decide(front)
    owner.stop()
    until(lambda: front.serves)


def test_a_stop_does_not_wait_for_a_person(begin):
    first, last = owner_first(begin(grace_s=600, more=PERSON), begin(grace_s=600, more=PERSON))
    task = {"task": {"text": "is it?"}, "eligible": ["person"], "background": True}
    made = first.post("/v1/tasks", task).json()["id"]
    opened = until(lambda: first.get("/v1/queue").json()["tickets"])[0]
    ticket = opened["id"]
    assert first.runtime.in_flight, "the control: the round is under way"
    first.stop()
    until(lambda: last.serves)
    for step, body in (("claim", {}), ("answer", {"text": "yes"})):
        act = partial(last.post, f"/v1/queue/{ticket}/{step}", body)
        answer = until(lambda act=act: _unless_moving(act()))
        assert (answer.status, answer.json()["deadline_us"]) == (200, opened["deadline_us"])
    ended = until(lambda: (v := last.get(f"/v1/tasks/{made}").json())["status"] != "running" and v)
    assert (ended["output"], len(ended["decisions"])) == ("yes", 1)


def test_each_process_reads_its_own_file(begin, database):
    """A reload at the owner is in the log before it counts; a front uses its file once it owns the router."""
    files = {name: config(database) for name in ("one", "other")}
    one, other = (begin(read=lambda name=name: files[name]) for name in files)
    owner, front = owner_first(one, other)
    mine, theirs = ("one", "other") if owner is one else ("other", "one")
    files[mine] = config(database, more=", {{id: fresh, kind: simulated}}]")
    told = owner.post("/v1/admin/reload").json()
    assert told == {"changed": ["agents"], "after_restart": []}
    assert [each["id"] for each in front.get("/v1/agents").json()] == ["general", "fresh"], "the owner answers"
    statuses = Counter(front.post("/v1/chat/completions", CHAT).status for _ in range(20))
    assert statuses == {200: 20}, "a front that lacks an agent lets the owner choose another"
    files[theirs] = config(database, more=", {{id: later, kind: simulated}}]")
    until(lambda: owner.runtime.forwarder.directory.members)
    assert owner.post("/v1/admin/reload").status == 200, "it asks the other processes, too"
    assert [agent.id for agent in front.runtime.config.agents] == ["general", "later"]
    owner.stop()
    until(lambda: front.serves)
    assert [each["id"] for each in front.get("/v1/agents").json()] == ["general", "later"]
    front.stop()
    log = open_log(database)
    assert [row.kind for row in log.read()].count(next(log.read()).kind) == 3, "one change of settings at each"
    assert replay(log).ok
    log.close()


@pytest.mark.parametrize(("grace_s", "wait_s"), [(0, 5.0), (5, 7.0), (600, 30.0)])
def test_callers_wait_longer_than_a_move_may_take(begin, grace_s, wait_s):
    assert begin(grace_s=grace_s).runtime.forwarder._wait_s == wait_s


def test_what_is_known_to_a_router_on_the_move_is_not_unknown(begin, monkeypatch):
    """While no process serves the router, reports on its decisions wait, then get 503; never 404."""
    one, other = owner_first(begin(), begin())
    made = decide(one)
    gap, take = threading.Event(), OwnerCluster._take

    async def taking(self):
        while not gap.is_set():
            await asyncio.sleep(0.01)
        await take(self)

    monkeypatch.setattr(OwnerCluster, "_take", taking)
    monkeypatch.setattr(other.runtime.forwarder, "_wait_s", 1.0)
    one.stop()
    report = {"decision_id": made, "reward": 1.0}
    answer = other.post("/v1/feedback", report)
    assert (answer.status, answer.json()["error"]["code"]) == (503, "no_owner"), answer
    assert other.get(f"/v1/decisions/{made}").status == 503
    gap.set()
    assert until(lambda: _unless_moving(other.post("/v1/feedback", report))).json()["effect"] == "learned"
    assert other.get("/v1/decisions/00000000-0000-7000-8000-000000000000").status == 404


def test_two_services_in_one_schema_by_streams(begin, database):
    """Each has its own log, owner and processes."""
    shop, desk = begin(), begin(stream="desk")
    until(lambda: shop.serves and desk.serves)
    assert shop.get(f"/v1/decisions/{decide(desk)}").status == 404
    decide(shop)
    assert not shop.runtime.forwarder.directory.members and not desk.runtime.forwarder.directory.members
    shop.stop()
    desk.stop()
    for url in (database, f"{database}&stream=desk"):
        with closing(open_log(url)) as log:
            assert sum(row.holds(DecisionMade) for row in log.read()) == 1


def test_an_owner_whose_clock_is_ahead_leaves_the_router(begin, database):
    clock = WrongClock()
    one = begin(clock=clock)
    until(lambda: one.serves)
    other = begin()
    owner_first(one, other)
    clock.ahead_us = 172_800_000_000
    until(lambda: not one.serves and other.serves)
    decide(one)  # passed on
    with closing(open_log(database)) as log:
        assert log.last()[1] - SystemClock().now_us() < 60_000_000, "the time of the log was not pulled ahead"
    board = Forwarder(Directory(0), wait_s=1.0)
    with pytest.raises(ClockAheadError, match="172800"):
        asyncio.run(OwnerCluster(config(database), board, clock=clock).start(None))  # nor does it start
    clock.ahead_us = 0
    decide(one)
    other.stop()
    until(lambda: one.serves)
