"""Sixteen faults of endpoints, injected into a real gateway one after the other, and what its client sees of them.

For each fault ``bot-orch serve`` runs in a process of its own with the configuration that ``--config`` prints: two
agents, of which the first has the fault and the second is sound (but for the fallback that rejects
the beginning of an answer). Its settings differ from the defaults where a comment says so. Requests go on until one
meets the fault; every answer must be good, not that one alone.

All times, those of the faults and those of the gateway, are multiplied by ``--scale``: faults of minutes take seconds
in the tests. The table in the documentation is that of ``--scale 1``.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["FAULTS", "Outcome", "config", "main", "played"]

PIECES = 60
STREAM = "-stream"  # ends the name of a second gateway, for the same fault with streams
WORDS = [f"w{number} " for number in range(PIECES)]
TEXT = "".join(WORDS)
USAGE = {"prompt_tokens": 9, "completion_tokens": PIECES, "total_tokens": 9 + PIECES}
_JSON = {"content-type": "application/json"}
_MOST = 60  # requests until one meets the fault
_SILENT_S, _FIRST_S, _STALL_S, _FLAP_S, _BACK_S, _AFTER_S = 100.0, 20.0, 30.0, 60.0, 30.0, 20.0

CONFIG = """\
version: 1
database: {folder}/{name}.sqlite
listen: {{port: {port}}}
log_level: error
router:
  success_reward: 1.0
  floor: 0.1                                               # default: 0.02
  midstream: continue                                      # default: error
agents:
"""
AGENT = """\
  - id: {id}
    kind: openai
    base_url: "{url}/{name}/{id}/v1"
    model: {id}
    first_byte_s: {first_byte_s:g}
    timeout_s: {total_s:g}                                   # default: 600
    price: {{output_usd_per_million: {price}}}
    prefill: message                                       # default: none
