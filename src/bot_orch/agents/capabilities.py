"""Capabilities of agents, as configured, and requirements of requests."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

Interface = Literal["chat", "responses", "messages"]
"""The interfaces of endpoints: those of OpenAI's API, and Anthropic's Messages."""

Prefill = Literal["none", "message", "prefix", "continue_final_message"]
"""How an endpoint is told to continue an answer."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Requirements of a request; none by default.

    Parameters
    ----------
    endpoint
        The interface that was asked; an agent with ``chat`` can serve all.
    tokens
        Estimated tokens of the request, and of the answer if that is limited.
    vision, tools, json
        Whether the request has images, tools or results of tools, a format of JSON for its answer.
    only
        The part of the request that has no counterpart in a chat, so that only an agent with ``endpoint`` can serve it.
    """

    endpoint: str = ""
    tokens: int = 0
    _: KW_ONLY
    vision: bool = False
    tools: bool = False
    json: bool = False
    only: str = ""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an agent can serve; by default everything in a chat.

    Parameters
    ----------
    context_tokens
        Tokens of request and answer together; ``None`` if that is not known.
    vision, tools, json
        Whether it takes images, tools, and formats of JSON for its answer.
    interfaces
        Those that it speaks itself. Requests to others are translated to ``chat``, if it has that.
    prefill
        How it continues an answer that another agent began: a last ``message`` of the assistant, one marked ``prefix``
        (Mistral, DeepSeek), or ``continue_final_message`` (vLLM, SGLang). ``none``: it cannot.

    Examples
    --------
    >>> small = Capabilities(context_tokens=8000, vision=False)
    >>> small.missing(Needs(tokens=500)), small.missing(Needs(tokens=9000))
    (None, 'context length')
    >>> small.missing(Needs("responses", only="MCP"))
    'MCP'
    """

    context_tokens: int | None = None
    vision: bool = True
    tools: bool = True
    json: bool = True
    interfaces: tuple[Interface, ...] = ("chat",)
    prefill: Prefill = "none"

    def missing(self, needs: Needs) -> str | None:
        """The first requirement that the agent does not meet; ``None`` if it can serve the request."""
        if needs.endpoint and not self._speaks(needs):
            return needs.only or needs.endpoint
        if self.context_tokens is not None and needs.tokens > self.context_tokens:
            return "context length"
        for name, what in (("vision", "vision"), ("tools", "tools"), ("json", "JSON mode")):
            if getattr(needs, name) and not getattr(self, name):
                return what
        return None

    def _speaks(self, needs: Needs) -> bool:
        return needs.endpoint in self.interfaces or ("chat" in self.interfaces and not needs.only)
