"""Doctests of an adapter are collected where the package that it adapts is installed; any other import must work."""

from importlib.util import find_spec

_PACKAGES = ("langchain", "litellm")
collect_ignore = [f"bot_orch/integrations/{name}.py" for name in _PACKAGES if find_spec(name) is None]
