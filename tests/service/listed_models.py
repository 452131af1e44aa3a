"""An endpoint on loopback that lists models and answers chats, for tests of commands."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "sk-of-a-test"


class Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server = self.server
        server.asked.append((self.path, dict(self.headers.items())))
        if server.models_status != 200:
            self.reply(server.models_status, {"error": {"message": "no", "type": "fault", "code": None}})
        elif self.refused():
            self.reply(401, {"error": {"message": "wrong key", "type": "auth", "code": "invalid_api_key"}})
        else:
            listed = [{"id": name, "object": "model", "created": n} for n, name in enumerate(server.models)]
            self.reply(200, {"object": "list", "data": listed})

    def do_POST(self):
        document = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.chats.append(document)
        if self.refused():
            return self.reply(401, {"error": {"message": "wrong key", "type": "auth", "code": "invalid_api_key"}})
        if self.server.chat_status != 200:
            return self.reply(self.server.chat_status, {"error": {"message": "broken", "type": "fault", "code": None}})
        usage = {"prompt_tokens": 11, "completion_tokens": 2, "total_tokens": 13}
        if self.path.endswith("/messages"):
            content = [{"type": "text", "text": "an answer"}]
            made = {"id": "m-1", "type": "message", "role": "assistant", "model": document["model"]}
            usage = {"input_tokens": 11, "output_tokens": 2}
            return self.reply(200, {**made, "content": content, "stop_reason": "end_turn", "usage": usage})
        message = {"role": "assistant", "content": "an answer"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        made = {"id": "c-1", "object": "chat.completion", "created": 1, "model": document["model"]}
        return self.reply(200, {**made, "choices": [choice], "usage": usage})

    def refused(self):
        shown = self.headers.get("x-api-key") or (self.headers.get("authorization") or "").removeprefix("Bearer ")
        return bool(self.server.key) and shown != self.server.key

    def reply(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def date_time_string(self, timestamp=None):
        return self.server.date or super().date_time_string(timestamp)

    def log_message(self, *_):
        pass


@contextmanager
def endpoint(models=("m-1",), *, key=KEY, models_status=200, chat_status=200, date=""):
    """``endpoint.url`` ends with ``/v1``; ``chats`` are the requests that came."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Exchange) as server:
        server.daemon_threads = True
        server.models, server.key, server.models_status, server.date = models, key, models_status, date
        server.asked, server.chats, server.chat_status = [], [], chat_status
        server.url = f"http://127.0.0.1:{server.server_port}/v1"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
