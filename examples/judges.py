"""Judges of one's own: copy this file next to bot-orch.yaml and name a function of it.

    judges:
      - {name: tests, kind: python, settings: {path: "judges:passes_tests"}}

A function gets the answer as an object with ``text``, ``question``, ``messages``, ``params``, ``agent``, ``kind`` (of
the task) and ``finish_reason``. It returns a value from 0 to 1, a pair of a value and a message about what is wrong, or
None for no opinion: then the next judge counts. It may be ``async``; otherwise it runs in a thread.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_CODE = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_FAILED = re.compile(r'\s*(error|exception|traceback|failed)|"(is_)?error":\s*(?!null|false)', re.IGNORECASE)


def has_number(answer: Any) -> Any:
    """A pattern: the answer must hold a number."""
    found = re.search(r"\d", answer.text[:10_000])  # keep patterns simple: re may take exponential time
    return 1.0 if found else (0.0, "the answer has no number")


def passes_tests(answer: Any) -> Any:
    """A unit test: exit status 0 of ``check.py FILE`` with the first fenced block; for tasks of the kind code alone.

    It runs what a model wrote: put a container or another sandbox before the command.
    """
    if answer.kind != "code":
        return None
    code = _CODE.search(answer.text)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answer.py"
        file.write_text(code[1] if code else answer.text, encoding="utf-8")
        command = [sys.executable, str(Path(__file__).with_name("check.py")), str(file)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=10)  # noqa: S603
        except subprocess.TimeoutExpired:
            return 0.0, "no result within 10 s"
    return float(done.returncode == 0), (done.stdout + done.stderr)[-2000:]


def printed_by_a_program(answer: Any) -> Any:
    """A program: it reads the answer as JSON and prints a number, then lines about what is wrong."""
    asked = json.dumps(answer.document())
    done = subprocess.run(["./judge"], input=asked, capture_output=True, text=True, timeout=30, check=True)
    value, _, message = done.stdout.strip().partition("\n")
    return float(value), message


def ends_well(answer: Any) -> Any:
    """Signals of the chat itself: an empty answer, one that was cut off, a tool that failed on the turn before."""
    tools = [each for each in answer.messages[-1:] if each.get("role") == "tool"]
    if not answer.text.strip() and answer.finish_reason != "tool_calls":
        return 0.0, "the answer is empty"
    if answer.finish_reason == "length":
        return 0.3, "the answer was cut off"
    if any(_FAILED.match(str(each.get("content"))) for each in tools):
        return 0.0, "a tool has failed"
    return None  # nothing speaks against it, which is no praise
