"""``bot-orch reload``: apply a changed configuration file to a running service."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from bot_orch.errors import BotOrchError, InvalidInputError

_DESCRIPTION = """\
Let a running service read its configuration file again. Agents, prices, rules, the router, tokens and log_level change
between two requests; none in flight is dropped. A file with a mistake is refused in one line, and the old configuration
goes on. Changes of database, listen, queue and limits are named: they need a restart. SIGHUP does the same. On
PostgreSQL the file becomes the next version for all processes; one that is an earlier version is refused.

The token, with the scope admin, is in BOT_ORCH_TOKEN. Variables that the file names are those of the service."""
_EXAMPLE = """\
examples:
  bot-orch reload bot-orch.yaml
  bot-orch reload bot-orch.yaml --url http://127.0.0.1:9000
  kill -HUP PID"""
_TIMEOUT_S = 60.0


class ReloadRefusedError(BotOrchError):
    """The service did not apply its configuration file."""


class ServiceAwayError(ReloadRefusedError):
    """There is no service at the address."""


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "reload",
        help="apply a changed configuration file to a running service",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", type=Path, metavar="FILE", help="the file that the service was started with")
    parser.add_argument("--url", help="where the service listens (default: as FILE says)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.service.config import load_config

    listen = load_config(arguments.config).listen
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(listen.host, listen.host)  # noqa: S104  to reach it, not to listen
    found = _ask(arguments.url or f"http://{host}:{listen.port}")
    changed, after_restart = found["changed"], found["after_restart"]
    print(f"changed: {', '.join(changed) or 'nothing'}")  # noqa: T201
    if after_restart:
        print(f"needs a restart: {', '.join(after_restart)}")  # noqa: T201
    return 0


def _ask(url: str) -> Any:
    if not url.startswith(("http://", "https://")):
        raise InvalidInputError("--url", f"is {url}", "start it with http:// or https://")
    token = os.environ.get("BOT_ORCH_TOKEN")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"{url.rstrip('/')}/v1/admin/reload", b"", headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310  checked above
            found = json.load(response)
            return {name: list(found[name]) for name in ("changed", "after_restart")}
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            said = "is not a token with the scope admin" if token else "is not set"
            raise ReloadRefusedError(f"BOT_ORCH_TOKEN: {said}; set it to one, or send SIGHUP to the service") from None
        raise ReloadRefusedError(f"refused, the old configuration goes on: {_message(error)}") from None
    except (http.client.HTTPException, ValueError, KeyError, TypeError):
        raise ReloadRefusedError(f"{url}: does not answer as bot-orch does; check --url") from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        away = ServiceAwayError if isinstance(reason, ConnectionRefusedError) else ReloadRefusedError
        asked = "is the service running? If listen has changed, --url says where"
        raise away(f"{url}: {reason}; {asked}") from None


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"status {error.code}"
