"""Acknowledged only after the sync: the system calls of a real server, in order."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from service_running import PATIENCE_S, free_port, until
from test_kill import CONFIG, call, ready

STRACE = shutil.which("strace")


def can_trace():
    if STRACE is None:
        return False
    return subprocess.run([STRACE, "-o", "/dev/null", "true"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not can_trace(), reason="strace is not there, or may not trace")


def trace(folder, *mode):
    """Run a server under strace, make some requests, and return its system calls as (time of return, line)."""
    port, out = free_port(), folder / "trace"
    (folder / "config.yaml").write_text(CONFIG.format(port=port))
    calls = "trace=fsync,fdatasync,sendto,sendmsg,write,writev,recvfrom,read"
    launcher = [sys.executable, str(Path(__file__).with_name("launcher.py")), str(folder / "config.yaml"), *mode]
    process = subprocess.Popen(
        [STRACE, "-f", "-ttt", "-T", "-y", "-s", "200", "-e", calls, "-o", str(out), *launcher],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    process.stdin.write("start\n")
    process.stdin.flush()
    child = int(process.stdout.readline())
    until(lambda: ready(port), 2 * PATIENCE_S)
    for number in range(10):
        status, made = call(port, "POST", "/v1/decisions", {"task": {"id": f"traced-{number}"}})
        assert status == 200
        assert call(port, "POST", "/v1/feedback", {"decision_id": made["id"], "reward": 0.5})[0] == 200
    os.kill(child, signal.SIGTERM)
    process.stdin.close()
    process.wait(2 * PATIENCE_S)
    process.stdout.close()
    return out.read_text().splitlines()


def unsynced_answers(lines):
    """Answers to writing requests with no completed sync of the write-ahead log since the request came in."""
    waiting, synced, bad, good = False, False, 0, 0
    for line in lines:
        if re.search(r"(recvfrom|read)(\(| resumed>).*POST /v1/(decisions|feedback)", line):
            waiting, synced = True, False
        elif waiting and re.search(r"f(data)?sync.*= 0", line) and ("-wal" in line or "resumed" in line):
            synced = True
        elif waiting and re.search(r"(sendto|sendmsg|write|writev)\(.*HTTP/1.1 200", line):
            good, bad, waiting = good + synced, bad + (not synced), False
    return good, bad


def test_every_answer_comes_after_a_sync(tmp_path):
    good, bad = unsynced_answers(trace(tmp_path))
    assert (good, bad) == (20, 0)


def test_the_check_catches_a_server_that_answers_first(tmp_path):
    _, bad = unsynced_answers(trace(tmp_path, "early"))
    assert bad > 0
