"""Docs and examples import what docs/reference/map.md calls public, and nothing else."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def public():
    section = (ROOT / "docs" / "reference" / "map.md").read_text().partition("## The public interface")[2]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return sorted({name for row in rows for name in re.findall(r"`(bot_orch[\w.]*)`", row)})


def imports(code):
    """(module, name) of everything that code imports from the package; a name is empty where a module is imported."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "bot_orch":
            for alias in node.names:
                whole = node.module == "bot_orch" and f"bot_orch.{alias.name}" in public()
                yield (f"bot_orch.{alias.name}", "") if whole else (node.module, alias.name)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == "bot_orch")


def private(code):
    known = public()
    found = []
    for module, name in imports(code):
        if module not in known or (name and name not in _all(module)):
            found.append(f"{module}.{name}")
    return found


def _all(module):
    if module.startswith("bot_orch.integrations."):  # its package may be missing: what it offers stands in its source
        source = (ROOT / "src" / module.replace(".", "/")).with_suffix(".py").read_text()
        return ast.literal_eval(re.search(r"^__all__ = (\[.*?\])", source, re.MULTILINE | re.DOTALL).group(1))
    loaded = importlib.import_module(module)
    return getattr(loaded, "__all__", [each for each in vars(loaded) if not each.startswith("_")])


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_import_public_names(page):
    assert [each for block in BLOCK.findall(page.read_text()) for each in private(block)] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_import_public_names(example):
    assert private(example.read_text()) == []


def test_public_modules_exist_and_state_what_they_offer():
    assert len(public()) >= 10
    for module in public():
        assert _all(module)


def test_control_a_private_import_is_found():
    assert private("from bot_orch.core.engine import Engine") == ["bot_orch.core.engine.Engine"]
