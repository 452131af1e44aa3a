"""An OpenAI-compatible endpoint in a process of its own, and a handle on it. Imports nothing of the package.

``python endpoint.py`` prints its port. ``PUT /_script/NAME`` says what ``/NAME/v1/chat/completions`` answers: a list of
answers, the last is repeated. An answer is an object:

- ``status``, ``headers``, ``error``: an error document instead of an answer
- ``delay_s``: wait before anything is sent
- ``words``, ``pace_s``: the pieces of a stream (joined, the content of a whole answer) and the pause after each
- ``message``, ``finish``: the message of a whole answer, the finish reason
- ``document``, ``events``: a whole answer, the events of a stream, as they are (other interfaces than chat)
- ``bytes``, ``type``: an answer that is no JSON, in hexadecimal digits, and its content type
- ``counts``: token counts at the end (``end``, if asked for), in ``every`` piece, or ``never``
- ``then``: after the pieces ``end`` properly, ``hang``, or ``drop`` the connection

``GET /_seen/NAME`` lists requests: headers, document, and whether the client went away.
"""

import http.client
import itertools
import json
import select
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from subprocess import PIPE

PATIENCE_S = 60.0
SCRIPTS, SEEN, LOCK = {}, {}, threading.Lock()
FRAME = {"id": "chatcmpl-1", "created": 1_700_000_000, "model": "m-1"}


def usage(output):
    return {"prompt_tokens": 11, "completion_tokens": output, "total_tokens": 11 + output}


class Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        with LOCK:
            name = self.path.split("/")[2]
            SCRIPTS[name], SEEN[name] = self.body(), []
        self.reply(200, {})

    def do_GET(self):
        with LOCK:
            self.reply(200, SEEN.get(self.path.split("/")[2], []))

    def do_POST(self):
        name, document = self.path.split("/")[1], self.body()
        seen = {"headers": {key.lower(): value for key, value in self.headers.items()}, "document": document}
        seen["path"] = self.path
        with LOCK:
            SEEN[name].append(seen)
            answers = SCRIPTS[name]
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
        try:
            time.sleep(answer.get("delay_s", 0.0))
            if "error" in answer:
                self.reply(answer.get("status", 400), {"error": answer["error"]}, answer.get("headers", {}))
            elif "bytes" in answer:
                self.send_body(200, bytes.fromhex(answer["bytes"]), {"Content-Type": answer["type"]})
            elif "document" in answer and not document.get("stream"):
                self.reply(200, answer["document"])
            elif "events" in answer:
                self.typed(answer["events"])
            elif document.get("stream"):
                self.stream(answer, document)
            else:
                self.whole(answer)
            if answer.get("then") == "hang":
                self.wait_for_departure()
                seen["gone"] = True
        except OSError:
            seen["gone"] = self.close_connection = True

    def body(self):
        data = self.rfile.read(int(self.headers["content-length"]))
        if (self.headers["content-type"] or "").startswith("multipart/form-data"):
            return {"form": data.decode("latin-1")}
        return json.loads(data)

    def whole(self, answer):
        if answer.get("then") == "hang":
            return
        words = answer.get("words", ["The ", "answer"])
        message = {
            "role": "assistant",
            "content": "".join(word for word in words if isinstance(word, str)),
            **answer.get("message", {}),
        }
        choice = {"index": 0, "message": message, "finish_reason": answer.get("finish", "stop")}
        document = {**FRAME, "object": "chat.completion", "choices": [choice], "usage": usage(len(words))}
        self.reply(200, document, answer.get("headers", {}))

    def stream(self, answer, document):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        counts, words = answer.get("counts", "end"), answer.get("words", ["The ", "answer"])
        self.event({"role": "assistant", "content": ""})
        for number, word in enumerate(words, 1):
            told = {"usage": usage(number)} if counts == "every" else {}
            self.event({"content": word} if isinstance(word, str) else word, **told)
            time.sleep(answer.get("pace_s", 0.0))
        if answer.get("then") == "drop":
            self.close_connection = True
        if answer.get("then", "end") != "end":
            return
        self.event({}, answer.get("finish", "stop"))
        if counts == "end" and (document.get("stream_options") or {}).get("include_usage"):
            self.piece({**FRAME, "object": "chat.completion.chunk", "choices": [], "usage": usage(len(words))})
        self.data(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def typed(self, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for each in events:
            name = f"event: {each['type']}\n" if "type" in each else ""
            self.data(f"{name}data: {json.dumps(each)}\n\n".encode())
        if not any("type" in each for each in events):
            self.data(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def event(self, delta, finish=None, **fields):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        self.piece({**FRAME, "object": "chat.completion.chunk", "choices": [choice], **fields})

    def piece(self, document):
        self.data(b"data: " + json.dumps(document).encode() + b"\n\n")

    def data(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def reply(self, status, document, headers=None):
        self.send_body(status, json.dumps(document).encode(), {"Content-Type": "application/json", **(headers or {})})

    def send_body(self, status, body, headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def wait_for_departure(self):
        self.close_connection = True
        while not select.select([self.connection], [], [], 0.05)[0]:
            pass

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


class Endpoint:
    """``script(*answers)`` gives the base URL of a new name; ``seen(url)`` lists the requests to it."""

    def __init__(self):
        self._process = subprocess.Popen([sys.executable, __file__], stdin=PIPE, stdout=PIPE, text=True)
        self.port = int(self._process.stdout.readline())
        self._names = itertools.count()

    def close(self):
        self._process.communicate(timeout=PATIENCE_S)

    def script(self, *answers):
        name = f"n{next(self._names)}"
        self._ask("PUT", f"/_script/{name}", list(answers))
        return f"http://127.0.0.1:{self.port}/{name}/v1"

    def seen(self, url):
        return self._ask("GET", f"/_seen/{url.split('/')[3]}")

    def _ask(self, method, path, document=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, None if document is None else json.dumps(document))
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Exchange)
    threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()  # ends with its parent
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever(0.05)
