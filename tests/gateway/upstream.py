"""An OpenAI-compatible endpoint on loopback that does as it is told, in threads of its own.

``upstream.script(name, *answers)`` says what ``upstream.url(name)`` answers: the first request gets the first answer,
and so on; the last one is repeated. An answer is a list of steps: a ``dict`` is sent as an event (or as the whole
document where no stream was asked for), a ``str`` as the data of an event, ``bytes`` as they are; anything else is
called with the exchange.
"""

import json
import select
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DONE = "[DONE]"
ID, MODEL = "chatcmpl-upstream", "model-of-upstream-2024-08-06"
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def chunk(*choices, **fields):
    frame = {"id": ID, "object": "chat.completion.chunk", "created": 1_700_000_000, "model": MODEL}
    return {**frame, "system_fingerprint": "fp_1", "choices": list(choices), **fields}


def delta(index=0, finish=None, **parts):
    return {"index": index, "delta": parts, "logprobs": None, "finish_reason": finish}


def completion(finish="stop", **message):
    choice = {"index": 0, "message": {"role": "assistant", **message}, "logprobs": None, "finish_reason": finish}
    frame = {"id": ID, "object": "chat.completion", "created": 1_700_000_000, "model": MODEL}
    return {**frame, "choices": [choice], "usage": USAGE}


ROLE = chunk(delta(role="assistant", content="", refusal=None))


def said(*words, finish="stop"):
    """A whole streamed answer, as OpenAI sends it."""
    return [ROLE, *(chunk(delta(content=word)) for word in words), chunk(delta(finish=finish)), counts, DONE]


def counts(exchange):
    """Token counts, as OpenAI does: only if asked for."""
    if exchange.counts:
        exchange.event(json.dumps(chunk(usage=USAGE)))


def hang(exchange):
    """Until the client goes away, which is noted."""
    exchange.wait_for_departure()


def drop(exchange):
    """Break the connection off."""
    exchange.broken = True


def pause(seconds):
    return lambda exchange: time.sleep(seconds)


def gate(event):
    """Wait until the test lets the answer go on."""
    return lambda exchange: event.wait(60)


def status(code, **headers):
    def answer(exchange):
        exchange.reply(code, {"error": {"message": "no", "type": "fault", "code": code}}, headers)

    return answer


class Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    document, begun, broken, replied = None, False, False, False

    def do_POST(self):
        name = self.path.split("/")[1]
        self.document = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.begun = self.broken = self.replied = False
        self.server.upstream.headers.append(dict(self.headers.items()))
        try:
            for step in self.server.upstream.next_answer(name, self.document):
                self.take(step)
                if self.broken or self.replied:
                    break
            self.finish_body()
        except OSError:
            self.broken = True
        self.close_connection = self.close_connection or self.broken

    @property
    def counts(self):
        return bool((self.document.get("stream_options") or {}).get("include_usage"))

    def take(self, step):
        if isinstance(step, dict) and not self.document.get("stream"):
            self.reply(200, step)
        elif isinstance(step, dict):
            self.event(json.dumps({**step, "usage": None} if self.counts else step))  # as OpenAI does
        elif isinstance(step, str):
            self.event(step)
        elif isinstance(step, bytes):
            self.piece(step)
        else:
            step(self)

    def event(self, data):
        self.piece(b"data: " + data.encode() + b"\n\n")

    def piece(self, data):
        if not self.begun:
            self.begun = True
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def reply(self, code, document, headers=None):
        body = json.dumps(document).encode()
        self.send_response(code)
        for key, value in {"Content-Type": "application/json", "Content-Length": len(body), **(headers or {})}.items():
            self.send_header(key, str(value))
        self.end_headers()
        self.wfile.write(body)
        self.replied = True

    def finish_body(self):
        if self.begun and not self.broken:
            self.wfile.write(b"0\r\n\r\n")

    def wait_for_departure(self):
        self.broken = True
        while not self.server.upstream.closing.is_set():
            if select.select([self.connection], [], [], 0.05)[0]:
                self.server.upstream.departed.set()
                return

    def log_message(self, *_):
        pass


class Upstream:
    """``with Upstream() as upstream``; ``requests`` lists (name, document) as they came, ``headers`` those of each."""

    def __init__(self):
        self._scripts, self._lock = {}, threading.Lock()
        self.requests, self.headers = [], []
        self.closing, self.departed = threading.Event(), threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Exchange)
        self._server.daemon_threads = True
        self._server.upstream = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def script(self, name, *answers):
        self._scripts[name] = list(answers)
        return self.url(name)

    def url(self, name):
        return f"http://127.0.0.1:{self._server.server_address[1]}/{name}/v1"

    def next_answer(self, name, document):
        with self._lock:
            self.requests.append((name, document))
            answers = self._scripts[name]
            return answers.pop(0) if len(answers) > 1 else answers[0]
