"""Read what the arena needs of an ASlib scenario's ``description.txt``, without a YAML library."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from bot_orch.errors import InvalidInputError

__all__ = ["DESCRIPTION", "Description", "parse_description", "read_description"]

DESCRIPTION = "description.txt"


@dataclass(frozen=True, slots=True)
class Description:
    """The scenario's first performance measure: its name, whether it is a time, whether more is better.

    ``cutoff_s`` is None where the file says ``?``: no cutoff was set.
    """

    scenario_id: str
    measure: str
    is_runtime: bool
    _: KW_ONLY
    maximize: bool
    cutoff_s: float | None


def read_description(folder: Path) -> Description:
    """The description in a scenario's folder."""
    path = folder / DESCRIPTION
    if not path.is_file():
        raise InvalidInputError(DESCRIPTION, "is missing", "it must give performance_type and algorithm_cutoff_time")
    found = parse_description(path.read_text(encoding="utf-8-sig", errors="replace"))
    is_runtime = _first(found, "performance_type", "runtime").lower() == "runtime"
    return Description(
        next(iter(found.get("scenario_id", [])), folder.resolve().name),
        _first(found, "performance_measures", "").lower(),
        is_runtime,
        maximize=_first(found, "maximize", "true").lower() in ("true", "yes", "on"),
        cutoff_s=_cutoff(_first(found, "algorithm_cutoff_time", "")) if is_runtime else None,
    )


def parse_description(text: str) -> dict[str, list[str]]:
    r"""Keys and their values: ``key: value``, ``key: [a, b]`` or ``- item`` lines; nested keys are read as flat ones.

    Examples
    --------
    >>> parse_description("maximize:  # of each\n- 'false'\n- true\nperformance_type: [runtime, solution_quality]\n")
    {'maximize': ['false', 'true'], 'performance_type': ['runtime', 'solution_quality']}
    """
    found: dict[str, list[str]] = {}
    key = ""
    for raw in text.splitlines():
        line = _without_comment(raw)
        if line.startswith("- "):
            found.setdefault(key, []).append(_unquoted(line[2:]))
        elif ":" in line:
            key, _, value = line.partition(":")
            key = _unquoted(key)
            items = value.strip()
            if items.startswith("[") and items.endswith("]"):
                found.setdefault(key, []).extend(_unquoted(item) for item in items[1:-1].split(","))
            elif items:
                found.setdefault(key, []).append(_unquoted(items))
    return found


def _without_comment(line: str) -> str:
    bare = line.strip()
    if bare.startswith("#"):
        return ""
    return bare if bare.endswith(("'", '"')) else bare.split(" #")[0].rstrip()


def _unquoted(text: str) -> str:
    return text.strip().strip("'\"")


def _first(found: dict[str, list[str]], key: str, default: str) -> str:
    """The first of the values, which older files separate by commas."""
    return next(iter(found.get(key, [])), default).split(",")[0].strip()


def _cutoff(text: str) -> float | None:
    if text == "?":
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value < math.inf:
        problem = f"is {text!r}" if text else "is missing"
        raise InvalidInputError(
            f"{DESCRIPTION}: algorithm_cutoff_time", problem, "a runtime scenario needs a number of seconds"
        )
    return value
