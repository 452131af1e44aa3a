"""No import cycles, neither between modules nor between packages; imports in functions and for types only count."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import bot_orch

SOURCE = Path(bot_orch.__file__).parent.parent
PACKAGES = {"bot_orch.service": 50, "bot_orch.experiments": 20}  # and how many modules there are at least


def sources(package):
    """The modules of a package and their text."""
    files = (SOURCE / Path(*package.split("."))).rglob("*.py")
    return {name_of(file): file.read_text(encoding="utf-8") for file in files}


def name_of(file):
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(text, modules):
    """What a module imports of ``modules``, wherever in it the statement stands."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not used here"
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in modules else node.module for name in full]
        else:
            continue
        yield from (name for name in names if name in modules)


def graph_of(modules):
    """For every module those of the same package that it imports; a package is not what its own modules import."""
    return {
        name: {each for each in imported(text, modules) if each != name and not name.startswith(f"{each}.")}
        for name, text in modules.items()
    }


def folded(graph, package):
    """The same graph among what lies directly in ``package``."""

    def child(name):
        return name.removeprefix(f"{package}.").split(".")[0]

    found = {child(name): set() for name in graph if name != package}
    for name, targets in graph.items():
        if name != package:
            found[child(name)] |= {child(each) for each in targets if each != package} - {child(name)}
    return found


def cycle(graph):
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return None


@pytest.mark.parametrize("package", PACKAGES)
def test_modules_do_not_import_each_other(package):
    graph = graph_of(sources(package))
    assert len(graph) >= PACKAGES[package] and sum(map(len, graph.values())) > len(graph) / 2
    assert cycle(graph) is None


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_do_not_import_each_other(package):
    graph = folded(graph_of(sources(package)), package)
    assert len(graph) >= 4 and any(graph.values())
    assert cycle(graph) is None


LAZY = "def f():\n    from made.up import b\n"
TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from made.up.a import A\n"


@pytest.mark.parametrize("back", ["import made.up.a\n", "from made.up import a\n", "from made.up.a import A\n", TYPES])
def test_a_cycle_of_modules_is_found(back):
    modules = {"made.up": "", "made.up.a": LAZY, "made.up.b": back}
    assert set(cycle(graph_of(modules))) == {"made.up.a", "made.up.b"}
    assert cycle(graph_of({**modules, "made.up.b": ""})) is None


def test_a_cycle_of_packages_is_found_where_modules_have_none():
    modules = {
        "made.up": "",
        "made.up.low.state": "",
        "made.up.low.pages": "from made.up.high.web import page\n",
        "made.up.high.web": "from made.up.low.state import State\n",
    }
    graph = graph_of(modules)
    assert cycle(graph) is None
    assert set(cycle(folded(graph, "made.up"))) == {"low", "high"}
