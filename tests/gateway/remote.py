"""A handle on the endpoint in its own process, and what the log and the metrics say of a service."""

import http.client
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

from service_running import PATIENCE_S, until

from bot_orch.core.events import AttemptEnded

HELLO = [{"role": "user", "content": "What is the weather like in Rome?"}]
GOOD = {}


class Endpoint:
    """``script(*answers)`` gives the base URL of a new name; ``seen(url)`` lists the requests to it."""

    def __init__(self):
        command = [sys.executable, str(Path(__file__).with_name("endpoint.py"))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self._process.stdout.readline())
        self._names = itertools.count()

    def close(self):
        self._process.communicate(timeout=PATIENCE_S)

    def script(self, *answers):
        name = f"n{next(self._names)}"
        self._ask("PUT", f"/_script/{name}", list(answers))
        return f"http://127.0.0.1:{self.port}/{name}/v1"

    def seen(self, url):
        return self._ask("GET", f"/_seen/{url.split('/')[3]}")

    def _ask(self, method, path, document=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, None if document is None else json.dumps(document))
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


def attempts(service, number=1):
    """The attempts in the log, once there are so many: their rows are written behind the answer."""

    def read():
        rows = service.call(lambda: list(service.runtime.writer.log.read()))
        found = [event for row in rows if isinstance(event := row.event(), AttemptEnded)]
        return found if len(found) >= number else None

    return until(read)


def metric(service, name, **labels):
    """One value of /metrics; 0 if there is none."""
    inner = ",".join(f'{key}="{value}"' for key, value in labels.items())
    pattern = rf"^{re.escape(name + (f'{{{inner}}}' if inner else ''))} (\S+)$"
    found = re.search(pattern, service.get("/metrics").body.decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0
