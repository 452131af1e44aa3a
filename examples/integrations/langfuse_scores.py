"""Outcomes as Langfuse scores, and scores as rewards; a server on the loopback stands in for Langfuse.

pip install 'bot-orchestrator[langfuse]'
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from langfuse import Langfuse
from opentelemetry.sdk.trace import TracerProvider

from bot_orch import Router, Task
from bot_orch.integrations.adapter import Adapter
from bot_orch.integrations.langfuse import LangfuseScores

sent: list[dict[str, object]] = []
given: list[dict[str, object]] = []


class Stand(BaseHTTPRequestHandler):
    """Takes scores by POST, gives others by GET."""

    def do_POST(self) -> None:
        """Keep what is sent."""
        sent.extend(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.reply(202, {"message": "Accepted"})

    def do_GET(self) -> None:
        """Give the scores of people."""
        self.reply(200, {"data": given, "meta": {"limit": 100}})

    def reply(self, status: int, body: object) -> None:
        """Answer with JSON."""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


server = HTTPServer(("127.0.0.1", 0), Stand)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
client = Langfuse(public_key="pk", secret_key="sk", base_url=url, tracer_provider=TracerProvider())  # noqa: S106

scores = LangfuseScores(client)
turns = Adapter(Router(["small", "large"], "ucb1", seed=1), success_reward=None, watchers=[scores])
turn = turns.begin(Task(text="Where is my money?"))
turn.answered("on its way")  # the reward is awaited

when = "2026-01-01T00:00:00Z"
about = {"subject": {"kind": "trace", "id": scores.trace_of(turn)}, "environment": "default", "source": "ANNOTATION"}
times = {"timestamp": when, "createdAt": when, "updatedAt": when}
given.append({"id": "s1", "projectId": "p", "name": "helpful", "dataType": "NUMERIC", "value": 4.0, **about, **times})
print("learned:", scores.learn("helpful", low=0.0, high=5.0), "score")
client.flush()
print("sent:", sent[0]["name"], sent[0]["value"])
assert turns.router.history()[0]["reward"] == sent[0]["value"] == 0.8
client.shutdown()
server.shutdown()
