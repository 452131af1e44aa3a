"""Chats that a front carries: the owner decides, guards and learns as if it had called the agent itself."""

import contextlib
import json
import os
import signal
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from service_running import PATIENCE_S, until
from test_workers import ALL, CHAT, SECRETS, Service

from bot_orch.core.events import AttemptEnded, DecisionMade, FeedbackGiven
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay
from bot_orch.service.reports import ReportSource, feedback_id

OWNER, FRONT = 0, 1
PIECES = 5
TEXT = """
version: 1
database: log.sqlite
listen: {{port: 0}}
log_level: error
limits: {{grace_s: 20}}
{setting}
tokens: [{{name: everyone, scopes: [decide, feedback, queue, admin], env: ALL}}]
"""
SETTINGS = {
    "default": """
router: {{policy: bot, encoder: builtin, success_reward: 1.0, floor: 0.5}}
agents: [{good}]
judges: [{{name: length, kind: python, settings: {{path: "own_checks:piece"}}}}]""",
    "shaky": """
router: {{policy: bot, success_reward: 1.0}}
agents: [{good}, {bad}]""",
    "narrow": """
router: {{policy: bot, success_reward: 1.0}}
agents: [{narrow}]""",
    "broken": """
router: {{policy: bot, success_reward: 1.0, midstream: continue}}
agents: [{first}, {second}]
judges: [{{name: length, kind: python, settings: {{path: "own_checks:piece"}}}}]""",
    "checked": """
router: {{floor: 0.0, checks: [whole], signal: logprobs, attempts: 2}}
judges: [{{name: whole, kind: python, settings: {{path: "own_checks:piece"}}}}]
agents: [{empty}, {whole}]""",
}
CHECKS = """def piece(answer):
    return 1.0 if "piece" in answer.text else (0.0, "the answer lacks pieces")
"""


class Upstream(BaseHTTPRequestHandler):
    """A model: ``/good`` answers, ``/bad`` fails, a prompt that says so waits for ``released``."""

    released, asked = threading.Event(), []
    calls = 0  # of broken streams
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append((self.path.split("/")[1], asked))
        word = "nothing " if self.path.startswith("/empty") else "piece "
        sure = {"logprobs": {"content": [{"token": word, "logprob": -0.5}]}} if asked.get("logprobs") else {}
        if self.path.startswith("/bad"):
            self._say(500, {"error": {"message": "down"}})
        elif self.path.startswith("/broken"):
            self._break(asked)
        elif not asked.get("stream"):
            self._pause(asked)
            message = {"role": "assistant", "content": word * PIECES}
            choice = {"index": 0, "message": message, "finish_reason": "stop", **sure}
            usage = {"prompt_tokens": 7, "completion_tokens": PIECES, "total_tokens": 7 + PIECES}
            self._say(200, {"id": "u-1", "object": "chat.completion", "choices": [choice], "usage": usage})
        else:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            with contextlib.suppress(OSError):
                for number in range(PIECES):
                    delta = {"index": 0, "delta": {"content": word}, "finish_reason": None, **sure}
                    self._event({"id": "u-1", "object": "chat.completion.chunk", "choices": [delta]})
                    if number == 1:
                        self._pause(asked)
                end = {"index": 0, "delta": {}, "finish_reason": "stop"}
                self._event({"id": "u-1", "object": "chat.completion.chunk", "choices": [end]})
                self.wfile.write(b"data: [DONE]\n\n")
            self.close_connection = True

    def _break(self, asked):
        """Stop after two pieces, unless an answer has begun; refuse to continue it if the prompt says so."""
        begun = asked["messages"][-1]["role"] == "assistant"
        if begun and "refuse" in asked["messages"][0]["content"]:
            self._say(400, {"error": {"message": "the last message must be the user's"}})
            return
        Upstream.calls += 1
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        done = begun or Upstream.calls > 1
        for number in range(2):
            finish = "stop" if done and number else None
            choice = {"index": 0, "delta": {"content": "piece "}, "finish_reason": finish}
            self._event({"id": f"u-{Upstream.calls}", "object": "chat.completion.chunk", "choices": [choice]})
        self.close_connection = True

    def _pause(self, asked):
        if "wait" in asked["messages"][-1]["content"]:
            self.released.wait(PATIENCE_S)

    def _event(self, document):
        self.wfile.write(b"data: " + json.dumps(document).encode() + b"\n\n")
        self.wfile.flush()

    def _say(self, status, document):
        raw = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def upstream():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def agent(name, port, path="good", more=""):
    url = f"http://127.0.0.1:{port}/{path}/v1"
    return f"{{id: {name}, kind: openai, base_url: '{url}', model: m{more}}}"


