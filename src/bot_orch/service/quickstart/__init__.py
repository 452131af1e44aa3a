"""From nothing to a gateway that learns: endpoints of the environment, a configuration, a service, three chats."""

from bot_orch.errors import MissingExtraError

try:
    import aiohttp  # noqa: F401  missing, it is named before anything is written
except ImportError as _error:
    raise MissingExtraError("the service", "service") from _error

from bot_orch.service.quickstart.found import EndpointFound, Search, search
from bot_orch.service.quickstart.run import Try, run_quickstart
from bot_orch.service.quickstart.writing import LEARN_FROM, configuration

__all__ = ["LEARN_FROM", "EndpointFound", "Search", "Try", "configuration", "run_quickstart", "search"]
