"""Serve bot-orch.yaml and send traffic to watch on the dashboard: ``python examples/demo/traffic.py``, until Ctrl-C.

A routine task is decided by the service, done here and reported, as an application does it with agents of its own.
Every few seconds a task for a person comes.
"""

import argparse
import http.client
import itertools
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

GOOD, ODD = ({"kind": "labels", "probabilities": weights} for weights in ([1.0, 0.0], [0.0, 1.0]))
REVIEWS = (
    "A customer wants a refund 40 days after the purchase; the policy says 30. She was in hospital. Refund or not?",
    "This invoice lists the same item twice with different serial numbers. Is it a duplicate?",
    "Translate for a patient leaflet: 'Take with food; do not stop suddenly without asking your doctor.' (German)",
    "The sensor on line 3 reports 94 °C, the one beside it 61 °C. Stop the line?",
    "A reader reports this comment as an insult: 'Only a fool would trust that forecast.' Remove it?",
    "Two candidates have the same score. The form asks for one name and a reason.",
    "The contract says 'within two weeks of delivery'; delivery was in two parts. When does the period end?",
)
REVIEW_EVERY_S = 12.0
USD = {"steady": 0.002, "fading": 0.004, "flatterer": 0.001, "crashing": 0.003}
CALLS = Counter[str]()


def work(agent: str, draw: random.Random) -> tuple[float, float, bool]:
    """Do a routine task: the judge's reward, the probability of an odd answer, whether the agent crashed."""
    CALLS[agent] += 1
    faded = min(max(CALLS["fading"] - 260, 0) / 200, 1.0)
    quality, odd, crash = {
        "steady": (0.72, 0.05, 0.0),
        "fading": (0.9 - 0.7 * faded, 0.65 if faded else 0.05, 0.0),
        "flatterer": (0.9, 0.8, 0.0),  # its judge's reward; its true quality is half of that
        "crashing": (0.75, 0.05, 0.45),
    }[agent]
    return min(max(draw.gauss(quality, 0.1), 0.0), 1.0), odd, draw.random() < crash


def routine(number: int, connection: http.client.HTTPConnection, draw: random.Random) -> str:
    """Request a decision, do the task, report the outcome; the agent that did it."""
    task = {"id": f"task-{number}", "kind": "routine", "text": f"sort message {number}", "reference": GOOD}
    decision = post(connection, "/v1/decisions", {"task": task})
    reward, odd, crashed = work(decision["agent"], draw)
    report = {"decision_id": decision["id"], "cost_usd": USD[decision["agent"]]}
    report["elapsed_s"] = 0.1 * draw.lognormvariate(0.0, 0.4)
    if crashed:
        report |= {"completed": False, "reason": "error", "reward": 0.0}
    else:
        report |= {"reward": reward, "output": ODD if draw.random() < odd else GOOD}
    post(connection, "/v1/feedback", report)
    return decision["agent"]


def review(number: int, connection: http.client.HTTPConnection) -> None:
    """Submit a task for a person."""
    task = {"id": f"review-{number}", "kind": "review", "text": REVIEWS[number % len(REVIEWS)], "reference": GOOD}
    post(connection, "/v1/tasks", {"task": task, "eligible": ["person"], "background": True})


def post(connection: http.client.HTTPConnection, path: str, body: object) -> dict[str, str]:
    """Send a document; the answer."""
    connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    document: dict[str, str] = json.loads(answer.read())
    if answer.status >= 300:
        sys.exit(f"{path}: {document['error']}")
    return document


def ready(connection: http.client.HTTPConnection) -> bool:
    """Whether the service has read its log."""
    connection.request("GET", "/health/ready")
    answer = connection.getresponse()
    answer.read()
    return answer.status == 200


def main() -> None:
    """Serve, send and report until stopped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after so many (default: never)")
    parser.add_argument("--rate", type=float, default=20.0, help="tasks per second (default: 20)")
    parser.add_argument("--port", type=int, default=8080, help="default: 8080")
    wanted, draw = parser.parse_args(), random.Random(7)  # noqa: S311
    file = Path(__file__).with_name("bot-orch.yaml")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # kill stops the service, too
    command = [sys.executable, "-m", "bot_orch", "serve", str(file), "--port", str(wanted.port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:  # noqa: S603
        try:
            line = service.stdout.readline() if service.stdout else ""
            if not line:
                sys.exit("the service did not start")
            url = line.split()[1]
            connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
            while not ready(connection):
                time.sleep(0.05)
            print(f"dashboard  {url}/\nqueue      {url}/queue\nstop with Ctrl-C", flush=True)
            begun, counts, reviews = time.monotonic(), Counter[str](), 0
            for number in itertools.count():
                elapsed_s = time.monotonic() - begun
                if wanted.seconds and elapsed_s >= wanted.seconds:
                    break
                if elapsed_s >= reviews * REVIEW_EVERY_S:
                    review(reviews, connection)
                    reviews += 1
                counts[routine(number, connection, draw)] += 1
                if counts.total() >= wanted.rate:
                    shares = "  ".join(f"{name} {n / counts.total():4.0%}" for name, n in sorted(counts.items()))
                    print(f"{elapsed_s:5.0f} s  {number + 1:6d} tasks  last of them: {shares}", flush=True)
                    counts.clear()
                time.sleep(max(0.0, begun + (number + 1) / wanted.rate - time.monotonic()))
        except KeyboardInterrupt:
            print("stopped")
        finally:
            service.terminate()


if __name__ == "__main__":
    main()
