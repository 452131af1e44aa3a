"""Requests of commands to a running service."""

from __future__ import annotations

import os
from typing import Any

from bot_orch.errors import BotOrchError, InvalidInputError

_WAIT_S = 60.0


def ask(url: str, method: str, path: str, body: Any = None, *, absent_is_none: bool = False) -> Any:
    """The answer of a service as JSON; the token is in ``BOT_ORCH_TOKEN``.

    ``None`` if nothing listens there and ``absent_is_none``.
    """
    import json
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    url = url.rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise InvalidInputError("--url", f"is {url}", "start it with http:// or https://")
    token = os.environ.get("BOT_ORCH_TOKEN", "")
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}
    data = None if method == "GET" else json.dumps(body or {}).encode()
    try:
        request = Request(url + path, data, headers, method=method)  # noqa: S310  checked
        with urlopen(request, timeout=_WAIT_S) as answer:  # noqa: S310
            return json.load(answer)
    except HTTPError as error:
        raise BotOrchError(f"{url}: {_refusal(error, token)}") from None
    except (HTTPException, ValueError):
        raise BotOrchError(f"{url}: does not answer as bot-orch does; check --url") from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ConnectionRefusedError) and absent_is_none:
            return None
        raise BotOrchError(f"{url}: {reason}; is the service running? --url says where") from None


def _refusal(error: Any, token: str) -> str:
    """Why the service refused a request."""
    import json

    with error:
        if error.code in (401, 403):
            return f"BOT_ORCH_TOKEN {'is not a token with the scope admin' if token else 'is not set'}; set it to one"
        try:
            return str(json.load(error)["error"]["message"])
        except (ValueError, KeyError, TypeError):
            return f"status {error.code}; check --url"
