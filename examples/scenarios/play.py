"""Play a scenario: a service with simulated agents, chats through its gateway, a line on what moved and why."""

from __future__ import annotations

import argparse
import http.client
import json
import math
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Phase:
    """A stretch of traffic under one configuration: YAML of the router, of the agents, and more at the top level."""

    title: str
    router: str
    agents: str
    _: KW_ONLY
    drained: tuple[str, ...] = ()
    more: str = ""

    def document(self, folder: Path, port: int = 0) -> str:
        """The configuration file."""
        listen, database = f"{{port: {port}}}", json.dumps(str(folder / "log.sqlite"))
        head = f"version: 1\ndatabase: {database}\nlisten: {listen}\nlog_level: error\n"
        return f"{head}router: {self.router}\nagents: {self.agents}\n{self.more}"


@dataclass(frozen=True)
class Request:
    """The kind of a prompt, and the agent that answered (empty: none)."""

    kind: str
    agent: str


@dataclass(frozen=True)
class PhaseResult:
    """The requests of a phase in order, the dollars spent, and the mean value of the judges (NaN without any)."""

    requests: Sequence[Request]
    usd: float
    reward: float = math.nan

    def share(self, agent: str, kind: str | None = None, *, last: float = 1.0) -> float:
        """The agent's share of the answers: of one kind of prompt, or of all; of the ``last`` part of the phase."""
        kept = [each for each in self.requests if kind is None or each.kind == kind]
        kept = kept[len(kept) - max(1, round(last * len(kept))) :]
        return Counter(each.agent for each in kept)[agent] / max(len(kept), 1)

    @property
    def usd_per_task(self) -> float:
        """Mean dollars of a request."""
        return self.usd / max(len(self.requests), 1)

    @property
    def failed(self) -> int:
        """Requests without an answer."""
        return sum(not each.agent for each in self.requests)


@dataclass(frozen=True)
class Scenario:
    """Phases, the kind and the text of the request with a number, and a line that says what moved and why."""

    phases: tuple[Phase, ...]
    _: KW_ONLY
    prompt: Callable[[int], tuple[str, str]]
    moved: Callable[[Sequence[PhaseResult]], str]
    rounds: int = 300


class Service:
    """A running service at an address, with its configuration file."""

    def __init__(self, address: str, file: Path) -> None:
        self.address, self.file = address, file
        self._http = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[http.client.HTTPResponse, Any]:
        """Send a request; the response and its document."""
        headers = {"content-type": "application/json"}
        self._http.request(method, path, None if body is None else json.dumps(body), headers)
        response = self._http.getresponse()
        text = response.read()
        return response, json.loads(text) if text else None

    def chat(self, text: str) -> str:
        """Send a prompt; the agent that answered."""
        body = {"model": "auto", "messages": [{"role": "user", "content": text}]}
        response, _ = self.ask("POST", "/v1/chat/completions", body)
        return response.headers["x-bot-orch-agent"] if response.status == 200 else ""

    def judged(self) -> tuple[int, float]:
        """Number and sum of the values that judges gave so far."""
        every = [agent for judge in self.ask("GET", "/v1/judges")[1] for agent in judge["agents"]]
        return sum(each["count"] for each in every), sum(each["count"] * each["mean"] for each in every)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def spent_usd(self) -> float:
        """Dollars of the last day."""
        return float(self.ask("GET", "/v1/objective")[1]["spent_last_day_usd"])


@contextmanager
def serving(file: Path) -> Iterator[Service]:
    """Run ``bot-orch serve`` with a file."""
    command = [sys.executable, "-m", "bot_orch", "serve", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                sys.exit("the service did not start")
            with closing(Service(line.split()[1], file)) as service:
                while service.ask("GET", "/health/ready")[0].status != 200:
                    time.sleep(0.05)
                yield service
        finally:
            process.terminate()


def play(scenario: Scenario, service: Service, *, rounds: int | None = None, rate: float = 0.0) -> list[PhaseResult]:
    """Play the phases, ``rate`` requests per second or (0) as fast as they are answered."""
    results: list[PhaseResult] = []
    number, rounds = 0, rounds or scenario.rounds
    for phase in scenario.phases:
        service.file.write_text(phase.document(service.file.parent))
        service.ask("POST", "/v1/admin/reload")
        for name in phase.drained:
            service.ask("POST", f"/v1/admin/agents/{name}/drain")
        print(f"-- {phase.title}")
        requests: list[Request] = []
        before, (count, total) = service.spent_usd(), service.judged()
        for _ in range(rounds):
            kind, text = scenario.prompt(number)
            requests.append(Request(kind, service.chat(text)))
            number += 1
            if len(requests) % max(1, rounds // 4) == 0:
                _report(requests[-max(1, rounds // 4) :])
            if rate:
                time.sleep(1.0 / rate)
        judged, value = service.judged()
        reward = (value - total) / (judged - count) if judged > count else math.nan
        results.append(PhaseResult(requests, service.spent_usd() - before, reward))
    print(scenario.moved(results))
    return results


def _report(requests: Sequence[Request]) -> None:
    """Print the shares of the agents, by kind of prompt."""
    for kind in sorted({each.kind for each in requests}):
        counts = Counter(each.agent or "failed" for each in requests if each.kind == kind)
        shares = "  ".join(f"{name} {count / counts.total():4.0%}" for name, count in sorted(counts.items()))
        print(f"   {kind}: {shares}")


def main(scenario: Scenario) -> None:
    """Run a scenario as a script."""
    parser = argparse.ArgumentParser(description="Play a scenario and say what moved and why.")
    parser.add_argument("--rounds", type=int, help="requests per phase")
    parser.add_argument("--rate", type=float, default=0.0, help="requests per second (default: as fast as possible)")
    parser.add_argument("--port", type=int, default=8080, help="of the dashboard (default: 8080)")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "bot-orch.yaml"
        file.write_text(scenario.phases[0].document(file.parent, arguments.port))
        with serving(file) as service:
            print(f"dashboard  {service.address}/")
            play(scenario, service, rounds=arguments.rounds, rate=arguments.rate)