@pytest.fixture
def service(request, tmp_path, upstream):
    Upstream.released.set()
    setting = SETTINGS[getattr(request, "param", "default")].format(
        good=agent("good", upstream),
        bad=agent("bad", upstream, "bad"),
        empty=agent("empty", upstream, "empty"),
        whole=agent("whole", upstream, "good"),
        narrow=agent("narrow", upstream, more=", concurrency: 1"),
        first=agent("first", upstream, "broken", ", prefill: message"),
        second=agent("second", upstream, "broken", ", prefill: message"),
    )
    (tmp_path / "own_checks.py").write_text(CHECKS)
    made = Service(tmp_path, TEXT.format(setting=setting))
    try:
        yield made.wait()
    finally:
        Upstream.released.set()
        made.stop()


def chat(service, *, worker=FRONT, stream=False, prompt="hello", **more):
    body = {**CHAT, "messages": [{"role": "user", "content": prompt}], "stream": stream, **more}
    return service("POST", "/v1/chat/completions", body, worker=worker)


def events(service):
    log = open_log(service.folder / "log.sqlite")
    assert replay(log).ok
    found = [row.event() for row in log.read()]
    log.close()
    return found


def of(found, kind):
    return [each for each in found if isinstance(each, kind)]


def outcomes(service):
    """Reports of rounds, without those of judges."""
    made = of(events(service), FeedbackGiven)
    return [each for each in made if each.id == feedback_id(ReportSource.ROUND, each.decision_id)]


def carried(service):
    text = service("GET", "/metrics", worker=FRONT)[1]
    return sum(int(float(line.rpartition(" ")[2])) for line in text.splitlines() if 'how="carried"' in line)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_the_same_and_the_owner_learns_the_same(service, stream):
    found = [chat(service, worker=worker, stream=stream) for worker in (OWNER, FRONT)]
    assert carried(service) == 1
    assert [status for status, _, _ in found] == [200, 200]
    texts = [said if stream else json.dumps(said) for _, said, _ in found]
    assert texts[0] == texts[1] and texts[0].count("piece") == PIECES
    names = [{name.lower() for name in headers if name.lower().startswith("x-")} for _, _, headers in found]
    assert names[0] == names[1] and "x-bot-orch-decision-id" in names[0]
    until(lambda: len(outcomes(service)) == 2)
    logged = events(service)
    decisions, attempts, reports = of(logged, DecisionMade), of(logged, AttemptEnded), outcomes(service)
    assert [each.id for each in decisions] == [headers["x-bot-orch-decision-id"] for _, _, headers in found]
    assert (
        len({(each.agent, each.number, each.ending, each.input_tokens, each.output_tokens) for each in attempts}) == 1
    )
    assert all(0.0 < each.elapsed_s < PATIENCE_S and each.first_byte_s is not None for each in attempts)
    assert {(each.effect, each.reward, each.completed) for each in reports} == {("learned", 1.0, True)}
    assert len({each.task.features for each in decisions}) == 1, "the text is encoded alike"
    for each in decisions:  # judged by the text of the answer
        until(lambda each=each: '"length"' in json.dumps(service("GET", f"/v1/decisions/{each.id}")[1]))


