"""Keys that operators make while the service runs: kept as hashes in the log.

The process that owns the router has them in its state. Any other asks that one, with the key it was sent, and
remembers the answer for a few seconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from bot_orch.core.events import Noted
from bot_orch.log.rollout import KEY_CREATED, KEY_REVOKED
from bot_orch.recent import Newest
from bot_orch.service.config import TokenConfig
from bot_orch.service.problems import Problem

if TYPE_CHECKING:
    from bot_orch.service.runtime import Runtime

KEY_PATH = "/v1/key"
_REMEMBERED_S, _MOST_REMEMBERED = 5.0, 10_000
_FIELDS = ("name", "scopes", "tags")


def created(document: Mapping[str, Any], *, by: str, replaces: str = "") -> tuple[str, Noted]:
    """A new key and the note that creates it; the key itself is in neither log nor memory afterwards."""
    token = f"bo-{secrets.token_urlsafe(32)}"
    digest = hashlib.sha256(token.encode()).hexdigest()
    data = {**document, "id": digest[:12], "by": by}
    return token, Noted(KEY_CREATED, digest, {**data, "replaces": replaces} if replaces else data)


def revoked(digest: str, by: str) -> Noted:
    """The note that ends a key."""
    return Noted(KEY_REVOKED, digest, {"by": by})


def active(keys: Mapping[str, Mapping[str, Any]], now_us: int) -> dict[str, Mapping[str, Any]]:
    """Keys that are neither revoked nor expired."""
    return {digest: key for digest, key in keys.items() if now_us < (key.get("expires_us") or now_us + 1)}


class KeyRing:
    """Finds keys by their hash.

    Parameters
    ----------
    current
        Returns the runtime that serves now.
    """

    def __init__(self, current: Callable[[], Runtime]) -> None:
        self._current = current
        self._remembered = Newest[str, tuple[float, TokenConfig | None]](_MOST_REMEMBERED)

    def find(self, digest: str) -> TokenConfig | None:
        """The key as a token; ``None`` if there is no such key, or it has ended."""
        runtime = self._current()
        if runtime.away:
            return self._remembered.get(digest, (0.0, None))[1]
        runtime.check_loaded()
        found = active(runtime.ledger.rollout.keys, runtime.clock.now_us()).get(digest)
        return None if found is None else _token(found, digest)

    async def look_up(self, token: bytes) -> None:
        """Ask the process that has the keys about one, unless the last answer is recent."""
        runtime, digest = self._current(), hashlib.sha256(token).hexdigest()
        now = asyncio.get_running_loop().time()
        until, _ = self._remembered.get(digest, (0.0, None))
        if not runtime.away or runtime.forwarder is None or now < until:
            return
        owner = runtime.forwarder.directory.owner_elsewhere
        if owner is None:
            raise Problem(503, "no_owner", "the keys are not known here yet; try again", headers={"retry-after": "1"})
        answer = await runtime.forwarder.ask_one(owner, "GET", KEY_PATH, {b"authorization": b"Bearer " + token})
        if answer.status not in (200, 401):
            raise Problem(503, "no_owner", "the keys are not known here; try again", headers={"retry-after": "1"})
        found = None if answer.status == 401 else _token(msgspec.json.decode(answer.body), digest)
        self._remembered[digest] = (now + _REMEMBERED_S, found)


def _token(document: Mapping[str, Any], digest: str) -> TokenConfig:
    known = {name: document[name] for name in _FIELDS if document.get(name) is not None}
    return msgspec.convert({**known, "sha256": digest}, TokenConfig)
