"""One class, one name: a class name under ``src`` is defined once, and no path names a module twice."""

import ast
from collections import defaultdict
from pathlib import Path

import bot_orch

PACKAGE = Path(bot_orch.__file__).parent

#: Names that two classes may share, with the reason.
ALLOWED: dict[str, str] = {}


def _classes(root: Path) -> dict[str, list[str]]:
    """Where each class name is defined, nested classes included."""
    found = defaultdict(list)
    for file in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(file.relative_to(root)))
    return found


def _twice(root: Path) -> dict[str, list[str]]:
    return {name: places for name, places in _classes(root).items() if len(places) > 1}


def test_no_class_name_is_defined_twice() -> None:
    assert len(_classes(PACKAGE)) > 300
    assert {name: places for name, places in _twice(PACKAGE).items() if name not in ALLOWED} == {}


def test_the_allowed_names_are_needed() -> None:
    assert sorted(set(ALLOWED) - set(_twice(PACKAGE))) == []


def test_a_second_definition_is_found(tmp_path: Path) -> None:
    """Control."""
    (tmp_path / "a.py").write_text("class Memory:\n    pass\n")
    (tmp_path / "b.py").write_text("def f():\n    class Memory:\n        pass\n")
    assert _twice(tmp_path) == {"Memory": ["a.py", "b.py"]}


def _repeats(root: Path) -> list[str]:
    """Modules whose path names a package or module twice, such as ``sweep/sweep.py``."""
    paths = (file.relative_to(root).with_suffix("") for file in sorted(root.rglob("*.py")))
    return [str(path) for path in paths if len(set(path.parts)) < len(path.parts)]


def test_no_module_name_occurs_twice_along_a_path(tmp_path: Path) -> None:
    assert _repeats(PACKAGE) == []
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "sweep.py").touch()
    assert _repeats(tmp_path) == ["sweep/sweep"]  # control
