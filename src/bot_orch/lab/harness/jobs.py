"""Units of work as text, so that they can run in another process or on another machine."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from typing import Any

from bot_orch._version import __version__
from bot_orch.errors import BotOrchError
from bot_orch.lab.harness.experiment import Unit, discover

__all__ = ["Job", "answer", "ask", "read_answer", "run_unit"]

#: What runs a unit, and the unit: an experiment's id, or ``package.module:function`` of plain data.
Job = tuple[str, Unit]


def run_unit(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Run one unit, wherever this process is."""
    module, _, function = name.partition(":")
    if function:
        payload: dict[str, Any] = getattr(importlib.import_module(module), function)(params)
        return payload
    return discover()[name].run(params)


def ask(job: Job) -> str:
    """A job as text, to be sent to another process or machine."""
    return json.dumps({"run": job[0], "params": dict(job[1].params), "version": __version__})


def answer(question: str) -> str:
    """Run what :func:`ask` wrote; the payload as text, or the error, since classes of errors do not travel.

    Examples
    --------
    >>> answer('{"run": "no.such:function", "params": {}, "version": "0"}')[:36]
    '{"error": "a worker has bot-orch ...'
    """
    asked = json.loads(question)
    if asked["version"] != __version__:
        problem = f"a worker has bot-orch {__version__}, this process {asked['version']}; install the same on all nodes"
        return json.dumps({"error": problem})
    try:
        return json.dumps({"payload": run_unit(asked["run"], asked["params"])})
    except BotOrchError as error:
        return json.dumps({"error": str(error)})


def read_answer(text: str) -> dict[str, Any]:
    """The payload that :func:`answer` wrote; its error is raised here."""
    answered = json.loads(text)
    if "error" in answered:
        raise BotOrchError(answered["error"])
    payload: dict[str, Any] = answered["payload"]
    return payload
