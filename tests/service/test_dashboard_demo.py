"""The demonstration: it serves, it learns, Ctrl-C ends it cleanly."""

import json
import signal
import subprocess
import sys
import time
import urllib.request

from service_running import free_port

from bot_orch.service.build import check
from bot_orch.service.demo import Demo, demo_config

PROGRAM = "import sys; from bot_orch.cli import main; sys.exit(main())"


def test_its_settings_are_valid():
    config = demo_config(Demo())
    check(config)
    assert {agent.kind for agent in config.agents} == {"simulated", "human"}


def test_it_serves_and_stops_at_ctrl_c():
    port = free_port()
    command = [sys.executable, "-c", PROGRAM, "demo", "--port", str(port), "--rate", "40"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        try:
            assert f"http://127.0.0.1:{port}/" in demo.stdout.readline()
            live = _when_busy(port)
            assert live["charts"]["agents"] == ["steady", "fading", "flatterer", "crashing", "person"]
        finally:
            demo.send_signal(signal.SIGINT)
        out, err = demo.communicate(timeout=20)
    assert demo.returncode == 0 and out.rstrip().endswith("stopped") and not err, err


def _when_busy(port):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/dashboard/live", timeout=10) as answer:
            live = json.load(answer)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/queue", timeout=10) as answer:
            tickets = json.load(answer)["tickets"]
        if sum(row[-1] is not None for row in live["charts"]["reward"]) >= 3 and tickets and tickets[0]["drafts"]:
            return live
        time.sleep(0.2)
    raise AssertionError("nothing was learned")
