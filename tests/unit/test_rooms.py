"""The folder of an experiment stands alone: the harness imports none, none imports another, and each can be removed."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bot_orch

PACKAGE = Path(bot_orch.__file__).parent
EXPERIMENTS = PACKAGE / "experiments"


def _folders(root: Path) -> list[str]:
    """Folders of experiments, those of the paper one by one; the harness is not an experiment."""
    found = []
    for folder in sorted(path for path in root.iterdir() if (path / "__init__.py").exists()):
        found += [f"paper/{name}" for name in _folders(folder)] if folder.name == "paper" else [folder.name]
    return [name for name in found if name != "harness"]


def _imports(file: Path) -> set[str]:
    """Modules that a file imports, inside functions and by ``import_module("...")`` too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("bot_orch."):
            found.add(node.value)
    return found


def _owner(module: str, folders: list[str]) -> str | None:
    """The experiment that a module belongs to, if any."""
    path = module.replace(".", "/") + "/"
    return next((name for name in folders if path.startswith(f"bot_orch/experiments/{name}/")), None)


def _crossings(root: Path) -> list[str]:
    """Imports from the harness to an experiment, or from an experiment to another one."""
    folders = _folders(root)
    return [
        f"{file.relative_to(root)} imports {module}"
        for mine in ("harness", *folders)
        for file in sorted((root / mine).rglob("*.py"))
        for module in sorted(_imports(file))
        if _owner(module, folders) not in (None, mine)
    ]


def test_experiments_import_only_the_harness() -> None:
    assert len(_folders(EXPERIMENTS)) >= 7
    assert _crossings(EXPERIMENTS) == []


@pytest.mark.parametrize("file", ["harness/report.py", "arena/run.py", "paper/triage/play.py"])
def test_a_crossing_is_caught(file: str, tmp_path: Path) -> None:
    """Control: the same tree with one import too many, hidden in a function."""
    root = tmp_path / "experiments"
    shutil.copytree(EXPERIMENTS, root, ignore=shutil.ignore_patterns("__pycache__"))
    with (root / file).open("a") as text:
        text.write("\n\ndef _late():\n    from bot_orch.experiments.sweep import spec\n    return spec\n")
    assert any(line.startswith(f"{file} imports bot_orch.experiments.sweep") for line in _crossings(root))


_WALK = """
import importlib, pkgutil, sys
import bot_orch.experiments as e, bot_orch.cli.main
assert e.__file__.startswith(sys.argv[1]), e.__file__
for m in pkgutil.walk_packages(e.__path__, e.__name__ + "."):
    importlib.import_module(m.name)
from bot_orch.experiments.harness.experiment import discover
print(" ".join(discover()))
"""


@pytest.mark.parametrize("gone", ["paper/triage", "arena", "lockin", "sweep"])
def test_an_experiment_can_be_removed(gone: str, tmp_path: Path) -> None:
    """What is left imports and is listed."""
    shutil.copytree(PACKAGE, tmp_path / "bot_orch", ignore=shutil.ignore_patterns("__pycache__", "static"))
    shutil.rmtree(tmp_path / "bot_orch" / "experiments" / gone)
    command = [sys.executable, "-c", _WALK, str(tmp_path)]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, env=_environment(tmp_path))
    assert ran.returncode == 0, ran.stderr
    listed = ran.stdout.split()
    prefix = {"arena": "arena-gaming"}.get(gone, gone.rpartition("/")[2])
    assert listed
    assert not [name for name in listed if name.startswith(prefix)]


def _environment(root: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"}
