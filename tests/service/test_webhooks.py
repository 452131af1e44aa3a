"""Webhooks: what is told, signed, retried, and that no request waits for it."""

import asyncio
import base64
import functools
import hashlib
import hmac
import http.server
import json
import threading
import time

import pytest
from service_running import BASE, until

from bot_orch.core.guarantee import Certificate, KindCertificate
from bot_orch.errors import InvalidInputError
from bot_orch.service import alarms
from bot_orch.service.alarms import Watching
from bot_orch.service.cluster import routers
from bot_orch.service.config import BudgetConfig, WebhookConfig, parse_config
from bot_orch.service.operations import webhooks
from bot_orch.service.operations.webhooks import Webhooks

CHAT = {"messages": [{"role": "user", "content": "PROMPT"}]}
SECRET = "a secret of the hook"  # noqa: S105
BAD = "  - {{id: bad, kind: simulated, settings: {{median_s: 0, sigma: 0, crash: 1}}, breaker: {{failures: 1}}}}\n"


class Receiver:
    """A server that keeps what it gets; the first answers have the statuses of ``failures``."""

    def __init__(self, failures=(), wait_s=0.0):
        self.got, left, kept = [], list(failures), self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                kept.got.append((dict(self.headers), body))
                time.sleep(wait_s)
                status = left.pop(0) if left else 204
                self.send_response(status)
                if status == 302:
                    self.send_header("location", kept.url + "/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def types(self):
        return [json.loads(body)["type"] for _, body in self.got]

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver():
    made = []

    def make(*arguments, **options):
        made.append(Receiver(*arguments, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def quick(monkeypatch):
    """Looks every few milliseconds, and short pauses."""
    monkeypatch.setattr(routers, "start_alarms", functools.partial(alarms.start_alarms, look_s=0.01, pause_s=0.01))


def test_circuits_and_budgets_are_told_with_a_signature(start, receiver, quick):
    hook = receiver()
    text = BASE.replace("seed: 5,", "seed: 5, budget: {{window_usd: 0.25}},") + (
        BAD + f"webhooks: [{{{{url: '{hook.url}', secret: '${{{{HOOK}}}}'}}}}]\n"
    )
    service = start(text, environment={"HOOK": SECRET})
    assert service.post("/v1/chat/completions", {**CHAT, "model": "bad"}).status >= 500
    until(lambda: "circuit_open" in hook.types())
    assert service.post("/v1/admin/agents/bad/reset").status == 200
    until(lambda: "circuit_closed" in hook.types())
    for _ in range(2):
        assert service.post("/v1/chat/completions", {**CHAT, "model": "careful"}).status == 200
    until(lambda: "budget" in hook.types())
    told = [json.loads(body) for _, body in hook.got]
    assert told[0]["data"] == {"agent": "bad"}
    budget = next(each["data"] for each in told if each["type"] == "budget")
    assert budget == {"of": "router", "spent_usd": 0.2, "limit_usd": 0.25, "share": 0.8}
    assert len({headers["webhook-id"] for headers, _ in hook.got}) == len(hook.got)
    for headers, body in hook.got:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        wanted = base64.b64encode(hmac.digest(SECRET.encode(), signed, hashlib.sha256)).decode()
        assert headers["webhook-signature"] == f"v1,{wanted}"
        assert b"PROMPT" not in body and SECRET.encode() not in body
    until(
        lambda: (
            f'bot_orch_webhooks_total{{result="delivered"}} {len(hook.got)}' in service.get("/metrics").body.decode()
        )
    )


def test_a_slow_receiver_holds_up_no_request(start, receiver, quick):
    hook = receiver(wait_s=30.0)
    service = start(BASE + BAD + f"webhooks: [{{{{url: '{hook.url}'}}}}]\n")
    service.post("/v1/chat/completions", {**CHAT, "model": "bad"})
    until(lambda: hook.got)
    begun = time.monotonic()
    assert service.post("/v1/chat/completions", {**CHAT, "model": "quick"}).status == 200
    service.stop()
    assert time.monotonic() - begun < 15.0, "neither a request nor the stop waits for it"


def run(hooks, *, until_counted, counted):
    """Deliver until so many results are counted."""

    async def main():
        sending = asyncio.create_task(hooks.run())
        while len(counted) < until_counted:
            await asyncio.sleep(0.005)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    asyncio.run(asyncio.wait_for(main(), 30))


def test_failures_are_retried_with_the_same_id(receiver):
    hook, counted = receiver(failures=[500, 302, 429]), []
    sender = Webhooks([WebhookConfig(url=hook.url, events=("drift",))], counted.append, pause_s=0.001)
    sender.alarm("budget", 1, of="router")  # not wanted
    sender.alarm("drift", 2, agent="a", alarms=1)
    run(sender, until_counted=1, counted=counted)
    assert counted == ["delivered"] and len(hook.got) == 4 and set(hook.types()) == {"drift"}
    assert len({headers["webhook-id"] for headers, _ in hook.got}) == 1
    assert "webhook-signature" not in hook.got[0][0]


def test_giving_up_is_logged_without_the_query(receiver, caplog):
    caplog.set_level("WARNING", logger="bot_orch")  # whatever a service in this process has set
    hook, counted = receiver(failures=[500] * 5), []
    sender = Webhooks([WebhookConfig(url=hook.url + "?key=HIDDEN")], counted.append, pause_s=0.001)
    sender.alarm("drift", 2, agent="a")
    run(sender, until_counted=1, counted=counted)
    assert counted == ["failed"] and len(hook.got) == 5
    (record,) = [each for each in caplog.records if each.message == "webhook not delivered"]
    assert record.fields["detail"] == "status 500" and "HIDDEN" not in str(record.fields)


def test_nobody_listens(caplog):
    counted = []
    sender = Webhooks([WebhookConfig(url="http://127.0.0.1:9/")], counted.append, pause_s=0.001)
    sender.alarm("drift", 2)
    run(sender, until_counted=1, counted=counted)
    assert counted == ["failed"]


def test_the_queue_is_bounded(monkeypatch):
    monkeypatch.setattr(webhooks, "_MOST_WAITING", 3)
    counted = []
    sender = Webhooks([WebhookConfig(url="http://127.0.0.1:9/")], counted.append)
    for number in range(5):
        sender.alarm("drift", number)
    assert counted == ["dropped"] * 2 and [message.id for message in sender._waiting] == ["2-3", "3-4", "4-5"]


class Router:
    def __init__(self):
        self.counts, self.tasks = {"a": 2}, 0

    def drift_alarms(self):
        return dict(self.counts)

    def task_drift_alarms(self):
        return self.tasks


def test_what_is_told_once_and_what_again():
    told, router = [], Router()
    watching = Watching(lambda event, _, **data: told.append((event, data)))
    for _ in range(2):
        watching.drifts(0, router)
    assert told == [], "what there was before is not told"
    router.counts["a"], router.tasks = 3, 1
    watching.drifts(0, router)
    watching.drifts(0, router)
    assert told == [("drift", {"alarms": 3, "agent": "a"}), ("drift", {"alarms": 1, "tasks": True})]
    told.clear()
    for spent in (7.9, 8.0, 9.0, 10.0, 12.0, 9.0, 5.0, 8.5):
        watching.budget(0, BudgetConfig(window_usd=10.0), spent)
    assert [data["spent_usd"] for _, data in told] == [8.0, 10.0, 8.5]
    told.clear()
    for bias in (0.05, 0.2, 0.3, 0.0, -0.2):
        watching.audits(0, {"flatterer": bias})
    assert [data["bias"] for _, data in told] == [0.2, -0.2]
    told.clear()
    for state in ("closed", "open", "half_open", "open", "closed"):
        watching.circuits(0, {"a": state})
    assert [event for event, _ in told] == ["circuit_open", "circuit_closed"]
    told.clear()
    for bound, serves in ((99.5, False), (98.0, True), (99.5, False), (80.0, True), (99.5, False), (99.6, False)):
        watching.guarantee(0, Certificate(1000, bound, 100.0, serves))
    assert told == [("guarantee", {"loss_bound": 99.5, "credit": 100.0, "rounds": 1000})]


def test_an_agent_that_a_guarantee_holds_back_is_reported_although_credit_is_left():
    """Kinds of decisions that lose stop serving first, so that the credit is never used up."""
    told = []
    watching = Watching(lambda event, time_us, **data: told.append(data))
    for bound, serves, served in ((70, True, 99), (80, False, 3), (80, False, 99), (78, True, 99), (82, False, 99)):
        kind = KindCertificate("small", 0.5, served, 40.0, 60.0, serves)
        watching.guarantee(0, Certificate(1000, float(bound), 100.0, True, kinds=(kind,)))
    assert told == [{"loss_bound": 80.0, "credit": 100.0, "rounds": 1000, "agents": ["small"]}]


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        ("{url: 'ftp://x/y'}", "webhooks[0].url: is no URL"),
        ("{url: 'http://user:pw@host/'}", "webhooks[0].url: is no URL"),
        ("{url: 'https://host/', events: [party]}", "webhooks[0].events[0]"),
        ("{url: 'https://host/', secret: plain}", "webhooks[0].secret: holds a secret in plain text"),
    ],
)
def test_wrong_settings_are_named(hook, said):
    with pytest.raises(InvalidInputError) as caught:
        parse_config(f"version: 1\nagents: [{{id: a, kind: simulated}}]\nwebhooks: [{hook}]", {})
    assert said in str(caught.value)
