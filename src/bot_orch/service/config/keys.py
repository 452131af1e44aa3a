"""Detection of unknown keys."""

from __future__ import annotations

import difflib
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from bot_orch.errors import InvalidInputError

__all__ = ["check_keys"]


def check_keys(value: Any, type_: Any, where: str) -> None:
    """Refuse keys that ``type_`` (a struct or dataclass, or a tuple of them) does not know, naming the nearest."""
    if get_origin(type_) is Annotated:
        type_ = get_args(type_)[0]
    if get_origin(type_) is tuple:
        for index, entry in enumerate(value if isinstance(value, list) else ()):
            check_keys(entry, get_args(type_)[0], f"{where}[{index}]")
    if get_origin(type_) is dict and isinstance(value, dict):
        for key, entry in value.items():
            check_keys(entry, get_args(type_)[1], f"{where}.{key}")
    known = _fields(type_)
    if known is None or not isinstance(value, dict):
        return
    for key, entry in value.items():
        if key not in known:
            nearest = difflib.get_close_matches(str(key), known, 1, 0.5)
            remedy = f"did you mean {nearest[0]!r}?" if nearest else f"choose from {', '.join(sorted(known))}"
            raise InvalidInputError(f"{where}.{key}", "is not a setting", remedy)
        check_keys(entry, known[key], f"{where}.{key}")


def _fields(type_: Any) -> dict[str, Any] | None:
    if get_origin(type_) is Annotated:
        return _fields(get_args(type_)[0])
    if get_origin(type_) in (Union, UnionType):  # optional
        return next((found for part in get_args(type_) if (found := _fields(part)) is not None), None)
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return {field.encode_name: field.type for field in msgspec.structs.fields(type_)}
    if hasattr(type_, "__dataclass_fields__"):
        return {name: get_type_hints(type_)[name] for name in type_.__dataclass_fields__}
    return None
