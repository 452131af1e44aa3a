"""Seconds from ``pip install`` of the wheel in a new environment to a gateway that learns; the bar is five minutes.

Two endpoints on loopback stand for models: one answers well, one badly. ``bot-orch quickstart --yes`` writes a
configuration, serves it and sends its three chats. Then chats with thumbs as feedback are sent, and the share of the
good endpoint in the first and in the last third is printed. Building the wheel is not counted. pip needs an index.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from _harness import Bench

__all__ = ["build_wheel", "run", "user_environment"]

_ROOT = Path(__file__).parents[1]
_BAR_S = 300.0


class _Model(BaseHTTPRequestHandler):
    """An OpenAI-compatible endpoint; ``/good/v1`` and ``/bad/v1`` have one model each."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name = self.path.split("/")[1]
        self._reply({"object": "list", "data": [{"id": name, "object": "model", "created": 1}]})

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["content-length"])))
        choice = {"index": 0, "message": {"role": "assistant", "content": document["model"]}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
        made = {"id": "c", "object": "chat.completion", "created": 1, "model": document["model"]}
        self._reply({**made, "choices": [choice], "usage": usage})

    def _reply(self, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def _endpoints() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Model) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def user_environment() -> dict[str, str]:
    """Of a user who has nothing but pip's settings."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "HTTP", "SSL", "http"))}
    return {**kept, "PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}


def run(*words: str | Path, cwd: Path) -> None:
    """A command as a user would run it, outside this checkout."""
    command = list(map(str, words))
    subprocess.run(command, check=True, cwd=cwd, env=user_environment(), stdout=subprocess.DEVNULL)  # noqa: S603


def build_wheel(folder: Path) -> Path:
    """Built from a copy, because setuptools leaves a folder behind."""
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(_ROOT / name, source)
    shutil.copytree(_ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, source, cwd=folder)
    (found,) = folder.glob("*.whl")
    return found


def _ask(url: str, document: Any) -> tuple[Any, Any]:
    request = urllib.request.Request(url, json.dumps(document).encode(), {"content-type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310  loopback
        return json.load(response), response.headers


def _learn(url: str, chats: int) -> list[bool]:
    """Send chats with feedback; whether the good endpoint answered each."""
    good = []
    for number in range(chats):
        chat = {"model": "auto", "messages": [{"role": "user", "content": f"Question {number}: what is {number} + 1?"}]}
        answer, headers = _ask(f"{url}v1/chat/completions", chat)
        good.append(answer["choices"][0]["message"]["content"] == "good")
        _ask(f"{url}v1/feedback", {"decision_id": headers["x-bot-orch-decision-id"], "reward": float(good[-1])})
    return good


def measure(wheel: Path, folder: Path, *, chats: int) -> None:
    """Install, start, chat; print the seconds of each step."""
    bench, home = Bench("s"), folder / "env"
    begun = time.monotonic()
    venv.create(home, with_pip=True)
    made = time.monotonic()
    run(home / "bin" / "python", "-m", "pip", "install", "-q", f"{wheel}[service]", cwd=folder)
    installed = time.monotonic()
    with _endpoints() as place:
        words = [home / "bin" / "bot-orch", "quickstart", "--yes", "--no-browser", "--port", "0"]
        words += ["--endpoint", f"good={place}/good/v1", "--endpoint", f"bad={place}/bad/v1"]
        with subprocess.Popen(  # noqa: S603
            list(map(str, words)), cwd=folder, env=user_environment(), stdout=subprocess.PIPE, text=True
        ) as serving:
            lines: list[str] = []
            assert serving.stdout is not None
            for line in serving.stdout:
                lines.append(line)
                if line.startswith("stop with"):
                    break
            started = time.monotonic()
            said = "".join(lines)
            found = re.search(r"dashboard  (\S+)", said)
            assert found is not None, said
            assert "failed: 0, learned from: 3" in said, said
            good = _learn(found[1], chats)
            learned = time.monotonic()
            serving.send_signal(signal.SIGINT)
            serving.communicate(timeout=60)
    print(f"new environment, {made - begun:.1f} s")
    print(f"pip install of the wheel with the service, {installed - made:.1f} s")
    print(f"quickstart until three chats are learned from, {started - installed:.1f} s")
    print(f"{chats} chats with feedback, {learned - started:.1f} s")
    third = chats // 3
    shares = sum(good[:third]) / third, sum(good[-third:]) / third
    print(f"share of the good endpoint: first third {shares[0]:.2f}, last third {shares[1]:.2f}")
    bench.row("from pip install to a learning gateway", learned - made, _BAR_S, higher_is_better=False, need=1.0)
    bench.finish()


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python benchmarks/quickstart.py")
    parser.add_argument("--wheel", type=Path, help="a built one (default: this checkout's)")
    parser.add_argument(
        "--chats", type=int, default=60, help="with feedback, after the three of quickstart (default: 60)"
    )
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bot-orch-quickstart-") as name:
        folder = Path(name)
        wheel = build_wheel(folder) if chosen.wheel is None else chosen.wheel.resolve()
        measure(wheel, folder, chats=max(3, chosen.chats))


if __name__ == "__main__":
    main()
