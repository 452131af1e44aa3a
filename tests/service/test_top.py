"""``bot-orch top`` on a running service."""

import os
import pty
import signal
import subprocess
import sys
import time

import pytest
from service_running import BASE, PATIENCE_S, until

from bot_orch.cli import main, top

TOKENS = """
tokens:
  - {{name: app, scopes: [decide, feedback], env: APP}}
  - {{name: ops, scopes: [admin], env: OPS}}
"""


def chat(service, **headers):
    body = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}
    return service.post("/v1/chat/completions", body, headers=headers)


def url(service):
    return f"http://127.0.0.1:{service.port}"


def test_one_frame_shows_shares_rewards_and_spend(start, capsys):
    service = start()
    for _ in range(4):
        assert chat(service).status == 200
    assert main(["top", url(service), "--once", "--last", "15m"]) == 0
    frame = capsys.readouterr().out
    title, summary, _, head, *rows = frame.splitlines()
    assert url(service) in title and "last 15m" in title
    assert "4 decisions" in summary and "spent $0." in summary and "reward 0." in summary
    assert head.split()[:4] == ["agent", "share", "p", "reward"]
    assert [row.split()[0] for row in rows[:2]] == ["quick", "careful"]
    shares = [int(row.split("%")[0].split()[-1]) for row in rows[:2]]
    assert sum(shares) == 100
    assert "no alarms" in frame
    assert "\x1b" not in frame, "no control characters without a terminal"


def test_an_agent_that_takes_no_calls_is_an_alarm(start, capsys):
    crashing = BASE.replace("quality: 0.6", "crash: 1.0") + "\n"
    crashing = crashing.replace("price: {{per_call_usd: 0.01}}", "breaker: {{failures: 1, open_s: 200}}")
    service = start(crashing)
    for _ in range(30):
        chat(service)
        if not service.get("/v1/agents").json()[0]["available"]:
            break
    assert main(["top", url(service), "--once"]) == 0
    frame = capsys.readouterr().out
    assert "! quick takes no calls" in frame and "again in" in frame


def test_a_token_is_needed_where_there_are_tokens(start, capsys, monkeypatch):
    service = start(BASE + TOKENS, environment={"APP": "a" * 40, "OPS": "o" * 40})
    assert main(["top", url(service), "--once"]) == 2
    assert "BOT_ORCH_TOKEN is not set" in capsys.readouterr().err
    assert main(["top", url(service), "--once", "--token", "a" * 40]) == 2
    assert "is not a token with the scope admin" in capsys.readouterr().err
    monkeypatch.setenv("BOT_ORCH_TOKEN", "o" * 40)
    assert main(["top", url(service), "--once"]) == 0
    assert "0 decisions" in capsys.readouterr().out


def test_one_of_several_routers(start, capsys):
    service = start(BASE + "routers:\n  support:\n    agents: [{{id: helper, kind: simulated}}]\n")
    until(lambda: service.get("/r/support/health/ready").status == 200)
    assert main(["top", url(service) + "/r/support", "--once"]) == 0
    frame = capsys.readouterr().out
    assert "helper" in frame and "quick" not in frame


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["http://127.0.0.1:1"], "is the service running?"),
        (["here"], "URL: is here"),
        (["--last", "soon"], "--last: is soon"),
        (["--every", "0"], "--every: is 0"),
    ],
)
def test_mistakes_are_one_line(words, message, capsys):
    assert main(["top", "--once", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_in_a_terminal_it_redraws_until_ctrl_c(service):
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "bot_orch", "top", url(service), "--every", "0.2"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(command, stdout=follower, stderr=follower, env=environment) as process:
        os.close(follower)
        shown, end = b"", time.monotonic() + PATIENCE_S
        while shown.count(b"\x1b[H") < 2 and time.monotonic() < end:
            shown += os.read(leader, 65_536)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
        shown += os.read(leader, 65_536)
    os.close(leader)
    assert shown.count(b"\x1b[H") >= 2 and b"quick" in shown
    assert b"Traceback" not in shown
    assert shown.rstrip().endswith(b"\x1b[?25h"), "the cursor is shown again"


def test_a_service_that_goes_away_and_comes_back_is_shown(start, monkeypatch, capsys):
    """The last frame stays, with the reason below it."""
    service = start()
    frames_left = iter([None, None])

    def pause(_):
        if next(frames_left, "end") == "end":
            raise KeyboardInterrupt
        if service.thread.is_alive():
            service.stop()

    monkeypatch.setattr(top.time, "sleep", pause)
    assert main(["top", url(service)]) == 0
    assert capsys.readouterr().out.count("is the service running?") == 2


def test_a_frame_fits_the_terminal_and_has_no_control_characters():
    agent = {"id": "a\x1b[2J", "circuit": "closed", "available": False, "in_flight": 0, "concurrency": 8}
    glance = top.Glance(
        "http://x",
        "1h",
        agents=[agent],
        rows={},
        objective={"spent_last_day_usd": 0},
        alarms=[{"t": 0.0, "agent": "b"}],
    )
    lines = top.draw(glance, 60)
    assert max(map(len, lines)) <= 60 and not any("\x1b" in line for line in lines)
    assert not any(line.endswith("~") for line in top.draw(glance, 80)), "all columns fit 80 characters"
    assert any("drift: the outputs of b changed" in line for line in lines)
    assert any("\x1b[31m" in line for line in top.draw(glance, 60, color=True))


def test_a_low_terminal_keeps_the_head_and_the_alarms():
    from bot_orch.cli.top import _fitted

    lines = [f"line {number}" for number in range(50)]
    assert _fitted(lines, 50) == lines
    shown = _fitted(lines, 20)
    assert len(shown) == 20 and shown[:5] == lines[:5] and shown[-5:] == lines[-5:]


def test_another_service_is_recognised(capsys):
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n[{}]")

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as other:
        thread = Thread(target=other.serve_forever, args=(0.02,))
        thread.start()
        assert main(["top", f"http://127.0.0.1:{other.server_port}", "--once"]) == 2
        other.shutdown()
        thread.join()
    assert "does not answer as bot-orch does" in capsys.readouterr().err
