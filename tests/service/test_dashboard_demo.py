"""The demonstration in examples/demo: it serves, it learns, Ctrl-C or kill ends it cleanly."""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from service_running import PATIENCE_S, until

from bot_orch.service.build import check
from bot_orch.service.config import load_config

DEMO = Path(__file__).parents[2] / "examples" / "demo"


def test_its_settings_are_valid():
    config = load_config(DEMO / "bot-orch.yaml")
    check(config)
    assert {agent.kind for agent in config.agents} == {"simulated", "human"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_and_stops_with_its_service(number):
    command = [sys.executable, str(DEMO / "traffic.py"), "--port", "0", "--rate", "40"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        try:
            port = re.search(r"http://127.0.0.1:(\d+)/", demo.stdout.readline())[1]
            live = until(lambda: _when_busy(port))
            assert live["charts"]["agents"] == ["steady", "fading", "flatterer", "crashing", "person"]
        finally:
            demo.send_signal(number)
        out, err = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 0 and out.rstrip().endswith("stopped") and not err, err


def _when_busy(port):
    """What the dashboard shows, once three agents have earned something and a person has something to look at."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/dashboard/live", timeout=PATIENCE_S) as answer:
        live = json.load(answer)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/queue", timeout=PATIENCE_S) as answer:
        tickets = json.load(answer)["tickets"]
    learned = sum(row[-1] is not None for row in live["charts"]["reward"]) >= 3
    return live if learned and tickets else None
