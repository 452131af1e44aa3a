"""Units that the tests of the Ray engine send to workers."""

import os
import time
from pathlib import Path


def where(params):
    """Which node and process ran it; waits until units have begun on as many nodes as there should be."""
    node, folder = _node(), Path(params["folder"])
    (folder / node).touch()
    _until(lambda: len(list(folder.iterdir())) >= params["nodes"])
    return {"node": node, "pid": os.getpid(), "value": params["value"] ** 2}


def announced(params):
    """Leave a note with our process id and our node, then work for a while; a note per attempt.

    The first attempt of the unit named in a file ``doomed-unit``, or on the node named in ``doomed-node``, works until
    it is killed; on other nodes units do not end before there is one.
    """
    folder, unit = Path(params["folder"]), str(params["value"])
    attempt, node = len(list(folder.glob(f"{unit}.*"))), _node()
    draft = folder / f"draft-{unit}-{attempt}"
    draft.write_text(f"{unit} {os.getpid()} {node}")
    draft.rename(folder / f"{unit}.{attempt}")  # whoever sees a note sees all of it
    doomed_unit, doomed_node = (_read(folder / f"doomed-{what}") for what in ("unit", "node"))
    if attempt == 0 and (unit == doomed_unit or node == doomed_node):
        _until(lambda: False)
    if doomed_node:
        _until(lambda: any(doomed_node in note.read_text() for note in folder.glob("*.0")))
    time.sleep(params["sleep_s"] if attempt == 0 else 0.0)
    return {"metrics": {"square": [params["value"] ** 2 / 7.0]}}


def _read(path):
    return path.read_text() if path.exists() else None


def _until(condition):
    """Wait, for as long as a slow machine may need."""
    end = time.monotonic() + 90
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("it did not happen")
        time.sleep(0.01)


def _node():
    """The id of the node we are on; "here" outside of Ray."""
    import ray

    return ray.get_runtime_context().get_node_id() if ray.is_initialized() else "here"


def deadly(params):
    """Kill the worker, every time."""
    os.kill(os.getpid(), 9)
