"""Run the application under uvicorn."""

from __future__ import annotations

import gc
import importlib.util
from typing import Any

from bot_orch.config import Config
from bot_orch.errors import InvalidInputError, MissingExtraError
from bot_orch.service.app import make_app
from bot_orch.service.auth import is_loopback
from bot_orch.service.logs import configure_logs
from bot_orch.service.runtime import Runtime

__all__ = ["make_server", "serve"]


def make_server(config: Config, **options: Any) -> Any:
    """A uvicorn server; ``options`` are those of :class:`Runtime`."""
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtraError("the service", "service") from error
    if not config.tokens and not is_loopback(config.listen.host):
        raise InvalidInputError(
            "config.listen.host", f"is {config.listen.host} and there are no tokens", "add tokens, or use 127.0.0.1"
        )
    settings = uvicorn.Config(
        make_app(Runtime(config, **options)),
        host=config.listen.host,
        port=config.listen.port,
        access_log=False,
        log_config=None,
        lifespan="on",
        timeout_graceful_shutdown=5,
        server_header=False,
        date_header=False,
        loop="uvloop" if importlib.util.find_spec("uvloop") else "asyncio",
        http="httptools" if importlib.util.find_spec("httptools") else "h11",
    )
    return uvicorn.Server(settings)


def serve(config: Config) -> int:
    """Serve until told to stop."""
    configure_logs(config.log_level)
    # Thousands of decisions wait for their outcome; looking through all of them for cycles would stall answers.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    server = make_server(config)
    server.run()
    return 0 if server.started else 3
