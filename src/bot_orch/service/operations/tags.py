"""Tags of a request: names by which spending is reported."""

from __future__ import annotations

import re

from bot_orch.service.problems import Problem

__all__ = ["TAGS", "with_tags"]

TAGS = b"x-bot-orch-tags"
_TAG = re.compile(r"[A-Za-z0-9._:/=-]{1,64}")
_MOST = 16


def with_tags(own: tuple[str, ...], header: bytes | None) -> tuple[str, ...]:
    """Tags of a token, and those of a request's header after them; each once.

    Examples
    --------
    >>> with_tags(("team-a",), b"checkout, team-a")
    ('team-a', 'checkout')
    """
    if not header:
        return own
    found = dict.fromkeys((*own, *(part.strip() for part in header.decode("latin-1").split(","))))
    if len(found) > _MOST or not all(map(_TAG.fullmatch, found)):
        name = TAGS.decode()
        message = f"{name}: must be up to {_MOST} tags of 1 to 64 letters, digits and ._:/=- with commas between them"
        raise Problem(400, "bad_tags", message, param=name)
    return tuple(found)
