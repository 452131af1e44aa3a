"""A stop drains: requests get a grace to end, then streams an error event and others 503; nothing is a traceback."""

import http.client
import json
import logging
import threading

from service_running import BASE, PATIENCE_S, until

AGENTS = """
limits: {{grace_s: GRACE}}
agents:
  - {{id: own, kind: python, path: 'answering:NAME'}}
"""


def config(name, grace_s):
    return BASE.partition("agents:")[0] + AGENTS.replace("NAME", name).replace("GRACE", str(grace_s))


def asking(service, *, stream):
    """A request in flight."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE_S)
    body = {"model": "auto", "messages": [{"role": "user", "content": "hello"}], "stream": stream}
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    until(lambda: service.runtime.ledger.pending)
    return connection


def stopping(service):
    service.server.should_exit = True
    thread = threading.Thread(daemon=True, target=service.stop)
    thread.start()
    return thread


def test_a_stream_that_must_end_gets_an_error_event(start, caplog):
    caplog.set_level(logging.WARNING)
    service = start(config("one_word_then_nothing", 0.05))
    connection = asking(service, stream=True)
    response = connection.getresponse()
    assert b"One " in response.readline()
    stopped = stopping(service)
    events = [line[6:] for line in response.read().splitlines() if line.startswith(b"data: ")]
    connection.close()
    stopped.join(PATIENCE_S)
    error = json.loads(events[-1])["error"]
    assert error["code"] == "shutdown" and error["type"] == "server_error"
    assert [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR] == []


def test_a_call_that_must_end_gets_503(start):
    service = start(config("one_word_then_nothing", 0.05))
    connection = asking(service, stream=False)
    stopped = stopping(service)
    response = connection.getresponse()
    assert response.status == 503 and json.loads(response.read())["error"]["code"] == "shutdown"
    connection.close()
    stopped.join(PATIENCE_S)


def test_a_call_that_ends_within_the_grace_is_answered(start):
    service = start(config("slow", 30))
    connection = asking(service, stream=False)
    stopped = stopping(service)
    response = connection.getresponse()
    assert response.status == 200 and json.loads(response.read())["choices"][0]["message"]["content"] == "done"
    connection.close()
    stopped.join(PATIENCE_S)
