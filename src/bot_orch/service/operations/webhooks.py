"""Webhooks: alarms as signed POST requests to configured URLs. They never delay a request.

Alarms wait in a queue of bounded length; a sender takes them one by one and retries with growing pauses. The signature
is that of Standard Webhooks (https://www.standardwebhooks.com): ``webhook-id``, ``webhook-timestamp`` and
``webhook-signature``, an HMAC-SHA256 of id, time and body with the webhook's secret.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bot_orch.service.config import WebhookConfig

_log = logging.getLogger("bot_orch.webhooks")
_MOST_WAITING = 1000
_TRIES = 5
_FIRST_PAUSE_S = 1.0
_TIMEOUT_S = 10.0


def signature(secret: str, body: bytes, *, message_id: str, timestamp: int) -> str:
    """The value of ``webhook-signature``; a secret that begins with ``whsec_`` is base64.

    Examples
    --------
    >>> secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b'{"test": 2432232314}'
    >>> signature(secret, body, message_id="msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp=1614265330)
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    key = base64.b64decode(secret.removeprefix("whsec_")) if secret.startswith("whsec_") else secret.encode()
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


@dataclass(frozen=True, slots=True)
class _Message:
    hook: WebhookConfig
    id: str
    body: bytes


class Webhooks:
    """Sends alarms to webhooks.

    Parameters
    ----------
    hooks
        The configured webhooks.
    counted
        Called with ``delivered``, ``failed`` or ``dropped``.
    pause_s
        Pause before the first retry; doubled for each one.
    """

    def __init__(
        self, hooks: Iterable[WebhookConfig], counted: Callable[[str], None], *, pause_s: float = _FIRST_PAUSE_S
    ) -> None:
        self._hooks, self._counted, self._pause_s = tuple(hooks), counted, pause_s
        self._waiting: deque[_Message] = deque()
        self._wake = asyncio.Event()
        self._number = 0

    def alarm(self, event: str, time_us: int, **data: Any) -> None:
        """Queue an alarm for every webhook that wants it; the oldest is dropped if too many wait."""
        self._number += 1
        message_id = f"{time_us}-{self._number}"
        document = {"type": event, "timestamp": time_us / 1e6, "data": data}
        for hook in self._hooks:
            if event not in hook.events:
                continue
            if len(self._waiting) >= _MOST_WAITING:
                self._waiting.popleft()
                self._counted("dropped")
            self._waiting.append(_Message(hook, message_id, json.dumps(document).encode()))
            self._wake.set()

    async def run(self) -> None:
        """Send queued alarms until cancelled."""
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._waiting:
                    await self._deliver(session, self._waiting.popleft())

    async def _deliver(self, session: Any, message: _Message) -> None:
        why = ""
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(self._pause_s * 2.0 ** (attempt - 1))
            why = await self._post(session, message)
            if not why:
                self._counted("delivered")
                return
        self._counted("failed")
        fields = {"url": _shown(message.hook.url), "id": message.id, "tries": _TRIES, "detail": why}
        _log.warning("webhook not delivered", extra={"fields": fields})

    async def _post(self, session: Any, message: _Message) -> str:
        """Send once; returns why it failed, or an empty string."""
        now = int(time.time())
        headers = {"content-type": "application/json", "webhook-id": message.id, "webhook-timestamp": str(now)}
        if message.hook.secret is not None:
            headers["webhook-signature"] = signature(
                message.hook.secret, message.body, message_id=message.id, timestamp=now
            )
        with suppress(TimeoutError):
            try:
                async with session.post(
                    message.hook.url, data=message.body, headers=headers, allow_redirects=False
                ) as answer:
                    return "" if 200 <= answer.status < 300 else f"status {answer.status}"
            except (OSError, _client_error()) as error:
                return type(error).__name__
        return "timeout"


def _client_error() -> type[Exception]:
    import aiohttp

    return aiohttp.ClientError


def _shown(url: str) -> str:
    """A URL without its query, which may hold a secret."""
    return url.partition("?")[0]
