"""Requests to a running service; every failure becomes a one-line error."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from bot_orch.errors import BotOrchError, InvalidInputError

__all__ = ["DEFAULT_URL", "ServiceAddress", "ServiceAnswerError", "ServiceDownError"]

DEFAULT_URL = os.environ.get("BOT_ORCH_URL", "http://127.0.0.1:8080")


class ServiceAnswerError(BotOrchError):
    """The service cannot be reached, or it refuses the request."""


class ServiceDownError(ServiceAnswerError):
    """Nothing listens at the address."""


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """Address of a service, and its token (default: BOT_ORCH_TOKEN).

    Errors name ``option``, the argument that holds the URL, and the ``scope`` that the token needs.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    _: KW_ONLY
    option: str = "URL"
    scope: str = "admin"
    timeout_s: float = 30.0

    def fetch(self, path: str, body: Any = None, *, method: str = "GET") -> bytes:
        """Send a request, with ``body`` as JSON, and return the body of the answer."""
        url = self.url.rstrip("/")
        if not url.startswith(("http://", "https://")):
            raise InvalidInputError(self.option, f"is {self.url}", "start it with http:// or https://")
        headers = {"content-type": "application/json"}
        if token := self._token():
            headers["authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url + path, data, headers, method=method)  # noqa: S310  checked above
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as response:  # noqa: S310
                return bytes(response.read())
        except urllib.error.HTTPError as error:
            with error:
                raise ServiceAnswerError(self._refusal(error)) from None
        except http.client.InvalidURL as error:
            raise InvalidInputError(self.option, f"is {self.url}", str(error)) from None
        except (http.client.HTTPException, ValueError):
            raise self.unexpected() from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            kind = ServiceDownError if isinstance(reason, ConnectionRefusedError) else ServiceAnswerError
            raise kind(f"{self.url}: {reason}; is the service running? {self.option} says where") from None

    def document(self, path: str, body: Any = None, *, method: str = "GET") -> Any:
        """Send a request and parse the answer as JSON."""
        answer = self.fetch(path, body, method=method)
        try:
            return json.loads(answer)
        except ValueError:
            raise self.unexpected() from None

    def unexpected(self) -> ServiceAnswerError:
        """The error for an unexpected answer."""
        return ServiceAnswerError(f"{self.url}: does not answer as bot-orch does; check {self.option}")

    def _token(self) -> str:
        return self.token or os.environ.get("BOT_ORCH_TOKEN", "")

    def _refusal(self, error: urllib.error.HTTPError) -> str:
        if error.code in (401, 403):
            problem = f"is not a token with the scope {self.scope}" if self._token() else "is not set"
            return f"{self.url}: BOT_ORCH_TOKEN {problem}; set it to one"
        try:
            return f"{self.url}: {json.load(error)['error']['message']}"
        except (ValueError, KeyError, TypeError):
            return f"{self.url}: status {error.code}; check {self.option}"
