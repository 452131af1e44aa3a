"""A model and a pass-through proxy on loopback: ``_loopback.py model PORT`` and ``_loopback.py proxy PORT MODEL_PORT``.

The proxy is the floor of what a gateway in Python costs: aiohttp takes a request and sends its bytes on, and an answer
comes back as bytes, piece by piece. It decides, checks, learns and logs nothing. Both run in the environment of the
wheel, on uvloop.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time

import uvloop
from aiohttp import ClientSession, TCPConnector, web

PIECES = 32
PACE_S = 0.005
_HEAD = {"created": 1, "model": "m"}
_USAGE = {"prompt_tokens": 80, "completion_tokens": PIECES, "total_tokens": 80 + PIECES}
_WHOLE = {"index": 0, "message": {"role": "assistant", "content": "word " * 40}, "finish_reason": "stop"}
_ANSWER = json.dumps({"id": "ID", **_HEAD, "object": "chat.completion", "choices": [_WHOLE], "usage": _USAGE})
_ids = itertools.count(1)


def _event(name: str, choices: list[dict[str, object]], **more: object) -> bytes:
    document = {"id": name, **_HEAD, "object": "chat.completion.chunk", "choices": choices, **more}
    return f"data: {json.dumps(document)}\n\n".encode()


async def _chat(request: web.Request) -> web.StreamResponse:
    """Answer at once, or in pieces; a piece is the time at which it was written. Every answer has an id of its own."""
    asked, name = json.loads(await request.read()), f"chatcmpl-{next(_ids)}"
    if not asked.get("stream"):
        return web.Response(text=_ANSWER.replace("ID", name, 1), content_type="application/json")
    answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await answer.prepare(request)
    for number in range(asked.get("max_tokens") or PIECES):
        await asyncio.sleep(PACE_S if number else 0.0)
        delta = {"role": "assistant"} if number == 0 else {}
        choice = {"index": 0, "delta": {**delta, "content": f"{time.monotonic():.6f} "}, "finish_reason": None}
        await answer.write(_event(name, [choice]))
    await answer.write(_event(name, [{"index": 0, "delta": {}, "finish_reason": "stop"}]))
    await answer.write(_event(name, [], usage=_USAGE) + b"data: [DONE]\n\n")
    return answer


async def _models(request: web.Request) -> web.Response:
    """``/small/v1`` and ``/large/v1`` have one model each."""
    return web.json_response({"object": "list", "data": [{"id": request.match_info["name"], "object": "model"}]})


def _model() -> web.Application:
    app = web.Application()
    app.router.add_post("/{name}/v1/chat/completions", _chat)
    app.router.add_get("/{name}/v1/models", _models)
    return app


def _proxy(upstream: str) -> web.Application:
    async def session(app: web.Application) -> None:
        app["session"] = ClientSession(connector=TCPConnector(limit=0), auto_decompress=False)

    async def close(app: web.Application) -> None:
        await app["session"].close()

    async def forward(request: web.Request) -> web.StreamResponse:
        sent = {
            name: value for name, value in request.headers.items() if name.lower() not in ("host", "content-length")
        }
        body = await request.read()
        async with request.app["session"].request(
            request.method, upstream + request.path_qs, data=body, headers=sent
        ) as got:
            headers = {"content-type": got.headers["content-type"]}
            if "content-length" in got.headers:
                return web.Response(status=got.status, body=await got.read(), headers=headers)
            answer = web.StreamResponse(status=got.status, headers=headers)
            await answer.prepare(request)
            async for piece in got.content.iter_any():
                await answer.write(piece)
            return answer

    app = web.Application()
    app.on_startup.append(session)
    app.on_cleanup.append(close)
    app.router.add_route("*", "/{path:.*}", forward)
    return app


def main() -> None:
    """Serve until a signal."""
    kind, port, *rest = sys.argv[1:]
    app = _model() if kind == "model" else _proxy(f"http://127.0.0.1:{rest[0]}")
    uvloop.install()
    web.run_app(app, host="127.0.0.1", port=int(port), access_log=None, print=None)


if __name__ == "__main__":
    main()
