"""``/v1/responses``: passed to agents that declare the interface, converted to a chat for all others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bot_orch.service.api.gateway.chat_request import ChatRequest, native, read_hints, read_model, text_of
from bot_orch.service.api.gateway.response_events import ResponsesWriter, response_document
from bot_orch.service.problems import Problem

_SAME = (
    *("temperature", "top_p", "parallel_tool_calls", "user", "service_tier", "safety_identifier"),
    *("prompt_cache_key", "top_logprobs"),
)
_ONLY = ("previous_response_id", "conversation", "background", "prompt")  # state that only the endpoint has


class ResponsesDialect:
    """OpenAI's Responses."""

    endpoint = "responses"

    def read(self, body: Mapping[str, Any]) -> ChatRequest:
        """See :class:`Dialect`."""
        given = body.get("input")
        if not isinstance(given, str | list) or not given:
            if not body.get("prompt"):
                raise Problem(400, "missing_input", "input: must be a text or a list of items", param="input")
            given = []
        only = [name for name in _ONLY if body.get(name)]
        messages = _messages(body.get("instructions"), given, only)
        params, offered = _params(body, only)
        previous = body.get("previous_response_id")
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
            refers_to=(previous,) if isinstance(previous, str) else (),
        )

    def whole(self, chat: Mapping[str, Any], asked: ChatRequest) -> Mapping[str, Any]:
        """See :class:`Dialect`."""
        return response_document(chat, asked.document or {})

    def writer(self, frame: Mapping[str, Any], asked: ChatRequest) -> ResponsesWriter:
        """See :class:`Dialect`."""
        return ResponsesWriter(frame, asked.document or {})


def _messages(instructions: Any, given: str | list[Any], only: list[str]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if isinstance(instructions, str) and instructions:
        messages.append({"role": "system", "content": instructions})
    if isinstance(given, str):
        return [*messages, {"role": "user", "content": given}]
    for item in given:
        if not isinstance(item, Mapping):
            raise Problem(400, "invalid_input", "input: holds an item that is not an object", param="input")
        match item.get("type", "message"):
            case "message":
                content = _content(item.get("content"), only)
                messages.append({"role": item.get("role") or "user", "content": content})
            case "function_call":
                _add_call(messages, item)
            case "function_call_output":
                output = item.get("output")
                said = output if isinstance(output, str) else _content(output, only)
                messages.append({"role": "tool", "tool_call_id": text_of(item.get("call_id")), "content": said})
            case "reasoning":
                pass  # of the model that wrote it
            case other:
                only.append(str(other))
    return messages


def _add_call(messages: list[dict[str, Any]], item: Mapping[str, Any]) -> None:
    """A call belongs to the message of the assistant before it."""
    function = {"name": text_of(item.get("name")), "arguments": text_of(item.get("arguments"))}
    call = {"id": text_of(item.get("call_id")), "type": "function", "function": function}
    if messages and messages[-1]["role"] == "assistant":
        messages[-1].setdefault("tool_calls", []).append(call)
    else:
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})


def _content(content: Any, only: list[str]) -> Any:
    if isinstance(content, str) or not isinstance(content, list):
        return content if isinstance(content, str) else ""
    parts = [part for each in content if (part := _part(each, only)) is not None]
    texts = [part["text"] for part in parts if part["type"] == "text"]
    return "".join(texts) if len(texts) == len(parts) else parts


def _part(part: Any, only: list[str]) -> dict[str, Any] | None:
    match part:
        case {"type": "input_text" | "output_text" | "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "refusal", "refusal": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "input_image", "image_url": str(url)}:
            detail = {"detail": part["detail"]} if part.get("detail") else {}
            return {"type": "image_url", "image_url": {"url": url, **detail}}
        case {"type": "input_file", "file_data": str(data)}:
            return {"type": "file", "file": {"file_data": data, "filename": text_of(part.get("filename"))}}
        case {"type": str(other)}:
            only.append(other)
    return None


def _params(body: Mapping[str, Any], only: list[str]) -> tuple[dict[str, Any], list[str]]:
    """The parameters of a chat, and the tools that it cannot express but need not use."""
    params = {name: body[name] for name in _SAME if body.get(name) is not None}
    if body.get("max_output_tokens") is not None:
        params["max_completion_tokens"] = body["max_output_tokens"]
    reasoning, text = body.get("reasoning"), body.get("text")
    if isinstance(reasoning, Mapping) and reasoning.get("effort"):
        params["reasoning_effort"] = reasoning["effort"]
    if isinstance(text, Mapping):
        format_ = text.get("format")
        if isinstance(format_, Mapping) and format_.get("type") == "json_schema":
            schema = {name: value for name, value in format_.items() if name != "type"}
            params["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif isinstance(format_, Mapping) and format_.get("type") == "json_object":
            params["response_format"] = {"type": "json_object"}
    tools, offered = _tools(body.get("tools"))
    if tools:
        params["tools"] = tools
    choice = body.get("tool_choice")
    if choice == "required" and not tools:
        only += offered
    if isinstance(choice, Mapping) and choice.get("type") == "function":
        params["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    elif isinstance(choice, Mapping):
        only.append(f"tool_choice {choice.get('type')}")
    elif choice is not None and tools:
        params["tool_choice"] = choice
    if body.get("stream") is True:
        params["stream_options"] = {"include_usage": True}
    return params, offered


def _tools(given: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """Functions as a chat has them, and names of other tools."""
    tools, others = [], []
    for tool in given if isinstance(given, Iterable) else ():
        kind = tool.get("type") if isinstance(tool, Mapping) else None
        if kind == "function":
            tools.append({"type": "function", "function": {name: tool[name] for name in tool if name != "type"}})
        else:
            others.append(f"tool {kind}")
    return tools, others