@pytest.mark.parametrize("service", ["checked"], indirect=True)
def test_answers_are_looked_at_by_the_owner(service):
    """The front keeps the answers, the owner runs the checks and says which one is delivered."""
    Upstream.asked.clear()
    found = [chat(service, worker=FRONT) for _ in range(6)]
    assert carried(service) == 6 and {status for status, _, _ in found} == {200}
    texts = [json.dumps(said) for _, said, _ in found]
    assert all(text.count("piece ") == PIECES and "nothing" not in text and "logprobs" not in text for text in texts)
    steps = [headers["x-bot-orch-steps"] for _, _, headers in found]
    assert any(each.startswith("empty: whole failed: the answer lacks") and "sure 0.61" in each for each in steps)
    assert all("delivered whole" in each for each in steps)
    assert all(asked["logprobs"] is True for _, asked in Upstream.asked)
    accepted = [each for each in of(events(service), DecisionMade) if each.action == "accept"]
    assert [each.id for each in accepted] == [headers["x-bot-orch-decision-id"] for _, _, headers in found]
    assert {each.agent for each in accepted} == {"whole"}
    until(lambda: len(of(events(service), FeedbackGiven)) == 6)


@pytest.mark.parametrize("service", ["shaky"], indirect=True)
def test_a_front_asks_the_next_agent_and_the_owner_breaks_the_circuit(service):
    asked = until(lambda: (found := chat(service))[2]["x-bot-orch-attempts"] == "2" and found)
    assert (asked[0], asked[2]["x-bot-orch-agent"]) == (200, "good")
    for stream in (False, True):
        status, said, _ = chat(service, model="bad", stream=stream)
        assert (status, said["error"]["code"]) in ((502, "upstream_5xx"), (503, "no_agent"))  # once the circuit is open
    circuits = {each["id"]: each["circuit"] for each in service("GET", "/v1/agents", worker=OWNER)[1]}
    assert circuits == {"good": "closed", "bad": "open"}
    logged = events(service)
    failed = [each for each in of(logged, AttemptEnded) if each.agent == "bad"]
    assert len(failed) >= 3 and {each.ending for each in failed} == {"upstream_5xx"}
    assert all(each.decision_id in {made.id for made in of(logged, DecisionMade)} for each in failed)
    status, said, headers = chat(service, model="bad")
    assert (status, said["error"]["code"]) == (503, "no_agent")
    assert int(headers["retry-after"]) >= 1
    assert chat(service, model="nobody")[0] == 404


@pytest.mark.parametrize(("prompt", "calls"), [("hello", 2), ("refuse", 3)])
@pytest.mark.parametrize("service", ["broken"], indirect=True)
def test_another_agent_takes_over_a_stream_that_broke_off(service, prompt, calls):
    Upstream.calls = 0
    status, said, _ = chat(service, stream=True, prompt=prompt)
    assert status == 200 and "[DONE]" in said and said.count("piece ") == 4
    assert said.count('"midstream":"continue"'.replace(":", ": ")) == (prompt != "refuse")
    until(lambda: len(of(events(service), FeedbackGiven)) == calls + 1)
    logged = events(service)
    endings = [(each.ending, each.output_tokens) for each in of(logged, AttemptEnded)]
    assert endings[0] == ("truncated_stream", 3) and endings[-1] == ("completed", 3) and len(endings) == calls
    rejected = [None] if prompt == "refuse" else []
    rewards = [each.reward for each in of(logged, FeedbackGiven)]
    assert rewards == [0.0, *rejected, 1.0, 1.0], "the last is that of the judge, which has the whole text"


@pytest.mark.parametrize("service", ["narrow"], indirect=True)
def test_concurrency_is_limited_over_all_processes(service):
    def calls():
        view = service("GET", "/v1/agents", worker=OWNER)[1][0]
        return view["in_flight"], view["waiting"]

    Upstream.released.clear()
    answers = []

    def ask(worker):
        thread = threading.Thread(target=lambda: answers.append(chat(service, prompt="wait", worker=worker)[0]))
        thread.start()
        return thread

    asking = [ask(FRONT)]
    until(lambda: calls() == (1, 0))
    asking += [ask(worker) for worker in (OWNER, FRONT)]
    until(lambda: calls() == (1, 2))
    Upstream.released.set()
    for each in asking:
        each.join()
    assert answers == [200, 200, 200]


