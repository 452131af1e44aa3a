"""The endpoint in its own process, and what the log and the metrics say of a service."""

import re

from endpoint import Endpoint
from service_running import until

from bot_orch.core.events import AttemptEnded

__all__ = ["GOOD", "HELLO", "Endpoint", "attempts", "metric"]

HELLO = [{"role": "user", "content": "What is the weather like in Rome?"}]
GOOD = {}


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
