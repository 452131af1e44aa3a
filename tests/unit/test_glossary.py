"""docs/reference/glossary.md names what the code has."""

import importlib
import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "glossary.md").read_text()
ELSEWHERE = {"router.horizon_s"}  # a setting of the service


def names(page):
    rows = [row for row in page.splitlines() if row.startswith("| ")]
    return {name for row in rows for name in re.findall(r"`([A-Za-z_.]+)[`(]", row.rpartition(" | ")[2])} - ELSEWHERE


def is_defined(name):
    """Whether the name is a module, or what a module or one of its classes defines."""
    parts = f"bot_orch.{name}".split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            if part in getattr(found, "__dataclass_fields__", {}):
                return part == parts[-1]
            found = getattr(found, part, None)
        return found is not None
    return False


def test_the_names_are_defined():
    assert len(names(PAGE)) > 40
    assert {name for name in names(PAGE) if not is_defined(name)} == {"observe"}  # a method of the routers


def test_control_a_name_that_is_not_there_is_found():
    (row,) = names("| a | b | `types.Terms.estimat` |")
    assert not is_defined(row)
