"""Three models that speak the OpenAI API on this machine, to try the router without keys or money.

small is right on greetings, code on programs, large on everything. python examples/hour/endpoints.py [--dead NAME]
"""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORTS = {"small": 9001, "code": 9002, "large": 9003}
KNOWS = {"small": {"greeting"}, "code": {"program"}, "large": {"greeting", "program"}}


def kind_of(prompt: str) -> str:
    """What the prompt asks for."""
    return "program" if "function" in prompt or "def " in prompt else "greeting"


class Model(BaseHTTPRequestHandler):
    """One endpoint; the port says which model it is."""

    def do_POST(self) -> None:
        """Answer a chat."""
        assert isinstance(self.server, ThreadingHTTPServer)
        name = next(name for name, port in PORTS.items() if port == self.server.server_port)
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = asked["messages"][-1]["content"]
        text = "good answer" if kind_of(prompt) in KNOWS[name] else "bad answer"
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        usage = {"prompt_tokens": 1000, "completion_tokens": 1000, "total_tokens": 2000}
        body = {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": asked["model"],
            "choices": [choice],
            "usage": usage,
        }
        self._send(body)

    def do_GET(self) -> None:
        """List the model."""
        self._send({"object": "list", "data": [{"id": "m", "object": "model"}]})

    def _send(self, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def start(name: str) -> ThreadingHTTPServer:
    """An endpoint, to be run by ``serve_forever``."""
    return ThreadingHTTPServer(("127.0.0.1", PORTS[name]), Model)


if __name__ == "__main__":
    import threading

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dead", choices=list(PORTS), help="an endpoint that does not run")
    alive = [name for name in PORTS if name != parser.parse_args().dead]
    threads = [threading.Thread(target=start(name).serve_forever) for name in alive]
    for thread in threads:
        thread.start()
    print("listening:", ", ".join(f"{name} on {PORTS[name]}" for name in alive), flush=True)
