"""Langfuse: the real client against a server on the loopback; scores go out, and come back as rewards."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("langfuse")

import langfuse
from opentelemetry.sdk.trace import TracerProvider

from bot_orch import InvalidInputError, Router, Task
from bot_orch.integrations.adapter import Adapter
from bot_orch.integrations.langfuse import LangfuseScores


class Server(ThreadingHTTPServer):
    """Takes scores, and gives those in ``given`` in pages of two."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.scores, self.given, self.asked = [], [], []


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def reply(self, status, body):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.startswith("/api/public/scores"):
            self.server.scores += json.loads(body)
            self.reply(202, {"message": "Accepted"})
        else:
            self.reply(200, {})

    def do_GET(self):
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        self.server.asked.append((urlsplit(self.path).path, asked))
        at = int(asked.get("cursor", 0))
        meta = {"limit": 2} | ({"cursor": str(at + 2)} if at + 2 < len(self.server.given) else {})
        self.reply(200, {"data": self.server.given[at : at + 2], "meta": meta})


@pytest.fixture
def server():
    with Server() as found:
        thread = threading.Thread(daemon=True, target=found.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@pytest.fixture
def client(server):
    url = f"http://127.0.0.1:{server.server_port}"
    provider = TracerProvider()
    found = langfuse.Langfuse(
        public_key=f"pk-{server.server_port}",
        secret_key="sk",  # noqa: S106
        base_url=url,
        flush_interval=0.05,
        tracer_provider=provider,
    )
    yield found
    found.shutdown()


def score(number, value, subject, kind="NUMERIC"):
    when = "2026-01-01T00:00:00Z"
    return {
        "id": f"s{number}",
        "projectId": "p",
        "name": "helpful",
        "source": "ANNOTATION",
        "timestamp": when,
        "environment": "default",
        "createdAt": when,
        "updatedAt": when,
        "dataType": kind,
        "value": value,
        "subject": subject,
    }


def test_outcomes_become_scores(server, client):
    turns = Adapter(Router(["a", "b"], "ucb1", floor=0.4), watchers=[LangfuseScores(client)])
    good = turns.begin(Task())
    good.answered("x", reward=0.75, cost_usd=0.01, elapsed_s=1.5)
    slow = turns.begin(Task())
    slow.failed(TimeoutError(), elapsed_s=30.0)
    client.flush()
    one, two = server.scores
    assert (one["name"], one["value"], one["dataType"]) == ("bot_orch.reward", 0.75, "NUMERIC")
    assert (
        one["traceId"] == langfuse.Langfuse.create_trace_id(seed=good.id) and one["id"] == f"bot_orch.reward-{good.id}"
    )
    assert one["metadata"]["decision_id"] == good.id and one["metadata"]["agent"] == good.agent
    assert one["metadata"]["propensity"] == good.propensity and one["metadata"]["cost_usd"] == 0.01
    assert (two["name"], two["value"], two["comment"], two["dataType"]) == (
        "bot_orch.completed",
        0.0,
        "timeout",
        "BOOLEAN",
    )


def test_a_decision_belongs_to_the_trace_it_was_made_in(server, client):
    scores = LangfuseScores(client)
    turns = Adapter(Router(["a"]), watchers=[scores])
    with client.start_as_current_observation(name="request") as span:
        turns.begin(Task()).answered(reward=1.0)
    client.flush()
    assert server.scores[0]["traceId"] == span.trace_id


def test_scores_become_rewards(server, client):
    scores = LangfuseScores(client)
    turns = Adapter(Router(["a", "b"]), success_reward=None, watchers=[scores])
    first, second, open_ = (turns.begin(Task()) for _ in range(3))
    first.answered("x")
    second.answered("y")
    server.given = [
        score(1, 4.0, {"kind": "trace", "id": scores.trace_of(first)}),
        score(2, 1.0, {"kind": "trace", "id": "0" * 32}),
        score(3, True, {"kind": "observation", "id": "o", "traceId": scores.trace_of(second)}, "BOOLEAN"),
        score(4, 2.0, {"kind": "trace", "id": scores.trace_of(open_)}),
        score(5, 5.0, {"kind": "trace", "id": scores.trace_of(first)}),
    ]
    assert scores.learn("helpful", low=0.0, high=5.0) == 2
    rows = turns.router.history()
    assert [row["reward"] for row in rows] == [0.8, 0.2, None]
    assert all(row["elapsed_s"] is not None and row["propensity"] > 0.0 for row in rows[:2])
    assert [path for path, _ in server.asked] == ["/api/public/v3/scores"] * 3
    assert server.asked[0][1] == {"name": "helpful", "fields": "subject", "limit": "100"}
    assert scores.learn("helpful", high=5.0) == 0, "a score is learned once"


def test_mistakes_are_named(server, client):
    scores = LangfuseScores(client)
    turns = Adapter(Router(["a"]), success_reward=None, watchers=[scores])
    turn = turns.begin(Task())
    turn.answered("x")
    server.given = [score(1, 4.0, {"kind": "trace", "id": scores.trace_of(turn)})]
    with pytest.raises(InvalidInputError, match="score s1: is 4.0; pass bounds wider than 0.0 to 1.0"):
        scores.learn("helpful")
    with pytest.raises(InvalidInputError, match="name a score that others give"):
        scores.learn("bot_orch.reward")
    with pytest.raises(InvalidInputError, match="low < high"):
        scores.learn("helpful", low=1.0)
    assert turn.outcome is None
