"""OpenTelemetry's semantic conventions for generative AI: attributes of requests, replies and agents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from bot_orch.service.config import AgentConfig

_PROVIDERS = {
    "openai.com": "openai",
    "openai.azure.com": "azure.ai.openai",
    "inference.ai.azure.com": "azure.ai.inference",
    "anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "amazonaws.com": "aws.bedrock",
    "cohere.com": "cohere",
    "cohere.ai": "cohere",
    "deepseek.com": "deepseek",
    "groq.com": "groq",
    "mistral.ai": "mistral_ai",
    "perplexity.ai": "perplexity",
    "x.ai": "x_ai",
}
_NUMBERS = {
    "max_tokens": "gen_ai.request.max_tokens",
    "max_completion_tokens": "gen_ai.request.max_tokens",
    "max_output_tokens": "gen_ai.request.max_tokens",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "seed": "gen_ai.request.seed",
    "n": "gen_ai.request.choice.count",
}


class AgentTarget(NamedTuple):
    """Model, provider and server that an agent calls."""

    model: str
    provider: str
    server: Mapping[str, str | int] = {}


def target_of(agent: AgentConfig) -> AgentTarget:
    """Model, provider and server of an agent; no server if it has several endpoints.

    The provider follows from the host name, else it is the interface or kind of the agent.
    """
    url = urlsplit(agent.base_url)
    host = url.hostname or ""
    named = next((name for end, name in _PROVIDERS.items() if host == end or host.endswith(f".{end}")), agent.kind)
    server: dict[str, str | int] = {}
    if host:
        port = url.port or {"https": 443, "http": 80}.get(url.scheme, 0)
        server = {"server.address": host, "server.port": port}
    return AgentTarget(agent.model or agent.id, named, server)


def request_attributes(body: Any) -> Iterator[tuple[str, str | int | float | bool]]:
    """Attributes of a request: the model, numeric parameters and whether it streams; never texts."""
    if not isinstance(body, Mapping):
        return
    if isinstance(model := body.get("model"), str) and model:
        yield "gen_ai.request.model", model
    if body.get("stream") is True:
        yield "gen_ai.request.stream", True
    for name, attribute in _NUMBERS.items():
        value = body.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and not (name == "n" and value == 1):
            yield attribute, value


class _Ended(msgspec.Struct):
    finish_reason: str | None = None
    stop_reason: str | None = None


class _Named(msgspec.Struct):
    id: str | None = None
    model: str | None = None


class _Written(msgspec.Struct, kw_only=True):
    """The fields of an answer, complete or a chunk, that a trace reads, for all interfaces."""

    id: str | None = None
    model: str | None = None
    choices: list[_Ended] = []
    stop_reason: str | None = None
    delta: _Ended | str | None = None
    message: _Named | str | None = None
    response: _Named | None = None


_read = msgspec.json.Decoder(_Written).decode


class ReplyFacts:
    """Model, id and finish reasons of an answer, as far as seen."""

    def __init__(self) -> None:
        self.model = self.id = ""
        self.finish: dict[str, None] = {}

    def read(self, raw: bytes) -> None:
        """Record an answer or a chunk of one; skip anything else."""
        try:
            said = _read(raw)
        except msgspec.MsgspecError:
            return
        for named in (said, said.message, said.response):
            if isinstance(named, _Written | _Named) and named.model and not self.model:
                self.model, self.id = named.model, named.id or ""
        delta = said.delta if isinstance(said.delta, _Ended) else None
        reasons = [choice.finish_reason for choice in said.choices]
        reasons += [said.stop_reason, None if delta is None else delta.stop_reason]
        self.finish |= {reason: None for reason in reasons if reason}

    def attributes(self) -> dict[str, Any]:
        """The attributes of a span."""
        found: dict[str, Any] = {"gen_ai.response.model": self.model} if self.model else {}
        if self.id:
            found["gen_ai.response.id"] = self.id
        if self.finish:
            found["gen_ai.response.finish_reasons"] = list(self.finish)
        return found