def test_a_client_that_leaves_is_censored(service):
    Upstream.released.clear()
    connection = service.connect(FRONT)
    body = {**CHAT, "messages": [{"role": "user", "content": "wait"}], "stream": True}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), ALL)
    answer = connection.getresponse()
    assert b"piece" in answer.fp.readline() + answer.fp.readline() + answer.fp.readline()
    answer.close()
    connection.close()
    until(lambda: outcomes(service))
    [report] = outcomes(service)
    [attempt] = of(events(service), AttemptEnded)
    assert (report.completed, report.reason, attempt.ending) == (False, "cancelled", "cancelled_by_caller")
    until(lambda: service("GET", "/v1/agents", worker=OWNER)[1][0]["in_flight"] == 0)


def test_a_killed_owner_costs_a_pause_and_no_stream(service):
    """A stream that has begun goes on at its front; other chats wait for the next owner, or are healed by a retry."""
    Upstream.released.clear()
    streams, asked = [], []
    threads = [
        threading.Thread(target=lambda: streams.append(chat(service, prompt="wait", stream=True))),
        threading.Thread(target=lambda: asked.append(chat(service, prompt="wait"))),
    ]
    for each in threads:
        each.start()
    until(lambda: service("GET", "/v1/agents", worker=OWNER)[1][0]["in_flight"] == 2)
    time.sleep(0.3)  # the stream has begun
    os.kill(service.owner(), signal.SIGKILL)
    begun = time.monotonic()
    status, _, _ = chat(service)
    if status == 503:
        status, _, _ = chat(service)
    pause_s = time.monotonic() - begun
    assert status == 200
    assert pause_s < 6.0, pause_s
    Upstream.released.set()
    for each in threads:
        each.join()
    [(status, text, _)] = streams
    assert status == 200 and text.count("piece") == PIECES and text.rstrip().endswith("[DONE]")
    [(status, said, headers)] = asked
    assert (status, said["error"]["code"], headers["retry-after"]) == (503, "owner_lost", "1")
    assert chat(service)[0] == 200


@pytest.mark.parametrize("service", ["narrow"], indirect=True)
def test_a_frozen_front_holds_no_slot_of_an_agent(service):
    Upstream.released.clear()
    front = next(each for each in service.workers() if each != service.owner())
    waiting = threading.Thread(target=lambda: chat(service, prompt="wait", worker=FRONT))
    waiting.start()
    until(lambda: service("GET", "/v1/agents", worker=OWNER)[1][0]["in_flight"] == 1)
    os.kill(front, signal.SIGSTOP)
    try:
        until(lambda: service("GET", "/v1/agents", worker=OWNER)[1][0]["in_flight"] == 0)
    finally:
        os.kill(front, signal.SIGCONT)
    Upstream.released.set()
    waiting.join()
    assert until(lambda: (found := chat(service))[0] == 200 and found)


def test_a_stop_waits_for_chats_that_a_front_carries(service):
    Upstream.released.clear()
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(chat(service, prompt="wait")))
    waiting.start()
    until(lambda: service("GET", "/v1/agents", worker=OWNER)[1][0]["in_flight"] == 1)
    service.process.send_signal(signal.SIGTERM)
    time.sleep(1.0)
    Upstream.released.set()
    waiting.join()
    assert answers[0][0] == 200
    service.process.wait(PATIENCE_S)
    assert len(outcomes(service)) == 1


def test_keys_are_kept_by_the_owner(service):
    headers = {**ALL, "Idempotency-Key": "one"}
    body = {**CHAT, "messages": [{"role": "user", "content": "hello"}]}
    found = [service("POST", "/v1/chat/completions", body, worker=each, headers=headers) for each in (FRONT, OWNER)]
    assert found[0][1] == found[1][1]
    assert len(of(events(service), DecisionMade)) == 1
    assert carried(service) == 0


def test_the_folder_of_the_sockets_is_private(service):
    [folder] = service.folder.glob("bot-orch-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE_S)
        client.connect(str(folder / "rounds.sock"))
        client.sendall(b"\x05\x00\x00\x00nobody's")
        while said := client.recv(4):  # until the end: what is no message ends the connection
            assert said == bytes(4)
    assert SECRETS["ALL"] and chat(service)[0] == 200
