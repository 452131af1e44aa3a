"""What the gateway costs as it is installed, beside LiteLLM's proxy and beside a pass-through proxy in aiohttp.

The wheel is built and installed by ``pip install 'bot-orchestrator[service]'`` into a new environment; ``bot-orch
quickstart`` writes the configuration (two endpoints, text as context, a durable log), and ``bot-orch serve`` serves it.
LiteLLM gets an environment of its own, the same two endpoints, one worker and the settings of its page on production:
a master key, logs of errors only, no database. The floor is the proxy of ``_loopback.py``. One model process on
loopback answers all of them. Requests of one caller and of eight take turns among the gateways.

Added latency is that through a gateway less that of a direct call. A piece of a stream says when it was written: the
delay of a later token is from then to its arrival, less the direct one. Processor time is that of all processes of a
gateway; other work on the machine disturbs it least. Prompts have about 400 bytes, all different.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import secrets
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from _harness import Bench
from _serving import tree_cpu_s, tree_rss_mb

from service import _wait

_ROOT = Path(__file__).parents[1]
_CALLERS = 8
_TOKEN = re.compile(rb'"content":\s?"([\d.]+) "')
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_LITELLM = """
model_list:
  - {{model_name: auto, litellm_params: {{model: openai/small, api_base: "{url}/small/v1", api_key: sk-none}}}}
  - {{model_name: auto, litellm_params: {{model: openai/large, api_base: "{url}/large/v1", api_key: sk-none}}}}
