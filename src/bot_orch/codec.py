"""JSON as its standard has it: no NaN, no infinities, a bounded depth."""

from __future__ import annotations

import json
from typing import Any, NoReturn

__all__ = ["decode_json"]


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
