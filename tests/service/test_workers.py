"""``serve --workers N``: an owner of the router and fronts behind one port, with the promises of one process."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from service_running import PATIENCE_S, until

from bot_orch.cli import main
from bot_orch.core.events import DecisionMade, FeedbackGiven
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay

TEXT = """
version: 1
database: log.sqlite
listen: {port: 0}
log_level: error
access_log: access.log
router: {policy: bot}
agents: [{id: general, kind: simulated, params: {median_s: 0.0, sigma: 0.0}}]
"""
TOKENS = """
tokens:
  - {name: everyone, scopes: [decide, feedback, queue, admin], env: ALL}
  - {name: reporter, scopes: [feedback], env: REPORT}
  - {name: limited, scopes: [decide], env: FEW, limits: {requests_per_minute: 30}}
"""
SECRETS = {"ALL": "a" * 20, "REPORT": "r" * 20, "FEW": "f" * 20}
ALL, REPORT, FEW = ({"Authorization": f"Bearer {secret}"} for secret in SECRETS.values())
CHAT = {"model": "auto", "messages": [{"role": "user", "content": "x"}]}


class _Local(http.client.HTTPConnection):
    """A connection to the socket of one worker."""

    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE_S)
        self._path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(self._path)


class Service:
    """``bot-orch serve --workers 2``; a request goes to the port, or to one worker."""

    def __init__(self, folder, text=TEXT + TOKENS, workers=2):
        self.folder, self.config = folder, folder / "c.yaml"
        self.config.write_text(text)
        command = [sys.executable, "-m", "bot_orch", "serve", str(self.config), "--workers", str(workers)]
        self.errors = (folder / "errors").open("w+b")
        environment = {**os.environ, **SECRETS, "TMPDIR": str(folder)}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.errors, text=True, cwd=folder, env=environment
        )
        self.port = 0

    def wait(self):
        said = self.process.stdout.readline()
        assert said.startswith("bot-orch: http://"), self.said()
        self.port = int(said.split()[1].rsplit(":", 1)[1])
        until(lambda: self("GET", "/health/ready")[0] == 200)
        return self

    def said(self):
        self.errors.seek(0)
        return self.errors.read().decode()

    def connect(self, worker=None):
        if worker is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        return _Local(next(self.folder.glob(f"bot-orch-*/{worker}.sock")))

    def __call__(self, method, path, body=None, *, worker=None, headers=ALL, connection=None):
        found = connection or self.connect(worker)
        try:
            found.request(method, path, None if body is None else json.dumps(body).encode(), dict(headers))
            answer = found.getresponse()
            raw = answer.read()
            is_json = answer.headers.get("content-type", "").startswith("application/json")
            return answer.status, json.loads(raw) if is_json else raw.decode(), answer.headers
        finally:
            if connection is None:
                found.close()

    def workers(self):
        """The processes of all workers."""
        out = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False).stdout
        return [int(each) for each in out.split()]

    def owner(self):
        """The process that has the log open."""
        for process in self.workers():
            with contextlib.suppress(OSError):
                links = [str(each.readlink()) for each in Path(f"/proc/{process}/fd").iterdir()]
                if str(self.folder / "log.sqlite") in links:
                    return process
        return None

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()
        self.errors.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    made = Service(tmp_path_factory.mktemp("workers"))
    try:
        yield made.wait()
    finally:
        made.stop()


def decide(service, **options):
    status, made, _ = service("POST", "/v1/decisions", {"task": {}}, **options)
    assert status == 200, made
    return made


@pytest.mark.parametrize("worker", [0, 1])
def test_every_worker_answers_for_the_router(service, worker):
    assert decide(service, worker=worker)["agent"] == "general"
    status, _, headers = service("POST", "/v1/chat/completions", CHAT, worker=worker)
    assert (status, headers["x-bot-orch-agent"]) == (200, "general")
    pages = ("/", "/dashboard", "/dashboard/share.csv", "/decisions", "/queue", "/login")
    for path in (*pages, "/openapi.json", "/health/ready", "/health/live", "/v1/models"):
        assert service("GET", path, worker=worker)[0] == 200, path
    assert service("POST", "/v1/decisions", {}, worker=worker, headers={})[0] == 401
    assert service("GET", "/r/none/v1/agents", worker=worker)[0] == 404
    owners = {service("GET", "/v1/admin/state", worker=each)[1]["process"] for each in (0, 1)}
    assert len(owners) == 1 and owners.pop().endswith(f":{service.owner()}")
    text = service("GET", "/metrics", worker=worker)[1]
    assert "bot_orch_ready 1" in text and text.count("# TYPE bot_orch_requests_total ") == 1


@pytest.mark.parametrize("worker", [0, 1])
def test_reports_find_the_worker_of_their_decision(service, worker):
    made = decide(service)
    assert service("GET", f"/v1/decisions/{made['id']}", worker=worker)[1]["decision"]["id"] == made["id"]
    report = {"decision_id": made["id"], "reward": 1.0}
    for effect in (False, True):
        status, told, _ = service("POST", "/v1/feedback", report, worker=worker, headers=REPORT)
        assert (status, told["effect"], told["duplicate"]) == (200, "learned", effect)
    assert service("GET", f"/v1/decisions/{'0' * 8}-0000-7000-8000-{'0' * 12}", worker=worker)[0] == 404
    answered = service("POST", "/v1/chat/completions", CHAT)[1]
    body = {"completion_id": answered["id"], "reward": 0.5}
    assert service("POST", "/v1/feedback", body, worker=worker)[1]["effect"] in ("learned", "replaced", "revision")


def test_one_key_has_one_answer_whichever_worker_is_asked(service):
    headers = {**ALL, "Idempotency-Key": "k"}
    answers = [service("POST", "/v1/decisions", {}, worker=worker, headers=headers)[1] for worker in (0, 1, 0, 1)]
    assert len({each["id"] for each in answers}) == 1


def test_a_limit_is_one_for_all_workers(service):
    taken = [service("POST", "/v1/decisions", {}, worker=n % 2, headers=FEW)[0] for n in range(40)]
    assert taken == [200] * 30 + [429] * 10


def test_a_connection_that_asks_for_decisions_and_streams_in_turn(service):
    connection = service.connect(worker=1)
    answers = []
    for _ in range(30):
        answers.append(decide(service, connection=connection)["agent"] == "general")
        status, text, _ = service("POST", "/v1/chat/completions", {**CHAT, "stream": True}, connection=connection)
        answers.append(status == 200 and text.rstrip().endswith("data: [DONE]"))
    connection.close()
    assert all(answers)
    text = service("GET", "/metrics")[1]
    assert 'how="passed_on"' in text and 'how="carried"' in text


@pytest.mark.parametrize("worker", [0, 1])
def test_large_bodies_are_passed_on(service, worker):
    text = "long " * 400_000
    body = {**CHAT, "messages": [{"role": "user", "content": text}]}
    status, answered, headers = service("POST", "/v1/chat/completions", body, worker=worker)
    assert (status, headers["x-bot-orch-agent"]) == (200, "general"), answered
    with contextlib.suppress(BrokenPipeError):  # the answer may come before the end of the body
        assert service("POST", "/v1/decisions", {"task": {"text": text}}, worker=worker)[0] == 413


def test_requests_sent_ahead_are_answered_in_order(service):
    line = "GET {} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\r\n"
    asked = {"/v1/agents": b'[{"id":"general"', "/v1/key": b'{"name":"everyone"', "/v1/models": b'{"object":"list"'}
    with socket.create_connection(("127.0.0.1", service.port), PATIENCE_S) as client:
        client.sendall("".join(line.format(path, SECRETS["ALL"]) for path in asked).encode())
        file = client.makefile("rb")
        for begin in asked.values():
            assert b" 200 " in file.readline()
            length = 0
            while (header := file.readline().strip()) != b"":
                length = int(header.split(b":")[1]) if header.startswith(b"content-length") else length
            assert file.read(length).startswith(begin)


@pytest.mark.parametrize("victim", ["owner", "front"])
def test_a_killed_worker_is_replaced_and_nothing_acknowledged_is_lost(service, victim):
    made = [decide(service) for _ in range(5)]
    owner = service.owner()
    front = next(each for each in service.workers() if each != owner)
    killed = owner if victim == "owner" else front
    os.kill(killed, signal.SIGKILL)
    assert decide(service, worker=0)["agent"] == "general"  # waits for the next owner
    until(lambda: len(service.workers()) == 2 and service("GET", "/health/ready")[0] == 200)
    assert (service.owner() == owner) == (victim == "front")
    for each in made:
        assert service("GET", f"/v1/decisions/{each['id']}")[0] == 200
    lines = [json.loads(line) for line in service.said().splitlines()]
    [said] = [each for each in lines if each.get("process") == killed and "status" in each]
    assert said["message"] == "a worker ended and is started again"
    assert (said["level"], said["status"]) == ("error", -signal.SIGKILL)


def test_a_worker_is_killed_under_load(tmp_path):
    """The owner is back within seconds, and the log holds what was acknowledged, once."""
    service = Service(tmp_path).wait()
    acked, told, statuses = [], [], Counter()
    done, gaps = threading.Event(), []

    def client():
        last = time.monotonic()
        while not done.is_set():
            try:
                status, made, _ = service("POST", "/v1/decisions", {"task": {}})
                statuses[status] += 1
                if status == 200:
                    acked.append(made["id"])
                    now = time.monotonic()
                    gaps.append(now - last)
                    last = now
                    if service("POST", "/v1/feedback", {"decision_id": made["id"], "reward": 0.5})[0] == 200:
                        told.append(made["id"])
            except (OSError, http.client.HTTPException):
                statuses["broken"] += 1

    clients = [threading.Thread(daemon=True, target=client) for _ in range(6)]
    for each in clients:
        each.start()
    victims = []
    for _ in range(2):
        until(lambda: len(acked) > 60)
        victims.append(until(service.owner))
        os.kill(victims[-1], signal.SIGKILL)
        before = len(acked)
        until(lambda before=before: len(acked) > before + 60)
    done.set()
    for each in clients:
        each.join()
    service.stop()
    assert len(set(victims)) == 2
    print(f"longest gap: {max(gaps)}, answers: {statuses}")  # noqa: T201
    assert max(gaps) < 30.0
    assert set(statuses) <= {200, 503, "broken"}
    log = open_log(tmp_path / "log.sqlite")
    events = [row.event() for row in log.read()]
    made = Counter(event.id for event in events if isinstance(event, DecisionMade))
    learned = Counter(event.decision_id for event in events if isinstance(event, FeedbackGiven))
    assert set(acked) <= set(made) and set(made.values()) == {1}
    assert set(told) <= set(learned) and set(learned.values()) == {1}
    assert replay(log).ok
    log.close()


def test_every_request_has_one_line_in_the_access_log(service):
    def lines():
        every = [json.loads(line) for line in (service.folder / "access.log").read_text().splitlines()]
        return [each for each in every if each["path"] == "/v1/objective"]

    for number, worker in enumerate((0, 1, 0, 1)):
        service("GET", f"/v1/objective?n={number}", worker=worker)
    until(lambda: len(lines()) >= 4)  # written after the answer
    assert len(seen := lines()) == 4
    assert {(each["status"], each["token"]) for each in seen} == {(200, "everyone")}


def test_a_reload_reaches_all_workers_and_drops_nothing(tmp_path):
    """By the API, then by the signal, under chats at both workers; a worker that is started again reads the file."""
    service = Service(tmp_path).wait()
    statuses, done = Counter(), threading.Event()

    def chat(worker):
        while not done.is_set():
            statuses[service("POST", "/v1/chat/completions", CHAT, worker=worker)[0]] += 1

    def listed(worker):
        return [each["id"] for each in service("GET", "/v1/models", worker=worker)[1]["data"][1:]]

    def write(*names):
        line = "agents: [{id: general, kind: simulated, params: {median_s: 0.0, sigma: 0.0}}]"
        agents = ", ".join(line[9:-1].replace("general", name) for name in names)
        service.config.write_text((TEXT + TOKENS).replace(line, f"agents: [{agents}]"))

    clients = [threading.Thread(daemon=True, target=chat, args=(worker,)) for worker in (0, 1)]
    for each in clients:
        each.start()
    try:
        for number in range(3):
            write("general", f"new-{number}")
            status, told, _ = service("POST", "/v1/admin/reload", worker=number % 2)
            assert (status, told["changed"]) == (200, ["agents"])
            write("general", f"newer-{number}")
            service.process.send_signal(signal.SIGHUP)
            until(lambda number=number: listed(0) == ["general", f"newer-{number}"])
            asked = {**CHAT, "model": f"newer-{number}"}
            until(lambda asked=asked: service("POST", "/v1/chat/completions", asked, worker=1)[0] == 200)
        assert set(statuses) == {200}, statuses
    finally:
        done.set()
        for each in clients:
            each.join()
    write("general", "newest")
    os.kill(service.owner(), signal.SIGKILL)
    until(lambda: service("GET", "/health/ready")[0] == 200 and listed(0) == ["general", "newest"])
    service.stop()
    log = open_log(tmp_path / "log.sqlite")
    assert replay(log).ok
    log.close()


def test_a_bad_file_changes_nothing_at_any_worker(service):
    service.config.write_text(TEXT.replace("simulated", "simulatd") + TOKENS)
    for worker in (0, 1):
        status, told, _ = service("POST", "/v1/admin/reload", worker=worker)
        assert status == 422 and "'simulatd' is not known" in told["error"]["message"]
        assert decide(service, worker=worker)["agent"] == "general"
    service.config.write_text(TEXT + TOKENS)


def test_a_stop_reaches_all_workers_and_leaves_a_whole_log(tmp_path):
    service = Service(tmp_path).wait()
    made = [decide(service, worker=n % 2)["id"] for n in range(4)]
    service("POST", "/v1/feedback", {"decision_id": made[0], "reward": 1.0})
    workers = service.workers()
    assert len(workers) == 2
    service.stop()
    assert service.process.returncode == -signal.SIGTERM
    for process in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
    assert not list(tmp_path.glob("bot-orch-*"))
    log = open_log(tmp_path / "log.sqlite")
    events = [row.event() for row in log.read()]
    assert [event.id for event in events if isinstance(event, DecisionMade)] == made
    assert [event.effect for event in events if isinstance(event, FeedbackGiven)] == ["learned"]
    assert replay(log).ok
    log.close()


def test_a_second_service_on_the_same_file_is_refused(service):
    (other := service.folder / "other.yaml").write_text(TEXT + TOKENS)
    command = [sys.executable, "-m", "bot_orch", "serve", str(other), "--workers", "2"]
    environment = {**os.environ, **SECRETS}
    ended = subprocess.run(
        command, capture_output=True, text=True, cwd=service.folder, env=environment, timeout=PATIENCE_S, check=False
    )
    assert ended.returncode == 2
    assert "log.sqlite" in ended.stderr and "Traceback" not in ended.stderr
    assert decide(service)["agent"] == "general"


def test_workers_end_with_their_parent(tmp_path):
    service = Service(tmp_path).wait()
    workers = service.workers()
    service.process.kill()
    service.stop()
    until(lambda: not [each for each in workers if _runs(each)])


def _runs(process):
    with contextlib.suppress(OSError):
        os.kill(process, 0)
        return True
    return False


@pytest.mark.parametrize(
    ("text", "workers", "said"),
    [
        (TEXT.replace("log.sqlite", "':memory:'"), 2, "--workers: is given, and the log is in memory"),
        (TEXT, 0, "--workers: is 0; choose 1 to 64"),
    ],
)
def test_a_mistake_is_found_before_a_worker_starts(tmp_path, capsys, text, workers, said):
    (tmp_path / "c.yaml").write_text(text)
    assert main(["serve", str(tmp_path / "c.yaml"), "--workers", str(workers)]) == 2
    assert said in capsys.readouterr().err


def test_a_mistake_that_a_worker_finds_is_one_line(tmp_path):
    (tmp_path / "log.sqlite").mkdir()
    service = Service(tmp_path)
    assert service.process.wait(PATIENCE_S) == 2
    assert "bot-orch: " in service.said()
    assert "Traceback" not in service.said()
    service.stop()
