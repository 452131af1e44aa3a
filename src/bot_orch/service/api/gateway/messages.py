"""``/v1/messages``: Anthropic's clients work unchanged, with ``model="auto"``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bot_orch.service.api.gateway.chat_request import ChatRequest, native, read_hints, read_model, text_of
from bot_orch.service.api.gateway.message_events import MessagesWriter, error_document, message_document
from bot_orch.service.problems import Problem, Reply, json_reply
from bot_orch.service.web.endpoint import JsonFace

__all__ = ["MessagesDialect", "MessagesFace"]

_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


class MessagesFace(JsonFace):
    """Error bodies and authentication in the format of Anthropic's clients."""

    def problem(self, problem: Problem, method: str, path: str) -> Reply:
        """See :class:`Face`."""
        return json_reply(error_document(problem), problem.status, problem.headers)


class MessagesDialect:
    """Anthropic's Messages."""

    endpoint = "messages"

    def read(self, body: Mapping[str, Any]) -> ChatRequest:
        """See :class:`Dialect`."""
        given = body.get("messages")
        if not isinstance(given, list) or not given or not all(isinstance(each, dict) for each in given):
            raise Problem(400, "missing_messages", "messages: must be a list of messages", param="messages")
        only: list[str] = []
        messages: list[dict[str, Any]] = []
        if system := _plain(body.get("system")):
            messages.append({"role": "system", "content": system})
        for each in given:
            messages += _turn(each, only)
        user = body.get("metadata")
        params, offered = _params(body, only)
        return ChatRequest(
            self.endpoint,
            read_model(body),
            tuple(messages),
            params=params,
            hints=read_hints(body),
            stream=body.get("stream") is True,
            document=native(body),
            only=only[0] if only else "",
            offered=tuple(offered),
            user=text_of(user.get("user_id")) if isinstance(user, Mapping) else "",
        )

    def whole(self, chat: Mapping[str, Any], asked: ChatRequest) -> Mapping[str, Any]:
        """See :class:`Dialect`."""
        return message_document(chat)

    def writer(self, frame: Mapping[str, Any], asked: ChatRequest) -> MessagesWriter:
        """See :class:`Dialect`."""
        return MessagesWriter(frame)


def _turn(message: Mapping[str, Any], only: list[str]) -> list[dict[str, Any]]:
    """Convert one turn to chat messages: tool results first, each as a separate message."""
    role, content = text_of(message.get("role")) or "user", message.get("content")
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    results: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for block in content if isinstance(content, list) else ():
        match block:
            case {"type": "tool_result", "tool_use_id": str(made)}:
                said = _content([_part(each, only) for each in _listed(block.get("content"))])
                results.append({"role": "tool", "tool_call_id": made, "content": said})
            case {"type": "tool_use", "id": str(made), "name": str(name)}:
                function = {"name": name, "arguments": json.dumps(block.get("input") or {})}
                calls.append({"id": made, "type": "function", "function": function})
            case {"type": "thinking" | "redacted_thinking"}:
                pass  # of the model that wrote it
            case _:
                parts.append(_part(block, only))
    found: dict[str, Any] = {"role": role, "content": _content(parts) if parts else None}
    if calls:
        found["tool_calls"] = calls
    return [*results, *([found] if parts or calls else [])]


def _listed(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _content(parts: list[dict[str, Any]]) -> Any:
    texts = [part["text"] for part in parts if part["type"] == "text"]
    return "".join(texts) if len(texts) == len(parts) else parts


def _part(block: Any, only: list[str]) -> dict[str, Any]:
    match block:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "image", "source": {"type": "base64", "media_type": str(media), "data": str(data)}}:
            return {"type": "image_url", "image_url": {"url": f"data:{media};base64,{data}"}}
        case {"type": "image", "source": {"type": "url", "url": str(url)}}:
            return {"type": "image_url", "image_url": {"url": url}}
        case {"type": str(other)}:
            only.append(other)
            return {"type": "text", "text": ""}
    raise Problem(400, "invalid_content", "messages: hold a block without a type", param="messages")


def _plain(system: Any) -> str:
    if isinstance(system, str):
        return system
    return "\n\n".join(text_of(each.get("text")) for each in system or () if isinstance(each, Mapping))


def _params(body: Mapping[str, Any], only: list[str]) -> tuple[dict[str, Any], list[str]]:
    """The parameters of a chat, and the tools that it cannot express but need not use."""
    params = {name: body[name] for name in ("temperature", "top_p") if body.get(name) is not None}
    if body.get("max_tokens") is not None:
        params["max_completion_tokens"] = body["max_tokens"]
    if body.get("stop_sequences"):
        params["stop"] = body["stop_sequences"]
    if isinstance(user := body.get("metadata"), Mapping) and user.get("user_id"):
        params["user"] = user["user_id"]
    tools: list[dict[str, Any]] = []
    offered: list[str] = []
    choice = body.get("tool_choice")
    forced = choice.get("name") if isinstance(choice, Mapping) and choice.get("type") == "tool" else None
    for tool in body.get("tools") or ():
        kind = tool.get("type") or "custom" if isinstance(tool, Mapping) else None
        if kind != "custom":
            needed = forced is not None and isinstance(tool, Mapping) and tool.get("name") == forced
            (only if needed else offered).append(f"tool {kind}")
            continue
        function = {"name": tool.get("name"), "parameters": tool.get("input_schema")}
        told = {"description": tool["description"]} if tool.get("description") else {}
        tools.append({"type": "function", "function": {**function, **told}})
    if tools:
        params["tools"] = tools
        params |= _choice(choice)
    elif isinstance(choice, Mapping) and choice.get("type") == "any":
        only += offered
    format_ = (body.get("output_config") or {}).get("format")
    if isinstance(format_, Mapping) and format_.get("type") == "json_schema":
        schema = {"name": "answer", "schema": format_.get("schema")}
        params["response_format"] = {"type": "json_schema", "json_schema": schema}
    if body.get("stream") is True:
        params["stream_options"] = {"include_usage": True}
    return params, offered


def _choice(asked: Any) -> dict[str, Any]:
    if not isinstance(asked, Mapping):
        return {}
    found: dict[str, Any] = {"parallel_tool_calls": False} if asked.get("disable_parallel_tool_use") else {}
    if asked.get("type") == "tool":
        return {**found, "tool_choice": {"type": "function", "function": {"name": asked.get("name")}}}
    return {**found, "tool_choice": _CHOICES.get(str(asked.get("type")), "auto")}
