"""Quickstart: find endpoints in the environment, write a configuration, serve it, send three chats."""

from bot_orch.errors import MissingExtraError

try:
    import aiohttp  # noqa: F401  missing, it is named before anything is written
except ImportError as _error:
    raise MissingExtraError("the service", "service") from _error

from bot_orch.service.quickstart.found import EndpointFound, Search, search
from bot_orch.service.quickstart.run import Try, run_quickstart
from bot_orch.service.quickstart.writing import LEARN_FROM, configuration

__all__ = ["LEARN_FROM", "EndpointFound", "Search", "Try", "configuration", "run_quickstart", "search"]
