"""The documentation site: what can be told without building it; ``make docs`` builds it strictly."""

import ast
import fnmatch
import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NOTEBOOKS = sorted(DOCS.rglob("*.ipynb"))


class Settings(yaml.SafeLoader):
    """Reads mkdocs.yml, which names a function of an extension that is not installed here."""


Settings.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: suffix)
SITE = yaml.load((ROOT / "mkdocs.yml").read_text(), Settings)  # noqa: S506


def leaves(nav):
    if isinstance(nav, str):
        return [nav]
    return [leaf for each in (nav.values() if isinstance(nav, dict) else nav) for leaf in leaves(each)]


def missing(pages, nav):
    return [page for page in pages if not any(fnmatch.fnmatch(page, each) for each in leaves(nav))]


def test_every_page_is_in_the_navigation():
    pages = [str(page.relative_to(DOCS)) for page in sorted(DOCS.rglob("*.md"))]
    pages += [str(page.relative_to(DOCS).with_suffix(".md")) for page in NOTEBOOKS]
    assert len(pages) > 40
    assert missing(pages, SITE["nav"]) == [], "name it under nav in mkdocs.yml"


def test_control_a_forgotten_page_is_found():
    assert missing(["concepts/a.md", "new.md"], [{"Concepts": ["concepts/*.md"]}, "old.md"]) == ["new.md"]


def test_what_the_navigation_names_is_there():
    for leaf in leaves(SITE["nav"]):
        if "*" not in leaf and not leaf.startswith(("source/", "index.md", "tutorial/verdict.md")):
            assert (DOCS / leaf).is_file(), leaf


def test_strict_without_fonts_from_elsewhere():
    assert SITE["strict"] is True and SITE["theme"]["font"] is False
    assert set(SITE["validation"].values()) == {"warn"}
    makefile = (ROOT / "Makefile").read_text()
    assert "mkdocs build --quiet --strict" in makefile and "make docs" in (ROOT / ".ci" / "run").read_text()


def test_versions_are_pinned():
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["docs"]
    pinned = re.findall(
        r"^([\w.-]+)==", "".join((ROOT / "requirements" / f).read_text() for f in ("dev.txt", "docs.txt")), re.M
    )
    names = {re.match(r"[\w-]+", each).group().lower() for each in wanted} - {"bot-orchestrator"}
    assert names <= {each.lower() for each in pinned}


def cells(path, kind):
    return ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == kind]


def test_there_is_a_notebook_of_ten_cells():
    assert [len(cells(path, "code")) for path in NOTEBOOKS] == [10]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_kept_without_outputs(path):
    for cell in json.loads(path.read_text())["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_links_of_notebooks_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)", "\n".join(cells(path, "markdown"))):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_run(path, monkeypatch, capsys):
    pytest.importorskip("pandas")
    plots = pytest.importorskip("matplotlib")
    plots.use("Agg")
    monkeypatch.chdir(path.parent)
    names = {"__name__": "notebook"}
    for number, code in enumerate(cells(path, "code")):
        exec(compile(ast.parse(code), f"{path.name}[{number}]", "exec"), names)  # noqa: S102
    __import__("matplotlib.pyplot").pyplot.close("all")
    assert "outcome: " in capsys.readouterr().out


POINTER = re.compile(r"\]\(|`bot-orch |`python |`tests/|the example of that page")


def rows_without_pointer(text):
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.endswith("| shown by |")]
    return rows, [row for row in rows if not POINTER.search(row.rstrip(" |").rpartition(" | ")[2])]


def test_every_choice_is_shown_by_something():
    rows, wrong = rows_without_pointer((DOCS / "how-to" / "choosing.md").read_text())
    assert len(rows) >= 30 and wrong == []


def test_control_a_choice_without_a_pointer_is_found():
    assert rows_without_pointer("| job | shown by |\n| a | `python x.py` |\n| b | trust us |")[1] == [
        "| b | trust us |"
    ]