general_settings: {{proxy_batch_write_at: 60, disable_error_logs: true}}
litellm_settings: {{set_verbose: false, json_logs: true, request_timeout: 600, telemetry: false}}
"""


class Caller:
    """One connection that sends one request at a time."""

    def __init__(self, gateway: Gateway) -> None:
        self._head = (
            f"POST {gateway.path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{gateway.key}"
        )
        self._socket = socket.create_connection(("127.0.0.1", gateway.port), timeout=120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._name = gateway.name

    def close(self) -> None:
        self._socket.close()

    def chat(self, prompt: str) -> float:
        """Seconds of a whole answer."""
        request, start = self._request(prompt, stream=False), time.perf_counter()
        self._socket.sendall(request)
        self._whole()
        return time.perf_counter() - start

    def stream(self, prompt: str) -> tuple[float, list[float]]:
        """Seconds to the first token, and from writing to arrival for each of the later ones."""
        request, start = self._request(prompt, stream=True), time.monotonic()
        self._socket.sendall(request)
        got, seen = b"", 0
        arrivals: list[tuple[float, float]] = []
        while not got.endswith(b"\r\n0\r\n\r\n"):
            got += self._more(got)
            now = time.monotonic()
            arrivals += [(now, float(found[1])) for found in itertools.islice(_TOKEN.finditer(got), seen, None)]
            seen = len(arrivals)
        self._check(got)
        return arrivals[0][0] - start, [now - written for now, written in arrivals[1:]]

    def _request(self, prompt: str, *, stream: bool) -> bytes:
        chat = {"model": "auto", "messages": [{"role": "user", "content": prompt}], "stream": stream}
        body = json.dumps(chat)
        return f"{self._head}content-length: {len(body)}\r\n\r\n{body}".encode()

    def _whole(self) -> None:
        got = self._more(b"")
        while b"\r\n\r\n" not in got:
            got += self._more(got)
        head, _, body = got.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        while (len(body) < int(length[1])) if length else not body.endswith(b"\r\n0\r\n\r\n"):
            body += self._more(body)
        self._check(got)

    def _more(self, got: bytes) -> bytes:
        if more := self._socket.recv(65_536):
            return more
        raise SystemExit(f"{self._name} closed the connection: {got[:500]!r}")

    def _check(self, got: bytes) -> None:
        if not got.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"{self._name} answered {got[:500]!r}")


@dataclass
class Gateway:
    """A server to be measured, and what was measured of it; without a process it is the model itself."""

    name: str
    port: int
    path: str = "/v1/chat/completions"
    key: str = ""
    pid: int = 0
    single_s: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    later_s: list[float] = field(default_factory=list)
    stream_cpu_s: float = 0.0
    idle_mb: float = 0.0
    after_mb: float = 0.0

    def one_caller(self, prompts: Iterator[str], number: int) -> None:
        caller = Caller(self)
        self.single_s += [caller.chat(next(prompts)) for _ in range(number)]
        caller.close()

    def streams(self, prompts: Iterator[str], number: int) -> None:
        caller, used = Caller(self), tree_cpu_s(self.pid)
        for _ in range(number):
            first, later = caller.stream(next(prompts))
            self.first_s.append(first)
            self.later_s += later
        self.stream_cpu_s += tree_cpu_s(self.pid) - used
        caller.close()

    def eight_callers(self, prompts: Iterator[str], number: int) -> None:
        share = number // _CALLERS
        lists = [list(itertools.islice(prompts, share)) for _ in range(_CALLERS)]
        failures: list[BaseException] = []

        def work(own: Sequence[str]) -> None:
            try:
                caller = Caller(self)
                for prompt in own:
                    caller.chat(prompt)
                caller.close()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(own,)) for own in lists]
        used, start = tree_cpu_s(self.pid), time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        self.rates.append(share * _CALLERS / (time.perf_counter() - start))
        self.cpu_s.append((tree_cpu_s(self.pid) - used) / (share * _CALLERS))


def _prompts(seed: int) -> Iterator[str]:
    """About 400 bytes each."""
    draw, words = random.Random(seed), _words()  # noqa: S311
    while True:
        yield " ".join(draw.choices(words, k=64))


def _words() -> list[str]:
    draw = random.Random(1)  # noqa: S311
    return ["".join(draw.choices("etaoinshrdlu", k=draw.randint(3, 8))) for _ in range(2000)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _user_environment() -> dict[str, str]:
    """Of a user who has nothing but pip's settings."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "HTTP", "SSL", "http"))}
    return {**kept, "PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}


def _run(*words: str | Path, cwd: Path) -> None:
    """A command as a user would run it, outside this checkout."""
    command = list(map(str, words))
    subprocess.run(command, check=True, cwd=cwd, env=_user_environment(), stdout=subprocess.DEVNULL)  # noqa: S603


def _build_wheel(folder: Path) -> Path:
    """Built from a copy, because setuptools leaves a folder behind."""
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(_ROOT / name, source)
    shutil.copytree(_ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    _run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, source, cwd=folder)
    (found,) = folder.glob("*.whl")
    return found


def _ours(folder: Path, wheel: Path) -> Path:
    """A new environment with the wheel, by the documented command."""
    home = folder / "ours"
    venv.create(home, with_pip=True)
    _run(
        home / "bin" / "python",
        "-m",
        "pip",
        "install",
        "-q",
        f"bot-orchestrator[service] @ {wheel.as_uri()}",
        cwd=folder,
    )
    return home


def _litellm(folder: Path) -> Path | None:
    """The command of LiteLLM in a new environment; None if it cannot be installed."""
    home = folder / "litellm"
    venv.create(home, with_pip=True)
    try:
        _run(home / "bin" / "python", "-m", "pip", "install", "-q", "litellm[proxy]", cwd=folder)
    except subprocess.CalledProcessError as error:
        print(f"LiteLLM could not be installed, and is left out: {error}")
        return None
    return home / "bin" / "litellm"


@contextmanager
def _serving(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Iterator[int]:
    """The process of a server, ended at the end."""
    with (folder / f"{Path(command[0]).name}.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603
            command, cwd=folder, env={**_user_environment(), **environment}, stdout=log, stderr=log
        )
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def gateways(folder: Path, home: Path, litellm: Path | None) -> Iterator[list[Gateway]]:
    """The model, the floor, ours and, if there is one, LiteLLM; all of them serve."""
    python, loopback = str(home / "bin" / "python"), str(Path(__file__).with_name("_loopback.py"))
    model, floor, ours, peer = (_free_port() for _ in range(4))
    path = "/small/v1/chat/completions"
    with ExitStack() as stack:

        def start(name: str, command: list[str], port: int, ready: str, **environment: str) -> Gateway:
            pid = stack.enter_context(_serving(command, folder, environment))
            _wait(port, ready, 120.0)
            return Gateway(name, port, pid=pid)

        start("model", [python, loopback, "model", str(model)], model, "/small/v1/models")
        url, command = f"http://127.0.0.1:{model}", str(home / "bin" / "bot-orch")
        endpoints = [f"--endpoint={name}={url}/{name}/v1" for name in ("small", "large")]
        _run(command, "quickstart", "--yes", "--once", "--no-browser", f"--port={ours}", *endpoints, cwd=folder)
        found = [Gateway("direct", model, path)]
        found.append(start("floor", [python, loopback, "proxy", str(floor), str(model)], floor, "/small/v1/models"))
        found[-1].path = path
        found.append(start("ours", [command, "serve", "bot-orch.yaml"], ours, "/health/ready"))
        if litellm is not None:
            key = f"sk-{secrets.token_hex(32)}"
            (config := folder / "litellm.yaml").write_text(_LITELLM.format(url=url))
            words = [str(litellm), "--config", str(config), "--port", str(peer), "--host", "127.0.0.1"]
            settings = {"LITELLM_MODE": "PRODUCTION", "LITELLM_LOG": "ERROR", "LITELLM_MASTER_KEY": key}
            settings["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks GitHub at every start
            found.append(start("LiteLLM", [*words, "--num_workers", "1"], peer, "/health/liveliness", **settings))
            found[-1].key = f"authorization: Bearer {key}\r\n"
        yield found


def measure(found: Sequence[Gateway], *, requests: int, turns: int) -> None:
    """One caller, streams and eight callers; the gateways take turns, so that a noisy moment hits all alike."""
    prompts = _prompts(7)
    for each in found:
        each.idle_mb = tree_rss_mb(each.pid)
        each.eight_callers(prompts, 25 * _CALLERS)  # warm-up: connections, and the policy has something to weigh
        each.rates.clear()
        each.cpu_s.clear()
    for _ in range(turns):
        for each in found:
            each.one_caller(prompts, requests // turns // 8)
        for each in found:
            each.streams(prompts, 20)
        for each in found:
            each.eight_callers(prompts, requests // turns)
    for each in found:
        each.after_mb = tree_rss_mb(each.pid)


def report(bench: Bench, found: Sequence[Gateway]) -> None:
    """Rows against every peer, and the bars."""
    direct, ours = found[0], next(each for each in found if each.name == "ours")

    def added(gateway: Gateway, values: str, quantile: float) -> float:
        through, straight = (np.quantile(getattr(each, values), quantile) for each in (gateway, direct))
        return max(float(through - straight) * 1e3, 1e-3)

    for peer in found[1:]:
        if peer is ours:
            continue
        need, few = (6.0, 1.0) if peer.name == "LiteLLM" else (0.25, None)
        against = f"against {peer.name}"

        def row(name: str, figure: Callable[[Gateway], float], unit: str, need: float | None = None) -> None:
            bench.unit = unit
            up = unit == "/s"
            bench.row(f"{name}, {against}", figure(ours), figure(peer), higher_is_better=up, need=need)  # noqa: B023

        row("one caller, added p50", lambda each: added(each, "single_s", 0.5), "ms", need)
        row("one caller, added p99", lambda each: added(each, "single_s", 0.99), "ms")
        row("eight callers, throughput", lambda each: statistics.median(each.rates), "/s")
        row("eight callers, processor time of a request", lambda each: min(each.cpu_s) * 1e3, "ms", need)
        row("stream, added to the first token, p50", lambda each: added(each, "first_s", 0.5), "ms")
        row("stream, added to a later token, p50", lambda each: added(each, "later_s", 0.5), "ms")
        row("stream, added to a later token, p99", lambda each: added(each, "later_s", 0.99), "ms")
        row("stream, processor time of a whole one", lambda each: each.stream_cpu_s / len(each.first_s) * 1e3, "ms")
        row("resident memory, idle", lambda each: each.idle_mb, "MB", few)
        row("resident memory, after the requests", lambda each: each.after_mb, "MB", few)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python benchmarks/gateway.py --quick")
    parser.add_argument("--quick", action="store_true", help="2000 requests of eight callers in place of 50 000")
    parser.add_argument("--wheel", type=Path, help="a built one (default: this checkout's)")
    parser.add_argument("--litellm", type=Path, metavar="PATH", help="the command of an installed one")
    parser.add_argument("--without-litellm", action="store_true", help="only beside the floor")
    chosen = parser.parse_args()
    requests, turns = (2_000, 2) if chosen.quick else (50_000, 10)
    with tempfile.TemporaryDirectory(prefix="bot-orch-gateway-") as name:
        folder = Path(name)
        wheel = _build_wheel(folder) if chosen.wheel is None else chosen.wheel.resolve()
        home = _ours(folder, wheel)
        litellm = None if chosen.without_litellm else chosen.litellm or _litellm(folder)
        with gateways(folder, home, litellm) as found:
            measure(found, requests=requests, turns=turns)
    bench = Bench("ms")
    report(bench, found)
    print(f"cores {os.cpu_count()}, load {os.getloadavg()[0]:.1f}, requests of eight callers {requests}")
    bench.finish()


if __name__ == "__main__":
    main()