"""


def config(name: str, folder: str, upstream: str, *, port: int, scale: float) -> str:
    """The configuration of the gateway for one fault."""
    text = CONFIG.format(name=name, folder=folder, port=port)
    times = {"first_byte_s": 30 * scale, "total_s": 60 * scale}
    for agent, price in (("primary", 1), ("fallback", 2)):
        text += AGENT.format(id=agent, name=name, url=upstream, price=price, **times)
    return text


# --- the endpoints ----------------------------------------------------------------------------------------------------


class Exchange(BaseHTTPRequestHandler):
    """One request to ``/FAULT/AGENT/v1/chat/completions``."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        _, fault, agent, *_ = self.path.split("/")
        self.document = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.begun = False
        number = self.server.endpoints.note(fault, agent, self.document)
        try:
            FAULTS[fault.removesuffix(STREAM)].answer(self, agent, number)
        except OSError:
            self.close_connection = True

    @property
    def scale(self) -> float:
        return self.server.endpoints.scale

    @property
    def prefill(self) -> str:
        last = self.document["messages"][-1]
        return str(last["content"]) if last["role"] == "assistant" else ""

    def whole(self) -> None:
        """A sound answer: all words, or the rest of them after a beginning."""
        words = WORDS[len(self.prefill.split()) :]
        if not self.document.get("stream"):
            message = {"role": "assistant", "content": "".join(words)}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self.reply(
                200, {"id": "c-1", "object": "chat.completion", **self.named, "choices": [choice], "usage": USAGE}
            )
            return
        self.words(words)
        self.close_stream()

    def words(self, words: Sequence[str]) -> None:
        for word in words:
            self.event({"content": word})

    def close_stream(self, *, mark: bool = True) -> None:
        self.event({}, "stop")
        if mark:
            self.piece(b"data: " + json.dumps({**self.frame, "choices": [], "usage": USAGE}).encode() + b"\n\n")
            self.piece(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    @property
    def named(self) -> dict[str, Any]:
        return {"created": 1_700_000_000, "model": self.document["model"]}

    @property
    def frame(self) -> dict[str, Any]:
        return {"id": "c-1", "object": "chat.completion.chunk", **self.named}

    def event(self, delta: Mapping[str, Any], finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        self.piece(b"data: " + json.dumps({**self.frame, "choices": [choice]}).encode() + b"\n\n")

    def piece(self, data: bytes) -> None:
        if not self.begun:
            self.begun = True
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def error(self, status: int, code: str, *, headers: Mapping[str, str] | None = None) -> None:
        self.reply(status, {"error": {"message": f"injected: {code}", "type": "fault", "code": code}}, headers or {})

    def reply(self, status: int, document: Any, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        for key, value in {"Content-Type": "application/json", "Content-Length": len(body), **(headers or {})}.items():
            self.send_header(key, str(value))
        self.end_headers()
        self.wfile.write(body)

    def reset(self) -> None:
        """Break the connection off with a reset."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True
        raise ConnectionResetError

    def pause(self, seconds: float) -> None:
        time.sleep(seconds * self.scale)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


class Server(ThreadingHTTPServer):
    """Says nothing of clients that leave."""

    daemon_threads = True
    request_queue_size = 100

    def __init__(self, endpoints: Endpoints) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.endpoints = endpoints

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Endpoints:
    """The endpoints of all faults, in threads of this process; ``seen`` lists the requests of each."""

    def __init__(self, scale: float) -> None:
        self.scale, self.seen = scale, dict[tuple[str, str], list[tuple[float, dict[str, Any]]]]()
        self._lock = threading.Lock()
        self._server = Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def note(self, fault: str, agent: str, document: dict[str, Any]) -> int:
        with self._lock:
            calls = self.seen.setdefault((fault, agent), [])
            calls.append((time.monotonic(), document))
            return len(calls)

    def calls(self, fault: str, agent: str) -> int:
        return len(self.seen.get((fault, agent), ()))

    @contextmanager
    def running(self) -> Iterator[Endpoints]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()


# --- the client -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What a client gets: text, whether it ended properly, or an error."""

    status: int
    headers: Mapping[str, str]
    text: str = ""
    ended: bool = False
    error: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        return self.status == 200 and self.ended and not self.error and self.text == TEXT


class Client:
    """Asks one router, and knows what its endpoints were asked."""

    def __init__(self, ports: Mapping[str, int], fault: str, endpoints: Endpoints) -> None:
        self.ports, self.fault, self.endpoints = ports, fault, endpoints
        self.scale = endpoints.scale

    def ask(self, *, stream: bool = False) -> Answer:
        body = {"model": "auto", "messages": [{"role": "user", "content": "count"}], "stream": stream}
        begun = time.monotonic()
        status, headers, data = self._send("/v1/chat/completions", body)
        return _read(status, headers, data, stream=stream, seconds=time.monotonic() - begun)

    def get(self, path: str) -> Any:
        return json.loads(self._send(path, None)[2])

    def until_met(self, *, stream: bool = False) -> tuple[Answer, list[Answer]]:
        """Ask until the first agent is asked; that answer, and those before."""
        before: list[Answer] = []
        calls = self.primary
        for _ in range(_MOST):
            answer = self.ask(stream=stream)
            if self.primary > calls:
                return answer, before
            before.append(answer)
        raise RuntimeError(f"{self.fault}: the agent with the fault was not asked in {_MOST} requests")

    @property
    def primary(self) -> int:
        return self.endpoints.calls(self.fault, "primary")

    @property
    def fallback(self) -> int:
        return self.endpoints.calls(self.fault, "fallback")

    def _send(self, path: str, body: Any) -> tuple[int, Mapping[str, str], bytes]:
        data = None if body is None else json.dumps(body)
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[self.fault], timeout=300)
        try:
            connection.request("GET" if data is None else "POST", path, data, _JSON)
            response = connection.getresponse()
            return response.status, dict(response.headers), response.read()
        finally:
            connection.close()


def _read(status: int, headers: Mapping[str, str], data: bytes, *, stream: bool, seconds: float) -> Answer:
    if not stream or status != 200:
        document = json.loads(data)
        if status != 200:
            return Answer(status, headers, error=document["error"], seconds=seconds)
        choice = document["choices"][0]
        text, ended = choice["message"]["content"], bool(choice["finish_reason"])
        return Answer(status, headers, text, ended, model=document["model"], seconds=seconds)
    texts: list[str] = []
    finished, model = False, ""
    error: dict[str, Any] = {}
    events = [line[6:] for line in data.decode().splitlines() if line.startswith("data: ")]
    for document in (json.loads(each) for each in events if each != "[DONE]"):
        error = document.get("error") or error
        model = document.get("model") or model
        for choice in document.get("choices", ()):
            texts.append(choice["delta"].get("content") or "")
            finished = finished or bool(choice["finish_reason"])
    ended = finished and events[-1:] == ["[DONE]"]
    return Answer(status, headers, "".join(texts), ended, error=error, model=model, seconds=seconds)


# --- the faults -------------------------------------------------------------------------------------------------------

Check = tuple[bool, str]


@dataclass(frozen=True)
class Fault:
    """What the endpoint does, what a client must see, and how that is found out."""

    what: str
    wanted: str
    answer: Callable[[Exchange, str, int], None]
    check: Callable[[Client], Check]


@dataclass(frozen=True)
class Outcome:
    """What became of one fault."""

    name: str
    passed: bool
    seen: str


def _primary(fault: Callable[[Exchange], None], *, first: int | None = None) -> Callable[[Exchange, str, int], None]:
    """The first agent has the fault, in its ``first`` calls or in all; everything else is answered soundly."""

    def answer(exchange: Exchange, agent: str, number: int) -> None:
        if agent == "primary" and (first is None or number <= first):
            fault(exchange)
        else:
            exchange.whole()

    return answer


def _served(client: Client) -> Check:
    """Whole and streamed answers are good, and the first agent is called at most twice for each."""
    seen, good = [], True
    for stream in (False, True):
        one = Client(client.ports, client.fault + (STREAM if stream else ""), client.endpoints)
        answer, others = one.until_met(stream=stream)
        good = good and answer.good and all(each.good for each in others) and one.primary <= 2
        seen.append(f"{'stream' if stream else 'whole'} {answer.status} from {answer.model}, {one.primary} call(s)")
    return good, "; ".join(seen)


def _held(client: Client) -> Check:
    """The agent that asks for a pause gets it; all answers meanwhile are good."""
    answer, others = client.until_met()
    first_at = client.endpoints.seen[client.fault, "primary"][0][0]
    asked_s = _AFTER_S * client.scale
    during = []
    while time.monotonic() < first_at + asked_s:
        during.append(client.ask())
        time.sleep(0.5 * client.scale)
    again = [at for at, _ in client.endpoints.seen[client.fault, "primary"][1:] if at < first_at + 0.95 * asked_s]
    good = all(each.good for each in (answer, *others, *during))
    seen = f"{answer.status} from {answer.model}; {len(during)} more from others, {len(again)} calls to it meanwhile"
    return good and not again, seen


def _silent(client: Client) -> Check:
    """One call, and a good answer within 100 seconds."""
    answer, others = client.until_met()
    good = answer.good and all(each.good for each in others)
    seconds = answer.seconds / client.scale
    return (
        good and client.primary == 1 and seconds <= _SILENT_S,
        f"{client.primary} call, answered after {seconds:.0f} s",
    )


def _streamed(client: Client) -> Check:
    answer, others = client.until_met(stream=True)
    good = answer.good and all(each.good for each in others)
    calls = f"{client.primary} + {client.fallback - len(others)} calls"
    return good, f"{len(answer.text.split())} of {PIECES} pieces, {calls}, {answer.seconds / client.scale:.0f} s"


def _skipped(client: Client) -> Check:
    """All pieces but the malformed one, in order."""
    answer, _ = client.until_met(stream=True)
    wanted = "".join(WORDS[:30] + WORDS[31:])
    good = answer.status == 200 and answer.ended and not answer.error and answer.text == wanted
    return good and client.primary == 1, f"{len(answer.text.split())} of {PIECES} pieces, ended: {answer.ended}"


def _refused(code: str) -> Callable[[Client], Check]:
    def check(client: Client) -> Check:
        answer, others = client.until_met()
        asked_elsewhere = client.fallback - len(others)
        good = answer.status == 400 and answer.error.get("code") == code and client.primary == 1
        return good and not asked_elsewhere, f"{answer.status} {answer.error.get('code')}, {client.primary} call"

    return check


def _marked(client: Client) -> Check:
    """The fallback refuses the beginning: the whole answer comes after a marker."""
    answer, _ = client.until_met(stream=True)
    begun, _, rest = answer.text.partition("[The answer was interrupted. It begins again.]")
    good = answer.ended and not answer.error and rest.strip() == TEXT.strip() and TEXT.startswith(begun.rstrip())
    return good, f"{len(begun.split())} pieces, a marker, then {len(rest.split())} of {PIECES}"


def _flapped(client: Client) -> Check:
    """Traffic before, during and after; the agent answers again within 30 seconds of being well."""
    answers, period_s = [], 0.25 * client.scale
    answers += [client.ask() for _ in range(40)]
    FLAPPING.set()
    until = time.monotonic() + _FLAP_S * client.scale
    while time.monotonic() < until:
        answers.append(client.ask())
        time.sleep(period_s)
    FLAPPING.clear()
    well, back = time.monotonic(), None
    while back is None and time.monotonic() < well + 2 * _BACK_S * client.scale:
        answers.append(client.ask())
        back = (time.monotonic() - well) / client.scale if answers[-1].model == "primary" else None
        time.sleep(period_s)
    good = all(each.good for each in answers)
    seen = f"{sum(not each.good for each in answers)} of {len(answers)} requests failed, "
    return good and back is not None and back <= _BACK_S, seen + (
        "not back" if back is None else f"back after {back:.0f} s"
    )


def _accounted(client: Client) -> Check:
    """Headers, body and the report of spending name the agent that answered."""
    answer, others = client.until_met()
    fallback = client.endpoints.calls(client.fault, "fallback")
    usd = {each["key"]: each["cost_usd"] for each in client.get("/v1/spend?by=agent")["lines"]}
    wanted = PIECES * 2e-6 * fallback
    named = answer.headers["x-bot-orch-agent"] == answer.model == "fallback"
    good = answer.good and named and abs(usd.get("fallback", 0.0) - wanted) < 1e-9 and not usd.get("primary")
    return good and len(others) + 1 == fallback, f"answered and billed: {answer.model}, ${usd.get('fallback', 0):.6f}"


FLAPPING = threading.Event()


def _flap(exchange: Exchange, agent: str, _: int) -> None:
    if agent == "primary" and FLAPPING.is_set():
        exchange.error(503, "overloaded")
    else:
        exchange.whole()


def _late(exchange: Exchange) -> None:
    exchange.event({"role": "assistant", "content": ""})
    exchange.pause(_FIRST_S)
    exchange.whole()


def _cut(exchange: Exchange) -> None:
    exchange.words(WORDS[:40])
    exchange.wfile.flush()
    time.sleep(0.1)  # a reset would take back what is on its way
    exchange.reset()


def _stalled(exchange: Exchange) -> None:
    exchange.words(WORDS[:30])
    exchange.pause(_STALL_S)
    exchange.words(WORDS[30:])
    exchange.close_stream()


def _malformed(exchange: Exchange) -> None:
    exchange.words(WORDS[:30])
    exchange.piece(b'data: {"id": "c-1", "choices": [{"index": 0, "delta": {"con\n\n')
    exchange.words(WORDS[31:])
    exchange.close_stream()


def _unmarked(exchange: Exchange) -> None:
    exchange.words(WORDS)
    exchange.close_stream(mark=False)


def _silence(exchange: Exchange) -> None:
    exchange.pause(2 * _SILENT_S)
    exchange.close_connection = True


def _rejecting(exchange: Exchange, agent: str, _: int) -> None:
    if agent == "primary":
        _cut(exchange)
    elif exchange.prefill:
        exchange.error(400, "invalid_request_error")
    else:
        exchange.whole()


def _asked_to_wait(exchange: Exchange) -> None:
    exchange.error(429, "rate_limit_exceeded", headers={"Retry-After": f"{_AFTER_S * exchange.scale:g}"})


def _error(status: int, code: str) -> Callable[[Exchange], None]:
    return lambda exchange: exchange.error(status, code)


FAULTS: Mapping[str, Fault] = {
    "retry_after": Fault(
        "429 with `Retry-After: 20`", "answered; not called before", _primary(_asked_to_wait, first=1), _held
    ),
    "rate_limit": Fault("429", "answered", _primary(_error(429, "rate_limit_exceeded")), _served),
    "error_once": Fault("one 500", "answered", _primary(_error(500, "server_error"), first=1), _served),
    "unavailable": Fault("503", "answered", _primary(_error(503, "overloaded")), _served),
    "reset": Fault("connection reset", "answered", _primary(Exchange.reset), _served),
    "silence": Fault("silence", "answered within 100 s; one call", _primary(_silence), _silent),
    "slow_first": Fault("first token after 20 s", "complete", _primary(_late), _streamed),
    "cut": Fault("stream cut at 40 of 60 pieces", "complete, each piece once", _primary(_cut), _streamed),
    "stall": Fault("stream stalls for 30 s", "complete, each piece once", _primary(_stalled), _streamed),
    "malformed": Fault("a malformed piece", "skipped, completed", _primary(_malformed), _skipped),
    "no_done": Fault("no `[DONE]`", "complete", _primary(_unmarked), _streamed),
    "context_length": Fault(
        "context length exceeded",
        "400 with its code; one call in all",
        _primary(_error(400, "context_length_exceeded")),
        _refused("context_length_exceeded"),
    ),
    "content_filter": Fault(
        "content filter",
        "400 with its code; one call in all",
        _primary(_error(400, "content_filter")),
        _refused("content_filter"),
    ),
    "prefill_rejected": Fault(
        "cut at 40, and the fallback rejects a beginning", "complete after a marker", _rejecting, _marked
    ),
    "flap": Fault("503 for 60 s", "no failure; back within 30 s", _flap, _flapped),
    "accounting": Fault("500", "the fallback is named and billed", _primary(_error(500, "server_error")), _accounted),
}


# --- running ----------------------------------------------------------------------------------------------------------


_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["bot_orch.cli.serve", "bot_orch.service.build", "bot_orch.service.server"])


@contextmanager
def _gateway(name: str, endpoints: Endpoints, folder: str, edit: Callable[[str], str]) -> Iterator[tuple[int, Any]]:
    """A gateway in a process of its own, and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    path = Path(folder, f"{name}.yaml")
    path.write_text(edit(config(name, folder, endpoints.url, port=port, scale=endpoints.scale)))
    process = _FORKS.Process(target=_serve, args=(str(path), endpoints.scale))
    process.start()
    try:
        until = time.monotonic() + 120
        while not _ready(port):
            if not process.is_alive() or time.monotonic() > until:
                raise RuntimeError(f"{name}: the gateway did not start")
            time.sleep(0.05)
        yield port, process
    finally:
        process.terminate()
        process.join(90)


def _serve(path: str, scale: float) -> None:
    """``bot-orch serve``, with the fixed times of agents on the clock of ``scale``."""
    from bot_orch.agents.breaker import BreakerSettings
    from bot_orch.agents.limits import Retry
    from bot_orch.agents.registry import make_agent
    from bot_orch.cli import run_and_exit
    from bot_orch.service import build

    usual, pause = BreakerSettings(), Retry()
    breaker = replace(usual, open_s=usual.open_s * scale, longest_open_s=usual.longest_open_s * scale)
    retry = replace(pause, pause_s=pause.pause_s * scale)
    build.make_agent = partial(make_agent, breaker=breaker, retry=retry)  # type: ignore[attr-defined]
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.argv = ["bot-orch", "serve", path]
    run_and_exit()


def _ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def played(
    names: Sequence[str] = (), *, scale: float = 1.0, edit: Callable[[str], str] = lambda text: text
) -> list[Outcome]:
    """The outcomes of these faults, or of all, played at the same time, each against a gateway of its own.

    ``edit`` changes its configuration.
    """
    chosen = list(names or FAULTS)
    streams = [f"{name}{STREAM}" for name in chosen if FAULTS[name].check is _served]
    endpoints = Endpoints(scale)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(endpoints.running())
        ports: dict[str, int] = {}
        processes: list[Any] = []
        pool = stack.enter_context(ThreadPoolExecutor(len(chosen) + len(streams)))

        def begin(name: str) -> None:
            ports[name], process = stack.enter_context(_gateway(name, endpoints, folder, edit))
            processes.append(process)

        list(pool.map(begin, [*chosen, *streams]))

        def play(name: str) -> Outcome:
            passed, seen = FAULTS[name].check(Client(ports, name, endpoints))
            return Outcome(name, passed, seen)

        outcomes = list(pool.map(play, chosen))
        for process in processes:  # at the same time; each is then waited for
            process.terminate()
        return outcomes


def main(argv: Sequence[str] | None = None) -> int:
    """Play the faults and print the scorecard."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", choices=[[], *FAULTS], help="names of faults; all by default")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of all times (default: 1)")
    parser.add_argument("--config", action="store_true", help="print the configuration of one fault and stop")
    options = parser.parse_args(argv)
    if options.config:
        print(config("retry_after", ".", "http://127.0.0.1:9000", port=8080, scale=options.scale).rstrip())
        return 0
    outcomes = played(options.faults, scale=options.scale)
    print("| fault | must be | passed | seen |\n|---|---|---|---|")
    for each in outcomes:
        fault = FAULTS[each.name]
        print(f"| {fault.what} | {fault.wanted} | {'yes' if each.passed else '**no**'} | {each.seen} |")
    passed = sum(each.passed for each in outcomes)
    print(f"\n{passed} of {len(outcomes)} at scale {options.scale:g}.")
    return 0 if passed == len(outcomes) else 1


if __name__ == "__main__":
    raise SystemExit(main())
