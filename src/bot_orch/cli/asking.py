"""Ask a running service over HTTP; what may go wrong is one line."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from bot_orch.errors import BotOrchError, InvalidInputError

__all__ = ["ServiceAddress", "ServiceAnswerError"]

_TIMEOUT_S = 30.0


class ServiceAnswerError(BotOrchError):
    """The service cannot be reached, or it refuses."""


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """Where a service listens, and the token to show it; ``name`` is what errors call the address."""

    url: str
    token: str = field(default="", repr=False)
    name: str = "URL"

    def get(self, path: str) -> bytes:
        """The body behind a path."""
        url = self.url.rstrip("/")
        if not url.startswith(("http://", "https://")):
            raise InvalidInputError(self.name, f"is {self.url}", "start it with http:// or https://")
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        request = urllib.request.Request(url + path, headers=headers)  # noqa: S310  checked above
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310
                body: bytes = response.read()
                return body
        except urllib.error.HTTPError as error:
            with error:
                raise ServiceAnswerError(self._refusal(error)) from None
        except http.client.InvalidURL as error:
            raise InvalidInputError(self.name, f"is {self.url}", str(error)) from None
        except (http.client.HTTPException, ValueError):
            raise self.strange() from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise ServiceAnswerError(f"{self.url}: {reason}; is the service running?") from None

    def document(self, path: str) -> Any:
        """The JSON document behind a path."""
        body = self.get(path)
        try:
            return json.loads(body)
        except ValueError:
            raise self.strange() from None

    def strange(self) -> ServiceAnswerError:
        """The error for an answer that no service of ours gives."""
        return ServiceAnswerError(f"{self.url}: does not answer as bot-orch does; check {self.name}")

    def _refusal(self, error: urllib.error.HTTPError) -> str:
        if error.code in (401, 403):
            said = "is not a token with the scope admin" if self.token else "is not set"
            return f"{self.url}: BOT_ORCH_TOKEN {said}; set it to one, or pass --token"
        try:
            return f"{self.url}: {json.load(error)['error']['message']}"
        except (ValueError, KeyError, TypeError):
            return f"{self.url}: status {error.code}; check {self.name}"
