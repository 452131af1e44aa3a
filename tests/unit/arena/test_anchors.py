"""The page of anchors is the one that its script writes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "evidence" / "anchors.md"


@pytest.fixture
def anchors(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location("anchors", ROOT / "benchmarks" / "anchors.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "anchors", module)
    spec.loader.exec_module(module)
    return module


def test_every_section_names_its_command_and_its_seeds(anchors: ModuleType) -> None:
    sections = PAGE.read_text().split("\n## ")[1:]
    assert [section.partition("\n")[0] for section in sections] == [each.title for each in anchors.ANCHORS.values()]
    for (name, anchor), section in zip(anchors.ANCHORS.items(), sections, strict=True):
        assert f"`python benchmarks/anchors.py {name}`, {anchor.seeds} seeds" in section
        assert anchors.fill(anchor.about, 120, break_on_hyphens=False) in section
        assert "| --- |" in section or "|---|" in section


def test_a_named_section_is_measured_and_the_others_stay(
    anchors: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "anchors.md"
    page.write_text(PAGE.read_text())
    found = anchors.Found("theirs", "ours", ["2 seeds played"])
    measured = anchors.Anchor("RouterDC", "about", lambda _: found, seeds=3)
    monkeypatch.setitem(anchors.ANCHORS, "routerdc", measured)
    monkeypatch.setattr(sys, "argv", ["anchors.py", "routerdc", "--seeds", "2", "--page", str(page)])
    anchors.main()
    before, after = PAGE.read_text().split("\n## "), page.read_text().split("\n## ")
    changed = [index for index, (a, b) in enumerate(zip(before, after, strict=True)) if a.strip() != b.strip()]
    assert [after[index].partition("\n")[0] for index in changed] == ["# Anchors", "RouterDC"]
    assert "2 seeds played" in after[changed[1]]
    assert "| [RouterDC](#routerdc) | theirs | ours |" in after[0]
    assert len([line for line in after[0].splitlines() if line.startswith("| ")]) == 2 + len(anchors.ANCHORS)
