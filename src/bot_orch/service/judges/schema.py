"""A small JSON Schema validator: the keywords that describe the shape of an answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bot_orch.errors import InvalidInputError

__all__ = ["KEYWORDS", "check_pattern", "check_schema", "conforms"]

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "integer": lambda v: not isinstance(v, bool) and (isinstance(v, int) or (isinstance(v, float) and v.is_integer())),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
}
_IGNORED = frozenset({"$schema", "$id", "title", "description", "default", "examples", "$comment"})
Match = Callable[[str, str], bool]


def _search(pattern: str, text: str) -> bool:
    return re.search(pattern, text) is not None


@dataclass(frozen=True, slots=True)
class _Checker:
    """Checks values against schemas; ``match`` searches for a pattern in a text."""

    match: Match

    def fits(self, value: Any, schema: Any) -> bool:
        if isinstance(schema, bool):
            return schema
        return all(_RULES[name](value, rule, schema, self) for name, rule in schema.items() if name in _RULES)

    def each(self, value: Any, rule: Mapping[str, Any]) -> bool:
        return not isinstance(value, dict) or all(self.fits(value[name], rule[name]) for name in rule if name in value)

    def others(self, value: Any, rule: Any, schema: Mapping[str, Any]) -> bool:
        known = schema.get("properties", {})
        if not isinstance(value, dict):
            return True
        return all(self.fits(each, rule) for name, each in value.items() if name not in known)


_RULES: dict[str, Callable[[Any, Any, Mapping[str, Any], _Checker], bool]] = {
    "type": lambda v, rule, _, __: any(_TYPES[name](v) for name in ([rule] if isinstance(rule, str) else rule)),
    "enum": lambda v, rule, _, __: v in rule,
    "const": lambda v, rule, _, __: bool(v == rule),
    "properties": lambda v, rule, _, c: c.each(v, rule),
    "required": lambda v, rule, _, __: not isinstance(v, dict) or all(name in v for name in rule),
    "additionalProperties": lambda v, rule, schema, c: c.others(v, rule, schema),
    "items": lambda v, rule, _, c: not isinstance(v, list) or all(c.fits(each, rule) for each in v),
    "minItems": lambda v, rule, _, __: not isinstance(v, list) or len(v) >= rule,
    "maxItems": lambda v, rule, _, __: not isinstance(v, list) or len(v) <= rule,
    "minLength": lambda v, rule, _, __: not isinstance(v, str) or len(v) >= rule,
    "maxLength": lambda v, rule, _, __: not isinstance(v, str) or len(v) <= rule,
    "pattern": lambda v, rule, _, c: not isinstance(v, str) or c.match(rule, v),
    "minimum": lambda v, rule, _, __: not _TYPES["number"](v) or v >= rule,
    "maximum": lambda v, rule, _, __: not _TYPES["number"](v) or v <= rule,
    "anyOf": lambda v, rule, _, c: any(c.fits(v, each) for each in rule),
    "allOf": lambda v, rule, _, c: all(c.fits(v, each) for each in rule),
    "oneOf": lambda v, rule, _, c: sum(c.fits(v, each) for each in rule) == 1,
    "not": lambda v, rule, _, c: not c.fits(v, rule),
}
#: Keywords that are checked.
KEYWORDS = tuple(_RULES)
_PARTS: dict[str, Any] = {"properties": dict, "anyOf": list, "allOf": list, "oneOf": list}


def conforms(value: Any, schema: Any, match: Match = _search) -> bool:
    """Whether a JSON value fits a schema; ``match`` searches for a pattern in a text.

    Examples
    --------
    >>> schema = {"type": "object", "required": ["label"], "properties": {"label": {"enum": ["bug", "question"]}}}
    >>> conforms({"label": "bug"}, schema), conforms({"label": "cat"}, schema), conforms([], schema)
    (True, False, False)
    """
    return _Checker(match).fits(value, schema)


def check_pattern(pattern: Any, where: str) -> None:
    """Refuse what is no regular expression."""
    try:
        re.compile(pattern)
    except (re.error, TypeError, RecursionError, OverflowError) as error:
        raise InvalidInputError(where, f"is no regular expression ({error})", "see re of Python") from None


def check_schema(schema: Any, where: str) -> None:
    """Refuse a schema with keywords that would not be checked."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise InvalidInputError(where, "is no schema", "write a mapping, such as {type: object}")
    for name, rule in schema.items():
        if name in _IGNORED:
            continue
        if name not in _RULES:
            raise InvalidInputError(f"{where}.{name}", "is not checked", f"choose from {', '.join(KEYWORDS)}")
        if name == "type" and not all(each in _TYPES for each in ([rule] if isinstance(rule, str) else rule)):
            raise InvalidInputError(f"{where}.type", f"is {rule!r}", f"choose from {', '.join(_TYPES)}")
        if name == "pattern":
            check_pattern(rule, f"{where}.pattern")
        if name in ("items", "not", "additionalProperties"):
            check_schema(rule, f"{where}.{name}")
        elif name in _PARTS:
            if not isinstance(rule, _PARTS[name]):
                raise InvalidInputError(f"{where}.{name}", "has the wrong type", "see json-schema.org")
            parts: Any = rule.values() if isinstance(rule, dict) else rule
            for part in parts:
                check_schema(part, f"{where}.{name}")
