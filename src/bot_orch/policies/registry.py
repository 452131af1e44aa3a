"""Policy registry: construction by name, and (de)serialisation of settings."""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

import bot_orch.policies as package
from bot_orch.checks import check_count, check_number, is_number
from bot_orch.errors import InvalidInputError, require_type
from bot_orch.numerics.estimators import Estimator, History
from bot_orch.numerics.schedules import Schedule, as_schedule
from bot_orch.policies.base import Policy

_FAMILIES: dict[str, type] = {"policy": Policy, "estimator": Estimator, "history": History, "schedule": Schedule}
_REMEDIES = {"Schedule": "pass a number or a schedule", "Estimator": "pass an estimator, such as Mean()"}
_VERSION = 1
_extra: dict[str, type[Policy]] = {}
_unlisted: dict[str, type[Policy]] = {}


def available_policies() -> dict[str, type[Policy]]:
    """All policies by name: those of this package and registered ones.

    Examples
    --------
    >>> "bot" in available_policies()
    True
    """
    return {**_builtin(), **_extra}


def register_policy(cls: type[Policy], *, listed: bool = True) -> type[Policy]:
    """Register a custom policy under its ``id``; usable as a class decorator.

    A policy that is not ``listed`` can be read from a saved state, and is not offered by :func:`available_policies`.
    """
    if not listed:  # at import: the built-in policies are not imported yet
        _unlisted[cls.id] = cls
        return cls
    if {**_unlisted, **available_policies()}.get(cls.id, cls) is not cls:
        raise InvalidInputError("policy.id", f"{cls.id!r} is taken", "choose another id")
    _extra[cls.id] = cls
    return cls


def make_policy(name: str, **settings: Any) -> Policy:
    """Construct a policy by name; a number is converted to a constant schedule.

    Examples
    --------
    >>> make_policy("bot", eta=3.0).eta(1)
    3.0
    """
    require_type("policy", name, str, "pass the name of a policy, such as 'auto'")
    base, _, version = name.partition("@")
    known = {**available_policies(), **_unlisted}
    if base not in known or version not in ("", str(_VERSION)):
        remedy = f"choose one of {', '.join(sorted(available_policies()))}, or register your own with register_policy"
        raise InvalidInputError("policy", f"{name!r} is not known", remedy)
    policy: Policy = _build(known[base], settings, f"policy {base}")
    return policy


def policy_name(policy: Policy) -> str:
    """Versioned id stored in decisions, such as ``bot@1``."""
    return f"{policy.id}@{_VERSION}"


def to_spec(thing: Any) -> Any:
    """Settings as JSON values, including nested estimators and schedules."""
    for family, base in _FAMILIES.items():
        if isinstance(thing, base) and is_dataclass(thing):
            params = {f.name: to_spec(getattr(thing, f.name)) for f in fields(thing)}
            return {"family": family, "id": vars(type(thing))["id"], **params}
    return thing


def from_spec(spec: Any) -> Any:
    """The inverse of :func:`to_spec`."""
    if not isinstance(spec, Mapping):
        return spec
    family, name = spec.get("family"), spec.get("id")
    if family not in _FAMILIES:
        raise InvalidInputError("spec.family", f"{family!r} is not known", f"choose one of {', '.join(_FAMILIES)}")
    params = {key: from_spec(value) for key, value in spec.items() if key not in ("family", "id")}
    if family == "policy":
        return make_policy(str(name), **params)
    parts = {cls.id: cls for cls in _concrete(_FAMILIES[family])}
    if name not in parts:
        raise InvalidInputError(f"{family}.id", f"{name!r} is not known", f"choose one of {', '.join(sorted(parts))}")
    return _build(parts[str(name)], params, f"{family} {name}")


def _build(cls: Any, settings: Mapping[str, Any], what: str) -> Any:
    known = {f.name: f for f in fields(cls)}
    for key in settings:
        if key not in known:
            raise InvalidInputError(key, f"is not a setting of {what}", f"choose from {', '.join(known) or 'none'}")
    return cls(**{key: _setting(key, value, str(known[key].type)) for key, value in settings.items()})


def _setting(name: str, value: Any, kind: str) -> Any:
    """A setting of a policy, estimator or schedule, checked against the type that it is declared with."""
    if kind.endswith(" | None"):
        return None if value is None else _setting(name, value, kind.removesuffix(" | None"))
    if kind == "Schedule" and is_number(value):
        check_number(name, value, _REMEDIES[kind], low=-math.inf)
        try:
            return as_schedule(value)
        except InvalidInputError as error:
            raise InvalidInputError(name, error.problem, error.remedy) from error
    if kind.lower() in _FAMILIES:
        require_type(name, value, _FAMILIES[kind.lower()], _REMEDIES.get(kind, f"pass a {kind}"))
    elif kind == "float":
        check_number(name, value, "pass a finite number", low=-math.inf)
    elif kind == "int":
        check_count(name, value, "pass a whole number", low=-(2**63))
    elif kind == "bool" and not isinstance(value, bool):
        raise InvalidInputError(name, f"is {value!r}", "pass True or False")
    return value


@lru_cache(maxsize=1)
def _builtin() -> dict[str, type[Policy]]:
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    own: list[type[Policy]] = [cls for cls in _concrete(Policy) if cls.__module__.startswith(f"{package.__name__}.")]
    return {cls.id: cls for cls in sorted(own, key=lambda cls: cls.id)}


def _concrete(base: type) -> list[Any]:
    found: list[Any] = []
    subclasses: list[Any] = base.__subclasses__()
    for cls in subclasses:
        if not inspect.isabstract(cls) and "id" in vars(cls) and _is_public(cls):
            found.append(cls)
        found += _concrete(cls)
    return found


def _is_public(cls: type) -> bool:
    # ``slots=True`` creates a second class; the first stays in __subclasses__() until it is garbage-collected
    return getattr(sys.modules.get(cls.__module__), cls.__name__, cls) is cls
