"""Converts chat completions to responses, complete or as stream events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bot_orch.agents.base import Chunk
from bot_orch.service.api.gateway.frames import ChatPieces, Piece, event_as_sent, named_event
from bot_orch.service.problems import Problem

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_ECHOED: Mapping[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "reasoning": None,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "truncation": "disabled",
    "user": None,
    "previous_response_id": None,
}


def response_document(chat: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a chat completion to a response to ``asked``; only the first choice is used."""
    choice = (chat.get("choices") or [{}])[0]
    message, output = choice.get("message") or {}, []
    key = _key(chat)
    content = [_part(kind, message[name]) for kind, name in _CONTENT if message.get(name)]
    if content or not message.get("tool_calls"):
        output.append(_message(f"msg_{key}", content or [_part("output_text", "")]))
    for number, call in enumerate(message.get("tool_calls") or ()):
        function = call.get("function") or {}
        output.append(
            _call(f"fc_{key}_{number}", call.get("id"), name=function.get("name"), said=function.get("arguments") or "")
        )
    return _response(chat, asked, output, finish=choice.get("finish_reason"), counts=chat.get("usage"))


_CONTENT = (("output_text", "content"), ("refusal", "refusal"))


def _key(frame: Mapping[str, Any]) -> str:
    return str(frame.get("id") or "").removeprefix("chatcmpl-")


def _response(
    frame: Mapping[str, Any],
    asked: Mapping[str, Any],
    output: list[dict[str, Any]],
    *,
    finish: Any = None,
    counts: Any = None,
    status: str = "",
) -> dict[str, Any]:
    reason = _INCOMPLETE.get(finish)
    return {
        "id": f"resp_{_key(frame)}",
        "object": "response",
        "created_at": frame.get("created") or 0,
        "status": status or ("completed" if reason is None else "incomplete"),
        "error": None,
        "incomplete_details": None if reason is None else {"reason": reason},
        "model": frame.get("model"),
        "output": output,
        "store": False,
        "usage": _usage(counts),
        **{name: asked[name] if asked.get(name) is not None else usual for name, usual in _ECHOED.items()},
    }


def _usage(counts: Any) -> dict[str, Any] | None:
    if not isinstance(counts, Mapping):
        return None
    read, written = counts.get("prompt_tokens") or 0, counts.get("completion_tokens") or 0
    kept = (counts.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    thought = (counts.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": kept},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": read + written,
    }


def _part(kind: str, text: str) -> dict[str, Any]:
    return {"type": kind, "refusal": text} if kind == "refusal" else {"type": kind, "text": text, "annotations": []}


def _message(item_id: str, content: list[dict[str, Any]], status: str = "completed") -> dict[str, Any]:
    return {"id": item_id, "type": "message", "status": status, "role": "assistant", "content": content}


def _call(item_id: str, call_id: Any, *, name: Any, said: str, status: str = "completed") -> dict[str, Any]:
    ids = {"id": item_id, "type": "function_call", "call_id": call_id or item_id}
    return {**ids, "name": name or "", "arguments": said, "status": status}


class ResponsesWriter:
    """Writes the events of a streamed response; events of an agent that speaks Responses are passed on unchanged.

    Parameters
    ----------
    frame
        Fields of a chat chunk: id, time and model.
    asked
        The request, whose settings a response repeats.
    """

    def __init__(self, frame: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
        self._frame, self._asked = dict(frame), asked
        self._pieces = ChatPieces(frame)
        self._passed = self._started = False
        self._number = -1
        self._output: list[dict[str, Any]] = []  # items so far; the last may be open
        self._open: str = ""  # kind of the open item
        self._finish: Any = None
        self._counts: Any = None

    def of(self, chunk: Chunk) -> bytes:
        """See :class:`EventWriter`."""
        if chunk.endpoint == "responses":
            self._passed = True
            return b"" if chunk.raw is None else event_as_sent(chunk.raw)
        return b"".join(self._send(each) for piece in self._pieces.of(chunk) for each in self._of(piece))

    def end(self) -> bytes:
        """See :class:`EventWriter`."""
        return b"" if self._passed else b"".join(self._send(each) for each in self._closing())

    def failed(self, problem: Problem) -> bytes:
        """See :class:`EventWriter`."""
        said = {"type": "error", "code": problem.code, "message": problem.message, "param": problem.param}
        return self._send({**said, **problem.document()})

    def _send(self, document: Mapping[str, Any]) -> bytes:
        self._number += 1
        return named_event({**document, "sequence_number": self._number})

    def _of(self, piece: Piece) -> Iterator[dict[str, Any]]:
        yield from self._start()
        match piece.kind:
            case "text" | "refusal":
                yield from self._text("output_text" if piece.kind == "text" else "refusal", piece.text)
            case "call":
                yield from self._close()
                item = _call(f"fc_{_key(self._frame)}_{piece.number}", piece.id, name=piece.name, said="")
                yield from self._add(item, "function_call")
            case "arguments":
                item = self._output[-1]
                item["arguments"] += piece.text
                yield self._at("response.function_call_arguments.delta", delta=piece.text)
            case "finish":
                self._finish = piece.text
            case "usage":
                self._counts = piece.counts

    def _start(self) -> Iterator[dict[str, Any]]:
        if not self._started:
            self._started = True
            for kind in ("response.created", "response.in_progress"):
                yield {"type": kind, "response": _response(self._frame, self._asked, [], status="in_progress")}

    def _text(self, kind: str, text: str) -> Iterator[dict[str, Any]]:
        if self._open != kind:
            yield from self._close()
            yield from self._add(_message(f"msg_{_key(self._frame)}_{len(self._output)}", []), kind)
            self._output[-1]["content"].append(_part(kind, ""))
            yield self._at("response.content_part.added", content_index=0, part=_part(kind, ""))
        field = "refusal" if kind == "refusal" else "text"
        self._output[-1]["content"][0][field] += text
        logprobs: dict[str, Any] = {} if kind == "refusal" else {"logprobs": []}
        yield self._at(f"response.{kind}.delta", content_index=0, delta=text, **logprobs)

    def _add(self, item: dict[str, Any], kind: str) -> Iterator[dict[str, Any]]:
        self._open = kind
        self._output.append(item)
        shown = {**item, "status": "in_progress"}
        yield {"type": "response.output_item.added", "output_index": len(self._output) - 1, "item": shown}

    def _close(self) -> Iterator[dict[str, Any]]:
        if not self._open:
            return
        item, kind, self._open = self._output[-1], self._open, ""
        if kind == "function_call":
            yield self._at("response.function_call_arguments.done", arguments=item["arguments"], name=item["name"])
        else:
            part = item["content"][0]
            field = "refusal" if kind == "refusal" else "text"
            logprobs: dict[str, Any] = {} if kind == "refusal" else {"logprobs": []}
            yield self._at(f"response.{kind}.done", content_index=0, **{field: part[field]}, **logprobs)
            yield self._at("response.content_part.done", content_index=0, part=part)
        yield {"type": "response.output_item.done", "output_index": len(self._output) - 1, "item": item}

    def _at(self, kind: str, **fields: Any) -> dict[str, Any]:
        place = {"item_id": self._output[-1]["id"], "output_index": len(self._output) - 1}
        return {"type": kind, **place, **fields}

    def _closing(self) -> Iterator[dict[str, Any]]:
        yield from self._start()
        yield from self._close()
        frame = {**self._frame, "model": self._pieces.model}
        done = _response(frame, self._asked, self._output, finish=self._finish, counts=self._counts)
        yield {"type": f"response.{done['status']}", "response": done}
