"""Real processes: one is frozen and killed while a version is applied; the others run it and answer meanwhile."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time

from replica_running import call
from service_running import free_port, until

from bot_orch.cli import main
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay

TEXT = """
version: 1
database: {database}
listen: {{port: {port}}}
log_level: error
router: {{policy: bot, floor: 0.2}}
agents: [{agents}]
"""


class Served:
    """``bot-orch serve`` in a process of its own."""

    def __init__(self, path, port, *options):
        self.port = port
        command = [sys.executable, "-m", "bot_orch", "serve", str(path), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ready(self):
        assert self.process.stdout.readline().startswith("bot-orch: http")
        until(lambda: call(self.port, "GET", "/health/ready")[0] == 200)
        return self

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.process.communicate(timeout=60)


class Asking(threading.Thread):
    """Asks one replica all the time; remembers the answers that were not 200, and the agents."""

    def __init__(self, port):
        super().__init__()
        self.port, self.done, self.wrong, self.agents, self.longest_s = port, threading.Event(), [], set(), 0.0

    def run(self):
        while not self.done.is_set():
            begun = time.monotonic()
            status, body = call(self.port, "POST", "/v1/decisions", {})
            self.longest_s = max(self.longest_s, time.monotonic() - begun)
            if status == 200:
                self.agents.add(body["agent"])
            else:
                self.wrong.append((status, body))
            time.sleep(0.005)


def test_a_frozen_process_does_not_hold_up_a_version(database, tmp_path, capsys):
    url = f"{database}&lease_s=2"

    def write(name, port, *agents):
        listed = ", ".join(f"{{id: {each}, kind: simulated}}" for each in agents)
        path = tmp_path / f"{name}.yaml"
        path.write_text(TEXT.format(database=json.dumps(url), port=port, agents=listed))
        return path

    ports = [free_port(), free_port()]
    old = [write(f"old{port}", port, "a", "b") for port in ports]
    one, two = (Served(path, port) for path, port in zip(old, ports, strict=True))
    asking = Asking(ports[0])
    again = None
    try:
        one.ready(), two.ready()
        asking.start()
        two.process.send_signal(signal.SIGSTOP)
        new = write("new", ports[0], "a", "b", "c")
        assert main(["apply", str(new)]) in (0, 1), "the frozen one counts until its lease is over"
        assert "version 2 applied" in capsys.readouterr().out
        until(lambda: "c" in asking.agents)
        two.process.kill()
        two.process.send_signal(signal.SIGCONT)
        two.process.wait(60)
        again = Served(old[1], ports[1]).ready()  # an earlier file: it starts with the version in force
        assert [each["id"] for each in call(ports[1], "GET", "/v1/agents")[1]] == ["a", "b", "c"]
        assert main(["apply", str(new), "--rollback"]) == 0
        for port in ports:
            assert [each["id"] for each in call(port, "GET", "/v1/agents")[1]] == ["a", "b"]
            assert call(port, "POST", "/v1/decisions", {})[0] == 200
        asking.done.set()
        asking.join()
        lost = [body["error"]["code"] for _, body in asking.wrong]  # of the request that the killed owner had
        assert lost in ([], ["owner_lost"])
    finally:
        asking.done.set()
        if two.process.poll() is None:
            two.process.kill()
        if asking.ident is not None:
            asking.join()
        two.end(signal.SIGKILL)
        for each in (one, again):
            if each is not None:
                each.end()
    with contextlib.closing(open_log(url)) as log:
        assert replay(log).ok
