"""While a start folds the log the server listens, says how far it is, and refuses requests; it can be stopped."""

import threading
from types import SimpleNamespace

import pytest
from service_running import BASE, Running, until
from test_snapshots import crashed

from bot_orch.core.events import EventMismatchError
from bot_orch.log.log import Row
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.service.config import parse_config
from bot_orch.service.problems import Problem
from bot_orch.service.runtime import Runtime
from bot_orch.service.server import make_server, one_reason

CONFIG = parse_config(BASE.format(database='":memory:"', port=0))


class Slow(MemoryLog):
    """Hands out rows up to one, and the rest when told."""

    def __init__(self, rows, pause_at):
        super().__init__()
        self.append(rows)
        self.commit()
        self.pause_at, self.reached, self.go_on, self.closed = pause_at, threading.Event(), threading.Event(), False

    def read(self, after=0):
        for row in super().read(after):
            if row.seq == self.pause_at + 1:
                self.reached.set()
                self.go_on.wait(60)
            yield row

    def close(self):
        self.closed = True


@pytest.fixture
def rows(start):
    log = MemoryLog()
    service = start(log=log)
    for _ in range(510):
        service.call(lambda: service.runtime.kill_switch(None, "test"))
    service.stop()
    return list(crashed(log).read())


class Loading(Running):
    """A server that need not have loaded its log."""

    def __init__(self, log):
        self.server = make_server(CONFIG, log=log)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        until(lambda: self.server.started)
        self.port = self.server.servers[0].sockets[0].getsockname()[1]


def test_the_server_answers_while_it_folds(rows):
    log = Slow(rows, 505)
    service = Loading(log)
    log.reached.wait(60)
    assert service.get("/health/live").status == 200
    answer = service.get("/health/ready")
    assert answer.status == 503 and answer.headers["retry-after"] == "1"
    error = answer.json()["error"]
    assert error["code"] == "not_ready" and error["details"] == {"folded": 500, "total": len(rows)}
    assert error["message"] == f"not ready: 500 of {len(rows)} events folded"
    for path in ("/v1/decisions", "/v1/feedback", "/v1/chat/completions"):
        assert service.post(path, {}).json()["error"]["code"] == "not_ready"
    for path in ("/", "/queue", "/metrics", "/v1/admin/state"):
        assert service.get(path).status == 503
    log.go_on.set()
    until(lambda: service.get("/health/ready").status == 200)
    assert service.post("/v1/decisions").status == 200
    service.stop()


def test_a_start_can_be_stopped_while_it_folds(rows):
    log = Slow(rows, 400)
    service = Loading(log)
    log.reached.wait(60)
    service.server.should_exit = True
    until(lambda: service.runtime.stopping)
    log.pause_at = len(rows) + 1
    log.go_on.set()
    service.thread.join(60)
    assert not service.thread.is_alive() and log.closed
    assert not service.runtime.loaded and service.server.config.app.state.failure is None


def test_a_log_that_cannot_be_folded_stops_the_server_with_the_reason(rows):
    log = MemoryLog()
    log.append([*rows[:100], Row(101, 1, "k@1", "", rows[100].body)])
    log.commit()
    server = make_server(CONFIG, log=log)
    with pytest.raises(EventMismatchError, match="row 101 does not follow row 100"), one_reason(server, CONFIG):
        server.run()


def test_what_is_read_whole_is_not_said_to_be_missing():
    folded = SimpleNamespace(loaded=False, _folded=5, _to_fold=5)
    with pytest.raises(Problem, match="not ready: the log of 5 events is read, the service starts"):
        Runtime.check_loaded(folded)
