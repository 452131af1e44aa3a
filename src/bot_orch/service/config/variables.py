"""Variables of the environment in a configuration, and secrets that should be there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from bot_orch.errors import InvalidInputError

__all__ = ["expanded", "variables_in"]

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET = re.compile(
    r"(?:[._-]|(?<=api))(tokens?|(key|secret|password|passwd|passphrase|authorization|credential)s?(\[\d+\])*)$",
    re.IGNORECASE,
)
_PASSWORD_IN_URL = re.compile(r"://[^/@:]*:[^/@$]+@|[?&](ssl)?password=[^&$]", re.IGNORECASE)
_DATABASE = re.compile(r"config\.(routers\..*\.)?database")


def expanded(value: Any, where: str, environment: Mapping[str, str]) -> Any:
    """A value with its variables replaced; a secret in plain text is refused."""
    if isinstance(value, dict):
        return {key: expanded(entry, f"{where}.{key}", environment) for key, entry in value.items()}
    if isinstance(value, list):
        return [expanded(entry, f"{where}[{index}]", environment) for index, entry in enumerate(value)]
    if not isinstance(value, str):
        return value
    in_url = _DATABASE.fullmatch(where) and _PASSWORD_IN_URL.search(value)
    if in_url or (_SECRET.search(where) and value and not _VARIABLE.search(value)):
        raise InvalidInputError(where, "holds a secret in plain text", "put it into the environment and write ${NAME}")
    return _VARIABLE.sub(lambda match: _variable(match[1], where, environment), value)


def _variable(name: str, where: str, environment: Mapping[str, str]) -> str:
    if not environment.get(name):
        raise InvalidInputError(where, f"needs the environment variable {name}", f"set {name} before starting")
    return environment[name]


def variables_in(value: Any, where: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Settings that name variables, and the variables.

    Examples
    --------
    >>> list(variables_in({"a": ["${X}/${Y}", "plain"]}, "config"))
    [('config.a[0]', ('X', 'Y'))]
    """
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from variables_in(entry, f"{where}.{key}")
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from variables_in(entry, f"{where}[{index}]")
    elif isinstance(value, str) and (found := _VARIABLE.findall(value)):
        yield where, tuple(found)
