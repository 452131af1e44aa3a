"""Strict reader of configuration files: UTF-8 YAML or JSON, duplicate keys are errors, one-line error messages.

The caller validates the contents (:mod:`bot_orch.service.config`).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from bot_orch.errors import InvalidInputError, MissingExtraError

_LARGEST = 1_000_000
_MERGE = "tag:yaml.org,2002:merge"
_KEEP_ONE = "keep one; nothing says which one counts if a key is given twice"


def read(path: Path, name: str | None = None) -> Any:
    """Parse a file, as JSON if its suffix is ``.json``, else as YAML; ``name`` replaces the path in errors."""
    called = name or str(path)
    text = read_text(path, called)
    return parse_json(text, called) if path.suffix == ".json" else parse_yaml(text, called)


def read_text(path: Path, name: str | None = None) -> str:
    """Read a UTF-8 file of at most 1 MB."""
    called = name or str(path)
    if path.stat().st_size > _LARGEST:
        raise InvalidInputError(called, "is too large", f"keep it under {_LARGEST} bytes")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInputError(called, f"is not UTF-8 (byte {error.start})", "pass a YAML file") from error


def parse_json(text: str, name: str) -> Any:
    """Parse JSON; a duplicate key is an error."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise InvalidInputError(f"{name}: {key}", "occurs twice", _KEEP_ONE)
            found[key] = value
        return found

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"{name}:{error.lineno}", f"is not JSON ({error.msg})", "correct the file") from error
    except RecursionError:
        raise _too_deep(name) from None


def parse_yaml(text: str, name: str) -> Any:
    r"""Parse YAML with the safe loader; a duplicate key is an error.

    Examples
    --------
    >>> parse_yaml("a: 1\nb: [x, y]", "grid.yaml")
    {'a': 1, 'b': ['x', 'y']}
    >>> parse_yaml("a: 1\na: 2", "grid.yaml")
    Traceback (most recent call last):
    ...
    bot_orch.errors.InvalidInputError: grid.yaml:2: a: occurs twice; keep one; ...
    """
    try:
        import yaml
    except ImportError as error:
        raise MissingExtraError("reading YAML", "service") from error
    try:
        return yaml.load(text, Loader=_loader())  # noqa: S506  a SafeLoader
    except _TwiceError as error:
        raise InvalidInputError(f"{name}:{error.line}: {error.key}", "occurs twice", _KEEP_ONE) from None
    except yaml.YAMLError as error:
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        where = f"{name}:{_line(error, text)}"
        raise InvalidInputError(where, f"is not YAML ({problem})", "check quotes and indentation") from error
    except ValueError as error:  # an invalid date, for example
        raise InvalidInputError(name, f"holds a value that cannot be read ({error})", "put it into quotes") from error
    except RecursionError:
        raise _too_deep(name) from None


class _TwiceError(Exception):
    """Duplicate key in a YAML mapping."""

    def __init__(self, key: object, line: int) -> None:
        super().__init__(key)
        self.key, self.line = key, line


@cache
def _loader() -> Any:
    """PyYAML's safe loader with an error for duplicate keys; PyYAML itself keeps the last one."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            written: list[Any] = []  # not a set: keys may be unhashable here
            for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                if key.tag == _MERGE:  # explicit keys override merged ones
                    continue
                value = self.construct_object(key, deep=True)
                if value in written:
                    raise _TwiceError(value, key.start_mark.line + 1)
                written.append(value)
            mapping: dict[Any, Any] = super().construct_mapping(node, deep)
            return mapping

    return Loader


def _line(error: Any, text: str) -> int:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return int(mark.line) + 1
    return text.count("\n", 0, getattr(error, "position", 0) or 0) + 1


def _too_deep(name: str) -> InvalidInputError:
    return InvalidInputError(name, "is nested too deeply", "write it flatter")
