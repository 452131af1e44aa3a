"""Durable decisions per second of ``auto`` with features and with texts, over those of ``ucb1`` on the same server.

Part of ``benchmarks/service.py``. Every policy has learned 300 outcomes before it is measured.
"""

from __future__ import annotations

import http.client
import json
import statistics
from pathlib import Path

from _harness import Bench

KINDS: dict[str, tuple[str, dict[str, object]]] = {
    "ucb1": ("policy: ucb1", {}),
    "auto, 8 features": (
        "policy: auto, n_features: 8",
        {"features": [0.1, 0.9, 0.3, 0.7, 0.5, 0.2, 0.8, 0.4]},
    ),
    "auto, text": (
        "policy: auto, encoder: builtin",
        {"text": "Summarise this letter for the file: the customer wants a refund for an order of last week."},
    ),
}
NEEDS = {"auto, 8 features": 0.5, "auto, text": 0.35}
SERVER_PORT = 18_210
_LESSONS = 300


def script(task: dict[str, object]) -> str:
    """The request of a kind, for wrk."""
    body = json.dumps({"task": {"id": "t", **task}})
    return f'wrk.method = "POST"\nwrk.body = \'{body}\'\nwrk.headers["content-type"] = "application/json"\n'


def teach(port: int, task: dict[str, object]) -> None:
    """Outcomes of decisions on different tasks of the kind."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def post(path: str, body: dict[str, object]) -> dict[str, object]:
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        found: dict[str, object] = json.loads(connection.getresponse().read())
        return found

    for number in range(_LESSONS):
        varied = dict(task)
        if "features" in task:
            varied["features"] = [((number * place) % 17) / 17 for place in range(1, 9)]
        if "text" in task:
            varied["text"] = f"{task['text']} Number {number}, {'urgent' if number % 3 else 'code: x = f(y)'}"
        made = post("/v1/decisions", {"task": {"id": "t", **varied}})
        post("/v1/feedback", {"decision_id": made["id"], "reward": (number % 5) / 4})
    connection.close()


def contextual(bench: Bench, folder: Path, *, rounds: int, seconds: float, connections: int) -> None:
    """Rows for context; the kinds take turns."""
    from service import serving_router, wrk

    samples: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for turn in range(rounds):
        for kind, (router, task) in KINDS.items():
            (place := folder / f"{turn}-{kind.replace(', ', '-').replace(' ', '-')}").mkdir()
            with serving_router(place, router, SERVER_PORT) as url:
                teach(SERVER_PORT, task)
                wrk(f"{url}/v1/decisions", script(task), 1, connections)
                samples[kind].append(wrk(f"{url}/v1/decisions", script(task), seconds, connections)[0])
    rates = {kind: statistics.median(found) for kind, found in samples.items()}
    for kind, need in NEEDS.items():
        bench.row(f"durable decisions, {kind} over ucb1", rates[kind], rates["ucb1"], higher_is_better=True, need=need)
