"""Parts of pages that are made from the code: every mark is known, and what it makes is whole."""

import importlib.util
import re
from pathlib import Path

import pytest

from bot_orch.agents import Ending
from bot_orch.agents.rejections import CODES
from bot_orch.lab.environments.synthetic.settings import declared

ROOT = Path(__file__).parents[2]
MARK = re.compile(r"<!-- generated: (\w+) -->")


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "site" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generated():
    return loaded("generated")


def test_every_mark_is_known_and_every_part_is_used(generated):
    marks = {mark for page in (ROOT / "docs").rglob("*.md") for mark in MARK.findall(page.read_text())}
    assert marks == set(generated.PARTS)


def test_the_reference_names_commands_routes_and_metrics(generated):
    assert "## bot-orch serve" in generated.commands() and "--host" in generated.commands()
    assert "| `POST /v1/feedback` | feedback |" in generated.routes()
    assert "| `bot_orch_ready` | gauge |" in generated.metrics()


@pytest.mark.parametrize("ending", Ending)
def test_every_ending_has_a_row(generated, ending):
    row = re.search(rf"^\| `{ending}` \|.*$", generated.endings(), re.MULTILINE)
    cells = [cell.strip() for cell in row.group().strip("|").split("|")]
    learned = "nothing" if not ending.meaning.attempted else ending.meaning.cause.name.lower()
    assert cells[2:5] == [learned, "yes" if ending.meaning.trips else "", "yes" if ending.meaning.retryable else ""]


def test_every_code_of_a_rejection_and_every_parameter_is_shown(generated):
    assert all(f"`{code}`" in generated.rejections() for code in CODES)
    assert all(f"| `{line.name}` |" in generated.parameters() for line in declared())


def test_llms_txt_lists_every_page_with_its_first_sentence():
    pages = {
        "index.md": "# Home\n\nWhat it [is](a.md). More.",
        "a/b.md": "# B\n\n```sh\nx\n```\n\nHow to b? Like this.",
    }
    made = loaded("machine_readable").llms_txt("Name", "About", [{"Home": "index.md"}, {"A": ["a/b.md"]}], pages)
    assert made.startswith("# Name\n\n> About\n")
    assert "- [Home](index.md): What it is.\n" in made and "## A\n\n- [B](a/b.md): How to b?\n" in made


def test_the_interface_as_markdown_has_methods():
    text = loaded("machine_readable").reference_text("bot_orch", ["Orchestrator"])
    assert "## Orchestrator\n" in text and "### Orchestrator.decide\n" in text and "Orchestrator._" not in text
