"""Units that the tests of the Ray engine send to workers."""

import os
import time
from pathlib import Path

from bot_orch.errors import InvalidInputError


def where(params):
    """Which node and process ran it."""
    import ray

    time.sleep(params.get("sleep_s", 0.0))
    return {"node": ray.get_runtime_context().get_node_id(), "pid": os.getpid(), "value": params["value"] ** 2}


def announced(params):
    """Leave a note with our process id and our node, then work for a while; a note per attempt."""
    folder = Path(params["folder"])
    attempt = len(list(folder.glob(f"{params['value']}.*")))
    (folder / f"{params['value']}.{attempt}").write_text(f"{os.getpid()} {_node()}")
    time.sleep(params["sleep_s"] if attempt == 0 else 0.0)
    return {"metrics": {"square": [params["value"] ** 2 / 7.0]}}


def _node():
    """The id of the node we are on; "here" outside of Ray."""
    import ray

    return ray.get_runtime_context().get_node_id() if ray.is_initialized() else "here"


def deadly(params):
    """Kill the worker, every time."""
    os.kill(os.getpid(), 9)


def refused(params):
    """Raise one of our errors."""
    raise InvalidInputError("value", "is bad", "pass another")


def broken(params):
    """Raise somebody else's error."""
    raise ZeroDivisionError("not ours")
