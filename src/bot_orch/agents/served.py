"""Whether the model that answered is the model that was asked for."""

from __future__ import annotations

import re
from collections.abc import Collection

_VERSION = re.compile(
    r"[-@:_.](latest|\d{3}|\d{4}|\d{6}|\d{8}|\d{4}-\d{2}-\d{2})(-v\d+)?(:\d+)?|[-@:](v\d+|latest)(:\d+)?"
)


def same_model(asked: str, served: str) -> bool:
    """Whether ``served`` may be an honest name of the model ``asked`` for.

    Case and a path before the name do not count (``openai/gpt-4o``, ``models/gemini-2.5-pro``). A name without a
    version may be served by a version of it: a date, a number of three or four digits, ``latest``; and a version may
    call itself by its name without one. Everything else is another model: two versions, and ``-mini``, ``-turbo`` or
    ``.1`` more.

    Examples
    --------
    >>> same_model("gpt-4o", "gpt-4o-2024-08-06"), same_model("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022")
    (True, True)
    >>> same_model("gpt-4o", "gpt-4o-mini"), same_model("gpt-4o-2024-05-13", "gpt-4o-2024-08-06")
    (False, False)
    """
    (one, version), (other, served_version) = _split(asked), _split(served)
    return one == other and (version == served_version or not version or not served_version)


def is_replacement(asked: Collection[str], known: Collection[str], served: str) -> bool:
    """Whether an agent is served by another model than before.

    The first answer may name any alias of the models asked for; later ones only names that have been seen. So a new
    snapshot behind an alias counts, once, and endpoints that alternate between two do not count again.

    Examples
    --------
    >>> is_replacement(["gpt-4o"], [], "gpt-4o-2024-05-13"), is_replacement(["gpt-4o"], [], "gpt-4o-mini")
    (False, True)
    >>> is_replacement(["gpt-4o"], ["gpt-4o-2024-05-13"], "gpt-4o-2024-08-06")
    True
    """
    if not served or served in known or served in asked:
        return False
    return bool(known) or not any(same_model(each, served) for each in asked)


def _split(name: str) -> tuple[str, str]:
    """The name without path and version, and the version; ``latest`` is none."""
    base = name.strip().lower().rpartition("/")[2]
    for place in range(1, len(base)):
        if _VERSION.fullmatch(base, place):
            version = base[place:]
            return base[:place], "" if version.endswith("latest") else version
    return base, ""
