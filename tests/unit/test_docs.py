"""Docs are tested: the README's Python runs, examples run, links lead somewhere."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def blocks(text):
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def prose_of(page):
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


def headings(page):
    """As they are written in links."""
    found = re.findall(r"^#+ (.*)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_run(page, capsys):
    for block in blocks(page.read_text()):
        if block.startswith(">>>"):
            continue
        exec(compile(block, str(page), "exec"), {"__name__": "docs"})  # noqa: S102


def test_the_readme_demo_explains_every_choice(capsys):
    (demo, *_) = blocks((ROOT / "README.md").read_text())
    assert len([line for line in demo.splitlines() if line.strip()]) <= 16
    exec(compile(demo, "README.md", "exec"), {"__name__": "docs"})  # noqa: S102
    output = capsys.readouterr().out
    assert output.count("> ") >= 3 and "estimate" in output
    shown = re.search(r"```\n(  agent .*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert shown is not None and output.startswith(shown[1])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_local_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", prose_of(page)):
        path, _, heading = target.partition("#")
        if not target.startswith(("http", "mailto")):
            found = page.parent / path if path else page
            assert found.exists(), f"{page.name}: {target}"
            assert not heading or heading in headings(found), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page):
    for name in re.findall(r"`((?:tests|src|benchmarks|examples|docs)/[\w/.-]+)", prose_of(page)):
        assert (ROOT / name).exists(), f"{page.name}: {name}"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_run(example, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_there_are_examples():
    assert len(EXAMPLES) >= 8
