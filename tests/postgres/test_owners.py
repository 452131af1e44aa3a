"""Routers with owners: any process answers for every router, and routers move with their state."""

import asyncio
import itertools
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
from bot_orch.errors import InvalidInputError
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
routers:
  support:
    router: {{policy: bot}}
    agents: [{{id: helper, kind: simulated, params: {{median_s: 0.0, sigma: 0.0}}}}]
  code:
    router: {{policy: bot}}
    agents: [{{id: coder, kind: simulated, params: {{median_s: 0.0, sigma: 0.0}}}}, {{id: person, kind: human}}]
  fourth:
    router: {{policy: bot}}
    agents: [{{id: fourth, kind: simulated, params: {{median_s: 0.0, sigma: 0.0}}}}]
"""
AGENTS = {"default": "general", "support": "helper", "code": "coder", "fourth": "fourth"}
CHAT = {"model": "auto", "messages": [{"role": "user", "content": "x"}]}


def config(database, lease_s=2, grace_s=1):
    text = TEXT.format(database=json.dumps(f"{database}&lease_s={lease_s}"))
    return parse_config(text.replace("grace_s: 1}", f"grace_s: {grace_s}}}"))


@pytest.fixture
def begin(database):
    running = []

    def start(clock=None, **options):
        running.append(Running(config(database, **options), **({"clock": clock} if clock else {})))
        return running[-1]

    yield start
    for each in running:
        if each.thread.is_alive():
            each.stop()


def owned(service):
    return {name for name, each in service.runtime.peers.items() if not each.away}


def spread(*services):
    """Wait until every router is served once, and every process serves as many."""

    def even():
        names = [owned(each) for each in services]
        total = sum(map(len, names))
        return total == len(AGENTS) == len(set().union(*names)) and {len(each) for each in names} == {
            total // len(names)
        }

    until(even)


class WrongClock(SystemClock):
    ahead_us = 0

    def now_us(self):
        return super().now_us() + self.ahead_us


def decide(service, router, path=None):
    body = {"task": {}, "eligible": [AGENTS[router]]}
    answer = until(lambda: _unless_moving(service.post(path or f"/r/{router}/v1/decisions", body)))
    assert answer.status == 200, answer
    return answer.json()["id"]


def _if_all_are_ready(listed):
    return {each["name"]: each["decisions"] for each in listed} if all(each["ready"] for each in listed) else None


def _unless_moving(answer):
    return None if answer.status == 503 else answer


def test_a_process_carries_the_chats_of_others_and_nobody_else_can(begin):
    one, other = begin(), begin()
    spread(one, other)
    [router, *_] = sorted(owned(one) - {"code"})  # people answer at their owner
    before = one.runtime.peers[router].ledger.router.rounds
    for stream in (False, True):
        answer = other.post(f"/r/{router}/v1/chat/completions", {**CHAT, "stream": stream})
        assert (answer.status, answer.headers["x-bot-orch-agent"]) == (200, AGENTS[router])
    assert one.runtime.peers[router].ledger.router.rounds == before + 2
    assert b'how="carried"' in other.get("/metrics").body
    host, _, secret = other.runtime.forwarder.directory.of(router).rounds.partition(" ")
    assert len(secret) >= 32
    with closing(socket.create_connection((host.partition(":")[0], int(host.partition(":")[2])), 10)) as client:
        message = msgspec.msgpack.encode(Hello(0, "a guess"))
        client.sendall(len(message).to_bytes(4, "little") + message)
        while said := client.recv(4):
            assert said == bytes(4)  # until the connection is closed


def test_every_process_answers_for_every_router(begin):
    one, other = begin(), begin()
    spread(one, other)
    for service in (one, other):
        for router, agent in AGENTS.items():
            made = decide(service, router)
            assert service.get(f"/v1/decisions/{made}").json()["decision"]["agent"] == agent
            for told in (False, True):
                report = service.post("/v1/feedback", {"decision_id": made, "reward": 1.0}).json()
                assert (report["effect"], report["duplicate"]) == ("learned", told)
            chat = {**CHAT, "model": f"auto:{router}", "stream": True}
            answer = service.post("/v1/chat/completions", chat)
            assert answer.status == 200 and b"[DONE]" in answer.body
            for page in ("/", "/decisions", "/queue", "/dashboard/share.csv"):
                assert service.get(f"/r/{router}{page}").status == 200
        for path in ("/", "/queue", "/login", "/health/ready", "/openapi.json", "/v1/models", "/metrics"):
            assert service.get(path).status == 200, path
        listed = until(lambda service=service: _if_all_are_ready(service.get("/v1/routers").json()))
        assert set(listed) == set(AGENTS) and min(listed.values()) > 0


def test_a_key_has_one_answer_before_and_after_a_move(begin, database):
    one = begin()
    until(lambda: owned(one) == set(AGENTS))
    headers = {"Idempotency-Key": "k"}
    made = {name: one.post(f"/r/{name}/v1/decisions", {"task": {}}, headers=headers).json()["id"] for name in AGENTS}
    other = begin()
    spread(one, other)
    for service, name in itertools.product((one, other), AGENTS):
        ask = partial(service.post, f"/r/{name}/v1/decisions", {"task": {}}, headers=headers)
        again = until(lambda ask=ask: _unless_moving(ask()))
        assert again.json()["id"] == made[name]
    one.stop()
    until(lambda: owned(other) == set(AGENTS))
    for name in AGENTS:
        assert other.post(f"/r/{name}/v1/decisions", {"task": {}}, headers=headers).json()["id"] == made[name]


def test_routers_move_under_load_and_nothing_is_lost_or_doubled(begin, database):
    """Processes join and leave while clients ask both; the logs hold what was acknowledged, once, and replay."""
    one, other = begin(), begin()
    spread(one, other)
    acked, statuses, done = {name: [] for name in AGENTS}, Counter(), threading.Event()

    def client(number):
        step = 0
        while not done.is_set():
            service, router = (one, other)[step % 2], list(AGENTS)[(step + number) % len(AGENTS)]
            step += 1
            try:
                answer = service.post(f"/r/{router}/v1/decisions", {"task": {}, "eligible": [AGENTS[router]]})
                statuses[answer.status] += 1
                if answer.status != 200:
                    continue
                made = answer.json()["id"]
                acked[router].append(made)
                service.post("/v1/feedback", {"decision_id": made, "reward": 0.5})
            except OSError:
                statuses["broken"] += 1

    clients = [threading.Thread(daemon=True, target=client, args=(number,)) for number in range(3)]
    for each in clients:
        each.start()
    third = begin()
    until(lambda: owned(third))
    time.sleep(0.5)
    third.stop()
    until(lambda: not owned(third) and sum(len(owned(each)) for each in (one, other)) == len(AGENTS))
    time.sleep(0.5)
    done.set()
    for each in clients:
        each.join()
    assert set(statuses) <= {200, 503}
    assert statuses[200] > 10 * statuses[503]
    for service in (one, other):
        service.stop()
    for router in AGENTS:
        stream = "" if router == "default" else f"&stream={router}"
        log = open_log(f"{database}{stream}")
        events = [row.event() for row in log.read()]
        made = Counter(event.id for event in events if isinstance(event, DecisionMade))
        learned = Counter(event.decision_id for event in events if isinstance(event, FeedbackGiven))
        assert set(acked[router]) <= set(made)
        assert set(made.values()) == {1} and set(learned.values()) == {1}
        assert replay(log).ok
        log.close()


def test_a_move_does_not_wait_for_a_grace_that_nobody_needs(begin):
    one = begin(grace_s=600)
    until(lambda: owned(one) == set(AGENTS))
    other = begin(grace_s=600)
    spread(one, other)
    for router in AGENTS:
        decide(other, router)
    one.stop()
    until(lambda: owned(other) == set(AGENTS))


def test_a_stop_does_not_wait_for_a_person(begin):
    one, other = begin(grace_s=600), begin(grace_s=600)
    spread(one, other)
    first, last = (one, other) if "code" in owned(one) else (other, one)
    task = {"task": {"text": "is it?"}, "eligible": ["person"], "background": True}
    made = first.post("/r/code/v1/tasks", task).json()["id"]
    opened = until(lambda: first.get("/r/code/v1/queue").json()["tickets"])[0]
    ticket = opened["id"]
    assert first.runtime.peers["code"].in_flight, "the control: the round is under way"
    first.stop()
    until(lambda: owned(last) == set(AGENTS))
    for step, body in (("claim", {}), ("answer", {"text": "yes"})):
        act = partial(last.post, f"/r/code/v1/queue/{ticket}/{step}", body)
        answer = until(lambda act=act: _unless_moving(act()))
        assert (answer.status, answer.json()["deadline_us"]) == (200, opened["deadline_us"])
    ended = until(lambda: (v := last.get(f"/r/code/v1/tasks/{made}").json())["status"] != "running" and v)
    assert (ended["output"], len(ended["decisions"])) == ("yes", 1)


@pytest.mark.parametrize(("grace_s", "wait_s"), [(0, 5.0), (5, 7.0), (600, 30.0)])
def test_callers_wait_longer_than_a_move_may_take(begin, grace_s, wait_s):
    assert begin(grace_s=grace_s).runtime.forwarder._wait_s == wait_s


def test_what_is_known_to_a_router_on_the_move_is_not_unknown(begin, monkeypatch):
    """While nobody serves a router, reports on its decisions wait, then get 503; never 404."""
    one, other = begin(), begin()
    spread(one, other)
    made, router = next((decide(one, name), name) for name in ("support", "code", "fourth") if name in owned(one))
    gap, take = threading.Event(), OwnerCluster._take

    async def taking(self, name):
        while not gap.is_set():
            await asyncio.sleep(0.01)
        await take(self, name)

    monkeypatch.setattr(OwnerCluster, "_take", taking)
    monkeypatch.setattr(other.runtime.forwarder, "_wait_s", 1.0)
    one.stop()
    report = {"decision_id": made, "reward": 1.0}
    answer = other.post("/v1/feedback", report)
    assert (answer.status, answer.json()["error"]["code"]) == (503, "no_owner"), answer
    assert other.get(f"/v1/decisions/{made}").status == 503
    gap.set()
    assert until(lambda: _unless_moving(other.post("/v1/feedback", report))).json()["effect"] == "learned"
    until(lambda: owned(other) == set(AGENTS))
    assert other.get("/v1/decisions/00000000-0000-7000-8000-000000000000").status == 404
    assert router in owned(other)


def test_routers_need_one_database(database):
    text = TEXT.format(database=json.dumps(database))
    one = f"  fourth:\n    database: {json.dumps(database)}\n"
    with pytest.raises(InvalidInputError, match=r"config.routers.fourth.database: is PostgreSQL alone; use files"):
        parse_config(text.replace(json.dumps(database), "log.sqlite").replace("  fourth:\n", one))
    with pytest.raises(InvalidInputError, match=r"config.routers.fourth.database: is a file, and the default"):
        parse_config(text.replace("  fourth:\n", "  fourth:\n    database: log.sqlite\n"))
    with pytest.raises(InvalidInputError, match=r"config.cluster.serve: is not a setting; remove it"):
        parse_config(text + "cluster: {serve: turns}\n")
    other = text.replace("  fourth:\n", f"  fourth:\n    database: {json.dumps(database + '&schema=other')}\n")
    with pytest.raises(InvalidInputError, match=r"config.routers.fourth.database: is not the database"):
        parse_config(other)


def test_who_serves_which_router(begin):
    one, other = begin(), begin()
    spread(one, other)
    until(lambda: all(each["ready"] for each in one.get("/v1/routers").json()))
    found = one.get("/v1/routers").json()
    assert {each["process"] for each in found} == {process_name()}, "both servers are threads of this process"


def test_an_owner_whose_clock_is_ahead_leaves_its_routers(begin, database):
    clock = WrongClock()
    one, other = begin(clock=clock), begin()
    spread(one, other)
    clock.ahead_us = 172_800_000_000
    until(lambda: not owned(one) and owned(other) == set(AGENTS))
    for router in AGENTS:
        decide(one, router)  # passed on
        with closing(open_log(config(database).split()[router].database)) as log:
            assert log.last()[1] - SystemClock().now_us() < 60_000_000, "the time of the log was not pulled ahead"
    board = Forwarder(Directory(0), wait_s=1.0)
    with pytest.raises(ClockAheadError, match="172800"):
        asyncio.run(OwnerCluster(config(database), board, clock=clock).start(None))  # nor does it start
    clock.ahead_us = 0
    spread(one, other)
