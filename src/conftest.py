"""Doctests of an adapter are collected where the package that it adapts is installed; any other import must work."""

from importlib.util import find_spec

_PACKAGES = {
    "langchain": "langchain",
    "langfuse": "langfuse",
    "langgraph": "langgraph",
    "litellm": "litellm",
    "mcp": "mcp",
    "openai_agents": "agents",
    "prometheus": "prometheus_client",
    "pydantic_ai": "pydantic_ai",
    "strands": "strands",
}
collect_ignore = [
    f"bot_orch/integrations/{name}.py" for name, package in _PACKAGES.items() if find_spec(package) is None
]
