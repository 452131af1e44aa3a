"""Readers of what comes as text: JSON as its standard has it, and YAML of people without duplicate keys."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from bot_orch.errors import InvalidInputError, MissingExtraError

__all__ = ["decode_json", "parse_yaml", "read_text"]

_LARGEST = 1_000_000
_MERGE = "tag:yaml.org,2002:merge"
_KEEP_ONE = "keep one; nothing says which one counts if a key is given twice"


def decode_json(data: bytes | str) -> Any:
    """Parse JSON; a :class:`ValueError` of one line says what is wrong with anything else.

    Examples
    --------
    >>> decode_json(b'{"a": [1, null]}')
    {'a': [1, None]}
    >>> decode_json("[NaN]")
    Traceback (most recent call last):
    ...
    ValueError: NaN is no number of JSON
    """
    try:
        return _decode(data if isinstance(data, str) else data.decode(json.detect_encoding(data), "surrogatepass"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode  # json.loads() would make one for every document


def read_text(path: Path) -> str:
    """Read a UTF-8 file of at most 1 MB."""
    if not path.exists():
        raise InvalidInputError(str(path), "does not exist", "name another file, or write one: bot-orch quickstart")
    if path.is_dir():
        raise InvalidInputError(str(path), "is a folder", "name a file")
    if path.stat().st_size > _LARGEST:
        raise InvalidInputError(str(path), "is too large", f"keep it under {_LARGEST} bytes")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInputError(str(path), f"is not UTF-8 (byte {error.start})", "pass a YAML file") from error


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
        raise InvalidInputError(name, "is nested too deeply", "write it flatter") from None


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
